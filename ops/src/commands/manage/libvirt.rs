//! `libvirt`: the machine types that servers keep.

use std::io::Write;

use clap::Subcommand;
use serde_json::{Value, json};

use super::cells;
use super::cloud::{RunningCloud, plain};
use super::{CommandFailure, ManageExit};

#[derive(Debug, Subcommand)]
#[expect(clippy::enum_variant_names, reason = "the names of Nova's sub-commands")]
#[command(rename_all = "snake_case")]
pub enum LibvirtCommand {
    /// Show the machine type of a server.
    GetMachineType { instance_uuid: String },
    /// Change the machine type of a server that is stopped, shelved or offloaded.
    UpdateMachineType {
        instance_uuid: String,
        machine_type: String,
        /// Skip the checks of the `vm_state`, of the new machine type, and of the change from the present type.
        #[arg(long)]
        force: bool,
    },
    /// List the servers without a recorded machine type; exit code 3 if there are any.
    ListUnsetMachineType {
        #[arg(long = "cell-uuid", alias = "cell_uuid", value_name = "UUID")]
        cell_uuid: Option<String>,
    },
}

/// The aliases and the beginnings of versioned names that Nova supports.
const MACHINES: [&str; 6] = ["pc-i440fx", "pc-q35", "q35", "pc", "virt", "s390-ccw-virtio"];

pub(super) fn run(
    command: &LibvirtCommand,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    match command {
        LibvirtCommand::GetMachineType { instance_uuid } => get_machine_type(instance_uuid, cloud, out),
        LibvirtCommand::UpdateMachineType { instance_uuid, machine_type, force } => {
            update_machine_type(instance_uuid, machine_type, *force, cloud, out)
        }
        LibvirtCommand::ListUnsetMachineType { cell_uuid } => list_unset(cell_uuid.as_deref(), cloud, out),
    }
}

fn not_found(instance: &str, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    writeln!(out, "Instance {instance} could not be found.")?;
    Ok(2)
}

fn get_machine_type(
    instance: &str,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let Some(server) = cloud.live_server(instance)? else { return not_found(instance, out) };
    match server["machine_type"].as_str() {
        Some(machine) => {
            writeln!(out, "{machine}")?;
            Ok(0)
        }
        None => {
            writeln!(out, "No machine type registered for instance {instance}")?;
            Ok(3)
        }
    }
}

/// `pc-q35-7.2` is a versioned name, `q35` an alias. Red Hat's QEMU has `pc-q35-rhel8.2.0`.
fn is_supported(machine: &str) -> bool {
    let version = |text: &str| {
        let numbers = text.strip_prefix("rhel").unwrap_or(text);
        let count = numbers.split('.').map(|number| number.parse::<u32>().ok()).collect::<Option<Vec<_>>>();
        count.is_some_and(|numbers| matches!(numbers.len(), 2 | 3))
    };
    MACHINES.iter().any(|name| {
        let rest = machine.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(version))
    })
}

/// The states in which the machine type may change.
const STATES: [&str; 3] = ["stopped", "shelved", "shelved_offloaded"];

/// Makes Nova's first checks in Nova's order. The type that the server has already is always accepted.
fn refusal(
    server: &Value,
    machine: &str,
    force: bool,
    out: &mut dyn Write,
) -> Result<Option<ManageExit>, CommandFailure> {
    if force || server["machine_type"] == machine {
        return Ok(None);
    }
    let (id, state) = (server["id"].as_str().unwrap_or_default(), server["vm_state"].as_str().unwrap_or_default());
    if !STATES.contains(&state) {
        writeln!(
            out,
            "Instance {id} in vm_state {state}. Cannot update machine type while the instance is in this state."
        )?;
        return Ok(Some(3));
    }
    if !is_supported(machine) {
        writeln!(out, "Machine type {machine} is not supported.")?;
        return Ok(Some(5));
    }
    Ok(None)
}

fn update_machine_type(
    instance: &str,
    machine: &str,
    force: bool,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    if force {
        writeln!(out, "Forcing update of machine type.")?;
    }
    let Some(server) = cloud.live_server(instance)? else { return not_found(instance, out) };
    if let Some(code) = refusal(&server, machine, force, out)? {
        return Ok(code);
    }
    let body = json!({"machine_type": {"name": machine, "force": force}});
    match cloud.call("PUT", &format!("/chronova/v1/servers/{}/machine-type", plain(instance)), Some(&body))? {
        Ok(_) => {
            let before = server["machine_type"].as_str().unwrap_or("None");
            writeln!(out, "Updated instance {instance} machine type to {machine} (previously {before})")?;
            Ok(0)
        }
        Err(refused) => {
            writeln!(out, "{}", refused.message)?;
            Ok(match refused.status {
                404 => 2,
                409 => 3,
                400 if is_supported(machine) => 4,
                400 => 5,
                _ => 1,
            })
        }
    }
}

fn list_unset(cell: Option<&str>, cloud: &RunningCloud<'_>, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    if let Some(unknown) = cell.filter(|cell| !cells::is_known(cell)) {
        writeln!(out, "Cell {unknown} has no mapping.")?;
        return Ok(2);
    }
    let shown = cloud.get("/chronova/v1/machine-types/unset")?;
    let servers: Vec<&str> = shown["servers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // The sub-command counts every server as one of the cell with hosts, so the list for `cell0` is empty.
    if servers.is_empty() || cell == Some(cells::CELL0) {
        writeln!(out, "No instances found without hw_machine_type set.")?;
        return Ok(0);
    }
    writeln!(out, "{}", servers.join("\n"))?;
    Ok(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_machines_are_aliases_and_versions() {
        for machine in
            ["pc", "q35", "virt", "pc-i440fx-2.11", "pc-q35-7.2", "virt-7.2", "s390-ccw-virtio-7.2", "pc-q35-rhel8.2.0"]
        {
            assert!(is_supported(machine), "{machine}");
        }
        for machine in ["", "foo", "pc-q35-", "pc-q35-seven", "q36", "microvm"] {
            assert!(!is_supported(machine), "{machine}");
        }
    }
}
