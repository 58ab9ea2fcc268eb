//! The command line. Exit codes: 0 success; 1 the answer is no (a difference, a damaged log); 2 the command failed
//! (wrong usage, wrong configuration, no such file). `manage` and `status` exit with Nova's codes. So does a call by
//! the name of one of Nova's tools.

mod audit;
mod early;
mod log;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use chronova_events::error_chain::ErrorChain;
use clap::{Args, Parser, Subcommand};

use crate::commands::cluster::ClusterCommand;
use crate::commands::{self, LogPlace, OperatorCommand};
use crate::config::{self, Config, Severity};
use crate::serve;

/// A compute control plane that speaks the OpenStack Compute and Placement APIs.
///
/// --config-file, --config-dir and --data-dir may also stand before the command.
#[derive(Debug, Parser)]
#[command(name = "chronova", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The whole command line, for man pages and shell completions.
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "parsed once")]
enum Command {
    /// Serve the APIs and drive the hosts.
    Serve(ServeArgs),
    /// Serve the event log alone, in EventStoreDB's protocol: for auditors, or for processes of Chronova that share it.
    ServeLog {
        #[command(flatten)]
        place: ConfigPaths,
    },
    /// Check or document the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Take over from Nova: check its databases, and write a log that continues where Nova stopped.
    Adopt {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::adopt::AdoptArgs,
    },
    /// Export the changes since an adoption, so that another control plane can continue.
    #[command(subcommand)]
    Export(ExportSubcommand),
    /// List the events of the log; export, archive, verify or erase parts of it.
    ///
    /// A listing with filters uses an index, and writes it into the data folder (log.db.index). With --without-index it
    /// reads the whole log and writes nothing.
    Audit(audit::AuditCommand),
    /// Show the history of a server, a process, a host or a request: who, what, when, why, how long.
    Inspect {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::inspect::InspectArgs,
    },
    /// Rebuild the read models from the log and compare them with the checkpoint.
    Rebuild {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::rebuild::RebuildArgs,
    },
    /// Show the scheduler's decision for a server, or replay past decisions; changes nothing.
    Schedule {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: Box<commands::schedule::ScheduleArgs>,
    },
    /// Show the policy: the rules in force, a sample file, a user's rights.
    Policy {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(subcommand)]
        command: commands::policy::PolicyCommand,
    },
    /// Back up the data of the control plane, which may run meanwhile; restore a backup.
    #[command(subcommand)]
    Backup(commands::backup::BackupSubcommand),
    /// Move the event log to another engine, or its old events into an archive; keep parts of it by legal holds.
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Show the members of a cluster on one log, or let another member lead.
    #[command(subcommand)]
    Cluster(ClusterSubcommand),
    /// Drain a compute host, or put it into maintenance and back; calls the running server.
    #[command(subcommand)]
    Host(commands::host::HostSubcommand),
    /// Show hosts, running migrations, processes and rates of the running server, and refresh them.
    Top(commands::top::TopArgs),
    /// Do what nova-manage does. The program also does this if its own name is nova-manage.
    Manage(Box<commands::manage::ManageArgs>),
    /// Check whether the cloud is ready for this version, as nova-status does.
    Status(Box<commands::status::StatusArgs>),
}

#[derive(Debug, Args)]
#[command(version)]
struct ServeArgs {
    #[command(flatten)]
    place: ConfigPaths,
    /// HOST:PORT that serve every API; overrides `[chronova] listen`.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    #[command(flatten)]
    logging: commands::manage::LoggingOptions,
    /// Nova's options for a remote debugger of Python. Chronova accepts and ignores them.
    #[allow(dead_code, reason = "accepted and ignored")]
    #[arg(long = "remote_debug-host", value_name = "HOST", hide = true)]
    remote_debug_host: Option<String>,
    #[allow(dead_code, reason = "accepted and ignored")]
    #[arg(long = "remote_debug-port", value_name = "PORT", hide = true)]
    remote_debug_port: Option<u16>,
}

impl ServeArgs {
    /// The options of logging as lines of a configuration file. They include the options that a server heeds and Nova's
    /// tools ignore.
    fn said(&self) -> String {
        let mut said = self.logging.as_config();
        if self.logging.watch_log_file || self.logging.nowatch_log_file {
            let _ = writeln!(said, "watch_log_file = {}", self.logging.watch_log_file);
        }
        said
    }
}

