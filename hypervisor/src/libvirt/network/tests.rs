#![allow(clippy::unwrap_used)]
use super::*;

fn spec() -> NetworkSpec {
    let reservation = |n: u8, name: &str| Reservation {
        mac: format!("FA:16:3E:00:00:{n:02X}"),
        ip: format!("10.0.0.{n}"),
        hostname: name.to_owned(),
    };
    let subnet = |cidr: &str, gateway: Option<&str>, dhcp| SubnetSpec {
        cidr: cidr.to_owned(),
        gateway: gateway.map(str::to_owned),
        dhcp,
        dns: vec!["9.9.9.9".to_owned()],
    };
    NetworkSpec {
        network: "6a2f3b6c-0d0f-4d4c-8f66-0b9ad5b7c8e1".parse().unwrap(),
        mtu: 1450,
        subnets: vec![subnet("fd00::/64", Some("fd00::1"), true), subnet("10.0.0.0/24", None, true)],
        reservations: vec![
            reservation(5, "web"),
            reservation(6, "twin"),
            reservation(7, "twin"),
            reservation(8, "a b"),
        ],
    }
}

#[test]
fn a_network_is_golden() {
    let plan = NetworkPlan::new(&spec()).unwrap();
    let layout = plan.layout(ForwardMode::Nat);
    let xml = plan.element(ForwardMode::Nat, Some(&layout)).render();
    expectorate::assert_contents("golden/network.xml", &xml);
    assert_eq!(current_layout(&xml), Some(layout));
    assert_eq!(current_hosts(&xml), plan.hosts);
}

#[test]
fn a_definition_tells_its_network() {
    let (spec, plan) = (spec(), NetworkPlan::new(&spec()).unwrap());
    let xml = plan.element(ForwardMode::Nat, Some("layout")).render();
    let told = read_back::spec(&xml, spec.network).unwrap();
    assert_eq!((told.network, told.mtu, &told.subnets), (spec.network, spec.mtu, &spec.subnets));
    let first =
        Reservation { mac: "fa:16:3e:00:00:05".to_owned(), ip: "10.0.0.5".to_owned(), hostname: "web".to_owned() };
    assert_eq!((told.reservations.len(), &told.reservations[0]), (spec.reservations.len(), &first));
    assert_eq!(read_back::spec(&xml.replace("prefix='24'", "prefix='x'"), spec.network), None);
}

#[test]
fn reservations_do_not_change_the_layout_but_all_else_does() {
    let (mut other, plan) = (spec(), NetworkPlan::new(&spec()).unwrap());
    let layout = plan.layout(ForwardMode::Nat);
    other.reservations.clear();
    assert_eq!(NetworkPlan::new(&other).unwrap().layout(ForwardMode::Nat), layout);
    assert_ne!(plan.layout(ForwardMode::Open), layout);
    other.mtu = 1500;
    assert_ne!(NetworkPlan::new(&other).unwrap().layout(ForwardMode::Nat), layout);
}

#[test]
fn bad_addresses_are_refused() {
    let mut bad = spec();
    bad.subnets[0].cidr = "10.0.0.0".to_owned();
    assert!(NetworkPlan::new(&bad).is_err());
}
