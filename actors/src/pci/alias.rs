//! `[pci] alias`: names for kinds of devices. A flavor requests devices by these names.

use std::collections::BTreeMap;

use chronova_events::instance::{FlavorSnapshot, ImageSnapshot};
use chronova_events::ledger::{HeldPciDevice, HostPciDevice, PciDeviceType};
use chronova_events::pci::PciAddress;

use super::ports::DevicePort;
use super::{class_of_product, nothing_left, objects, resource_class, take_flag, take_id, take_text, traits};

/// The extra spec that requests devices: `ALIAS:COUNT`, separated by commas.
pub const SPEC: &str = "pci_passthrough:alias";

/// Whether a value of [`SPEC`] requests a device. The value `gpu:0` requests none.
pub fn requests_devices(value: &str) -> bool {
    let mut counts = value.split(',').map(|part| part.rsplit(':').next().unwrap_or(part));
    !value.trim().is_empty() && counts.any(|count| count.trim().parse() != Ok(0_u32))
}

/// The most devices of one server. Without a bound, one request could keep the scheduler busy.
pub const MOST_DEVICES: u32 = 256;

const KNOWN: &str = "name, vendor_id, product_id, device_type, numa_policy, capability_type, resource_class, traits";

/// A request for devices: a flavor's request for devices of one alias, or a port's request for one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciRequest {
    /// The alias, or the word of a port ([`HeldPciDevice::requested_by`]).
    pub alias: String,
    pub count: u32,
    /// Each device meets at least one of these. Empty for a port.
    pub specs: Vec<AliasSpec>,
    pub port: Option<DevicePort>,
    pub policy: PciNumaPolicy,
    /// The card of the devices, if the port has resources of a card; see [`super::cards`].
    pub card: Option<PciAddress>,
}

impl PciRequest {
    /// The request of a port. `forced`: the NUMA policy of flavor and image.
    fn of_port(port: &DevicePort, forced: Option<PciNumaPolicy>) -> Self {
        Self {
            alias: HeldPciDevice::requested_by(port.port),
            count: 1,
            specs: Vec::new(),
            policy: port.policy.or(forced).unwrap_or(PciNumaPolicy::Legacy),
            port: Some(port.clone()),
            card: None,
        }
    }

    pub fn admits(&self, device: &HostPciDevice) -> bool {
        let is_of_card = self.card.is_none_or(|card| device.parent == Some(card) || device.address == card);
        match &self.port {
            Some(port) => is_of_card && port.admits(device),
            // Only ports get a device of a card with its own control plane.
            None => !device.remote_managed && self.specs.iter().any(|spec| spec.admits(device)),
        }
    }

    /// The request in a refusal.
    pub fn words(&self) -> String {
        match &self.port {
            Some(port) => format!("for port {}", port.port),
            None => format!("of alias {}", self.alias),
        }
    }
}

/// A kind of devices that an alias names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasSpec {
    vendor: Option<String>,
    product: Option<String>,
    kind: PciDeviceType,
    class: Option<String>,
    traits: Vec<String>,
    /// `[filter_scheduler] pci_in_placement`: Placement tracks the device.
    tracked: bool,
}

impl AliasSpec {
    pub fn admits(&self, device: &HostPciDevice) -> bool {
        let is = |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|wanted| wanted == has);
        self.kind == device.kind
            && (!self.tracked || device.provider.is_some())
            && is(&self.vendor, &device.vendor)
            && is(&self.product, &device.product)
            && is(&self.class, &device.class)
            && self.traits.iter().all(|name| device.traits.contains(name))
    }

    /// The resource class of the devices in Placement. `None` for an alias that names neither a class nor a product.
    fn class_in_placement(&self) -> Option<String> {
        let of_product = || Some(class_of_product(self.vendor.as_deref()?, self.product.as_deref()?));
        self.class.clone().or_else(of_product)
    }
}

/// Where a device must be, relative to the NUMA cells of the host that the guest uses. A guest without NUMA nodes gets
/// any device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PciNumaPolicy {
    /// On a cell of the guest.
    Required,
    /// On a cell of the guest. A device whose cell the host does not report is good enough, too.
    Legacy,
    /// Anywhere; on a cell of the guest, if possible.
    Preferred,
    /// On the socket of a cell of the guest.
    Socket,
}

