//! Virtual persistent memory of guests (vPMEM).
//!
//! Nova gives a guest one of the host's persistent memory devices, and erases the device with `daxio` afterwards.
//! Chronova installs nothing on hosts, so it could not erase a device, and the next guest would read the data of the
//! one before. So a namespace is a file here. The file is on a file system of the host's persistent memory, which is
//! mounted with `dax`. libvirt creates the file with the guest and deletes it with the guest.

use std::collections::{BTreeMap, BTreeSet};

/// The flavor's extra spec.
pub const SPEC: &str = "hw:pmem";
/// The prefix of the resource classes. Nova: `CUSTOM_PMEM_NAMESPACE_$LABEL`.
pub const CLASS_PREFIX: &str = "CUSTOM_PMEM_NAMESPACE_";
/// The size of a namespace is a multiple of this, because the kernel maps persistent memory in pages of 2 MiB.
const STEP_MIB: u64 = 2;

/// `[libvirt] pmem_namespaces`, and Chronova's options beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PmemOptions {
    /// The directory on the hosts' persistent memory. It is not empty if there is a label.
    pub path: String,
    /// Whether the directory really is on persistent memory. Otherwise QEMU must not rely on it.
    pub is_persistent: bool,
    pub labels: BTreeMap<String, PmemLabel>,
}

/// The namespaces of one label on each host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PmemLabel {
    pub count: u32,
    /// The size of each namespace.
    pub mib: u64,
}

impl PmemOptions {
    /// Reads the entries `6GB:ns0|ns1` and `6GB=6144`.
    ///
    /// # Errors
    /// The entry that cannot be used, and why.
    pub fn read(
        namespaces: &[String],
        sizes: &[String],
        path: Option<String>,
        is_persistent: bool,
    ) -> Result<Self, String> {
        let mut known = BTreeMap::new();
        for entry in sizes.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty()) {
            let wrong = || format!("{entry:?} is not LABEL=MIB with an even number of MiB");
            let (label, mib) = entry.split_once('=').ok_or_else(wrong)?;
            let mib: u64 = mib.trim().parse().map_err(|_| wrong())?;
            if mib == 0 || !mib.is_multiple_of(STEP_MIB) {
                return Err(wrong());
            }
            known.insert(label.trim().to_owned(), mib);
        }
        let (mut labels, mut names, mut classes) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        for entry in namespaces.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty()) {
            let (label, list) = entry.split_once(':').ok_or_else(|| format!("{entry:?} is not LABEL:NAME|NAME"))?;
            let label = label.trim();
            if label.is_empty() || !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(format!("{label:?} is not a label of letters, digits and underscores"));
            }
            if !classes.insert(resource_class(label)) {
                return Err(format!("the label {label} is there twice"));
            }
            let mut count = 0;
            for name in list.split('|').map(str::trim) {
                if name.is_empty() || !names.insert(name.to_owned()) {
                    return Err(format!("{entry:?} names a namespace that has no name, or that another label has"));
                }
                count += 1;
            }
            let mib = known.remove(label).ok_or_else(|| format!("the label {label} has no size"))?;
            labels.insert(label.to_owned(), PmemLabel { count, mib });
        }
        if let Some(label) = known.keys().next() {
            return Err(format!("there is a size of the label {label}, but no namespace"));
        }
        let path = match (labels.is_empty(), path) {
            (true, path) => path.unwrap_or_default(),
            (false, Some(path)) if path.starts_with('/') => path,
            (false, _) => {
                return Err("the directory of the namespaces is not set, or is not an absolute path".to_owned());
            }
        };
        Ok(Self { path, is_persistent, labels })
    }

    /// The resource classes that a host offers, with the number of namespaces.
    pub fn offered(&self) -> Vec<(String, u32)> {
        self.labels.iter().map(|(label, found)| (resource_class(label), found.count)).collect()
    }
}

/// The resource class of a label. As in Nova, every character that a class cannot have becomes an underscore.
pub fn resource_class(label: &str) -> String {
    let fitting = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{CLASS_PREFIX}{}", label.chars().map(fitting).collect::<String>())
}

/// The labels that a value of the extra spec requests, one for each namespace.
pub fn labels(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|label| !label.is_empty())
}

/// The labels that a guest's properties request.
pub(crate) fn requested(properties: &[(String, String)]) -> Vec<&str> {
    let value = properties.iter().find(|(name, _)| name == SPEC).map(|(_, value)| value.as_str());
    value.map(|value| labels(value).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Reads entries with a blank between them.
    fn read(namespaces: &str, sizes: &str, path: Option<&str>) -> Result<PmemOptions, String> {
        let texts = |list: &str| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        PmemOptions::read(&texts(namespaces), &texts(sizes), path.map(str::to_owned), true)
    }

    #[test]
    fn namespaces_are_counted_by_their_labels() {
        let options = read("6GB:ns0|ns1|ns2 LARGE:ns3", "6GB=6144 LARGE=16384", Some("/mnt/pmem0")).unwrap();
        assert_eq!(options.labels["6GB"], PmemLabel { count: 3, mib: 6144 });
        let offered = [("CUSTOM_PMEM_NAMESPACE_6GB".to_owned(), 3), ("CUSTOM_PMEM_NAMESPACE_LARGE".to_owned(), 1)];
        assert_eq!(options.offered(), offered);
        assert!(read("", "", None).unwrap().offered().is_empty());
        assert_eq!(resource_class("small-4"), "CUSTOM_PMEM_NAMESPACE_SMALL_4");
        let guest = [("hw:pmem".to_owned(), "6GB, 6GB,LARGE".to_owned())];
        assert_eq!(requested(&guest), ["6GB", "6GB", "LARGE"]);
    }

    #[test]
    fn unusable_namespaces_are_refused() {
        for (namespaces, sizes, path, part) in [
            ("ns0", "", Some("/p"), "is not LABEL:NAME"),
            ("a-b:ns0", "a-b=2", Some("/p"), "letters, digits"),
            ("a:ns0 A:ns1", "a=2 A=2", Some("/p"), "twice"),
            ("a:ns0|ns0", "a=2", Some("/p"), "another label has"),
            ("a:ns0|", "a=2", Some("/p"), "no name"),
            ("a:ns0", "", Some("/p"), "has no size"),
            ("a:ns0", "a=3", Some("/p"), "even number"),
            ("a:ns0", "a=2 b=2", Some("/p"), "no namespace"),
            ("a:ns0", "a=2", None, "not set"),
            ("a:ns0", "a=2", Some("p"), "absolute"),
        ] {
            let error = read(namespaces, sizes, path).unwrap_err();
            assert!(error.contains(part), "{namespaces} {sizes}: {error}");
        }
    }
}
