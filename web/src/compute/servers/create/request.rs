//! The canonical request of a `POST /servers`, for all versions.

use std::collections::BTreeSet;

use chronova_actors::scheduler::filters::query;
use chronova_events::ids::{ImageId, NetworkId, PortId};
use chronova_events::instance::{DiskConfig, FilesGiven, RequestedNetworks, RequestedNic, SortedPairs};
use serde_json::{Map, Value};

use super::devices::BlockDeviceMappings;
use crate::compute::servers::filters::invalid;
use crate::compute::servers::lookup::one_spelling;
use crate::compute::versions;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::schema::{is_true, to_integer};

/// The request, read from the body without any look-up.
#[derive(Debug)]
pub(super) struct CreateServerRequest {
    pub name: String,
    pub description: Option<String>,
    pub hostname: Option<String>,
    pub image: Option<ImageId>,
    pub mappings: BlockDeviceMappings,
    pub flavor: String,
    pub key_name: Option<String>,
    pub user_data: Option<String>,
    pub config_drive: bool,
    pub networks: RequestedNetworks,
    /// The names of the security groups, without duplicates, in the requested order.
    pub security_groups: Vec<String>,
    pub metadata: SortedPairs,
    pub tags: Vec<String>,
    pub availability_zone: Option<String>,
    pub host: Option<String>,
    pub hypervisor_hostname: Option<String>,
    pub scheduler_hints: Vec<(String, Vec<String>)>,
    pub disk_config: DiskConfig,
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
    pub trusted_certs: Vec<String>,
    pub min_count: u32,
    pub max_count: u32,
    pub return_reservation_id: bool,
    pub admin_pass: Option<String>,
    /// The files for the guest (until 2.56).
    pub files: Option<FilesGiven>,
    /// Whether `auto` was requested explicitly.
    pub auto_network: bool,
}

