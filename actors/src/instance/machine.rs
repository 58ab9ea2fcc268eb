//! Decisions about the machine type of a server's guest.
//!
//! The rules are those of Nova's `nova-manage libvirt update_machine_type`. The guest must be off. The new type must be
//! the same version of the same board, or a newer one. An alias (`q35`) and a version (`pc-q35-7.2`) do not replace
//! each other. `force` skips these rules: a guest that runs gets the type at its next cold start, and an unknown board
//! fails there. No type changes while an operation is under way, because the operation may just define the guest.

use chronova_events::instance::{Alive, MachineTypeChanged, MachineTypeRecorded, Phase, status};

use super::decision::{InstanceDecision, InstanceReject, one};

/// Records the machine type of a server that has none.
pub(super) fn record(server: &Alive, machine_type: String) -> InstanceDecision {
    match server.machine_type {
        Some(_) => Ok(vec![]),
        None => one(MachineTypeRecorded { machine_type }),
    }
}

/// The record of the machine type when a server gets a host. `None`: there is nothing to record. The type of a server
/// that has never run may change with its host, because another host may have another architecture.
pub(super) fn on_placement(server: &Alive, machine_type: Option<String>) -> Option<MachineTypeRecorded> {
    let open = server.machine_type.is_none() || server.launched_at.is_none();
    let machine_type = machine_type.filter(|machine| open && server.machine_type.as_ref() != Some(machine));
    machine_type.map(|machine_type| MachineTypeRecorded { machine_type })
}

pub(super) fn change(server: &Alive, machine_type: String, force: bool) -> InstanceDecision {
    const ACTION: &str = "update machine type";
    if server.machine_type() == Some(machine_type.as_str()) {
        return Ok(vec![]);
    }
    let shown = status::of_alive(server);
    if let Some(task) = shown.task_state {
        return Err(InstanceReject::NotInState { action: ACTION, attribute: "task_state", value: task });
    }
    if force && is_name(&machine_type) {
        return one(MachineTypeChanged { machine_type });
    }
    if !matches!(server.phase, Phase::Stopped { .. } | Phase::Shelved { .. } | Phase::Offloaded { .. }) {
        return Err(InstanceReject::NotInState { action: ACTION, attribute: "vm_state", value: shown.vm_state });
    }
    let (from, known) = (server.machine_type().unwrap_or_default().to_owned(), board(&machine_type).is_some());
    match known && (from.is_empty() || is_update(&from, &machine_type)) {
        true => one(MachineTypeChanged { machine_type }),
        false => Err(InstanceReject::MachineType { from, to: machine_type }),
    }
}

/// Whether a text can be the name of a machine type, known or not.
fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.chars().all(|sign| sign.is_ascii_alphanumeric() || "-._".contains(sign))
}

/// Whether both are aliases of one board, or both are versions of one board and `to` is not older.
fn is_update(from: &str, to: &str) -> bool {
    match (board(from), board(to)) {
        (Some((from, None)), Some((to, None))) => from == to,
        (Some((from, Some(was))), Some((to, Some(is)))) => from == to && was.vendor == is.vendor && was <= is,
        _ => false,
    }
}

/// The version of a board: `7.2`, or `rhel8.2.0` of Red Hat's QEMU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct BoardVersion {
    vendor: &'static str,
    numbers: Vec<u32>,
}

impl BoardVersion {
    fn of(text: &str) -> Option<Self> {
        let (vendor, numbers) = text.strip_prefix("rhel").map_or(("", text), |numbers| ("rhel", numbers));
        let numbers: Vec<u32> = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        matches!(numbers.len(), 2 | 3).then_some(Self { vendor, numbers })
    }
}

/// The name of a machine type's board; `None`: an unknown machine.
pub(super) fn board_name(machine_type: &str) -> Option<&'static str> {
    board(machine_type).map(|(name, _)| name)
}

/// The board of a machine type, and its version: `pc-q35-7.2` is `q35` in version 7.2. `None`: an unknown machine.
fn board(machine_type: &str) -> Option<(&'static str, Option<BoardVersion>)> {
    // The longer names come first: `pc-q35-7.2` is not a version of `pc`.
    const BOARDS: [(&str, &str); 8] = [
        ("pc-q35", "q35"),
        ("q35", "q35"),
        ("pc-i440fx", "pc"),
        ("pc", "pc"),
        ("virt", "virt"),
        ("s390-ccw-virtio", "s390-ccw-virtio"),
        ("pseries", "pseries"),
        ("microvm", "microvm"),
    ];
    let (rest, board) = BOARDS.iter().find_map(|(name, board)| Some((machine_type.strip_prefix(name)?, *board)))?;
    match rest.strip_prefix('-') {
        None => rest.is_empty().then_some((board, None)),
        Some(version) => Some((board, Some(BoardVersion::of(version)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_gives_way_to_a_newer_one_of_its_board_and_never_to_an_alias() {
        for (from, to) in [
            ("pc-i440fx-6.0", "pc-i440fx-7.2"),
            ("pc-q35-6.0", "pc-q35-7.2"),
            ("pc-q35-9.2", "pc-q35-10.0"),
            ("pc-q35-rhel8.2.0", "pc-q35-rhel8.2.1"),
            ("virt-7.2", "virt-7.2"),
            ("q35", "pc-q35"),
        ] {
            assert!(is_update(from, to), "{from} to {to}");
        }
        for (from, to) in [
            ("pc", "q35"),
            ("pc-q35-7.2", "pc-q35-6.0"),
            ("pc", "virt"),
            ("q35", "wonder"),
            ("q35", "q35-x"),
            ("q35", "pc-q35-7.2"),
            ("pc-q35-7.2", "q35"),
            ("pc-q35-7.2", "pc-q35-rhel8.2.0"),
        ] {
            assert!(!is_update(from, to), "{from} to {to}");
        }
    }
}
