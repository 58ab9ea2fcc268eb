//! `[chronova] host_cpu_models`: the CPU models of hosts that differ from `[libvirt] cpu_models`.

use std::collections::BTreeMap;

/// The CPU models of named hosts, in the order of preference. Such a host has the CPU mode `custom`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostCpuModels(BTreeMap<String, Vec<String>>);

impl HostCpuModels {
    /// Reads `node1=EPYC,Nehalem; node2=IvyBridge`.
    ///
    /// # Errors
    /// The part that cannot be read.
    pub fn read(text: &str) -> Result<Self, String> {
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(named).collect::<Result<BTreeMap<_, _>, _>>().map(Self)
    }

    /// The models of a host; `None` if the operator named none for this host.
    pub fn of(&self, hostname: &str) -> Option<&[String]> {
        self.0.get(hostname).map(Vec::as_slice)
    }
}

fn named(entry: &str) -> Result<(String, Vec<String>), String> {
    let (host, models) = entry.split_once('=').ok_or_else(|| format!("{entry:?} is not HOST=MODEL"))?;
    let models = models.split(',').map(str::trim).filter(|model| !model.is_empty());
    let models: Vec<String> = models.map(str::to_owned).collect();
    match host.trim() {
        "" => Err(format!("{entry:?} names no host")),
        _ if models.is_empty() => Err(format!("{entry:?} names no model")),
        host => Ok((host.to_owned(), models)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_entry_names_a_host_and_its_models() {
        let read = HostCpuModels::read("node1 = EPYC, Nehalem; node2=IvyBridge;").unwrap();
        assert_eq!(read.of("node1"), Some(&["EPYC".to_owned(), "Nehalem".to_owned()][..]));
        assert_eq!(read.of("node2"), Some(&["IvyBridge".to_owned()][..]));
        assert_eq!(read.of("node3"), None);
        for (text, reason) in
            [("node1", "is not HOST=MODEL"), ("=EPYC", "names no host"), ("node1=EPYC; node2=,", "names no model")]
        {
            assert!(HostCpuModels::read(text).unwrap_err().contains(reason), "{text}");
        }
    }
}
