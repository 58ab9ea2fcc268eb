//! Mediated devices, for example virtual GPUs: which types hosts offer, and which devices a guest gets.
//!
//! Each physical device has a provider below its host's provider. The flavor's `resources:VGPU=1` allocates from one of
//! them, so the ledger's ordinary claim assigns the devices. The ids of a guest's devices derive from its server and the
//! provider. So a repeated step finds the devices of the first attempt, and no record of them is needed.
//!
//! Source: `nova.virt.libvirt.driver` (`_get_supported_vgpu_types`, `_update_provider_tree_for_vgpu`).

use std::collections::BTreeMap;

use chronova_events::ids::{InstanceId, ProviderId};
use chronova_events::instance::Alive;
use chronova_events::ledger::{Allocation, Ledger};
use chronova_events::pci::PciAddress;
use chronova_hypervisor::mdev::{GuestMdev, MdevParent};
use chronova_hypervisor::pci::{address_of, node_device};
use uuid::Uuid;

/// The resource class of virtual GPUs, and of types without `mdev_class`.
pub const VGPU: &str = "VGPU";

/// The types that the operator enables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MdevOptions {
    types: Vec<EnabledMdevType>,
}

/// A type of `[devices] enabled_mdev_types`, with the options of its group `[mdev_TYPE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnabledMdevType {
    pub name: String,
    /// `device_addresses`: the physical devices that have the type. Empty: all devices that offer the type.
    pub addresses: Vec<PciAddress>,
    /// `mdev_class`: `VGPU` or a custom resource class.
    pub class: String,
    /// `max_instances`: the most devices of the type on each physical device.
    pub most: Option<u32>,
}

impl MdevOptions {
    /// As in Nova, only the first type is used if one of the types names no physical devices.
    ///
    /// # Errors
    /// Two types name the same physical device.
    pub fn of(mut types: Vec<EnabledMdevType>) -> Result<Self, String> {
        if types.len() > 1 && types.iter().any(|enabled| enabled.addresses.is_empty()) {
            types.truncate(1);
            for first in &mut types {
                first.addresses.clear();
            }
        }
        let mut owners: BTreeMap<PciAddress, &str> = BTreeMap::new();
        for enabled in &types {
            for address in &enabled.addresses {
                if owners.insert(*address, &enabled.name).is_some_and(|other| other != enabled.name) {
                    return Err(format!("duplicate types for PCI address {address}"));
                }
            }
        }
        Ok(Self { types })
    }

    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// The type of a physical device's mediated devices.
    pub fn type_of(&self, parent: PciAddress) -> Option<&EnabledMdevType> {
        let has = |enabled: &&EnabledMdevType| enabled.addresses.is_empty() || enabled.addresses.contains(&parent);
        self.types.iter().find(has)
    }

    /// Whether an amount of this resource class is a number of mediated devices.
    fn is_class(&self, class: &str) -> bool {
        class == VGPU || self.types.iter().any(|enabled| enabled.class == class)
    }

    /// Whether the flavor requests mediated devices, in any of its groups of resources.
    pub fn are_wanted_by(&self, server: &Alive) -> bool {
        server.request.flavor.extra_specs.iter().any(|(key, amount)| {
            let class = key.strip_prefix("resources").and_then(|rest| rest.split_once(':')).map(|(_, class)| class);
            class.is_some_and(|class| self.is_class(class)) && !matches!(amount.trim(), "" | "0")
        })
    }
}

/// The mediated devices that a physical device can have: an inventory of the device's provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdevInventory {
    pub parent: PciAddress,
    pub class: String,
    /// Existing devices count, too.
    pub total: u64,
}

/// The inventories of a host's physical devices.
pub fn offered(found: &[MdevParent], options: &MdevOptions) -> Vec<MdevInventory> {
    let inventory = |parent: &MdevParent| {
        let enabled = options.type_of(parent.address)?;
        let offer = parent.types.iter().find(|offer| offer.name == enabled.name)?;
        let total = offer.available.saturating_add(offer.existing).min(enabled.most.unwrap_or(u32::MAX));
        Some(MdevInventory { parent: parent.address, class: enabled.class.clone(), total: total.into() })
    };
    found.iter().filter_map(inventory).collect()
}

/// The provider of a physical device.
pub fn provider_of(host: ProviderId, parent: PciAddress) -> ProviderId {
    ProviderId::derive(host.0, &node_device(parent))
}

/// Nova's name of that provider: `<hypervisor_hostname>_pci_0000_85_00_0`.
pub fn provider_name(hostname: &str, parent: PciAddress) -> String {
    format!("{hostname}_{}", node_device(parent))
}

/// The beginning of the names of such providers.
pub fn provider_prefix(hostname: &str) -> String {
    format!("{hostname}_pci_")
}

/// The physical device in the name of its provider. The host may have had another name when it got the provider.
pub fn parent_in(provider_name: &str) -> Option<PciAddress> {
    let at = provider_name.rfind("_pci_")?;
    address_of(provider_name.get(at + 1..)?)
}

