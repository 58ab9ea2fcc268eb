//! Filters on the image's properties.

use std::cmp::Ordering;

use super::filter::Filter;
use crate::scheduler::context::{HostState, SchedulingContext};

pub(super) const IMAGE_PROPERTIES: Filter = Filter {
    name: "ImagePropertiesFilter",
    always: false,
    on_rebuild: true,
    applies: |context| ImageRequirements::of(context).is_some(),
    passes: |host| unmet_requirement(host).is_none(),
    says: |host| unmet_requirement(host).unwrap_or_default(),
    lacks: |context| match ImageRequirements::of(context) {
        Some(asked) => format!("no host has the architecture, hypervisor or mode of the image ({})", asked.words()),
        None => String::new(),
    },
};

/// The required architecture, hypervisor and mode, under their canonical names.
struct ImageRequirements {
    architecture: Option<String>,
    hypervisor: Option<String>,
    mode: Option<String>,
}

impl ImageRequirements {
    fn of(context: &SchedulingContext<'_>) -> Option<Self> {
        let request = context.request;
        let default = context.options.image_properties_default_architecture.as_deref();
        let filled = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_lowercase);
        let own = filled(request.property("hw_architecture").or(default)).map(|name| architecture(&name));
        let emulated = filled(request.property("hw_emulation_architecture"));
        let asked = Self {
            // A host of another architecture may emulate the image's.
            architecture: own.filter(|own| emulated.as_ref() != Some(own)),
            hypervisor: filled(request.property("img_hv_type")),
            mode: filled(request.property("hw_vm_mode")).map(|name| match name.as_str() {
                "hv" | "baremetal" => "hvm".to_owned(),
                "pv" => "xen".to_owned(),
                _ => name,
            }),
        };
        (asked.architecture.is_some() || asked.hypervisor.is_some() || asked.mode.is_some()).then_some(asked)
    }

    fn words(&self) -> String {
        [&self.architecture, &self.hypervisor, &self.mode].into_iter().flatten().cloned().collect::<Vec<_>>().join(", ")
    }
}

/// Other names of the same architecture (`nova.objects.fields.Architecture.canonicalize`).
fn architecture(name: &str) -> String {
    match name {
        "i386" | "i486" | "i586" => "i686",
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    }
    .to_owned()
}

fn unmet_requirement(host: &HostState<'_>) -> Option<String> {
    let asked = ImageRequirements::of(host.context)?;
    let reported = host.row.facts.as_ref().map(|facts| &facts.capabilities);
    // Nova refuses a host without `supported_instances`, too.
    let Some(capabilities) = reported.filter(|reported| !reported.cpu_arch.is_empty()) else {
        return Some(format!("wants {}, the host does not report what it runs", asked.words()));
    };
    let own = architecture(&capabilities.cpu_arch.to_lowercase());
    if let Some(wanted) = &asked.architecture
        && *wanted != own
        && !(own == "x86_64" && wanted == "i686")
    {
        return Some(format!("architecture: wants {wanted}, is {own}"));
    }
    if let Some(wanted) = &asked.hypervisor {
        let runs = match wanted.as_str() {
            "qemu" => true,
            "kvm" => capabilities.kvm,
            _ => false,
        };
        if !runs {
            return Some(format!("hypervisor: wants {wanted}, is {}", if capabilities.kvm { "kvm" } else { "qemu" }));
        }
    }
    if let Some(wanted) = asked.mode.as_deref().filter(|mode| *mode != "hvm") {
        return Some(format!("mode: wants {wanted}, is hvm"));
    }
    let required = host.context.request.property("img_hv_requested_version")?;
    let version = version_text(capabilities.hypervisor_version);
    (capabilities.hypervisor_version > 0 && !satisfies(&version, required))
        .then(|| format!("hypervisor version: wants {required}, is {version}"))
}

/// A version as text: 7002000 is `7.2.0`.
fn version_text(version: u32) -> String {
    format!("{}.{}.{}", version / 1_000_000, version / 1_000 % 1_000, version % 1_000)
}

/// The longest list of conditions, in bytes. Each decision of the scheduler reads the list once for each host, and an
/// image's property may have 64 KiB.
const LONGEST: usize = 255;

/// Whether a version meets every condition of a list such as `>=6.0,<6.2`. No version meets a list that is too long.
/// Nova uses oslo's `VersionPredicate`.
fn satisfies(version: &str, conditions: &str) -> bool {
    let mut list = conditions.split(',').map(str::trim).filter(|condition| !condition.is_empty());
    conditions.len() <= LONGEST
        && list.all(|condition| {
            let digits = condition.find(|c: char| c.is_ascii_digit()).unwrap_or(condition.len());
            let (operator, wanted) = condition.split_at(digits);
            let order = compare(version, wanted);
            match operator.trim() {
                "<" => order == Ordering::Less,
                "<=" => order != Ordering::Greater,
                ">" => order == Ordering::Greater,
                ">=" => order != Ordering::Less,
                "!=" => order != Ordering::Equal,
                "==" => order == Ordering::Equal,
                _ => false,
            }
        })
}

fn compare(left: &str, right: &str) -> Ordering {
    let parts = |text: &str| -> Vec<u64> {
        let mut parts: Vec<u64> = text.trim().split('.').map(|part| part.parse().unwrap_or(0)).collect();
        while parts.last() == Some(&0) {
            parts.pop();
        }
        parts
    };
    parts(left).cmp(&parts(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_parts() {
        assert_eq!(version_text(7_002_010), "7.2.10");
        for condition in [">=6.0,<7.3", "==7.2", "!=7.3", ">7.1.9", "<=7.2.0", ""] {
            assert!(satisfies("7.2.0", condition), "{condition}");
        }
        for condition in [">=6.0,<6.2", ">7.2", "<7.2", "~7.2"] {
            assert!(!satisfies("7.2.0", condition), "{condition}");
        }
        assert!(satisfies("7.2.0", &">0,".repeat(80)));
        assert!(!satisfies("7.2.0", &">0,".repeat(90)));
    }
}
