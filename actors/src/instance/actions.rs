//! What may be asked of a server when: the one table.
//!
//! Each line is what Nova's `compute/api.py` demands of a server before it does something (`check_instance_lock`,
//! `check_instance_state`), with the sets of `compute/vm_states.py` (`ALLOW_SOFT_REBOOT`, `ALLOW_HARD_REBOOT`,
//! `ALLOW_TRIGGER_CRASH_DUMP`) and `compute/task_states.py` (`ALLOW_REBOOT`) written out. Decisions read it, and
//! `docs/server-states.md` is made of it.

use chronova_events::instance::{Alive, PowerAction, status};

use super::{Asker, InstanceReject, unsupported};

/// Something that can be asked of a server and depends on what it is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    Start,
    Stop,
    RebootSoft,
    RebootHard,
    Pause,
    Unpause,
    Suspend,
    Resume,
    TriggerCrashDump,
    Diagnose,
    Delete,
    SoftDelete,
    Restore,
    ForceDelete,
    InjectNetworkInfo,
    ResetState,
    UpdateMetadata,
    DeleteMetadata,
    UpdateTags,
    AttachInterface,
    DetachInterface,
    AttachVolume,
    DetachVolume,
    SwapVolume,
    CreateImage,
    CreateBackup,
    Rebuild,
    Rescue,
    Unrescue,
    Shelve,
    ShelveOffload,
    Unshelve,
    ChangePassword,
    Resize,
    Migrate,
    ConfirmResize,
    RevertResize,
    LiveMigrate,
    AbortLiveMigration,
    ForceCompleteLiveMigration,
    Evacuate,
}

/// Which work under way an action can live with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    /// Whatever is under way.
    Any,
    /// Nothing, or one of these.
    NoneOr(&'static [&'static str]),
    /// One of these, and not nothing.
    Only(&'static [&'static str]),
}

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub action: Action,
    /// What refusals call it.
    pub name: &'static str,
    /// What tells it from others of that name.
    pub kind: &'static str,
    /// `None`: all of them.
    pub vm_states: Option<&'static [&'static str]>,
    pub tasks: Tasks,
    /// Whether it must be on a host; looked at before its state.
    pub on_host: bool,
    /// Whether there must have been a guest once.
    pub launched: bool,
    /// Whether it is refused to users of a locked server.
    pub heeds_lock: bool,
}

const NOTHING_UNDER_WAY: Tasks = Tasks::NoneOr(&[]);

