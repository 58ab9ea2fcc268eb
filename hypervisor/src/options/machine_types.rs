//! `[libvirt] hw_machine_type`: the machine types of guests that request no machine type, by the architecture of their
//! hosts.

use std::collections::BTreeMap;

/// The operator's machine types, by architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineTypes(pub BTreeMap<String, String>);

impl MachineTypes {
    /// Parses the pairs of the option, for example `x86_64=q35`. A word without `=` is ignored.
    pub fn parse(pairs: &[String]) -> Self {
        let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(arch, machine)| (arch.trim().to_owned(), machine.trim().to_owned())).collect())
    }

    /// The operator's machine type for an architecture.
    pub fn chosen(&self, arch: &str) -> Option<&str> {
        self.0.get(arch).map(String::as_str)
    }

    /// The machine type for an architecture: the operator's, or Nova's default.
    pub fn of(&self, arch: &str) -> &str {
        self.chosen(arch).unwrap_or_else(|| default_machine_type(arch))
    }
}

/// Nova's default (`get_default_machine_type`). For PowerPC, Nova leaves the choice to libvirt: `pseries`.
pub fn default_machine_type(arch: &str) -> &'static str {
    match arch {
        "x86_64" | "i686" | "" => "pc",
        "s390" | "s390x" => "s390-ccw-virtio",
        "ppc64" | "ppc64le" => "pseries",
        _ => "virt",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_has_the_operators_machine_type_or_the_default() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let types = MachineTypes::parse(&words(&["x86_64=q35", "aarch64 = virt-7.2", "nonsense"]));
        assert_eq!(
            [types.of("x86_64"), types.of("aarch64"), types.of("s390x")],
            ["q35", "virt-7.2", "s390-ccw-virtio"]
        );
        assert_eq!([MachineTypes::default().of("x86_64"), MachineTypes::default().of("riscv64")], ["pc", "virt"]);
        assert_eq!(types.chosen("i686"), None);
    }
}
