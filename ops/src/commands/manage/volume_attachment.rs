//! `volume_attachment`: what is recorded of an attached volume.

use std::io::Write;

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
    let all = server["block_device_mappings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(mapping) = all.iter().find(|mapping| mapping["volume_id"] == volume) else {
        writeln!(out, "No volume Block Device Mapping with id {volume}.")?;
        return Ok(3);
    };
    let shown = if connection_alone { &mapping["connection_info"] } else { mapping };
    write(shown, as_json, out)
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

/// A value as Python prints it.
fn words(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
