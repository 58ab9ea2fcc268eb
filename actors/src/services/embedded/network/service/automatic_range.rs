//! The addresses of the networks that the service makes for projects without a network.

use chronova_events::ids::NetworkId;
use chronova_projections::networks::NetworksView;
use ipnet::{IpNet, Ipv4Net};

use crate::services::embedded::network::subnets::check_ranges;

/// The prefix length of the subnets.
const PREFIX: u8 = 24;

/// The range from which the subnets of such networks are taken (`[network] automatic_range`).
///
/// # Errors
/// The text is no IPv4 network, the network is too small for one subnet, or it overlaps addresses that no subnet may
/// have.
pub fn read_automatic_range(text: &str) -> Result<Ipv4Net, String> {
    let range: Ipv4Net = text.parse().map_err(|_| format!("{text} is no network; write it as in 10.128.0.0/9"))?;
    if range.prefix_len() > PREFIX {
        return Err(format!("{text} is smaller than one subnet, which has the prefix length {PREFIX}"));
    }
    let range = range.trunc();
    check_ranges(&IpNet::V4(range)).map_err(|refused| refused.to_string())?;
    Ok(range)
}

/// A free subnet of the range. The search begins at a place that the network's id chooses, so that the search in a large
/// range is short.
pub(super) fn free_subnet(view: &NetworksView, range: Ipv4Net, network: NetworkId) -> Option<Ipv4Net> {
    let whole = IpNet::V4(range);
    let overlap = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
    let taken: Vec<IpNet> =
        view.subnets().map(|subnet| subnet.added.cidr).filter(|cidr| overlap(cidr, &whole)).collect();
    let count = 1_u128 << PREFIX.saturating_sub(range.prefix_len());
    let start = usize::try_from(network.0.as_u128() % count).ok()?;
    let all = range.subnets(PREFIX).ok()?;
    let mut in_order = all.skip(start).chain(all.take(start));
    in_order.find(|subnet| !taken.iter().any(|cidr| overlap(cidr, &IpNet::V4(*subnet))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_range_has_room_for_a_subnet() {
        assert_eq!(read_automatic_range("10.128.7.0/16").unwrap().to_string(), "10.128.0.0/16");
        assert_eq!(read_automatic_range("10.128.7.0/24").unwrap().to_string(), "10.128.7.0/24");
        for (text, words) in [
            ("10.0.0.0/25", "smaller"),
            ("fd00::/48", "is no network"),
            ("10.0.0.0", "is no network"),
            ("169.254.0.0/16", "hosts need"),
            ("0.0.0.0/0", "hosts need"),
        ] {
            assert!(read_automatic_range(text).unwrap_err().contains(words), "{text}");
        }
    }

    #[test]
    fn each_network_begins_at_a_place_of_its_own() {
        let view = NetworksView::default();
        let range = read_automatic_range("10.128.0.0/9").unwrap();
        let of = |range, id| free_subnet(&view, range, NetworkId(Uuid::from_u128(id))).map(|subnet| subnet.to_string());
        assert_eq!(of(range, 0).as_deref(), Some("10.128.0.0/24"));
        assert_eq!(of(range, 0x1_0203).as_deref(), Some("10.130.3.0/24"), "there are 0x8000 subnets");
        let only = read_automatic_range("10.128.7.0/24").unwrap();
        assert_eq!(of(only, 5).as_deref(), Some("10.128.7.0/24"));
    }
}