/// The devices that the allocations of a server give its guest on a host.
///
/// # Errors
/// A physical device has no enabled type any more.
pub fn devices(
    server: InstanceId,
    allocations: &[Allocation],
    host: ProviderId,
    ledger: &Ledger,
    options: &MdevOptions,
) -> Result<Vec<GuestMdev>, String> {
    let mut devices = Vec::new();
    for allocation in allocations {
        let known = ledger.providers.get(&allocation.provider).filter(|known| known.parent == Some(host));
        let Some(parent) = known.and_then(|known| parent_in(&known.name)) else { continue };
        // A client of Placement may have given the physical device other classes, for example memory in MiB.
        let numbers = allocation.resources.iter().filter(|(class, _)| options.is_class(class));
        let amount = numbers.fold(0_u64, |sum, (_, amount)| sum.saturating_add(*amount));
        if amount == 0 {
            continue;
        }
        let enabled = options.type_of(parent);
        let enabled = enabled.ok_or_else(|| format!("no type of mediated devices is enabled for {parent}"))?;
        devices.extend((0..amount).map(|number| GuestMdev {
            uuid: id(server, allocation.provider, number),
            parent,
            mdev_type: enabled.name.clone(),
        }));
    }
    Ok(devices)
}

/// The id of one of the server's devices.
fn id(server: InstanceId, provider: ProviderId, number: u64) -> Uuid {
    Uuid::new_v5(&server.0, format!("mdev {provider} {number}").as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold as _;
    use chronova_events::ledger::{LedgerEvent, ProviderCreated};
    use chronova_hypervisor::mdev::MdevType;

    fn enabled(name: &str, addresses: &[&str]) -> EnabledMdevType {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        EnabledMdevType { name: name.to_owned(), addresses, class: VGPU.to_owned(), most: None }
    }

    fn gpu(address: &str, types: &[(&str, u32, u32)]) -> MdevParent {
        let offer = |(name, available, existing): &(&str, u32, u32)| MdevType {
            name: (*name).to_owned(),
            available: *available,
            existing: *existing,
        };
        MdevParent { address: address.parse().unwrap(), types: types.iter().map(offer).collect() }
    }

    #[test]
    fn each_gpu_has_the_type_that_names_it() {
        let (one, two) = ("0000:84:00.0", "0000:85:00.0");
        let of = |types: Vec<EnabledMdevType>, address: &str| {
            let options = MdevOptions::of(types).unwrap();
            options.type_of(address.parse().unwrap()).map(|found| found.name.clone())
        };
        let both = || vec![enabled("nvidia-35", &[one]), enabled("nvidia-36", &[two])];
        assert_eq!(of(both(), one).as_deref(), Some("nvidia-35"));
        assert_eq!(of(both(), two).as_deref(), Some("nvidia-36"));
        assert_eq!(of(both(), "0000:86:00.0"), None);
        assert_eq!(of(vec![enabled("nvidia-35", &[])], two).as_deref(), Some("nvidia-35"));
        // Nova then ignores all other types and addresses.
        let unnamed = vec![enabled("nvidia-35", &[one]), enabled("nvidia-36", &[])];
        assert_eq!(of(unnamed, two).as_deref(), Some("nvidia-35"));
        let twice = vec![enabled("nvidia-35", &[one]), enabled("nvidia-36", &[two, one])];
        assert_eq!(MdevOptions::of(twice).unwrap_err(), "duplicate types for PCI address 0000:84:00.0");
    }

    #[test]
    fn an_inventory_counts_existing_devices_up_to_the_limit() {
        let found = [
            gpu("0000:84:00.0", &[("nvidia-35", 3, 1), ("nvidia-36", 0, 0)]),
            gpu("0000:85:00.0", &[("nvidia-36", 2, 0)]),
        ];
        let totals = |most| {
            let options = MdevOptions::of(vec![EnabledMdevType { most, ..enabled("nvidia-35", &[]) }]).unwrap();
            offered(&found, &options).iter().map(|one| (one.parent.to_string(), one.total)).collect::<Vec<_>>()
        };
        assert_eq!(totals(None), [("0000:84:00.0".to_owned(), 4)], "the other GPU does not offer the type");
        assert_eq!(totals(Some(2)), [("0000:84:00.0".to_owned(), 2)]);
        assert_eq!(offered(&found, &MdevOptions::default()), []);
    }

    #[test]
    fn only_amounts_of_devices_become_devices() {
        let (host, address) = (ProviderId(Uuid::from_u128(1)), "0000:85:00.0".parse().unwrap());
        let provider = provider_of(host, address);
        let mut ledger = Ledger::default();
        let created = ProviderCreated { provider, name: provider_name("h1", address), parent: Some(host) };
        ledger.evolve(&LedgerEvent::from(created), Timestamp(0));
        let options = MdevOptions::of(vec![enabled("nvidia-35", &[])]).unwrap();
        let given = |resources: &[(&str, u64)]| {
            let resources = resources.iter().map(|(class, amount)| ((*class).to_owned(), *amount)).collect();
            let held = [Allocation { provider, resources }];
            devices(InstanceId(Uuid::from_u128(2)), &held, host, &ledger, &options).map(|all| all.len())
        };
        assert_eq!(given(&[("CUSTOM_GPU_MEMORY_MB", 4096), (VGPU, 2)]), Ok(2));
        assert_eq!(given(&[("CUSTOM_GPU_MEMORY_MB", 4096)]), Ok(0));
    }

    #[test]
    fn a_provider_is_named_as_in_nova() {
        let address = "0000:85:00.0".parse().unwrap();
        assert_eq!(provider_name("h1", address), "h1_pci_0000_85_00_0");
        assert_eq!(parent_in("h1_pci_0000_85_00_0"), Some(address));
        assert_eq!(parent_in("rack_pci_7_pci_0000_85_00_0"), Some(address));
        assert_eq!(parent_in("h1_0000:85:00.0"), None, "a PCI device");
        assert_eq!(parent_in("h1_pci_0000_85_00"), None);
    }
}
