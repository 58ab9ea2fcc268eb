//! The table of the actions that a server accepts in each state.
//!
//! Each line has the preconditions of Nova's `compute/api.py` (`check_instance_lock`, `check_instance_state`). Where
//! Nova names a set of states, the line lists each state of the set. These sets are `ALLOW_SOFT_REBOOT`,
//! `ALLOW_HARD_REBOOT` and `ALLOW_TRIGGER_CRASH_DUMP` of `compute/vm_states.py`, and `ALLOW_REBOOT` of
//! `compute/task_states.py`. The decisions read the table, and `docs/server-states.md` is generated from it.

use chronova_events::instance::{Alive, PowerAction, status};

use super::decision::{CallerRights, InstanceReject};
use super::unsupported;

/// An action on a server that depends on the server's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerAction {
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
    SetImageProperties,
    RefreshVolume,
}

/// The tasks during which an action is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedTasks {
    /// The action is allowed during any task.
    Any,
    /// The action is allowed without a task, and during these tasks.
    NoneOr(&'static [&'static str]),
    /// The action is allowed only during these tasks.
    Only(&'static [&'static str]),
}

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub struct ActionRule {
    pub action: ServerAction,
    /// The action's name in refusals.
    pub name: &'static str,
    /// Distinguishes actions of the same name in the generated page.
    pub kind: &'static str,
    /// The `vm_state`s that allow the action; `None` means all.
    pub vm_states: Option<&'static [&'static str]>,
    pub tasks: AllowedTasks,
    /// Whether the server must be on a host; checked before its state.
    pub on_host: bool,
    /// Whether the server must have had a guest once.
    pub launched: bool,
    /// Whether a lock on the server refuses the action to users.
    pub refused_while_locked: bool,
}

const NOTHING_UNDER_WAY: AllowedTasks = AllowedTasks::NoneOr(&[]);

