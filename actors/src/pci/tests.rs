#![allow(clippy::unwrap_used)]
//! Options of PCI devices, and the devices that a guest gets, as tables of cases.

use chronova_events::ids::{FlavorId, PortId, ProviderId};
use chronova_events::instance::{FlavorSnapshot, ImageSnapshot};
use chronova_events::ledger::{HostPciReplaced, Ledger, PciDeviceType};
use chronova_events::pci::PciAddress;
use chronova_hypervisor::pci::{HostPci, PciDevice, PciNic};
use uuid::Uuid;

use super::HostPciOptions;
use super::alias::{PciAliases, PciNumaPolicy, PciRequest};
use super::assign::FreePci;
use super::device_spec::DeviceSpec;
use super::host::{offered, provider_name};
use super::ports::{DevicePort, DeviceVnic};
use crate::instance::sample_image::image_with;

fn host() -> ProviderId {
    ProviderId(Uuid::from_u128(1))
}

fn device(address: &str, ids: &str, kind: PciDeviceType, parent: Option<&str>, cell: Option<u32>) -> PciDevice {
    let (vendor, product) = ids.split_once(':').unwrap();
    let parent = parent.map(|parent| parent.parse().unwrap());
    let address = address.parse().unwrap();
    PciDevice {
        address,
        vendor: vendor.into(),
        product: product.into(),
        kind,
        parent,
        cell,
        card_serial: None,
        nic: PciNic::default(),
    }
}

/// A physical function with two virtual functions on cell 1, one GPU each on cells 0 and 1, and a card without a cell.
fn found() -> HostPci {
    use PciDeviceType::{Pci, Pf, Vf};
    let parent = Some("0000:81:00.0");
    let devices = vec![
        device("0000:0a:00.0", "10de:1eb8", Pci, None, Some(0)),
        device("0000:0b:00.0", "10de:1eb8", Pci, None, Some(1)),
        device("0000:0c:00.0", "1af4:1000", Pci, None, None),
        device("0000:81:00.0", "8086:10fb", Pf, None, Some(1)),
        device("0000:81:10.0", "8086:10ed", Vf, parent, Some(1)),
        device("0000:81:10.1", "8086:10ed", Vf, parent, Some(1)),
    ];
    HostPci { devices, sockets: vec![(0, 0), (1, 0), (2, 1), (3, 1)] }
}

