//! The decisions on the subnets of a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use chronova_events::ids::SubnetId;
use chronova_events::network::{
    AllocationPool, Ipv6Mode, Network, NetworkEvent, NetworkRow, Subnet, SubnetAdded, SubnetRemoved, SubnetSettings,
    SubnetSettingsReplaced,
};
use chronova_events::tags::TagsChange;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{NetworkReject, SubnetGateway, SubnetPatch, SubnetRequest, pool_name};

pub(super) fn find(state: &Network, subnet: SubnetId) -> Result<&Subnet, NetworkReject> {
    state.subnets.get(&subnet).map(AsRef::as_ref).ok_or(NetworkReject::SubnetNotFound(subnet))
}

pub(super) fn add(
    state: &Network,
    row: &NetworkRow,
    wanted: SubnetRequest,
) -> Result<Vec<NetworkEvent>, NetworkReject> {
    let network = row.created.network;
    let cidr = wanted.cidr.trunc();
    if state.subnets.contains_key(&wanted.subnet) {
        return Err(NetworkReject::IdTaken(wanted.subnet.to_string()));
    }
    let overlaps = |other: &IpNet| other.contains(&cidr) || cidr.contains(other);
    if state.subnets.values().any(|subnet| overlaps(&subnet.added.cidr)) {
        return Err(NetworkReject::InvalidInput(format!(
            "Requested subnet with cidr: {cidr} for network: {network} overlaps with another subnet"
        )));
    }
    check_ranges(&cidr)?;
    check_modes(&cidr, wanted.dhcp, wanted.ipv6_address_mode, wanted.ipv6_ra_mode)?;
    let gateway = match wanted.gateway {
        SubnetGateway::None => None,
        SubnetGateway::At(address) => Some(address),
        SubnetGateway::Default => default_gateway(&cidr),
    };
    let pools = match wanted.pools {
        Some(mut pools) => {
            pools.sort();
            pools
        }
        None => default_pools(&cidr, gateway),
    };
    check_gateway(gateway)?;
    check_dns_count(&wanted.dns)?;
    let settings = SubnetSettings {
        name: wanted.name,
        description: wanted.description,
        gateway,
        dhcp: wanted.dhcp,
        dns: wanted.dns,
        pools,
        host_routes: wanted.host_routes,
        tags: wanted.tags,
    };
    check(&cidr, &settings)?;
    Ok(vec![
        SubnetAdded {
            network,
            subnet: wanted.subnet,
            project: wanted.project,
            cidr,
            ipv6_address_mode: wanted.ipv6_address_mode,
            ipv6_ra_mode: wanted.ipv6_ra_mode,
            settings,
        }
        .into(),
    ])
}

pub(super) fn change(
    state: &Network,
    row: &NetworkRow,
    subnet: SubnetId,
    patch: SubnetPatch,
) -> Result<Vec<NetworkEvent>, NetworkReject> {
    let known = find(state, subnet)?;
    let old = &known.added.settings;
    check_gateway(patch.gateway.flatten())?;
    let settings = SubnetSettings {
        name: patch.name.unwrap_or_else(|| old.name.clone()),
        description: patch.description.unwrap_or_else(|| old.description.clone()),
        gateway: patch.gateway.unwrap_or(old.gateway),
        dhcp: patch.dhcp.unwrap_or(old.dhcp),
        dns: patch.dns.unwrap_or_else(|| old.dns.clone()),
        pools: patch.pools.map_or_else(
            || old.pools.clone(),
            |mut pools| {
                pools.sort();
                pools
            },
        ),
        host_routes: patch.host_routes.unwrap_or_else(|| old.host_routes.clone()),
        tags: patch.tags.unwrap_or_else(|| old.tags.clone()),
    };
    check_dns_count(&settings.dns)?;
    check(&known.added.cidr, &settings)?;
    if settings == *old {
        return Ok(vec![]);
    }
    let (settings, tags) = TagsChange::between(&old.tags, settings);
    Ok(vec![SubnetSettingsReplaced { network: row.created.network, subnet, settings, tags }.into()])
}

pub(super) fn remove(state: &Network, row: &NetworkRow, subnet: SubnetId) -> Result<Vec<NetworkEvent>, NetworkReject> {
    find(state, subnet)?;
    if state.ipam(subnet).is_some_and(|ipam| ipam.held_count() > 0) {
        return Err(NetworkReject::SubnetInUse(subnet));
    }
    Ok(vec![SubnetRemoved { network: row.created.network, subnet }.into()])
}

/// Prefixes that no subnet may overlap. On each host, a bridge has the gateway's address and routes the subnet to the
/// guests. So a subnet must not have addresses that hosts need for themselves, for example the guests' metadata
/// address. The other prefixes are reserved.
const UNUSABLE: [IpNet; 9] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 8)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16)),
    // Multicast, and all addresses above it up to broadcast.
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 3)),
    // The unspecified address, loopback, and IPv4-compatible addresses; then IPv4-mapped addresses.
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 96)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8)),
];

/// Refuses addresses that overlap one of [`UNUSABLE`].
pub(super) fn check_ranges(cidr: &IpNet) -> Result<(), NetworkReject> {
    match UNUSABLE.iter().find(|range| range.contains(cidr) || cidr.contains(*range)) {
        Some(range) => Err(NetworkReject::InvalidInput(format!(
            "Requested subnet with cidr: {cidr} overlaps with {range}, which hosts need for themselves"
        ))),
        None => Ok(()),
    }
}