#[derive(Debug, Subcommand)]
enum ExportSubcommand {
    /// Write what changed since `chronova adopt` as SQL for the databases of Nova and Placement.
    Nova {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::export_nova::NovaExportArgs,
    },
}

#[derive(Debug, Subcommand)]
enum ClusterSubcommand {
    /// Show the leader, and the end of the log; exit code 1 if nobody leads.
    Status {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::cluster::ClusterShowArgs,
    },
    /// List the members, their versions, and how far each has followed the log.
    Members {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::cluster::ClusterShowArgs,
    },
    /// Let another member lead: the leader completes the requests under way, and hands over.
    Switchover {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::cluster::SwitchoverArgs,
    },
}

/// Where the configuration and the data are.
#[derive(Debug, Default, Args)]
pub struct ConfigPaths {
    /// A configuration file in nova.conf format; may be repeated, later files win.
    #[arg(long, value_name = "FILE")]
    pub config_file: Vec<PathBuf>,
    /// A directory whose *.conf files are read in the order of their names, after every --config-file; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub config_dir: Vec<PathBuf>,
    /// Directory of the event log and all other data; overrides `[chronova] data_dir`.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

impl ConfigPaths {
    fn is_empty(&self) -> bool {
        self.config_file.is_empty() && self.config_dir.is_empty() && self.data_dir.is_none()
    }

    /// Puts the paths of `before` before these.
    fn follow(&mut self, before: Self) {
        self.config_file.splice(..0, before.config_file);
        self.config_dir.splice(..0, before.config_dir);
        self.data_dir = self.data_dir.take().or(before.data_dir);
    }

    /// Adds `nova.conf` and `nova.conf.d`, if the folder has them. Packages of SUSE put overrides into `nova.conf.d`
    /// (`010-nova.conf`).
    fn find_in(&mut self, folder: &std::path::Path) {
        let (file, more) = (folder.join("nova.conf"), folder.join("nova.conf.d"));
        self.config_file.extend(file.is_file().then_some(file));
        self.config_dir.extend(more.is_dir().then_some(more));
    }

    /// The files in the order in which they are read.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>, config::InvalidConfig> {
        let mut files = self.config_file.clone();
        for folder in &self.config_dir {
            files.extend(config::files_of(folder)?);
        }
        Ok(files)
    }
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check configuration files and list every problem.
    Check {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print the reference of all options.
    Reference,
}

/// Runs the command that the arguments name. The program's own name may be that of one of Nova's tools.
pub fn run() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let words = || commands::manage::files_last(std::env::args_os());
    match std::path::Path::new(&name).file_name().and_then(std::ffi::OsStr::to_str) {
        Some("nova-manage") => manage(&commands::manage::NovaManage::parse_from(words()).args),
        Some("nova-status") => status(&commands::status::NovaStatus::parse_from(words()).args),
        Some("nova-policy") => nova_policy(&commands::nova_policy::NovaPolicy::parse_from(words()).args),
        _ => {
            let words = early::behind(&command(), std::env::args_os());
            let novas = words.get(1).is_some_and(|word| word == "manage" || word == "status");
            let words = if novas { commands::manage::files_last(words) } else { words };
            run_command(Cli::parse_from(words).command)
        }
    }
}

fn run_command(command: Command) -> ExitCode {
    match command {
        Command::Serve(args) => serve(args),
        Command::ServeLog { place } => {
            load(&place).map_or(ExitCode::from(2), |config| exit_code(serve::log_only::run(config)))
        }
        Command::Config(ConfigCommand::Check { files }) => {
            let (text, good) = config::check(&files);
            crate::output::print(&text);
            if good { ExitCode::SUCCESS } else { ExitCode::from(2) }
        }
        Command::Config(ConfigCommand::Reference) => {
            crate::output::print(&config::reference::render());
            ExitCode::SUCCESS
        }
        // A comparison runs the APIs, so it starts an actor system.
        Command::Adopt { place, args } if args.compare.dry_run => {
            actix_rt::System::new().block_on(Box::pin(operate_on(&place, OperatorCommand::Adopt(args))))
        }
        Command::Adopt { place, args } => operate(&place, OperatorCommand::Adopt(args)),
        Command::Export(ExportSubcommand::Nova { place, args }) => operate(&place, OperatorCommand::ExportNova(args)),
        Command::Audit(args) => args.run(),
        Command::Inspect { place, args } => inspect(&place, args),
        Command::Rebuild { place, args } => operate(&place, OperatorCommand::Rebuild(args)),
        Command::Schedule { place, args } => schedule(&place, *args),
        Command::Policy { place, command } => policy(&place, &command),
        Command::Backup(command) => backup(command),
        Command::Log(command) => command.run(),
        Command::Cluster(command) => cluster(command),
        Command::Host(command) => host(&command),
        Command::Top(args) => top(&args),
        Command::Manage(args) => manage(&args),
        Command::Status(args) => status(&args),
    }
}

