//! The interfaces of a server, from Nova's network info cache.
//!
//! The guest keeps its interfaces unchanged. The adoption refuses an interface that Chronova could not plug again after
//! a reboot.

use std::collections::BTreeMap;

use chronova_events::instance::NicInfo;
use serde_json::Value;

use super::Unadoptable;
use crate::nova::objects;
use crate::nova::rows::NovaRow;

/// The kinds of interfaces that a host can plug again.
const KINDS: &[&str] = &["ovs", "bridge", "tap"];

/// Reads the interfaces. `tags` has the tags of ports, by the ports' ids.
pub(super) fn nics(cache: Option<&NovaRow<'_>>, tags: &BTreeMap<&str, &str>) -> Result<Vec<NicInfo>, Unadoptable> {
    let found = match cache {
        Some(row) => row.json("network_info")?,
        None => None,
    };
    let mut nics = Vec::new();
    for value in found.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let vif = objects::vif(value)?;
        if vif.vnic_type != "normal" || !KINDS.contains(&vif.kind.as_str()) {
            let reason = format!("its interface {} is of the kind {} ({})", vif.nic.port, vif.kind, vif.vnic_type);
            return Err(Unadoptable::new(reason, "detach it, or leave the server out"));
        }
        let tag = tags.get(vif.nic.port.to_string().as_str()).map(|tag| (*tag).to_owned());
        nics.push(NicInfo { tag, ..vif.nic });
    }
    Ok(nics)
}