impl PciNumaPolicy {
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "required" => Some(Self::Required),
            "legacy" => Some(Self::Legacy),
            "preferred" => Some(Self::Preferred),
            "socket" => Some(Self::Socket),
            _ => None,
        }
    }
}

/// The aliases by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PciAliases(BTreeMap<String, PciAlias>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct PciAlias {
    policy: PciNumaPolicy,
    specs: Vec<AliasSpec>,
}

impl PciAliases {
    /// Reads the values of the option. If several values have the same name, the alias names the devices of each of
    /// them. `in_placement`: the scheduler asks Placement for the devices. Then a name may occur only once, because a
    /// request to Placement has one resource class.
    ///
    /// # Errors
    /// The value that cannot be read, and why. Or values with the same name that contradict each other.
    pub fn read(texts: &[String], in_placement: bool) -> Result<Self, String> {
        let mut aliases: BTreeMap<String, PciAlias> = BTreeMap::new();
        for text in texts {
            for object in objects(text, false)? {
                let (name, alias) = read(object, in_placement).map_err(|reason| format!("{text}: {reason}"))?;
                match aliases.get_mut(&name) {
                    None => {
                        aliases.insert(name, alias);
                    }
                    Some(_) if in_placement => {
                        return Err(format!(
                            "alias {name} is there twice, and [filter_scheduler] pci_in_placement asks for one resource \
                             class: give the device specs of its devices the same resource_class, and name that"
                        ));
                    }
                    Some(known) if known.policy != alias.policy => {
                        return Err(format!("NUMA policy mismatch for alias '{name}'"));
                    }
                    Some(known) if known.specs[0].kind != alias.specs[0].kind => {
                        return Err(format!("Device type mismatch for alias '{name}'"));
                    }
                    Some(known) => known.specs.extend(alias.specs),
                }
            }
        }
        Ok(Self(aliases))
    }

    /// The devices of an existing server. If the flavor lacks the extra spec, the list is empty, and no contradiction
    /// of flavor and image is reported.
    ///
    /// # Errors
    /// As [`Self::requests`].
    pub fn of_existing(
        &self,
        flavor: &FlavorSnapshot,
        image: Option<&ImageSnapshot>,
    ) -> Result<Vec<PciRequest>, String> {
        spec(flavor, SPEC).map_or(Ok(Vec::new()), |_| self.requests(flavor, image))
    }

    /// The devices of an existing server: those of [`Self::of_existing`], and those that its ports request.
    ///
    /// # Errors
    /// As [`Self::requests`].
    pub fn of_server(
        &self,
        flavor: &FlavorSnapshot,
        image: Option<&ImageSnapshot>,
        ports: &[DevicePort],
    ) -> Result<Vec<PciRequest>, String> {
        let mut all = self.of_existing(flavor, image)?;
        if !ports.is_empty() {
            let forced = forced_policy(flavor, image)?;
            all.extend(ports.iter().map(|port| PciRequest::of_port(port, forced)));
        }
        Ok(all)
    }

    /// The devices that a flavor and an image request.
    ///
    /// # Errors
    /// The flavor names an unknown alias, requests more than [`MOST_DEVICES`] devices, or has a value that is not
    /// `ALIAS:COUNT`; or the NUMA policy is unknown. Or flavor and image contradict each other.
    pub fn requests(&self, flavor: &FlavorSnapshot, image: Option<&ImageSnapshot>) -> Result<Vec<PciRequest>, String> {
        let forced = forced_policy(flavor, image)?;
        let Some(wanted) = spec(flavor, SPEC) else { return Ok(Vec::new()) };
        let mut requests = Vec::new();
        let mut total = 0_u32;
        for part in wanted.split(',') {
            let wrong = || format!("{SPEC} has {part:?}, which is not ALIAS:COUNT");
            let (name, count) = part.split_once(':').ok_or_else(wrong)?;
            let (name, count) = (name.trim(), count.trim().parse::<u32>().map_err(|_| wrong())?);
            let alias = self.0.get(name).ok_or_else(|| format!("PCI alias {name} is not defined"))?;
            total = total.saturating_add(count);
            let policy = forced.unwrap_or(alias.policy);
            let specs = alias.specs.clone();
            requests.push(PciRequest { alias: name.to_owned(), count, specs, port: None, policy, card: None });
        }
        if total > MOST_DEVICES {
            return Err(format!("{SPEC} requests {total} devices; a server may have {MOST_DEVICES}"));
        }
        requests.retain(|request| request.count > 0);
        Ok(requests)
    }
}