fn check_gateway(gateway: Option<IpAddr>) -> Result<(), NetworkReject> {
    match gateway.filter(|gateway| UNUSABLE.iter().any(|range| range.contains(gateway))) {
        Some(gateway) => {
            Err(NetworkReject::InvalidInput(format!("Gateway {gateway} is in a range that hosts need for themselves")))
        }
        None => Ok(()),
    }
}

/// Refuses more nameservers than the default of `max_dns_nameservers` in neutron.conf.
fn check_dns_count(dns: &[IpAddr]) -> Result<(), NetworkReject> {
    match dns.len() {
        0..=5 => Ok(()),
        _ => Err(NetworkReject::InvalidInput("The number of DNS nameservers exceeds the limit 5".to_owned())),
    }
}

fn check_modes(
    cidr: &IpNet,
    dhcp: bool,
    address_mode: Option<Ipv6Mode>,
    ra_mode: Option<Ipv6Mode>,
) -> Result<(), NetworkReject> {
    let wrong = |text: &str| Err(NetworkReject::InvalidInput(text.to_owned()));
    if address_mode.is_none() && ra_mode.is_none() {
        return Ok(());
    }
    if matches!(cidr, IpNet::V4(_)) {
        return wrong("ipv6_ra_mode or ipv6_address_mode cannot be set when ip_version is 4");
    }
    if !dhcp {
        return wrong("ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False");
    }
    if let (Some(address), Some(ra)) = (address_mode, ra_mode)
        && address != ra
    {
        return wrong("ipv6_ra_mode and ipv6_address_mode must be equal when both are set");
    }
    // An address that derives from the MAC fills the lower 64 bits.
    if matches!(address_mode.or(ra_mode), Some(Ipv6Mode::Slaac | Ipv6Mode::Stateless)) && cidr.prefix_len() != 64 {
        return wrong(
            "Invalid CIDR for IPv6 address mode. OpenStack uses the EUI-64 address format, which requires the prefix to be /64",
        );
    }
    Ok(())
}

/// Whether hosts can use every address of the prefix, because it has no network or broadcast address.
fn is_point_to_point(cidr: &IpNet) -> bool {
    cidr.max_prefix_len() - cidr.prefix_len() <= 1
}

fn default_gateway(cidr: &IpNet) -> Option<IpAddr> {
    if is_point_to_point(cidr) { Some(cidr.network()) } else { plus(cidr.network(), 1) }
}

/// All addresses that hosts can use, without the gateway.
fn default_pools(cidr: &IpNet, gateway: Option<IpAddr>) -> Vec<AllocationPool> {
    let (mut start, mut end) = (Some(cidr.network()), Some(cidr.broadcast()));
    if !is_point_to_point(cidr) {
        start = plus(cidr.network(), 1);
        if matches!(cidr, IpNet::V4(_)) {
            end = minus(cidr.broadcast(), 1);
        }
    }
    let (Some(start), Some(end)) = (start, end) else { return vec![] };
    let inside = gateway.filter(|gateway| start <= *gateway && *gateway <= end);
    let Some(gateway) = inside else { return vec![AllocationPool { start, end }] };
    let below =
        minus(gateway, 1).filter(|last| start <= *last && start < gateway).map(|end| AllocationPool { start, end });
    let above =
        plus(gateway, 1).filter(|first| *first <= end && gateway < end).map(|start| AllocationPool { start, end });
    below.into_iter().chain(above).collect()
}

fn check(cidr: &IpNet, settings: &SubnetSettings) -> Result<(), NetworkReject> {
    for pool in &settings.pools {
        if pool.start.is_ipv4() != pool.end.is_ipv4() || pool.start > pool.end {
            return Err(NetworkReject::InvalidPool(pool_name(pool)));
        }
        if !(usable(cidr, pool.start) && usable(cidr, pool.end)) {
            return Err(NetworkReject::PoolOutOfBounds { pool: pool_name(pool), cidr: *cidr });
        }
    }
    for pair in settings.pools.windows(2) {
        if let [first, second] = pair
            && second.start <= first.end
        {
            let (first, second) = (pool_name(first), pool_name(second));
            return Err(NetworkReject::OverlappingPools { first, second, cidr: *cidr });
        }
    }
    let Some(gateway) = settings.gateway else { return Ok(()) };
    if cidr.contains(&gateway) && !usable(cidr, gateway) || gateway.is_ipv4() != cidr.addr().is_ipv4() {
        return Err(NetworkReject::InvalidInput("Gateway is not valid on subnet".to_owned()));
    }
    match settings.pools.iter().find(|pool| pool.start <= gateway && gateway <= pool.end) {
        Some(pool) => Err(NetworkReject::GatewayInPool { gateway, pool: pool_name(pool) }),
        None => Ok(()),
    }
}

/// Whether a host of the subnet can have this address.
pub(super) fn usable(cidr: &IpNet, address: IpAddr) -> bool {
    let reserved = !is_point_to_point(cidr)
        && (address == cidr.network() || (matches!(cidr, IpNet::V4(_)) && address == cidr.broadcast()));
    cidr.contains(&address) && !reserved
}

fn plus(address: IpAddr, n: u32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => u32::from(v4).checked_add(n).map(|n| Ipv4Addr::from(n).into()),
        IpAddr::V6(v6) => u128::from(v6).checked_add(u128::from(n)).map(|n| Ipv6Addr::from(n).into()),
    }
}

fn minus(address: IpAddr, n: u32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => u32::from(v4).checked_sub(n).map(|n| Ipv4Addr::from(n).into()),
        IpAddr::V6(v6) => u128::from(v6).checked_sub(u128::from(n)).map(|n| Ipv6Addr::from(n).into()),
    }
}