fn specs(texts: &[&str]) -> Result<Vec<DeviceSpec>, String> {
    DeviceSpec::read_all(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
}

fn offer(texts: &[&str], reports: bool) -> Result<HostPciReplaced, String> {
    offered(&found(), &specs(texts)?, host(), reports)
}

/// The last parts of the offered addresses.
fn named(texts: &[&str]) -> Vec<String> {
    offer(texts, false).unwrap().devices.iter().map(|device| device.address.to_string()[5..].to_owned()).collect()
}

#[test]
fn a_device_spec_names_devices_by_ids_and_address() {
    let functions = ["81:00.0", "81:10.0", "81:10.1"];
    for (spec, expected) in [
        (r#"{"vendor_id": "10de"}"#, &["0a:00.0", "0b:00.0"][..]),
        (r#"{"vendor_id": "10DE", "product_id": "1EB8", "address": "0b:00.0"}"#, &["0b:00.0"]),
        (r#"{"vendor_id": "8086", "product_id": "10ed"}"#, &functions[1..]),
        (r#"{"vendor_id": "*", "product_id": "10ed"}"#, &functions[1..]),
        (r#"{"address": "*:81:*.*"}"#, &functions),
        (r#"{"address": "81:10."}"#, &functions[1..]),
        (r#"{"address": ".1"}"#, &["81:10.1"]),
        // The complete address of a physical function also names its virtual functions.
        (r#"{"address": "0000:81:00.0"}"#, &functions),
        (r#"{"address": {"domain": "0000", "bus": "81", "slot": "00", "function": "0"}}"#, &functions),
        (r#"{"address": {"bus": "0[ab]", "slot": "00"}}"#, &["0a:00.0", "0b:00.0"]),
        // As in Python, a regular expression must match at the beginning of the part, but need not match the whole
        // part.
        (r#"{"address": {"bus": "8", "function": "[1-7]"}}"#, &["81:10.1"]),
        (r#"[{"address": "0c:00.0"}, {"vendor_id": "10de", "address": "0a:00.0"}]"#, &["0a:00.0", "0c:00.0"]),
        ("{}", &["0a:00.0", "0b:00.0", "0c:00.0", "81:00.0", "81:10.0", "81:10.1"]),
    ] {
        assert_eq!(named(&[spec]), expected, "{spec}");
    }
}

#[test]
fn a_wrong_device_spec_is_refused_with_the_reason() {
    for (spec, reason) in [
        ("", "is not JSON"),
        ("gpu", "is not JSON"),
        (r#""8086:10fb""#, "is not a JSON object"),
        (r#"[{"vendor_id": "8086"}, 5]"#, "5 is not a JSON object"),
        (r#"{"devname": "eth0"}"#, "write the address of the device"),
        (r#"{"vendor_id": "808"}"#, "four hexadecimal digits"),
        (r#"{"vendor_id": 8086}"#, "is not a text in quotes"),
        (r#"{"product_id": "xxxx"}"#, "four hexadecimal digits"),
        (r#"{"address": "10000:00:00.0"}"#, "domain 10000 is greater than the maximum FFFF"),
        (r#"{"address": "100:00.0"}"#, "bus 100 is greater than the maximum FF"),
        (r#"{"address": "0a:20.0"}"#, "slot 20 is greater than the maximum 1F"),
        (r#"{"address": "0a:00.8"}"#, "function 8 is greater than the maximum 7"),
        (r#"{"address": "0a:gg.0"}"#, "is not a hexadecimal number"),
        (r#"{"address": "0:0:0:0.0"}"#, "more than domain, bus, slot and function"),
        (r#"{"address": {"bus": "["}}"#, "is no regular expression"),
        (r#"{"address": {"buss": "81"}}"#, r#""buss" is not known"#),
        (r#"{"address": 5}"#, "neither a text nor an object"),
        (r#"{"physical_network": 5}"#, "neither a text in quotes nor null"),
        (r#"{"remote_managed": "perhaps"}"#, "neither true nor false"),
        (r#"{"live_migratable": "yes"}"#, "PCI devices is migrated live"),
        (r#"{"trusted": "true"}"#, "trusted is not supported"),
        (r#"{"colour": "red"}"#, r#""colour" is not known; known are vendor_id"#),
        (r#"{"resource_class": ""}"#, "no name of a resource class"),
    ] {
        let said = specs(&[spec]).unwrap_err();
        assert!(said.contains(reason), "{spec}: {said}");
    }
}

#[test]
fn one_file_names_the_devices_of_every_host() {
    let read = |texts: &[&str]| HostPciOptions::read_named(&texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
    let gpu = r#"{"vendor_id": "10de"}"#;
    let named = read(&[&format!("h1 {gpu}"), r#"h1 {"vendor_id": "8086"}"#, "h2 []"]).unwrap();
    let others = specs(&[gpu]).unwrap();
    let options = HostPciOptions { others, named, reports: false };
    let counts = ["h1", "h2", "h3"].map(|host| options.of(host).len());
    assert_eq!(counts, [2, 0, 1]);
    assert!(read(&[gpu]).unwrap_err().contains("does not begin with the name of a host"));
    assert!(read(&["h1 {"]).unwrap_err().contains("is not JSON"));
}

#[test]
fn the_first_spec_that_names_a_device_gives_it_its_tags() {
    let nic = r#"{"product_id": "10ed", "address": "81:10.0", "physical_network": "physnet1", "traits": "fast,hw-gpu-api-dxva"}"#;
    let rest = r#"{"address": "*:81:10.*", "physical_network": null, "resource_class": "nic-vf", "managed": "no"}"#;
    let devices = offer(&[nic, rest], false).unwrap().devices;
    assert_eq!(devices[0].network, Some(Some("physnet1".to_owned())));
    assert_eq!(devices[0].traits, ["CUSTOM_FAST", "CUSTOM_HW_GPU_API_DXVA"]);
    assert_eq!((devices[0].class.as_str(), devices[0].managed), ("CUSTOM_PCI_8086_10ED", true));
    assert_eq!(
        (&devices[1].network, devices[1].class.as_str(), devices[1].managed),
        (&Some(None), "CUSTOM_NIC_VF", false)
    );
    let standard = offer(&[r#"{"vendor_id": "10de", "resource_class": "pgpu", "traits": "HW_GPU_API_DXVA"}"#], false);
    let standard = standard.unwrap().devices[0].clone();
    assert_eq!((standard.class.as_str(), standard.traits[0].as_str()), ("PGPU", "HW_GPU_API_DXVA"));
}

#[test]
fn a_remote_managed_device_is_a_virtual_function_with_a_serial_number() {
    let spec = r#"{"product_id": "10ed", "remote_managed": "true"}"#;
    assert_eq!(named(&[spec]), Vec::<String>::new(), "no card has a serial number");
    let mut with_serial = found();
    with_serial.devices[3].card_serial = Some("MT2113X00000".into());
    let all = offered(&with_serial, &specs(&[spec]).unwrap(), host(), false).unwrap();
    assert_eq!(all.devices.len(), 2, "the serial number of the physical function counts");
    let whole = offer(&[r#"{"address": "81:00.0", "remote_managed": true}"#], false).unwrap_err();
    assert!(whole.contains("0000:81:00.0 is remote_managed and not a virtual function"), "{whole}");
}

/// The log recommends the tag for a function that an ordinary port could get.
#[test]
fn the_log_names_a_function_that_lacks_the_tag_of_its_model() {
    let mut with_serial = found();
    with_serial.devices[3].card_serial = Some("MT2113X00000".into());
    let logged = |texts: &[&str]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = std::sync::Arc::new(file.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        let wanted = specs(texts).unwrap();
        let all = tracing::subscriber::with_default(subscriber, || offered(&with_serial, &wanted, host(), false));
        assert_eq!(all.unwrap().devices.len(), 2, "a function is not offered");
        std::fs::read_to_string(file.path()).unwrap()
    };
    let one = r#"{"address": "81:10.0", "physical_network": "physnet1", "remote_managed": "true"}"#;
    let other = r#"{"address": "81:10.1", "physical_network": "physnet1"}"#;
    let log = logged(&[one, other]);
    assert!(log.contains(" WARN ") && log.contains("tags other functions of this model as remote_managed"), "{log}");
    assert!(log.contains("address=0000:81:10.1") && log.lines().count() == 1, "{log}");
    let both = r#"{"product_id": "10ed", "physical_network": "physnet1", "remote_managed": "true"}"#;
    assert_eq!(logged(&[both]), "", "each function has the tag");
}

#[test]
fn devices_in_placement_have_one_provider_for_each_card() {
    let tracked = offer(&[r#"{"vendor_id": "10de"}"#, r#"{"product_id": "10ed"}"#], true).unwrap();
    let providers: Vec<_> = tracked.devices.iter().map(|device| device.provider.unwrap()).collect();
    assert!(providers[0] != providers[1] && providers[2] == providers[3], "{providers:?}");
    assert_eq!(provider_name("h1", "0000:0a:00.0".parse().unwrap()), "h1_0000:0A:00.0");
    let network = offer(&[r#"{"product_id": "10ed", "physical_network": "physnet1"}"#], true).unwrap();
    assert_eq!(network.devices[0].provider, None, "devices of a physical network are not tracked");
    for (specs, reason) in [
        (&[r#"{"address": "0000:81:00.0"}"#][..], "it must name either the physical function or its virtual functions"),
        (
            &[r#"{"address": "81:10.0", "resource_class": "A"}"#, r#"{"address": "81:10.1", "resource_class": "B"}"#],
            "the resource class CUSTOM_A and 0000:81:10.1 CUSTOM_B",
        ),
        (&[r#"{"address": "81:10.0", "traits": "A"}"#, r#"{"address": "81:10.1"}"#], r#"the traits ["CUSTOM_A"]"#),
    ] {
        let said = offer(specs, true).unwrap_err();
        assert!(said.contains(reason), "{said}");
        assert!(offer(specs, false).is_ok(), "without Placement, the specs are valid");
    }
}

fn aliases(texts: &[&str], in_placement: bool) -> Result<PciAliases, String> {
    PciAliases::read(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), in_placement)
}

const GPU: &str = r#"{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}"#;
const VF: &str = r#"{"name": "vf", "vendor_id": "8086", "product_id": "10ed", "device_type": "type-VF"}"#;
const PF: &str = r#"{"name": "pf", "vendor_id": "8086", "device_type": "type-PF"}"#;

#[test]
fn a_wrong_alias_is_refused_with_the_reason() {
    for (texts, in_placement, reason) in [
        (&["gpu"][..], false, "is not JSON"),
        (&[r#"{"vendor_id": "10de"}"#], false, "name is needed"),
        (&[r#"{"name": "a:b", "vendor_id": "10de"}"#], false, "name is needed"),
        (&[r#"{"name": "gpu"}"#], false, "does not have vendor_id set"),
        (&[r#"{"name": "gpu", "vendor_id": "10de"}"#], true, "vendor_id and product_id fields set or resource_class"),
        (&[r#"{"name": "gpu", "vendor_id": "10d"}"#], false, "four hexadecimal digits"),
        (&[r#"{"name": "gpu", "vendor_id": "10de", "device_type": "type-VDPA"}"#], false, "not one of type-PCI"),
        (&[r#"{"name": "nic", "vendor_id": "15b3", "device_type": "vdpa"}"#], false, "not one of type-PCI"),
        (&[r#"{"name": "gpu", "vendor_id": "10de", "numa_policy": "near"}"#], false, "not one of required"),
        (&[r#"{"name": "gpu", "vendor_id": "10de", "capability_type": "usb"}"#], false, "can only be pci"),
        (&[r#"{"name": "gpu", "vendor_id": "10de", "live_migratable": "yes"}"#], false, "is migrated live"),
        (&[r#"{"name": "gpu", "vendor_id": "10de", "size": "1"}"#], false, r#""size" is not known"#),
        (&[GPU, r#"{"name": "gpu", "vendor_id": "10de", "numa_policy": "required"}"#], false, "NUMA policy mismatch"),
        (&[GPU, r#"{"name": "gpu", "vendor_id": "10de", "device_type": "type-PF"}"#], false, "Device type mismatch"),
        (&[GPU, GPU], true, "asks for one resource class"),
    ] {
        let said = aliases(texts, in_placement).unwrap_err();
        assert!(said.contains(reason), "{texts:?}: {said}");
    }
    assert!(aliases(&[r#"{"name": "gpu", "resource_class": "gpu"}"#], true).is_ok());
}

fn flavor(specs: &[(&str, &str)]) -> FlavorSnapshot {
    FlavorSnapshot {
        id: FlavorId::new("1"),
        name: "m1.gpu".into(),
        vcpus: 1,
        memory_mib: 64,
        root_gib: 1,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: specs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    }
}

fn image(policy: &str) -> ImageSnapshot {
    image_with(&[("hw_pci_numa_affinity_policy", policy)])
}

fn requests(wanted: &str, policy: Option<&str>) -> Vec<PciRequest> {
    let known = aliases(
        &[GPU, VF, PF, r#"{"name": "any", "vendor_id": "10de"}"#, r#"{"name": "card", "vendor_id": "1af4"}"#],
        false,
    )
    .unwrap();
    let mut specs = vec![("pci_passthrough:alias", wanted)];
    specs.extend(policy.map(|policy| ("hw:pci_numa_affinity_policy", policy)));
    known.requests(&flavor(&specs), None).unwrap()
}

#[test]
fn a_flavor_requests_devices_by_aliases() {
    let counts: Vec<_> = requests("gpu:2, vf:1,pf:0", None).into_iter().map(|one| (one.alias, one.count)).collect();
    assert_eq!(counts, [("gpu".to_owned(), 2), ("vf".to_owned(), 1)]);
    let known = aliases(&[GPU], false).unwrap();
    assert_eq!(known.requests(&flavor(&[]), None), Ok(vec![]));
    let said = |specs: &[(&str, &str)], image: Option<ImageSnapshot>| {
        known.requests(&flavor(specs), image.as_ref()).unwrap_err()
    };
    assert_eq!(said(&[("pci_passthrough:alias", "gpu:1,tpu:1")], None), "PCI alias tpu is not defined");
    assert!(said(&[("pci_passthrough:alias", "gpu")], None).contains("is not ALIAS:COUNT"));
    assert!(said(&[("pci_passthrough:alias", "gpu:257")], None).contains("a server may have 256"));
    let forced = known.requests(&flavor(&[("pci_passthrough:alias", "gpu:1")]), Some(&image("required"))).unwrap();
    assert_eq!(forced[0].policy, PciNumaPolicy::Required, "the image's policy precedes the alias's");
    let contradiction = said(&[("hw:pci_numa_affinity_policy", "legacy")], Some(image("required")));
    assert!(contradiction.contains("is not permitted to override"), "{contradiction}");
    assert!(said(&[], Some(image("near"))).contains("Invalid PCI NUMA affinity policy"));
    assert!(known.requests(&flavor(&[("hw:pci_numa_affinity_policy", "legacy")]), Some(&image("legacy"))).is_ok());
    let three = flavor(&[("pci_passthrough:alias", "gpu:3")]);
    let policy = aliases(&[r#"{"name": "gpu", "vendor_id": "10de", "numa_policy": "preferred"}"#], false).unwrap();
    assert_eq!(policy.requests(&three, None).unwrap()[0].policy, PciNumaPolicy::Preferred);
    // Two values with one name, one of them without a product: the alias names the devices of both.
    let both = aliases(&[GPU, r#"{"name": "gpu", "vendor_id": "1af4"}"#], false).unwrap();
    assert_eq!(assign(&both.requests(&three, None).unwrap(), &[]).unwrap().len(), 3);
}

/// The addresses of the devices that a guest gets, without their domain. All devices of the host are offered.
fn assigned(wanted: &str, policy: Option<&str>, cells: &[u32]) -> Result<Vec<String>, String> {
    assign(&requests(wanted, policy), cells)
}

fn assign(requests: &[PciRequest], cells: &[u32]) -> Result<Vec<String>, String> {
    let mut ledger = Ledger::default();
    ledger.pci.insert(host(), offer(&["{}"], false).unwrap().into());
    let free = FreePci::of(&ledger, host(), std::iter::empty()).unwrap();
    let devices = free.assign(requests, cells)?;
    Ok(devices.iter().map(|device| device.address.to_string()[5..].to_owned()).collect())
}

#[test]
fn devices_are_near_the_guest_by_its_policy() {
    for (wanted, policy, cells, expected) in [
        // Without NUMA nodes no policy matters.
        ("gpu:2", Some("required"), &[][..], Ok(&["0a:00.0", "0b:00.0"][..])),
        ("gpu:1", Some("required"), &[1], Ok(&["0b:00.0"])),
        ("gpu:1", Some("required"), &[1, 2], Ok(&["0b:00.0"])),
        ("gpu:1", Some("required"), &[2], Err("free 0")),
        ("gpu:1", None, &[1], Ok(&["0b:00.0"])),
        ("gpu:2", None, &[1], Err("wants 2 of alias gpu, free 1 near the guest's NUMA nodes")),
        ("gpu:1", None, &[2], Err("free 0")),
        ("gpu:2", Some("preferred"), &[1], Ok(&["0b:00.0", "0a:00.0"])),
        ("gpu:1", Some("preferred"), &[2], Ok(&["0a:00.0"])),
        ("gpu:2", Some("socket"), &[0], Ok(&["0a:00.0", "0b:00.0"])),
        ("gpu:1", Some("socket"), &[2], Err("free 0")),
        // Cells 0 and 1 are on one socket, 2 and 3 on the other.
        ("gpu:1", Some("socket"), &[0, 2], Ok(&["0a:00.0"])),
        ("gpu:1", Some("socket"), &[1, 3], Ok(&["0b:00.0"])),
        ("gpu:1", Some("socket"), &[2, 3], Err("free 0")),
        ("gpu:2", Some("socket"), &[0, 1], Ok(&["0a:00.0", "0b:00.0"])),
        ("gpu:2", Some("socket"), &[0, 3], Ok(&["0a:00.0", "0b:00.0"])),
        ("gpu:2", Some("socket"), &[1, 2], Ok(&["0b:00.0", "0a:00.0"])),
        // The host does not report the cell of this device.
        ("card:1", None, &[0], Ok(&["0c:00.0"])),
        ("card:1", Some("required"), &[0], Err("free 0")),
        ("card:1", Some("socket"), &[0], Err("free 0")),
        ("card:1", Some("preferred"), &[0], Ok(&["0c:00.0"])),
    ] {
        match (assigned(wanted, policy, cells), expected) {
            (Ok(has), Ok(expected)) => assert_eq!(has, expected, "{wanted} {policy:?} {cells:?}"),
            (Err(said), Err(reason)) => assert!(said.contains(reason), "{said}"),
            (has, expected) => panic!("{wanted} {policy:?} {cells:?}: {has:?}, not {expected:?}"),
        }
    }
}

#[test]
fn a_physical_function_and_its_virtual_functions_exclude_each_other() {
    assert_eq!(assigned("vf:2", None, &[]).unwrap(), ["81:10.0", "81:10.1"]);
    assert_eq!(assigned("pf:1", None, &[]).unwrap(), ["81:00.0"]);
    assert!(assigned("pf:1,vf:1", None, &[]).is_err());
    assert!(assigned("gpu:1,vf:2", None, &[]).is_ok());
    // An alias without `device_type` names neither physical nor virtual functions.
    for product in ["10fb", "10ed"] {
        let text = format!(r#"{{"name": "nic", "vendor_id": "8086", "product_id": "{product}"}}"#);
        let untyped = aliases(&[text.as_str()], false).unwrap();
        let wanted = untyped.requests(&flavor(&[("pci_passthrough:alias", "nic:1")]), None).unwrap();
        let said = assign(&wanted, &[]).unwrap_err();
        assert!(said.contains("wants 1 of alias nic, free 0"), "{said}");
    }
}

/// The request for `any` could take the device that `gpu` needs, so the request with the least choice is served first.
#[test]
fn requests_do_not_take_each_others_devices() {
    let mut ledger = Ledger::default();
    let mut devices = found();
    devices.devices.push(device("0000:0d:00.0", "10de:2222", PciDeviceType::Pci, None, Some(0)));
    let all = offered(&devices, &specs(&["{}"]).unwrap(), host(), false).unwrap();
    ledger.pci.insert(host(), all.into());
    let free = FreePci::of(&ledger, host(), std::iter::empty()).unwrap();
    let held = free.assign(&requests("any:1,gpu:2", None), &[]).unwrap();
    let addresses: Vec<PciAddress> = held.iter().map(|device| device.address).collect();
    let expected = ["0000:0d:00.0", "0000:0a:00.0", "0000:0b:00.0"].map(|text| text.parse().unwrap());
    assert_eq!(addresses, expected);
}

/// The address that a port gets on a host whose functions 8086:10ed are for `physnet1`. `own`: the port's policy.
fn of_port(specs: &[(&str, &str)], own: Option<PciNumaPolicy>, cells: &[u32]) -> Result<String, String> {
    let mut ledger = Ledger::default();
    let offered = offer(&[r#"{"product_id": "10ed", "physical_network": "physnet1"}"#, "{}"], false).unwrap();
    ledger.pci.insert(host(), offered.into());
    let free = FreePci::of(&ledger, host(), std::iter::empty()).unwrap();
    let port = PortId(Uuid::from_u128(9));
    let network = Some("physnet1".to_owned());
    let port = DevicePort { port, vnic: DeviceVnic::Direct, network, policy: own, trusted: false };
    let wanted = PciAliases::default().of_server(&flavor(specs), None, &[port])?;
    Ok(free.assign(&wanted, cells)?[0].address.to_string()[5..].to_owned())
}

/// The functions are on cell 1, whose socket also has cell 0.
#[test]
fn the_device_of_a_port_is_near_the_guest_by_its_policy() {
    let policy = |word| [("hw:pci_numa_affinity_policy", word)];
    assert_eq!(of_port(&[], None, &[]).unwrap(), "81:10.0", "a guest without NUMA nodes");
    assert_eq!(of_port(&[], None, &[1]).unwrap(), "81:10.0");
    let said = of_port(&[], None, &[0]).unwrap_err();
    assert!(said.contains("wants 1 for port 00000000-0000-0000-0000-000000000009, free 0 near"), "{said}");
    assert!(of_port(&policy("required"), None, &[0]).is_err());
    assert!(of_port(&policy("socket"), None, &[0]).is_ok() && of_port(&policy("socket"), None, &[2]).is_err());
    assert!(of_port(&policy("preferred"), None, &[2]).is_ok());
    assert!(of_port(&policy("required"), Some(PciNumaPolicy::Preferred), &[0]).is_ok(), "the port's policy precedes");
    assert!(of_port(&policy("near"), None, &[]).is_err(), "an unknown policy");
}

/// Only ports get vDPA and remote-managed devices, so such devices do not count as free for flavors.
#[test]
fn some_devices_are_for_ports_alone() {
    let parent = Some("0000:82:00.0");
    let mut found = found();
    found.devices.push(device("0000:82:00.1", "8086:10ed", PciDeviceType::Vdpa, parent, None));
    let mut remote = device("0000:82:00.2", "8086:10ed", PciDeviceType::Vf, parent, None);
    remote.card_serial = Some("MT1".into());
    found.devices.push(remote);
    let specs = specs(&[r#"{"address": "82:00.2", "remote_managed": true}"#, r#"{"product_id": "10ed"}"#]).unwrap();
    let mut ledger = Ledger::default();
    ledger.pci.insert(host(), offered(&found, &specs, host(), false).unwrap().into());
    let free = FreePci::of(&ledger, host(), std::iter::empty()).unwrap();
    assert_eq!(free.count(), 2, "a device that only ports can have counts");
    assert_eq!(free.assign(&requests("vf:2", None), &[]).unwrap().len(), 2);
    let said = free.assign(&requests("vf:3", None), &[]).unwrap_err();
    assert!(said.contains("wants 3 of alias vf, free 2"), "{said}");
}