const fn rule(action: ServerAction, name: &'static str, vm_states: &'static [&'static str]) -> ActionRule {
    let (kind, tasks) = ("", NOTHING_UNDER_WAY);
    ActionRule {
        action,
        name,
        kind,
        vm_states: Some(vm_states),
        tasks,
        on_host: false,
        launched: true,
        refused_while_locked: true,
    }
}

/// The tasks that a hard reboot may overtake.
const REBOOTABLE: AllowedTasks = AllowedTasks::NoneOr(&[
    "rebooting",
    "reboot_pending",
    "reboot_started",
    "resuming",
    "rebooting_hard",
    "unpausing",
    "pausing",
    "suspending",
]);

/// The task during which actions on a live migration are allowed.
const MIGRATING: AllowedTasks = AllowedTasks::Only(&["migrating"]);

/// A rule that allows the action in every state and during every task.
const fn always(action: ServerAction, name: &'static str) -> ActionRule {
    ActionRule { vm_states: None, tasks: AllowedTasks::Any, launched: false, ..rule(action, name, &[]) }
}

/// The states of a built server that is neither resized, rescued, shelved, soft-deleted nor in error.
const BUILT: &[&str] = &["active", "paused", "suspended", "stopped"];

/// The states in which interfaces may be attached and detached.
const PLUGGABLE: &[&str] = &["active", "paused", "stopped"];
/// The states in which volumes may be attached and detached.
const WITH_VOLUMES: &[&str] =
    &["active", "paused", "stopped", "resized", "soft-delete", "shelved", "shelved_offloaded"];

pub const TABLE: &[ActionRule] = &[
    ActionRule { on_host: true, ..rule(ServerAction::Start, "start", &["stopped"]) },
    ActionRule { on_host: true, ..rule(ServerAction::Stop, "stop", &["active", "error"]) },
    ActionRule { kind: "SOFT", ..rule(ServerAction::RebootSoft, "reboot", &["active"]) },
    ActionRule {
        kind: "HARD",
        tasks: REBOOTABLE,
        ..rule(ServerAction::RebootHard, "reboot", &["active", "stopped", "paused", "suspended", "error"])
    },
    rule(ServerAction::Pause, "pause", &["active"]),
    rule(ServerAction::Unpause, "unpause", &["paused"]),
    rule(ServerAction::Suspend, "suspend", &["active"]),
    rule(ServerAction::Resume, "resume", &["suspended"]),
    ActionRule {
        on_host: true,
        ..rule(ServerAction::TriggerCrashDump, "trigger_crash_dump", &["active", "paused", "error"])
    },
    ActionRule { on_host: true, refused_while_locked: false, ..always(ServerAction::Diagnose, "get_diagnostics") },
    always(ServerAction::Delete, "delete"),
    ActionRule { kind: "to be restored", launched: true, ..always(ServerAction::SoftDelete, "delete") },
    rule(ServerAction::Restore, "restore", &["soft-delete"]),
    always(ServerAction::ForceDelete, "forceDelete"),
    always(ServerAction::InjectNetworkInfo, "injectNetworkInfo"),
    ActionRule { refused_while_locked: false, ..always(ServerAction::ResetState, "os-resetState") },
    ActionRule { tasks: AllowedTasks::Any, ..rule(ServerAction::UpdateMetadata, "update metadata", BUILT) },
    ActionRule { tasks: AllowedTasks::Any, ..rule(ServerAction::DeleteMetadata, "delete metadata", BUILT) },
    rule(ServerAction::AttachInterface, "attach_interface", PLUGGABLE),
    rule(ServerAction::DetachInterface, "detach_interface", PLUGGABLE),
    ActionRule { tasks: AllowedTasks::Any, launched: false, ..rule(ServerAction::UpdateTags, "update tags", BUILT) },
    rule(ServerAction::AttachVolume, "attach_volume", WITH_VOLUMES),
    rule(ServerAction::DetachVolume, "detach_volume", WITH_VOLUMES),
    rule(ServerAction::SwapVolume, "swap_volume", &["active", "paused", "resized"]),
    // A lock prevents changes. These actions change nothing, so a lock does not refuse them.
    ActionRule { refused_while_locked: false, ..rule(ServerAction::CreateImage, "createImage", BUILT) },
    ActionRule { refused_while_locked: false, ..rule(ServerAction::CreateBackup, "createBackup", BUILT) },
    rule(ServerAction::Rebuild, "rebuild", &["active", "stopped", "error"]),
    rule(ServerAction::Rescue, "rescue", &["active", "stopped", "error"]),
    rule(ServerAction::Unrescue, "unrescue", &["rescued"]),
    rule(ServerAction::Shelve, "shelve", BUILT),
    rule(ServerAction::ShelveOffload, "shelveOffload", &["shelved"]),
    rule(ServerAction::Unshelve, "unshelve", &["shelved", "shelved_offloaded"]),
    rule(ServerAction::ChangePassword, "changePassword", &["active"]),
    rule(ServerAction::Resize, "resize", &["active", "stopped"]),
    rule(ServerAction::Migrate, "migrate", &["active", "stopped"]),
    rule(ServerAction::ConfirmResize, "confirmResize", &["resized"]),
    rule(ServerAction::RevertResize, "revertResize", &["resized"]),
    rule(ServerAction::LiveMigrate, "os-migrateLive", &["active", "paused"]),
    ActionRule {
        vm_states: None,
        tasks: MIGRATING,
        ..rule(ServerAction::AbortLiveMigration, "abort live migration", &[])
    },
    ActionRule { tasks: MIGRATING, ..rule(ServerAction::ForceCompleteLiveMigration, "force_complete", &["active"]) },
    // A host that is down completes no task, so the table allows every task. `evacuation` refuses some of them.
    ActionRule {
        tasks: AllowedTasks::Any,
        refused_while_locked: false,
        ..rule(ServerAction::Evacuate, "evacuate", &["active", "stopped", "error"])
    },
    ActionRule {
        launched: false,
        refused_while_locked: false,
        ..rule(ServerAction::SetImageProperties, "image_property set", &["stopped", "shelved", "shelved_offloaded"])
    },
    ActionRule { on_host: true, ..rule(ServerAction::RefreshVolume, "refresh connection_info", &["stopped"]) },
];

impl ServerAction {
    pub fn rule(self) -> &'static ActionRule {
        // A test checks that every action has a line, so the fallback to the first line never happens.
        TABLE.iter().find(|rule| rule.action == self).unwrap_or(&TABLE[0])
    }

    pub fn name(self) -> &'static str {
        self.rule().name
    }
}