/// The folder with the configuration of Nova's tools. It counts if the command line names no file and no directory.
const NOVA_FOLDER: &str = "/etc/nova";
/// Nova's code for a failure that no sub-command documents.
const NOVA_FAILURE: u8 = 255;

/// Loads the configuration of one of Nova's tools, and starts the logging. Options of the command line win over the
/// files.
fn load_for_nova(options: &commands::manage::NovaOptions) -> Option<Config> {
    let mut place = options.place();
    if place.config_file.is_empty() && place.config_dir.is_empty() {
        place.find_in(std::path::Path::new(NOVA_FOLDER));
    }
    let config = load_with(&place, &options.logging.as_config())?;
    match crate::telemetry::Logging::start(&config.targets().log) {
        Ok(_) => Some(config),
        Err(error) => {
            crate::output::complain(&format!("chronova: {}\n", ErrorChain(&error)));
            None
        }
    }
}

fn manage(args: &commands::manage::ManageArgs) -> ExitCode {
    let Some(config) = load_for_nova(&args.options) else { return ExitCode::from(NOVA_FAILURE) };
    ExitCode::from(commands::manage::run(args, &config))
}

fn status(args: &commands::status::StatusArgs) -> ExitCode {
    let Some(config) = load_for_nova(&args.options) else { return ExitCode::from(NOVA_FAILURE) };
    let place = match LogPlace::of(&config) {
        Ok(place) => place,
        Err(problem) => {
            crate::output::complain(&format!("chronova: {problem}\n"));
            return ExitCode::from(NOVA_FAILURE);
        }
    };
    block_on(async {
        let done = commands::status::run(args, &config, &place, &mut std::io::stdout().lock()).await;
        ExitCode::from(done.unwrap_or(NOVA_FAILURE))
    })
}

fn nova_policy(args: &commands::nova_policy::NovaPolicyArgs) -> ExitCode {
    let Some(config) = load_for_nova(&args.options) else { return ExitCode::from(1) };
    match commands::nova_policy::run(args, &config, &mut std::io::stdout().lock()) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            crate::output::complain(&format!("error: {failure}\n"));
            ExitCode::from(1)
        }
    }
}

fn backup(command: commands::backup::BackupSubcommand) -> ExitCode {
    match command.parts() {
        (Some(place), command) => operate(&place, OperatorCommand::Backup(command)),
        (None, command) => operate_alone(OperatorCommand::Backup(command)),
    }
}

fn cluster(command: ClusterSubcommand) -> ExitCode {
    let (place, command) = match command {
        ClusterSubcommand::Status { place, args } => (place, ClusterCommand::Status(args)),
        ClusterSubcommand::Members { place, args } => (place, ClusterCommand::Members(args)),
        ClusterSubcommand::Switchover { place, args } => (place, ClusterCommand::Switchover(args)),
    };
    operate(&place, OperatorCommand::Cluster(command))
}

/// The configuration of the server decides when something is due for a reconciler.
fn inspect(place: &ConfigPaths, mut args: commands::inspect::InspectArgs) -> ExitCode {
    if args.is_about_reconcilers() {
        let Some(config) = load(place) else { return ExitCode::from(2) };
        args.rules = commands::inspect::ReconcileRules::of(&config.targets().runtime);
    }
    operate(place, OperatorCommand::Inspect(args))
}

