//! `chronova policy`: replaces oslopolicy-list-redundant, oslopolicy-sample-generator, oslopolicy-validator and
//! nova-policy.
//!
//! * `list`: the rules in force, each with its source; with `--redundant` only the overrides that equal their
//!   default.
//! * `sample`: a file of all defaults, commented out.
//! * `check`: whether the file is valid, and which rules a user passes.

use std::io::Write;
use std::path::PathBuf;

use chronova_events::ids::{ProjectId, UserId};
use chronova_web::auth::Caller;
use chronova_web::config::PolicyConfig;
use chronova_web::policy::defaults::{self, RuleDefault, ScopeType};
use chronova_web::policy::{Enforcer, Overrides, PolicyTarget, check};
use chronova_web::service::Service;
use clap::{Args, Subcommand};

use super::{CommandFailure, Exit};

/// The questions that an operator can ask about the policy.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// List the rules in force: name, source, scopes, check string.
    List {
        #[command(flatten)]
        which: PolicyRulesArgs,
        /// Only the overrides that equal their default.
        #[arg(long)]
        redundant: bool,
    },
    /// Print all defaults as a policy file, commented out.
    Sample {
        #[command(flatten)]
        which: PolicyRulesArgs,
    },
    /// Check the policy file; with --role, list the rules that a user with this role passes.
    Check {
        #[command(flatten)]
        which: PolicyRulesArgs,
        #[command(flatten)]
        who: PolicyCallerArgs,
    },
}

/// Which rules.
#[derive(Debug, Args)]
pub struct PolicyRulesArgs {
    /// Rules of this service.
    #[arg(long, value_name = "SERVICE", default_value = "compute", value_parser = service)]
    pub service: Service,
    /// The policy file; without it the one that the configuration names.
    #[arg(long, value_name = "FILE")]
    pub policy_file: Option<PathBuf>,
}

/// The caller, and the target of the operation.
#[derive(Debug, Args)]
pub struct PolicyCallerArgs {
    /// A role that the user has; may be repeated.
    #[arg(long, value_name = "ROLE")]
    pub role: Vec<String>,
    /// The user.
    #[arg(long, value_name = "ID", default_value = "user")]
    pub user: String,
    /// The project of the user's token.
    #[arg(long, value_name = "ID", default_value = "project")]
    pub project: String,
    /// The token is system-scoped, not project-scoped.
    #[arg(long)]
    pub system: bool,
    /// An attribute of the target; by default the target has the user's own project and user ids. May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub target: Vec<String>,
    /// Only this rule; exit status 1 if it refuses.
    #[arg(long, value_name = "RULE")]
    pub rule: Option<String>,
}

fn service(name: &str) -> Result<Service, String> {
    let known = Service::ALL.into_iter().find(|service| service.name() == name);
    known.ok_or_else(|| format!("must be one of {}", Service::ALL.map(Service::name).join(", ")))
}

fn rules(service: Service) -> impl Iterator<Item = &'static RuleDefault> {
    defaults::of(service).iter().copied().flatten()
}

/// Runs the command. `config` has the options of the policy, and its file if the command names none.
pub fn run(command: &PolicyCommand, config: &PolicyConfig, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    match command {
        PolicyCommand::Sample { which } => sample(which.service, out),
        PolicyCommand::List { which, redundant } => {
            let overrides = overrides(which, config)?;
            if *redundant {
                redundant_ones(which.service, &overrides, out)
            } else {
                list(which.service, &overrides, out)
            }
        }
        PolicyCommand::Check { which, who } => {
            let overrides = overrides(which, config)?;
            let enforcer = Enforcer::new(config, &overrides).map_err(|error| wrong(&error))?;
            judge(which.service, who, &enforcer, &overrides, out)
        }
    }
}

fn wrong(error: &chronova_web::policy::PolicyError) -> CommandFailure {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error).map(ToString::to_string).filter(|cause| !text.contains(cause))
    {
        text = format!("{text}: {cause}");
    }
    CommandFailure::Usage(text)
}

