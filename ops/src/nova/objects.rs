//! Reads the serialized objects in Nova's columns.
//!
//! Nova writes an object as `{"nova_object.name": ..., "nova_object.data": {...}}`; objects inside it have the same
//! form. Older releases wrote some objects as plain JSON. A field that Nova's object lacks is empty here.

use std::collections::BTreeMap;

use chronova_events::ids::{FlavorId, ImageId, NetworkId, PortId};
use chronova_events::instance::{FixedIp, FlavorSnapshot, ImageSnapshot, NicInfo, SortedPairs};
use serde_json::{Map, Value};
use thiserror::Error;

/// Why an object cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NovaObjectError {
    #[error("there is no {0} in it")]
    Missing(&'static str),
    #[error("{field} of {object} is {value}")]
    Field { object: &'static str, field: &'static str, value: String },
}

/// An object's fields.
#[derive(Debug, Clone, Copy)]
pub struct NovaObject<'a> {
    name: &'static str,
    fields: &'a Map<String, Value>,
}

impl<'a> NovaObject<'a> {
    /// Reads the value as an object of this name; `None` if it is no such object.
    pub fn of(value: &'a Value, name: &'static str) -> Option<Self> {
        let outer = value.as_object()?;
        let fields = match outer.get("nova_object.name") {
            Some(found) if found == name => outer.get("nova_object.data")?.as_object()?,
            Some(_) => return None,
            None => outer,
        };
        Some(Self { name, fields })
    }

    pub fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    pub fn text(&self, field: &str) -> Option<&'a str> {
        self.get(field).and_then(Value::as_str)
    }

    pub fn list(&self, field: &str) -> &'a [Value] {
        self.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub fn object(&self, field: &str, name: &'static str) -> Option<NovaObject<'a>> {
        NovaObject::of(self.get(field)?, name)
    }

    /// The objects of a list field. Nova wraps a list in an object with a field `objects`.
    pub fn objects(&self, name: &'static str) -> impl Iterator<Item = NovaObject<'a>> + use<'a> {
        self.list("objects").iter().filter_map(move |value| NovaObject::of(value, name))
    }

    fn required(&self, field: &'static str) -> Result<&'a str, NovaObjectError> {
        self.text(field).ok_or_else(|| self.wrong(field))
    }

    /// Reads a whole number that fits into `T`; a missing field is 0.
    fn number<T: TryFrom<u64> + Default>(&self, field: &'static str) -> Result<T, NovaObjectError> {
        match self.get(field) {
            None => Ok(T::default()),
            Some(value) => value.as_u64().and_then(|number| T::try_from(number).ok()).ok_or_else(|| self.wrong(field)),
        }
    }

    fn pairs(&self, field: &str) -> SortedPairs {
        self.get(field).and_then(Value::as_object).map(pairs).unwrap_or_default()
    }

    fn wrong(&self, field: &'static str) -> NovaObjectError {
        let value = self.fields.get(field).map_or_else(|| "missing".to_owned(), |value| short(&value.to_string()));
        NovaObjectError::Field { object: self.name, field, value }
    }
}

fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Writes a value as Nova does in a text field: a text without quotes, a boolean as in Python, any other value as JSON.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}

fn pairs(map: &Map<String, Value>) -> SortedPairs {
    let sorted: BTreeMap<&String, &Value> = map.iter().collect();
    sorted.into_iter().map(|(key, value)| (key.clone(), plain(value))).collect()
}

/// Reads a `Flavor`: the copy that a server or a request keeps.
pub fn flavor(value: &Value) -> Result<FlavorSnapshot, NovaObjectError> {
    let object = NovaObject::of(value, "Flavor").ok_or(NovaObjectError::Missing("Flavor"))?;
    Ok(FlavorSnapshot {
        id: FlavorId::new(object.required("flavorid")?),
        name: object.required("name")?.to_owned(),
        vcpus: object.number("vcpus")?,
        memory_mib: object.number("memory_mb")?,
        root_gib: object.number("root_gb")?,
        ephemeral_gib: object.number("ephemeral_gb")?,
        swap_mib: object.number("swap")?,
        extra_specs: object.pairs("extra_specs"),
    })
}

/// Reads the `ImageMeta` of a request, with the properties of the server's image.
pub fn image(
    id: ImageId,
    meta: Option<NovaObject<'_>>,
    properties: SortedPairs,
    format: Option<&str>,
) -> Result<ImageSnapshot, NovaObjectError> {
    let Some(meta) = meta else {
        return Ok(ImageSnapshot {
            id,
            name: String::new(),
            checksum: String::new(),
            format: format.unwrap_or("raw").to_owned(),
            size: 0,
            virtual_size: 0,
            min_memory_mib: 0,
            min_disk_gib: 0,
            properties,
        });
    };
    let size = meta.number("size")?;
    Ok(ImageSnapshot {
        id,
        name: meta.text("name").unwrap_or_default().to_owned(),
        checksum: meta.text("checksum").unwrap_or_default().to_owned(),
        format: format.or(meta.text("disk_format")).unwrap_or("raw").to_owned(),
        size,
        virtual_size: meta.number("virtual_size").ok().filter(|known: &u64| *known > 0).unwrap_or(size),
        min_memory_mib: meta.number("min_ram")?,
        min_disk_gib: meta.number("min_disk")?,
        properties,
    })
}