fn read(mut object: super::JsonObject, in_placement: bool) -> Result<(String, PciAlias), String> {
    let name = take_text(&mut object, "name")?.map(|name| name.trim().to_owned()).unwrap_or_default();
    if !(1..=256).contains(&name.len()) || name.contains([':', ',']) {
        return Err("name is needed: 1 to 256 characters without : and ,".to_owned());
    }
    if take_text(&mut object, "capability_type")?.is_some_and(|kind| kind != "pci") {
        return Err("capability_type can only be pci".to_owned());
    }
    if take_flag(&mut object, "live_migratable")? == Some(true) {
        return Err(
            "live_migratable is not supported: no server whose flavor requests PCI devices is migrated live".to_owned()
        );
    }
    let kind = match take_text(&mut object, "device_type")?.as_deref() {
        None | Some("type-PCI") => PciDeviceType::Pci,
        Some("type-PF") => PciDeviceType::Pf,
        Some("type-VF") => PciDeviceType::Vf,
        Some(other) => return Err(format!("device_type {other:?} is not one of type-PCI, type-PF, type-VF")),
    };
    let policy = match take_text(&mut object, "numa_policy")? {
        None => PciNumaPolicy::Legacy,
        Some(word) => PciNumaPolicy::of_word(&word)
            .ok_or_else(|| format!("numa_policy {word:?} is not one of required, legacy, preferred, socket"))?,
    };
    let mut spec = AliasSpec {
        vendor: take_id(&mut object, "vendor_id")?,
        product: take_id(&mut object, "product_id")?,
        kind,
        class: take_text(&mut object, "resource_class")?.map(|name| resource_class(&name)).transpose()?,
        traits: traits(take_text(&mut object, "traits")?)?,
        tracked: in_placement,
    };
    nothing_left(&object, KNOWN)?;
    if in_placement {
        let missing = || {
            format!(
                "the PCI alias {name} does not have vendor_id and product_id fields set or resource_class field set"
            )
        };
        spec.class = Some(spec.class_in_placement().ok_or_else(missing)?);
    }
    if !in_placement && spec.vendor.is_none() {
        return Err(format!("the PCI alias {name} does not have vendor_id set"));
    }
    Ok((name, PciAlias { policy, specs: vec![spec] }))
}

fn spec<'a>(flavor: &'a FlavorSnapshot, key: &str) -> Option<&'a str> {
    flavor.extra_specs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

/// The NUMA policy of the flavor or the image. It takes precedence over the policy of an alias.
fn forced_policy(flavor: &FlavorSnapshot, image: Option<&ImageSnapshot>) -> Result<Option<PciNumaPolicy>, String> {
    let read = |word: &str| {
        PciNumaPolicy::of_word(word).ok_or_else(|| {
            format!("Invalid PCI NUMA affinity policy {word:?}: it is one of required, legacy, preferred, socket")
        })
    };
    let flavor = spec(flavor, "hw:pci_numa_affinity_policy").map(read).transpose()?;
    let property = image.and_then(|image| {
        image.properties.iter().find(|(name, _)| name == "hw_pci_numa_affinity_policy").map(|(_, value)| value.as_str())
    });
    match (flavor, property.map(read).transpose()?) {
        (Some(flavor), Some(image)) if flavor != image => {
            Err("Image property 'hw_pci_numa_affinity_policy' is not permitted to override the \
                 'hw:pci_numa_affinity_policy' flavor extra spec."
                .to_owned())
        }
        (flavor, image) => Ok(flavor.or(image)),
    }
}