/// Uses the server's configuration, unless the operator names another one for the replay.
fn schedule(place: &ConfigPaths, args: commands::schedule::ScheduleArgs) -> ExitCode {
    let Some(config) = load(place) else { return ExitCode::from(2) };
    let rules = commands::schedule::Rules::of(&config);
    operate(place, OperatorCommand::Schedule(Box::new((args, rules))))
}

fn policy(place: &ConfigPaths, command: &commands::policy::PolicyCommand) -> ExitCode {
    let Some(config) = load(place) else { return ExitCode::from(2) };
    let mut out = Vec::new();
    let exit = commands::policy::run(command, &config.targets().web.policy, &mut out);
    crate::output::print(&String::from_utf8_lossy(&out));
    match exit {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => {
            crate::output::complain(&format!("chronova: {failure}\n"));
            ExitCode::from(2)
        }
    }
}

fn host(command: &commands::host::HostSubcommand) -> ExitCode {
    let Some(config) = load(command.place()) else { return ExitCode::from(2) };
    called(commands::host::run(command, &config, &mut std::io::stdout().lock()))
}

fn top(args: &commands::top::TopArgs) -> ExitCode {
    let Some(config) = load(&args.access.place) else { return ExitCode::from(2) };
    called(commands::top::run(args, &config, &mut std::io::stdout().lock()))
}

/// The exit code of a command that called the running server. A closed reader (`| head`) is not an error.
fn called(done: Result<commands::Exit, commands::CommandFailure>) -> ExitCode {
    match done {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(commands::CommandFailure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            crate::output::complain(&format!("chronova: {failure}\n"));
            ExitCode::from(2)
        }
    }
}

fn operate(place: &ConfigPaths, command: OperatorCommand) -> ExitCode {
    block_on(operate_on(place, command))
}

fn operate_alone(command: OperatorCommand) -> ExitCode {
    block_on(async { ExitCode::from(commands::run(command, &LogPlace::none()).await as u8) })
}

fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => {
            crate::output::complain(&format!("chronova: {error}\n"));
            ExitCode::from(2)
        }
    }
}

async fn operate_on(place: &ConfigPaths, command: OperatorCommand) -> ExitCode {
    let Some(config) = load(place) else { return ExitCode::from(2) };
    match LogPlace::of(&config) {
        Ok(place) => ExitCode::from(commands::run(command, &place).await as u8),
        Err(problem) => {
            crate::output::complain(&format!("chronova: {problem}\n"));
            ExitCode::from(2)
        }
    }
}

fn serve(args: ServeArgs) -> ExitCode {
    let said = args.said();
    let ServeArgs { place, listen, .. } = args;
    let Some(mut config) = load_with(&place, &said) else { return ExitCode::from(2) };
    if !listen.is_empty() {
        config.chronova.listen = config::Words(listen);
    }
    exit_code(serve::run(config, Box::new(move || load_with(&place, &said))))
}

fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::output::complain(&format!("chronova: {error:#}\n"));
            ExitCode::from(2)
        }
    }
}

/// The configuration, or `None` after printing its problems.
pub fn load(place: &ConfigPaths) -> Option<Config> {
    load_with(place, "")
}