impl CreateServerRequest {
    pub(super) fn read(ctx: &Ctx) -> Result<Self, Fault> {
        let server = &ctx.parse_at::<Map<String, Value>>("server")?;
        let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
        let truth = |key: &str| server.get(key).is_some_and(is_true);
        let (min_count, max_count) = counts(server)?;
        let name = text("name").unwrap_or_default().trim().to_owned();
        let mappings = BlockDeviceMappings::read(server)?;
        let request = Self {
            description: if versions::servers_have_descriptions(ctx.version) {
                text("description")
            } else {
                Some(name.clone())
            },
            name,
            hostname: text("hostname"),
            image: image(server, &mappings)?,
            mappings,
            flavor: match &server["flavorRef"] {
                Value::String(reference) => reference.rsplit('/').next().unwrap_or_default().to_owned(),
                other => other.to_string(),
            },
            key_name: text("key_name"),
            user_data: text("user_data"),
            config_drive: truth("config_drive"),
            networks: networks(ctx, server)?,
            security_groups: security_groups(server),
            metadata: metadata(server),
            tags: tags(server),
            availability_zone: text("availability_zone"),
            host: text("host"),
            hypervisor_hostname: text("hypervisor_hostname"),
            scheduler_hints: hints(&ctx.body),
            disk_config: match server.get("OS-DCF:diskConfig").and_then(Value::as_str) {
                Some("MANUAL") => DiskConfig::Manual,
                _ => DiskConfig::Auto,
            },
            access_ip_v4: text("accessIPv4").map(one_spelling),
            access_ip_v6: text("accessIPv6").map(one_spelling),
            trusted_certs: texts(server.get("trusted_image_certificates")),
            min_count,
            max_count,
            return_reservation_id: truth("return_reservation_id"),
            admin_pass: text("adminPass").filter(|password| !password.is_empty()),
            files: files(server.get("personality")),
            auto_network: server.get("networks").is_some_and(|networks| networks == "auto"),
        };
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> Result<(), Fault> {
        for (hint, values) in &self.scheduler_hints {
            check_hint(hint, values)?;
        }
        if self.max_count > 1 {
            let nics = self.networks.listed();
            if nics.iter().any(|nic| nic.fixed_ip.is_some()) {
                return Err(Fault::bad_request(
                    "Invalid fixed IP: a specific fixed IP can be requested for one instance only.",
                ));
            }
            if nics.iter().any(|nic| nic.port.is_some()) {
                return Err(Fault::bad_request(
                    "Unable to launch multiple instances with a single configured port ID. Please launch your instance one by one with different ports.",
                ));
            }
        }
        Ok(())
    }
}

fn counts(server: &Map<String, Value>) -> Result<(u32, u32), Fault> {
    let count = |key: &str| server.get(key).and_then(to_integer).and_then(|count| u32::try_from(count).ok());
    let min = count("min_count").unwrap_or(1).max(1);
    let max = count("max_count").unwrap_or(min);
    if min > max {
        return Err(Fault::bad_request("min_count must be <= max_count"));
    }
    Ok((min, max))
}

/// A request without an image must have block device mappings.
fn image(server: &Map<String, Value>, mappings: &BlockDeviceMappings) -> Result<Option<ImageId>, Fault> {
    match server.get("imageRef").and_then(Value::as_str) {
        Some("") | None if mappings.given => Ok(None),
        Some("") | None => Err(Fault::bad_request("Missing imageRef attribute")),
        Some(reference) => reference.parse().map(Some).map_err(|_| Fault::bad_request("Invalid imageRef provided.")),
    }
}

fn networks(ctx: &Ctx, server: &Map<String, Value>) -> Result<RequestedNetworks, Fault> {
    let list = match server.get("networks") {
        Some(Value::String(word)) if word == "none" => return Ok(RequestedNetworks::None),
        Some(Value::String(word)) if word == "auto" => {
            return Ok(RequestedNetworks::These(vec![RequestedNic::automatic()]));
        }
        Some(Value::Array(list)) if !list.is_empty() => list,
        _ => return Ok(RequestedNetworks::Auto),
    };
    let mut nics: Vec<RequestedNic> = Vec::with_capacity(list.len());
    for item in list {
        let text = |key: &str| item.get(key).and_then(Value::as_str);
        let (fixed_ip, tag) = (text("fixed_ip").map(str::to_owned), text("tag").map(str::to_owned));
        let port = match text("port") {
            Some(id) => Some(id.parse::<PortId>().map_err(|_| bad_network(id))?),
            None => None,
        };
        if let (Some(ip), Some(port)) = (&fixed_ip, &port) {
            return Err(Fault::bad_request(format!(
                "Specified Fixed IP '{ip}' cannot be used with port '{port}': the two cannot be specified together."
            )));
        }
        // A port belongs to one network, so `uuid` is ignored when the request names a port.
        let network = match (text("uuid"), port) {
            (_, Some(_)) => None,
            (Some(id), None) => Some(network(id)?),
            (None, None) => return Err(bad_network("None")),
        };
        nics.push(RequestedNic { network, port, fixed_ip, tag });
    }
    // Neutron shows administrators the networks of all projects. Nova's rule `network:attach_external_network` lets
    // them use external networks.
    let any = ctx.caller().is_admin && ctx.allows("network:attach_external_network", &ctx.own_target());
    Ok(if any { RequestedNetworks::OfAnyProject(nics) } else { RequestedNetworks::These(nics) })
}

/// Old clients send the name of the bridge: `br-<uuid>`.
fn network(text: &str) -> Result<NetworkId, Fault> {
    text.strip_prefix("br-").unwrap_or(text).parse().map_err(|_| bad_network(text))
}

fn bad_network(id: &str) -> Fault {
    Fault::bad_request(format!("Bad networks format: network uuid is not in proper format ({id})"))
}

fn security_groups(server: &Map<String, Value>) -> Vec<String> {
    let (mut names, mut seen): (Vec<String>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    for group in server.get("security_groups").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = group.get("name").and_then(Value::as_str)
            && seen.insert(name)
        {
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        names.push("default".to_owned());
    }
    names
}

/// The metadata, sorted by key as in events.
fn metadata(server: &Map<String, Value>) -> SortedPairs {
    let mut pairs: SortedPairs = server
        .get("metadata")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    pairs.sort();
    pairs
}

fn texts(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn tags(server: &Map<String, Value>) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for tag in texts(server.get("tags")) {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}

/// The files for the guest, if any. The schema has validated their contents.
pub(in crate::compute::servers) fn files(personality: Option<&Value>) -> Option<FilesGiven> {
    let text = |file: &Value, key: &str| file.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let given = personality.and_then(Value::as_array).filter(|files| !files.is_empty())?;
    let contents = |file: &Value| text(file, "contents").split_whitespace().collect();
    Some(FilesGiven { files: given.iter().map(|file| (text(file, "path"), contents(file))).collect() })
}

/// The most servers that one scheduler hint may name. Nova has no such bound. But each server of the request keeps the
/// hints, and each decision on a host reads them.
const MOST_SERVERS_OF_A_HINT: usize = 100;

/// Refuses hints that are too large.
fn check_hint(hint: &str, values: &[String]) -> Result<(), Fault> {
    match hint {
        "different_host" | "same_host" if values.len() > MOST_SERVERS_OF_A_HINT => Err(invalid(&format!(
            "the scheduler hint {hint} has {} servers, more than {MOST_SERVERS_OF_A_HINT}",
            values.len()
        ))),
        "query" if values.iter().any(|text| text.chars().count() > query::LONGEST) => {
            Err(invalid(&format!("the scheduler hint query has more than {} characters", query::LONGEST)))
        }
        "query" if values.iter().any(|text| query::depth(text) > query::DEEPEST) => {
            Err(invalid(&format!("the scheduler hint query is nested more than {} levels deep", query::DEEPEST)))
        }
        _ => Ok(()),
    }
}

/// The scheduler hints, under either spelling of their key. Each hint becomes a list of texts.
fn hints(body: &Value) -> Vec<(String, Vec<String>)> {
    let hints = body.get("os:scheduler_hints").or_else(|| body.get("OS-SCH-HNT:scheduler_hints"));
    let mut list: Vec<(String, Vec<String>)> = hints
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            let values = match value {
                Value::String(text) => vec![text.clone()],
                Value::Array(items) => {
                    items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect()
                }
                other => vec![other.to_string()],
            };
            (key.clone(), values)
        })
        .collect();
    list.sort();
    list
}