fn overrides(which: &PolicyRulesArgs, config: &PolicyConfig) -> Result<Overrides, CommandFailure> {
    match which.policy_file.as_ref().or(config.policy_file.as_ref()) {
        Some(path) if which.policy_file.is_some() && !path.exists() => {
            Err(CommandFailure::Usage(format!("{} does not exist", path.display())))
        }
        // With `--policy-file`, the command reads that file alone, without the configured directories.
        Some(path) if which.policy_file.is_some() => Overrides::load(path).map_err(|error| wrong(&error)),
        _ => Overrides::configured(config).map_err(|error| wrong(&error)),
    }
}

fn scopes(rule: &RuleDefault) -> String {
    match rule.scopes {
        [] => "any".to_owned(),
        scopes => scopes.iter().copied().map(ScopeType::name).collect::<Vec<_>>().join(", "),
    }
}

fn list(service: Service, overrides: &Overrides, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    for rule in rules(service) {
        let (origin, text) = match (overrides.text(rule.name), rule.deprecated) {
            (Some(text), _) => ("file", text.to_owned()),
            (None, Some((old, _))) if old != rule.name && overrides.text(old).is_some() => {
                ("file (old name)", overrides.text(old).unwrap_or_default().to_owned())
            }
            (None, _) => ("default", rule.check.to_owned()),
        };
        writeln!(out, "{}\t{origin}\t{}\t{text}", rule.name, scopes(rule))?;
    }
    for name in overrides.names().filter(|name| !is_known(service, name)) {
        writeln!(out, "{name}\tfile (own)\tany\t{}", overrides.text(name).unwrap_or_default())?;
    }
    Ok(Exit::Yes)
}

fn is_known(service: Service, name: &str) -> bool {
    rules(service).any(|rule| rule.name == name || rule.deprecated.is_some_and(|(old, _)| old == name))
}

fn redundant_ones(service: Service, overrides: &Overrides, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    for rule in rules(service) {
        let said = overrides.text(rule.name).and_then(|text| check::parse(text).ok());
        if said.is_some() && said == check::parse(rule.check).ok() {
            writeln!(out, "\"{}\": \"{}\"", rule.name, rule.check)?;
        }
    }
    Ok(Exit::Yes)
}

fn sample(service: Service, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    for rule in rules(service) {
        for operation in rule.operations.split("; ").filter(|operation| !operation.is_empty()) {
            writeln!(out, "# {operation}")?;
        }
        if !rule.scopes.is_empty() {
            writeln!(out, "# Intended scope(s): {}", scopes(rule))?;
        }
        if let Some((old, check)) = rule.deprecated {
            writeln!(out, "# Was \"{old}\": \"{check}\".")?;
        }
        writeln!(out, "#\"{}\": \"{}\"\n", rule.name, rule.check)?;
    }
    Ok(Exit::Yes)
}

fn judge(
    service: Service,
    who: &PolicyCallerArgs,
    enforcer: &Enforcer,
    overrides: &Overrides,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    if who.role.is_empty() && who.rule.is_none() {
        let unknown: Vec<&str> =
            overrides.names().filter(|name| Service::ALL.iter().all(|of| !is_known(*of, name))).collect();
        for name in &unknown {
            writeln!(
                out,
                "{name}: no service has a rule of this name; it has an effect only where another rule refers to it"
            )?;
        }
        writeln!(out, "the policy is valid: {} overrides", overrides.names().count())?;
        return Ok(Exit::Yes);
    }
    let caller = caller(who);
    let target = target(who, &caller)?;
    let mut allowed = 0;
    for rule in rules(service).filter(|rule| who.rule.as_deref().is_none_or(|wanted| wanted == rule.name)) {
        if enforcer.allows(service, rule.name, &caller, &target) {
            allowed += 1;
            writeln!(out, "{}", rule.name)?;
        }
    }
    Ok(if who.rule.is_some() && allowed == 0 { Exit::No } else { Exit::Yes })
}

/// The compute rules that the caller passes.
///
/// # Errors
/// The configured policy is not valid, or a target is not.
pub(super) fn passed(who: &PolicyCallerArgs, config: &PolicyConfig) -> Result<Vec<&'static str>, CommandFailure> {
    let overrides = Overrides::configured(config).map_err(|error| wrong(&error))?;
    let enforcer = Enforcer::new(config, &overrides).map_err(|error| wrong(&error))?;
    let caller = caller(who);
    let target = target(who, &caller)?;
    let names = rules(Service::Compute).map(|rule| rule.name);
    Ok(names.filter(|name| enforcer.allows(Service::Compute, name, &caller, &target)).collect())
}