const fn rule(action: Action, name: &'static str, vm_states: &'static [&'static str]) -> Rule {
    let (kind, tasks) = ("", NOTHING_UNDER_WAY);
    Rule { action, name, kind, vm_states: Some(vm_states), tasks, on_host: false, launched: true, heeds_lock: true }
}

/// Overtaken by a hard reboot.
const REBOOTABLE: Tasks = Tasks::NoneOr(&[
    "rebooting",
    "reboot_pending",
    "reboot_started",
    "resuming",
    "rebooting_hard",
    "unpausing",
    "pausing",
    "suspending",
]);

/// Asked of a live migration through its server.
const MIGRATING: Tasks = Tasks::Only(&["migrating"]);

/// Allowed whatever the server does.
const fn always(action: Action, name: &'static str) -> Rule {
    Rule { vm_states: None, tasks: Tasks::Any, launched: false, ..rule(action, name, &[]) }
}

/// Where a server at rest can be.
const BUILT: &[&str] = &["active", "paused", "suspended", "stopped"];

/// Where interfaces come and go.
const PLUGGABLE: &[&str] = &["active", "paused", "stopped"];
/// Where volumes come and go.
const WITH_VOLUMES: &[&str] =
    &["active", "paused", "stopped", "resized", "soft-delete", "shelved", "shelved_offloaded"];

pub const TABLE: &[Rule] = &[
    Rule { on_host: true, ..rule(Action::Start, "start", &["stopped"]) },
    Rule { on_host: true, ..rule(Action::Stop, "stop", &["active", "error"]) },
    Rule { kind: "SOFT", ..rule(Action::RebootSoft, "reboot", &["active"]) },
    Rule {
        kind: "HARD",
        tasks: REBOOTABLE,
        ..rule(Action::RebootHard, "reboot", &["active", "stopped", "paused", "suspended", "error"])
    },
    rule(Action::Pause, "pause", &["active"]),
    rule(Action::Unpause, "unpause", &["paused"]),
    rule(Action::Suspend, "suspend", &["active"]),
    rule(Action::Resume, "resume", &["suspended"]),
    Rule { on_host: true, ..rule(Action::TriggerCrashDump, "trigger_crash_dump", &["active", "paused", "error"]) },
    Rule { on_host: true, heeds_lock: false, ..always(Action::Diagnose, "get_diagnostics") },
    always(Action::Delete, "delete"),
    Rule { kind: "to be restored", launched: true, ..always(Action::SoftDelete, "delete") },
    rule(Action::Restore, "restore", &["soft-delete"]),
    always(Action::ForceDelete, "forceDelete"),
    always(Action::InjectNetworkInfo, "injectNetworkInfo"),
    Rule { heeds_lock: false, ..always(Action::ResetState, "os-resetState") },
    Rule { tasks: Tasks::Any, ..rule(Action::UpdateMetadata, "update metadata", BUILT) },
    Rule { tasks: Tasks::Any, ..rule(Action::DeleteMetadata, "delete metadata", BUILT) },
    rule(Action::AttachInterface, "attach_interface", PLUGGABLE),
    rule(Action::DetachInterface, "detach_interface", PLUGGABLE),
    Rule { tasks: Tasks::Any, launched: false, ..rule(Action::UpdateTags, "update tags", BUILT) },
    rule(Action::AttachVolume, "attach_volume", WITH_VOLUMES),
    rule(Action::DetachVolume, "detach_volume", WITH_VOLUMES),
    rule(Action::SwapVolume, "swap_volume", &["active", "paused", "resized"]),
    // The lock is meant against changes, and these change nothing.
    Rule { heeds_lock: false, ..rule(Action::CreateImage, "createImage", BUILT) },
    Rule { heeds_lock: false, ..rule(Action::CreateBackup, "createBackup", BUILT) },
    rule(Action::Rebuild, "rebuild", &["active", "stopped", "error"]),
    rule(Action::Rescue, "rescue", &["active", "stopped", "error"]),
    rule(Action::Unrescue, "unrescue", &["rescued"]),
    rule(Action::Shelve, "shelve", BUILT),
    rule(Action::ShelveOffload, "shelveOffload", &["shelved"]),
    rule(Action::Unshelve, "unshelve", &["shelved", "shelved_offloaded"]),
    rule(Action::ChangePassword, "changePassword", &["active"]),
    rule(Action::Resize, "resize", &["active", "stopped"]),
    rule(Action::Migrate, "migrate", &["active", "stopped"]),
    rule(Action::ConfirmResize, "confirmResize", &["resized"]),
    rule(Action::RevertResize, "revertResize", &["resized"]),
    rule(Action::LiveMigrate, "os-migrateLive", &["active", "paused"]),
    Rule { vm_states: None, tasks: MIGRATING, ..rule(Action::AbortLiveMigration, "abort live migration", &[]) },
    Rule { tasks: MIGRATING, ..rule(Action::ForceCompleteLiveMigration, "force_complete", &["active"]) },
    // What was asked of a host that is down is no obstacle.
    Rule {
        tasks: Tasks::Any,
        heeds_lock: false,
        ..rule(Action::Evacuate, "evacuate", &["active", "stopped", "error"])
    },
];

impl Action {
    pub fn rule(self) -> &'static Rule {
        // Every action has its line: a test counts them.
        TABLE.iter().find(|rule| rule.action == self).unwrap_or(&TABLE[0])
    }

    pub fn name(self) -> &'static str {
        self.rule().name
    }
}

impl From<PowerAction> for Action {
    fn from(action: PowerAction) -> Self {
        match action {
            PowerAction::Start => Self::Start,
            PowerAction::Stop => Self::Stop,
            PowerAction::RebootSoft => Self::RebootSoft,
            PowerAction::RebootHard => Self::RebootHard,
            PowerAction::Pause => Self::Pause,
            PowerAction::Unpause => Self::Unpause,
            PowerAction::Suspend => Self::Suspend,
            PowerAction::Resume => Self::Resume,
        }
    }
}

/// Whether `asker` may do this to the server now. What its hardware does not allow is looked at first, then the lock, then
/// the state, as Nova does.
pub fn admit(server: &Alive, action: Action, asker: Asker) -> Result<(), InstanceReject> {
    unsupported::check(server, action)?;
    if action.rule().heeds_lock {
        check_lock(server, asker)?;
    }
    check_state(server, action)
}

pub(super) fn check_lock(server: &Alive, asker: Asker) -> Result<(), InstanceReject> {
    match server.lock.is_some() && !asker.overrides_lock {
        true => Err(InstanceReject::Locked),
        false => Ok(()),
    }
}

