//! `nova-policy policy check`: the compute rules that a user passes, offline. `chronova policy` can say more.

use std::io::Write;

use clap::{Args, Parser, Subcommand};

use super::CommandFailure;
use super::manage::{ManageExit, NovaOptions, RunningCloud};
use super::policy;
use crate::config::Config;

/// The command line of the program under the name `nova-policy`.
#[derive(Debug, Parser)]
#[command(name = "nova-policy", version)]
pub struct NovaPolicy {
    #[command(flatten)]
    pub args: NovaPolicyArgs,
}

/// Show the compute rules that a user passes, as nova-policy does.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct NovaPolicyArgs {
    #[command(flatten)]
    pub options: NovaOptions,
    /// The user's roles, separated by commas.
    #[arg(long, value_name = "ROLES", env = "OS_ROLES", global = true, value_delimiter = ',')]
    os_roles: Vec<String>,
    #[arg(long, value_name = "ID", env = "OS_USER_ID", global = true, default_value = "")]
    os_user_id: String,
    #[arg(long, value_name = "ID", env = "OS_TENANT_ID", global = true, default_value = "")]
    os_tenant_id: String,
    #[command(subcommand)]
    category: NovaPolicyCategory,
}

#[derive(Debug, Subcommand)]
enum NovaPolicyCategory {
    /// The rules.
    #[command(subcommand, arg_required_else_help = true)]
    Policy(NovaPolicyCommand),
}

#[derive(Debug, Subcommand)]
enum NovaPolicyCommand {
    /// Print the rules that the user passes; exit code 1 if there is none.
    Check {
        /// Only rules with this text in their names.
        #[arg(long, value_name = "NAME", default_value = "")]
        api_name: String,
        /// NAME=VALUE of the target: project_id, user_id, quota_class, availability_zone or instance_id. By default the
        /// target has the user's own project and user ids. An instance_id overrides the others, and asks the running
        /// server.
        #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
        target: Vec<String>,
    },
}

const TARGETS: [&str; 5] = ["project_id", "user_id", "quota_class", "availability_zone", "instance_id"];

/// Runs the command.
///
/// # Errors
/// A target has a name that Nova does not know, there is no such server, or the policy is not valid. As in Nova, the
/// program then exits with 1.
pub fn run(args: &NovaPolicyArgs, config: &Config, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    let NovaPolicyCategory::Policy(NovaPolicyCommand::Check { api_name, target }) = &args.category;
    let target = target_of(target, args, config)?;
    let who = policy::PolicyCallerArgs {
        role: args.os_roles.clone(),
        user: args.os_user_id.clone(),
        project: args.os_tenant_id.clone(),
        system: false,
        target,
        rule: None,
    };
    let passed = policy::passed(&who, &config.targets().web.policy)?;
    let matching: Vec<&str> = passed.into_iter().filter(|name| name.contains(api_name.as_str())).collect();
    if matching.is_empty() {
        writeln!(out, "No rules matched or allowed")?;
        return Ok(1);
    }
    writeln!(out, "{}", matching.join("\n"))?;
    Ok(0)
}

/// The target's attributes. With `instance_id`, they are the server's user and project alone, and the other attributes
/// are dropped.
fn target_of(target: &[String], args: &NovaPolicyArgs, config: &Config) -> Result<Vec<String>, CommandFailure> {
    for pair in target {
        let name = pair.split_once('=').map_or(pair.as_str(), |(name, _)| name);
        if !TARGETS.contains(&name) || !pair.contains('=') {
            return Err(CommandFailure::Usage(format!("Attribute not supported: {name}")));
        }
    }
    let Some(id) = target.iter().find_map(|pair| pair.strip_prefix("instance_id=")) else { return Ok(target.to_vec()) };
    let cloud = RunningCloud::new(config, args.options.access());
    let missing = || CommandFailure::Usage(format!("Instance {id} could not be found."));
    let server = cloud.live_server(id)?.ok_or_else(missing)?;
    let text = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
    Ok(vec![format!("user_id={}", text("user_id")), format!("project_id={}", text("project_id"))])
}