fn caller(who: &PolicyCallerArgs) -> Caller {
    let mut caller = Caller::of_user(UserId::new(who.user.as_str()));
    caller.roles.clone_from(&who.role);
    if who.system {
        caller.system_scope = Some("all".to_owned());
    } else {
        caller.project = Some(ProjectId::new(who.project.as_str()));
    }
    caller
}

fn target(who: &PolicyCallerArgs, caller: &Caller) -> Result<PolicyTarget, CommandFailure> {
    if who.target.is_empty() {
        return Ok(PolicyTarget::of(caller));
    }
    let mut target = PolicyTarget::default();
    for pair in &who.target {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| CommandFailure::Usage(format!("--target {pair}: must be NAME=VALUE")))?;
        target = target.with(name.to_owned(), value);
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn which(file: Option<PathBuf>) -> PolicyRulesArgs {
        PolicyRulesArgs { service: Service::Compute, policy_file: file }
    }

    fn who(roles: &[&str], rule: Option<&str>, target: &[&str]) -> PolicyCallerArgs {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        PolicyCallerArgs {
            role: texts(roles),
            user: "u".into(),
            project: "p".into(),
            system: false,
            target: texts(target),
            rule: rule.map(str::to_owned),
        }
    }

    fn output_of(command: &PolicyCommand) -> (Exit, String) {
        let mut out = Vec::new();
        let exit = run(command, &PolicyConfig::default(), &mut out).unwrap();
        (exit, String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_sample_overrides_nothing_and_names_every_rule() {
        let (_, sample) = output_of(&PolicyCommand::Sample { which: which(None) });
        assert!(Overrides::parse(&sample, "sample").unwrap().is_empty());
        let opened: String =
            sample.lines().filter_map(|line| line.strip_prefix("#\"")).flat_map(|line| ["\"", line, "\n"]).collect();
        assert_eq!(Overrides::parse(&opened, "sample").unwrap().names().count(), rules(Service::Compute).count());
        assert!(sample.contains("# POST /servers/{server_id}/os-interface\n"), "{sample}");
    }

    #[test]
    fn rules_are_listed_with_their_origin_and_judged() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.yaml");
        let text = "\"os_compute_api:servers:create\": \"role:builder\"\n\"os_compute_api:servers:show\": \"rule:project_reader_or_admin\"\nmine: \"@\"\n";
        std::fs::write(&file, text).unwrap();
        let which = || which(Some(file.clone()));
        let (_, list) = output_of(&PolicyCommand::List { which: which(), redundant: false });
        assert!(list.contains("os_compute_api:servers:create\tfile\tproject\trole:builder\n"), "{list}");
        assert!(list.contains("mine\tfile (own)\tany\t@\n"));
        assert!(list.contains("os_compute_api:servers:delete\tdefault\tproject\trule:project_member_or_admin\n"));
        let (_, redundant) = output_of(&PolicyCommand::List { which: which(), redundant: true });
        assert_eq!(redundant, "\"os_compute_api:servers:show\": \"rule:project_reader_or_admin\"\n");

        let rule = Some("os_compute_api:servers:create");
        let ask = |roles: &[&str], rule, target: &[&str]| {
            output_of(&PolicyCommand::Check { which: which(), who: who(roles, rule, target) })
        };
        assert_eq!(ask(&["member"], rule, &[]).0, Exit::No);
        assert_eq!(ask(&["builder"], rule, &[]), (Exit::Yes, "os_compute_api:servers:create\n".to_owned()));
        let show = Some("os_compute_api:servers:show");
        assert_eq!(ask(&["reader"], show, &["project_id=p"]).0, Exit::Yes);
        assert_eq!(ask(&["reader"], show, &["project_id=q"]).0, Exit::No);
        let (_, said) = ask(&[], None, &[]);
        assert!(said.starts_with("mine: no service has a rule of this name") && said.contains("3 overrides"), "{said}");
    }
}
