//! `volume_attachment`: what is recorded of an attached volume, and its renewal.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::cloud::{RunningCloud, plain};
use super::{CommandFailure, ManageExit, PrettyTable};

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub enum VolumeAttachmentCommand {
    /// Show a volume of a server, with the connection that its host uses.
    Show {
        instance_uuid: String,
        volume_id: String,
        /// Show the connection alone.
        #[arg(long = "connection_info", alias = "connection-info")]
        connection_info: bool,
        #[arg(long)]
        json: bool,
    },
    /// Give a volume of a stopped server a new attachment, and its host a new connection.
    Refresh {
        instance_uuid: String,
        volume_id: String,
        /// A file with the connector of the server's host in JSON, as `get_connector` writes it.
        connector_path: PathBuf,
    },
    /// Show how a host connects to volumes.
    GetConnector {
        #[arg(long)]
        json: bool,
        /// The host, which need not be this machine; by default [DEFAULT] host.
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
    },
}

pub(super) fn run(
    command: &VolumeAttachmentCommand,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    match command {
        VolumeAttachmentCommand::Show { instance_uuid, volume_id, connection_info, json } => {
            show(instance_uuid, volume_id, *connection_info, *json, cloud, out)
        }
        VolumeAttachmentCommand::Refresh { instance_uuid, volume_id, connector_path } => {
            refresh(instance_uuid, volume_id, connector_path, cloud, out)
        }
        VolumeAttachmentCommand::GetConnector { json, host } => get_connector(*json, host.as_deref(), cloud, out),
    }
}

fn show(
    instance: &str,
    volume: &str,
    connection_alone: bool,
    as_json: bool,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let Some(server) = cloud.live_server(instance)? else {
        writeln!(out, "Instance {instance} could not be found.")?;
        return Ok(2);
    };
    let Some(mapping) = mapping_of(&server, volume) else {
        writeln!(out, "No volume Block Device Mapping with id {volume}.")?;
        return Ok(3);
    };
    let shown = if connection_alone { &mapping["connection_info"] } else { mapping };
    write(shown, as_json, out)
}

/// The mapping of a volume among those of a server.
fn mapping_of<'s>(server: &'s Value, volume: &str) -> Option<&'s Value> {
    server["block_device_mappings"].as_array()?.iter().find(|mapping| mapping["volume_id"] == volume)
}

/// Checks in Nova's order and with its codes. Then the server gives the volume a new attachment. The server's host
/// connects with the connector that Chronova makes, so Chronova uses only the host's name from the given connector.
fn refresh(
    instance: &str,
    volume: &str,
    connector: &Path,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let shown = connector.display();
    if !connector.exists() {
        writeln!(out, "Connector file not found at {shown}")?;
        return Ok(2);
    }
    let read = std::fs::read(connector).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let Some(connector) = read.filter(Value::is_object) else {
        writeln!(out, "Failed to open {shown}. Does it contain valid connector_info data?")?;
        return Ok(3);
    };
    let Some(server) = cloud.live_server(instance)? else {
        writeln!(out, "Instance {instance} could not be found.")?;
        return Ok(4);
    };
    if mapping_of(&server, volume).is_none() {
        writeln!(out, "No volume Block Device Mapping with id {volume}.")?;
        return Ok(6);
    }
    if server["vm_state"] != "stopped" || server["locked"] == true {
        let state = server["vm_state"].as_str().unwrap_or_default();
        let locked = if server["locked"] == true { " and locked" } else { "" };
        writeln!(out, "Instance {instance} is {state}{locked}: it must be stopped and unlocked.")?;
        return Ok(5);
    }
    let Some(host) = connector["host"].as_str() else {
        writeln!(out, "The connector in {shown} names no host.")?;
        return Ok(1);
    };
    renew(instance, volume, host, cloud, out)
}

fn renew(
    instance: &str,
    volume: &str,
    host: &str,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let path = format!("/chronova/v1/servers/{}/attachments/{}", plain(instance), plain(volume));
    let Err(refused) = cloud.call("PUT", &path, Some(&json!({"connector": {"host": host}})))? else { return Ok(0) };
    let code = match (refused.status, refused.key.as_str()) {
        (404, "volumeNotAttached") => 6,
        (404, _) => 4,
        (409, "hostConflict") => 7,
        (409, _) => 5,
        _ => 1,
    };
    if code == 7 {
        writeln!(
            out,
            "The command 'nova-manage volume_attachment get_connector' may have been run on the wrong compute host. Or the \
             instance host may be wrong and in need of repair."
        )?;
    }
    writeln!(out, "{}", refused.message)?;
    Ok(code)
}

fn get_connector(
    as_json: bool,
    host: Option<&str>,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let own = cloud.config.default.host.as_deref().unwrap_or_default();
    let name = host.unwrap_or(own);
    let shown = cloud.get(&format!("/chronova/v1/hosts/{}", plain(name)))?;
    let connector = json!({
        "host": shown["host"]["name"],
        "ip": shown["host"]["host_ip"],
        "initiator": shown["host"]["initiator"],
        "platform": shown["host"]["cpu_arch"],
        "os_type": "linux",
        "do_local_attach": false,
        "multipath": false,
    });
    write(&connector, as_json, out)
}

fn write(shown: &Value, as_json: bool, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    if as_json {
        writeln!(out, "{shown}")?;
        return Ok(0);
    }
    let pairs = shown.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), words(value)));
    write!(out, "{}", PrettyTable::of_pairs(pairs).render())?;
    Ok(0)
}

/// A value as Python prints it; an object or a list as JSON.
fn words(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