/// Like [`load`]; the options of the command line, in the form of a file, win over all files.
fn load_with(place: &ConfigPaths, said: &str) -> Option<Config> {
    match place.files().and_then(|files| config::load_with(&files, said)) {
        Ok(loaded) => {
            for remark in loaded.remarks.iter().filter(|remark| remark.severity != Severity::Note) {
                crate::output::complain(&format!("{remark}\n"));
            }
            let mut config = loaded.config;
            if let Some(folder) = &place.data_dir {
                config.chronova.data_dir.clone_from(folder);
            }
            Some(config)
        }
        Err(invalid) => {
            for problem in &invalid.problems {
                crate::output::complain(&format!("{problem}\n"));
            }
            crate::output::complain(&format!("chronova: {invalid}\n"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use clap::{ArgAction, CommandFactory as _};

    use super::*;

    #[test]
    fn overrides_in_nova_conf_d_are_read_after_nova_conf() {
        let folder = tempfile::tempdir().unwrap();
        let found = || {
            let mut place = ConfigPaths { config_file: vec![], config_dir: vec![], data_dir: None };
            place.find_in(folder.path());
            place.files().unwrap()
        };
        let write = |name: &str, enabled: bool| {
            let text = format!("[serial_console]\nenabled = {enabled}\n");
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        assert_eq!(found(), Vec::<PathBuf>::new());
        write("nova.conf", false);
        assert_eq!(found(), [folder.path().join("nova.conf")]);
        std::fs::create_dir(folder.path().join("nova.conf.d")).unwrap();
        write("nova.conf.d/020-more.conf", true);
        write("nova.conf.d/010-nova.conf", false);
        write("nova.conf.d/030-nova.conf.rpmsave", false);
        let names = ["nova.conf", "nova.conf.d/010-nova.conf", "nova.conf.d/020-more.conf"];
        assert_eq!(found(), names.map(|name| folder.path().join(name)));
        let loaded = config::load(&found()).unwrap();
        assert!(loaded.config.serial_console.enabled, "nova.conf wins over its overrides");
    }

    #[test]
    fn the_server_takes_the_common_options_of_novas_daemons() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nova.conf");
        std::fs::write(&file, "[DEFAULT]\ndebug = false\nlog_file = of-the-file.log\nuse_json = true\n").unwrap();
        let parsed = |words: &str| {
            let words =
                ["chronova", "serve", "--config-file", file.to_str().unwrap()].into_iter().chain(words.split(' '));
            match Cli::try_parse_from(words).unwrap().command {
                Command::Serve(args) => load_with(&args.place, &args.said()).unwrap().default,
                other => panic!("{other:?}"),
            }
        };
        let logged = parsed(
            "-d --log-dir /var/log/nova --log-file api.log --log-date-format %Y --nouse-json --use-journal --watch-log-file \
             --syslog-log-facility LOG_LOCAL3 --remote_debug-host debugger --remote_debug-port 5678",
        );
        assert!(logged.debug && logged.use_journal && logged.watch_log_file && !logged.use_json);
        assert_eq!(logged.log_file.as_deref(), Some(std::path::Path::new("api.log")), "the command line wins");
        assert_eq!(logged.log_dir.as_deref(), Some(std::path::Path::new("/var/log/nova")));
        assert_eq!(logged.log_date_format.as_deref(), Some("%Y"));
        let plain = parsed("--nowatch-log-file");
        assert!(!plain.debug && plain.use_json && !plain.watch_log_file);
        let version = Cli::try_parse_from(["chronova", "serve", "--version"]).unwrap_err();
        assert_eq!(version.kind(), clap::error::ErrorKind::DisplayVersion);
    }

    /// Collects the commands and subcommands that use data or configuration.
    fn places(command: &clap::Command, words: &str, found: &mut Vec<String>) {
        for below in command.get_subcommands() {
            places(below, format!("{words} {}", below.get_name()).trim(), found);
        }
        let has = |id: &str| command.get_arguments().find(|arg| arg.get_id() == id);
        if has("data_dir").is_some() {
            let files = has("config_file");
            let repeats = files.is_some_and(|arg| matches!(arg.get_action(), ArgAction::Append));
            assert!(repeats && files.and_then(|arg| arg.get_long()) == Some("config-file"), "{words}");
            found.push(words.to_owned());
        }
    }

    #[test]
    fn commands_that_read_the_configuration_take_its_files() {
        let mut found = Vec::new();
        places(&Cli::command(), "", &mut found);
        for known in ["serve", "serve-log", "audit", "inspect", "rebuild", "schedule", "policy"] {
            assert!(found.iter().any(|words| words == known), "{known} is not in {found:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let first = file("a.conf", "[chronova]\ndata_dir = /srv/first\nregion_name = north\n");
        let second = file("b.conf", "[chronova]\ndata_dir = /srv/second\n");
        let line = ["chronova", "--config-file", &first, "inspect", "web", "--config-file", &second];
        let line = early::behind(&command(), line.into_iter().map(std::ffi::OsString::from));
        let Command::Inspect { place, .. } = Cli::try_parse_from(line).unwrap().command else {
            panic!("another command")
        };
        let config = load(&place).unwrap();
        assert_eq!(config.chronova.data_dir, PathBuf::from("/srv/second"), "later files must win");
        assert_eq!(config.chronova.region_name, "north");
        let place = ConfigPaths { data_dir: Some("/srv/third".into()), ..place };
        assert_eq!(load(&place).unwrap().chronova.data_dir, PathBuf::from("/srv/third"));
    }
}