impl From<PowerAction> for ServerAction {
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

/// Checks that `asker` may take the action on the server now. As in Nova, the function first refuses an operation that
/// the server's hardware does not support. Then it checks the lock, and then the state.
pub fn admit(server: &Alive, action: ServerAction, asker: CallerRights) -> Result<(), InstanceReject> {
    unsupported::check(server, action)?;
    if action.rule().refused_while_locked {
        check_lock(server, asker)?;
    }
    check_state(server, action)
}

pub(super) fn check_lock(server: &Alive, asker: CallerRights) -> Result<(), InstanceReject> {
    match server.lock.is_some() && !asker.overrides_lock {
        true => Err(InstanceReject::Locked),
        false => Ok(()),
    }
}

pub fn check_state(server: &Alive, action: ServerAction) -> Result<(), InstanceReject> {
    let (rule, shown) = (action.rule(), status::of_alive(server));
    // While a server is being unshelved, its placement is recorded before its guest exists.
    let nowhere = server.placement.is_none() || (server.is_offloaded() && shown.task_state == Some("unshelving"));
    if rule.on_host && nowhere {
        return Err(InstanceReject::NotReady);
    }
    let refused = |attribute, value| Err(InstanceReject::NotInState { action: rule.name, attribute, value });
    if rule.vm_states.is_some_and(|allowed| !allowed.contains(&shown.vm_state)) {
        return refused("vm_state", shown.vm_state);
    }
    match (rule.tasks, shown.task_state) {
        (AllowedTasks::NoneOr(tasks) | AllowedTasks::Only(tasks), Some(task)) if !tasks.contains(&task) => {
            return refused("task_state", task);
        }
        // Nova's text for a server without a task.
        (AllowedTasks::Only(_), None) => return refused("task_state", "None"),
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

    /// Renders the page from the table.
    fn page() -> String {
        let states = status::VM_STATES;
        let mut page = String::from(
            "# Which requests a server accepts in which state\n\n\
             Made from `actors/src/instance/actions.rs` by `cargo xtask gen`; do not edit.\n\n\
             A server answers 409 if its `vm_state` does not allow a request, or if another operation is under way (`task_state`)\n\
             that does not allow it. The message is `Cannot 'ACTION' instance ID while it is in vm_state STATE` (or `task_state\n\
             TASK`).\n\n\
             * **must have run**: a server that never ran answers 409 `Instance ID is in an invalid state for 'ACTION'`.\n\
             * **must be on a host**: a server that is on no host answers 409 `Instance ID is not ready`.\n\
             * **refused while locked**: a locked server answers 409 `Instance ID is locked`, unless the user may override the\n\
             lock.\n\
             * **evacuate** is accepted during an operation that the dead host cannot end, such as a reboot. It is refused\n\
             while the server is being deleted, moved or evacuated, and while a rebuild changes its disks.\n\n",
        );
        let head = states.map(|state| format!(" {state} |")).concat();
        let _ = writeln!(
            page,
            "| action |{head} during another operation | must be on a host | must have run | refused while locked |"
        );
        let _ = writeln!(page, "|---|{}---|---|---|---|", ":---:|".repeat(states.len()));
        for rule in TABLE {
            let kind = if rule.kind.is_empty() { String::new() } else { format!(" ({})", rule.kind) };
            let _ = write!(page, "| {}{kind} |", rule.name);
            for state in states {
                let allowed = rule.vm_states.is_none_or(|allowed| allowed.contains(&state));
                let _ = write!(page, "{}|", if allowed { " yes " } else { " " });
            }
            let during = match rule.tasks {
                AllowedTasks::Any => "accepted".to_owned(),
                AllowedTasks::NoneOr([]) => "refused".to_owned(),
                AllowedTasks::NoneOr(tasks) => format!("refused, except during {}", tasks.join(", ")),
                AllowedTasks::Only(tasks) => format!("accepted only during {}", tasks.join(", ")),
            };
            let word = |holds| if holds { "yes" } else { "no" };
            let _ = writeln!(
                page,
                " {during} | {} | {} | {} |",
                word(rule.on_host),
                word(rule.launched),
                word(rule.refused_while_locked)
            );
        }
        page.push_str(
            "\n## Statuses\n\nThe `status` for each `vm_state` and `task_state`. A task that is not listed does not change the status.\n\n",
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
    fn the_table_has_every_action_once_and_only_known_states() {
        let mut actions: Vec<ServerAction> = TABLE.iter().map(|rule| rule.action).collect();
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
