//! `image_property`: the image properties that a server keeps, and that its guest has from the next start on.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Subcommand;
use serde_json::json;

use super::cloud::{RunningCloud, plain};
use super::{CommandFailure, ManageExit};

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub enum ImagePropertyCommand {
    /// Show one property.
    Show { instance_uuid: String, image_property: String },
    /// Set properties of a server that is stopped, shelved or offloaded.
    Set {
        instance_uuid: String,
        /// NAME=VALUE, for example hw_disk_bus=scsi; may be repeated.
        #[arg(long = "property", value_name = "NAME=VALUE", required = true)]
        property: Vec<String>,
    },
}

pub(super) fn run(
    command: &ImagePropertyCommand,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    match command {
        ImagePropertyCommand::Show { instance_uuid, image_property } => show(instance_uuid, image_property, cloud, out),
        ImagePropertyCommand::Set { instance_uuid, property } => set(instance_uuid, property, cloud, out),
    }
}

fn not_found(instance: &str, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    writeln!(out, "Instance {instance} could not be found.")?;
    Ok(2)
}

fn show(
    instance: &str,
    property: &str,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let Some(server) = cloud.live_server(instance)? else { return not_found(instance, out) };
    match server["image_properties"][property].as_str().filter(|value| !value.is_empty()) {
        Some(value) => {
            writeln!(out, "{value}")?;
            Ok(0)
        }
        None => {
            writeln!(out, "Image property {property} not found for instance {instance}.")?;
            Ok(3)
        }
    }
}

fn set(
    instance: &str,
    properties: &[String],
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let split: Option<BTreeMap<&str, &str>> = properties.iter().map(|pair| pair.split_once('=')).collect();
    let Some(split) = split else {
        writeln!(out, "--property should use the format key=value")?;
        return Ok(4);
    };
    let path = format!("/chronova/v1/servers/{}/image-properties", plain(instance));
    match cloud.call("PUT", &path, Some(&json!({"image_properties": split})))? {
        Ok(_) => Ok(0),
        Err(refused) => {
            let code = match (refused.status, refused.key.as_str()) {
                (404, _) => 2,
                (409, _) => 3,
                (_, "invalidImagePropertyName") => 5,
                (_, "invalidImagePropertyValue") => 6,
                _ => 1,
            };
            writeln!(out, "{}", refused.message)?;
            Ok(code)
        }
    }
}