pub fn check_state(server: &Alive, action: Action) -> Result<(), InstanceReject> {
    let (rule, shown) = (action.rule(), status::of_alive(server));
    // A server that is coming back has its host when its guest is being made there.
    let nowhere = server.placement.is_none() || (server.is_offloaded() && shown.task_state == Some("unshelving"));
    if rule.on_host && nowhere {
        return Err(InstanceReject::NotReady);
    }
    let refused = |attribute, value| Err(InstanceReject::NotInState { action: rule.name, attribute, value });
    if rule.vm_states.is_some_and(|allowed| !allowed.contains(&shown.vm_state)) {
        return refused("vm_state", shown.vm_state);
    }
    match (rule.tasks, shown.task_state) {
        (Tasks::NoneOr(tasks) | Tasks::Only(tasks), Some(task)) if !tasks.contains(&task) => {
            return refused("task_state", task);
        }
        // As Nova prints what is not there.
        (Tasks::Only(_), None) => return refused("task_state", "None"),
        _ => {}
    }
    match rule.launched && server.launched_at.is_none() {
        true => Err(InstanceReject::NeverLaunched { action: rule.name }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fmt::Write as _;

    /// The page, made of the table.
    fn page() -> String {
        let states = status::VM_STATES;
        let mut page = String::from(
            "# What may be asked of a server when\n\n\
             Made from `actors/src/instance/actions.rs` by `cargo xtask gen`; do not edit.\n\n\
             A request that is not allowed in the server's `vm_state`, or while something else is under way (`task_state`), is\n\
             answered with 409 in these words: `Cannot 'ACTION' instance ID while it is in vm_state STATE` (or `task_state\n\
             TASK`). Where a server must have run, one that never did gets 409 as well: `Instance ID is in an invalid state\n\
             for 'ACTION'`; where it must be on a host, one that is on none gets 409 `Instance ID is not ready`. A locked server refuses its users everything marked so, with 409 `Instance ID is locked`.\n\n",
        );
        let head = states.map(|state| format!(" {state} |")).concat();
        let _ =
            writeln!(page, "| action |{head} while under way | must be on a host | must have run | heeds the lock |");
        let _ = writeln!(page, "|---|{}---|---|---|---|", ":---:|".repeat(states.len()));
        for rule in TABLE {
            let kind = if rule.kind.is_empty() { String::new() } else { format!(" ({})", rule.kind) };
            let _ = write!(page, "| {}{kind} |", rule.name);
            for state in states {
                let allowed = rule.vm_states.is_none_or(|allowed| allowed.contains(&state));
                let _ = write!(page, "{}|", if allowed { " yes " } else { " " });
            }
            let during = match rule.tasks {
                Tasks::Any => "anything".to_owned(),
                Tasks::NoneOr([]) => "nothing".to_owned(),
                Tasks::NoneOr(tasks) => format!("nothing, {}", tasks.join(", ")),
                Tasks::Only(tasks) => format!("only {}", tasks.join(", ")),
            };
            let word = |holds| if holds { "yes" } else { "no" };
            let _ = writeln!(
                page,
                " {during} | {} | {} | {} |",
                word(rule.on_host),
                word(rule.launched),
                word(rule.heeds_lock)
            );
        }
        page.push_str(
            "\n## Statuses\n\nWhat `status` shows, by `vm_state` and `task_state`; other tasks change nothing.\n\n",
        );
        page.push_str("| vm_state | task_state | status |\n|---|---|---|\n");
        for state in states {
            let plain = status::status_word(state, None);
            let _ = writeln!(page, "| {state} | | {plain} |");
            for task in status::TASK_STATES {
                let word = status::status_word(state, Some(task));
                if word != plain {
                    let _ = writeln!(page, "| {state} | {task} | {word} |");
                }
            }
        }
        page
    }

    /// `cargo xtask gen` runs this with `EXPECTORATE=overwrite`.
    #[test]
    fn generated_server_states_are_current() {
        expectorate::assert_contents(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/server-states.md"), &page());
    }

    #[test]
    fn the_table_speaks_of_every_action_once_and_of_states_that_exist() {
        let mut actions: Vec<Action> = TABLE.iter().map(|rule| rule.action).collect();
        actions.sort_unstable();
        actions.dedup();
        assert_eq!(actions.len(), TABLE.len());
        for rule in TABLE {
            assert_eq!(rule.action.rule().action, rule.action);
            for state in rule.vm_states.unwrap_or_default() {
                assert!(status::VM_STATES.contains(state), "{state}");
            }
        }
    }
}
