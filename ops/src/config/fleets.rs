//! Names for simulated fleets that the operator has not named, so that `sim://3 sim://2` are five hosts.

use std::collections::BTreeSet;

use chronova_hypervisor::sim::SimUri;

/// Adds a name to each fleet whose default name another fleet has: `sim2`, `sim3` and so on. Names that the operator
/// chose stay.
pub(super) fn name(uris: &mut [String]) {
    let chosen = uris.iter().filter(|uri| is_named(uri)).filter_map(|uri| uri.parse::<SimUri>().ok());
    let mut taken: BTreeSet<String> = chosen.map(|fleet| fleet.name).collect();
    for uri in uris.iter_mut().filter(|uri| !is_named(uri)) {
        let Ok(SimUri { name: default, .. }) = uri.parse() else { continue };
        if taken.insert(default.clone()) {
            continue;
        }
        // At least one of these names is free, because there are more of them than taken names.
        let numbers = 2..=taken.len() + 2;
        let free = numbers.map(|number| format!("{default}{number}")).find(|name| !taken.contains(name));
        let Some(free) = free else { continue };
        let mark = if uri.contains('?') { "&" } else { "?" };
        uri.push_str(&[mark, "name=", &free].concat());
        taken.insert(free);
    }
}

fn is_named(uri: &str) -> bool {
    uri.split_once('?').is_some_and(|(_, query)| query.split('&').any(|pair| pair.starts_with("name=")))
}