/// An interface of the network info cache, with the fields that decide whether Chronova can take over its guest.
#[derive(Debug, Clone, PartialEq)]
pub struct NovaVif {
    pub nic: NicInfo,
    /// `ovs`, `bridge`.
    pub kind: String,
    /// `normal`, `direct`.
    pub vnic_type: String,
}

/// Reads one entry of `instance_info_caches.network_info`.
pub fn vif(value: &Value) -> Result<NovaVif, NovaObjectError> {
    let wrong = |field: &'static str| NovaObjectError::Field { object: "VIF", field, value: short(&value.to_string()) };
    let network = &value["network"];
    let id = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    let nic = NicInfo {
        port: PortId(id(&value["id"]).ok_or_else(|| wrong("id"))?),
        network: NetworkId(id(&network["id"]).ok_or_else(|| wrong("network.id"))?),
        network_label: network["label"].as_str().unwrap_or_default().to_owned(),
        mac: value["address"].as_str().ok_or_else(|| wrong("address"))?.to_owned(),
        mtu: network["meta"]["mtu"].as_u64().and_then(|mtu| u32::try_from(mtu).ok()).unwrap_or(1500),
        fixed_ips: each(&network["subnets"]).flat_map(addresses).collect(),
        tag: None,
        owned: !value["preserve_on_delete"].as_bool().unwrap_or(false),
        security_groups: Vec::new(),
    };
    let word = |field: &str, default: &str| value[field].as_str().unwrap_or(default).to_owned();
    Ok(NovaVif { nic, kind: word("type", "unbound"), vnic_type: word("vnic_type", "normal") })
}

fn each(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn addresses(subnet: &Value) -> Vec<FixedIp> {
    let prefix = subnet["cidr"].as_str().and_then(|cidr| cidr.rsplit('/').next()?.parse().ok()).unwrap_or(0);
    let gateway = subnet["gateway"]["address"].as_str().map(str::to_owned);
    let dns: Vec<String> = each(&subnet["dns"]).filter_map(|dns| dns["address"].as_str()).map(str::to_owned).collect();
    each(&subnet["ips"])
        .filter_map(|ip| ip["address"].as_str())
        .map(|address| FixedIp {
            address: address.to_owned(),
            prefix,
            gateway: gateway.clone(),
            dns: dns.clone(),
            dhcp: subnet["meta"]["dhcp_server"].is_string(),
        })
        .collect()
}

/// A `RequestSpec`: the request to the scheduler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NovaRequest {
    pub availability_zone: Option<String>,
    pub forced_host: Option<String>,
    pub scheduler_hints: Vec<(String, Vec<String>)>,
    pub security_groups: Vec<String>,
}

pub fn request(spec: NovaObject<'_>) -> NovaRequest {
    let first = |field: &str| spec.list(field).first().and_then(Value::as_str).map(str::to_owned);
    let hint = |value: &Value| match value {
        Value::Array(values) => values.iter().map(plain).collect(),
        one => vec![plain(one)],
    };
    let hints: BTreeMap<String, Vec<String>> = spec
        .get("scheduler_hints")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), hint(value)))
        .collect();
    let groups = spec.object("security_groups", "SecurityGroupList");
    NovaRequest {
        availability_zone: spec.text("availability_zone").map(str::to_owned),
        forced_host: first("force_hosts"),
        scheduler_hints: hints.into_iter().collect(),
        security_groups: groups
            .into_iter()
            .flat_map(|groups| groups.objects("SecurityGroup"))
            .filter_map(|group| group.text("name").or(group.text("uuid")).map(str::to_owned))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_flavor_is_read_as_an_object_and_as_plain_json() {
        let data = json!({"flavorid": "1", "name": "m1.nano", "vcpus": 1, "memory_mb": 128, "root_gb": 1, "swap": 0,
            "ephemeral_gb": 0, "extra_specs": {"hw:cpu_sockets": "1"}});
        let object = json!({"nova_object.name": "Flavor", "nova_object.data": data});
        let read = flavor(&object).unwrap();
        assert_eq!((read.vcpus, read.memory_mib, read.name.as_str()), (1, 128, "m1.nano"));
        assert_eq!(flavor(&data).unwrap(), read);
        let other = json!({"nova_object.name": "Image", "nova_object.data": data});
        assert_eq!(flavor(&other), Err(NovaObjectError::Missing("Flavor")));
        let negative = json!({"flavorid": "1", "name": "n", "vcpus": -1});
        assert_eq!(flavor(&negative).unwrap_err().to_string(), "vcpus of Flavor is -1");
    }

    #[test]
    fn the_error_about_a_vif_without_an_id_shows_the_vif() {
        assert!(vif(&json!({"address": "fa:16:3e:00:00:01"})).unwrap_err().to_string().starts_with("id of VIF is {"));
    }
}
