//! Claims of capacity for servers.
//!
//! The ledger has the last word on every placement. It refuses a claim that no longer fits, or that breaks the policy
//! of a server group. So a read model that lags does no harm. The ledger checks the claims of one command together, and
//! accepts all of them or refuses all.

use std::collections::BTreeMap;

use chronova_events::ids::{ConsumerId, ProviderId};
use chronova_events::ledger::{Claimed, GroupMemberPlaced, GuestFitted, Ledger, LedgerEvent, PciDevicesClaimed};

use super::commands::{GroupPolicy, GroupRule, GuestClaim, ServerClaim};
use super::decision::LedgerReject;
use super::{cells, pci};

pub(super) fn admit(state: &Ledger, claims: Vec<ServerClaim>) -> Result<Vec<LedgerEvent>, LedgerReject> {
    let mut taken: BTreeMap<(ProviderId, String), u64> = BTreeMap::new();
    let mut joined: Vec<GroupRule> = Vec::new();
    let mut events: Vec<LedgerEvent> = Vec::with_capacity(claims.len());
    let mut shares = GuestShares::default();
    for ServerClaim { claim, group, guest } in claims {
        if let Some(held) = state.consumers.get(&claim.consumer) {
            if pci::without_devices(state, &held.claim) == claim.allocations {
                continue;
            }
            return Err(LedgerReject::HoldsOther(claim.consumer));
        }
        let consumer = claim.consumer.clone();
        let share = guest.map(|guest| GuestShare::of(state, &consumer, &guest, &shares)).transpose()?;
        let claim = match share.as_ref().and_then(|share| share.devices.as_ref()) {
            Some(devices) => pci::with_devices(claim, &devices.devices),
            None => claim,
        };
        fits(state, &claim, &mut taken)?;
        events.push(claim.into());
        if let Some(rule) = group {
            keeps(state, rule, &joined)?;
            joined.push(rule);
            let consumer = consumer.clone();
            events.push(GroupMemberPlaced { group: rule.group, consumer, provider: rule.host }.into());
        }
        if let Some(share) = share {
            events.extend(share.fitted.clone().map(LedgerEvent::from));
            events.extend(share.devices.clone().map(LedgerEvent::from));
            shares.fitted.extend(share.fitted);
            shares.devices.extend(share.devices);
        }
    }
    Ok(events)
}

/// The shares that the servers of one command got so far.
#[derive(Debug, Default)]
struct GuestShares {
    fitted: Vec<GuestFitted>,
    devices: Vec<PciDevicesClaimed>,
}

/// A guest's share of its host's NUMA cells and PCI devices.
#[derive(Debug)]
struct GuestShare {
    fitted: Option<GuestFitted>,
    devices: Option<PciDevicesClaimed>,
}

impl GuestShare {
    fn of(
        state: &Ledger,
        consumer: &ConsumerId,
        guest: &GuestClaim,
        others: &GuestShares,
    ) -> Result<Self, LedgerReject> {
        let free = pci::free(state, guest.host, &others.devices);
        let fitted = match &guest.topology {
            Some(topology) => {
                Some(cells::fit(state, consumer.clone(), (guest, topology), free.as_ref(), &others.fitted)?)
            }
            None => None,
        };
        let near: Vec<u32> = fitted.iter().flat_map(|fitted| &fitted.cells).map(|cell| cell.cell).collect();
        let devices = pci::claim(consumer, guest, free.as_ref(), &near)?;
        Ok(Self { fitted, devices })
    }
}

fn fits(state: &Ledger, claim: &Claimed, taken: &mut BTreeMap<(ProviderId, String), u64>) -> Result<(), LedgerReject> {
    for allocation in &claim.allocations {
        let provider = allocation.provider;
        let known = state.providers.get(&provider).ok_or(LedgerReject::NoSuchProvider(provider))?;
        for (class, amount) in &allocation.resources {
            let before = taken.entry((provider, class.clone())).or_default();
            let admitted = known.inventories.get(class).is_some_and(|line| {
                line.admits(*amount) && before.checked_add(*amount).is_some_and(|sum| sum <= line.free())
            });
            if !admitted {
                return Err(LedgerReject::DoesNotFit { provider, class: class.clone(), amount: *amount });
            }
            *before += amount;
        }
    }
    Ok(())
}

fn keeps(state: &Ledger, rule: GroupRule, joined: &[GroupRule]) -> Result<(), LedgerReject> {
    let (here, everywhere) = state.members_on(rule.group, rule.host);
    let same = || joined.iter().filter(|other| other.group == rule.group);
    let here = here + same().filter(|other| other.host == rule.host).count();
    let everywhere = everywhere + same().count();
    let kept = match rule.policy {
        GroupPolicy::Together => everywhere == 0 || here > 0,
        GroupPolicy::AtMost(most) => u32::try_from(here).is_ok_and(|here| here < most),
    };
    if kept { Ok(()) } else { Err(LedgerReject::GroupPolicyBroken { group: rule.group, host: rule.host }) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ledger::LedgerCommand::{self, ClaimAll};
    use crate::ledger::decide::decide;
    use crate::ledger::decide::tests::{given, host};
    use chronova_events::ids::ServerGroupId;
    use chronova_events::ledger::{Allocation, Inventory};
    use uuid::Uuid;

    fn provider(n: u128) -> ProviderId {
        ProviderId(Uuid::from_u128(n))
    }

    /// Reports of two hosts of 4 CPUs with an allocation ratio of 2.
    fn hosts() -> [LedgerCommand; 2] {
        let LedgerCommand::Report { inventories, cells, pci, .. } = host(4) else { unreachable!() };
        let (provider, name) = (provider(2), "h2".to_owned());
        let second = LedgerCommand::Report { provider, name, inventories, traits: vec![], cells, pci };
        [host(4), second]
    }

    fn on(host: u128, server: &str, policy: Option<GroupPolicy>) -> ServerClaim {
        let resources = vec![("VCPU".to_owned(), 2)];
        let claim = Claimed {
            consumer: ConsumerId::new(server),
            project: "p".into(),
            user: "u".into(),
            consumer_type: None,
            allocations: vec![Allocation { provider: provider(host), resources }],
        };
        let group = ServerGroupId(Uuid::from_u128(9));
        let group = policy.map(|policy| GroupRule { group, host: provider(host), policy });
        ServerClaim { claim, group, guest: None }
    }

    fn all(claims: impl IntoIterator<Item = ServerClaim>) -> LedgerCommand {
        ClaimAll { claims: claims.into_iter().collect() }
    }

    fn with(commands: impl IntoIterator<Item = LedgerCommand>) -> Ledger {
        given(hosts().into_iter().chain(commands))
    }

    fn broken(reject: &LedgerReject) -> bool {
        matches!(reject, LedgerReject::GroupPolicyBroken { .. })
    }

    #[test]
    fn servers_claimed_together_count_together() {
        let four = |host| ["a", "b", "c", "d"].map(|name| on(host, name, None));
        assert_eq!(decide(&with([]), all(four(1))).unwrap().len(), 4);
        let five = four(1).into_iter().chain([on(1, "e", None)]);
        assert!(
            matches!(decide(&with([]), all(five)), Err(LedgerReject::DoesNotFit { .. })),
            "all servers are placed, or none"
        );
        let spread = four(1).into_iter().chain([on(2, "e", None)]);
        assert_eq!(decide(&with([]), all(spread)).unwrap().len(), 5);
    }

    #[test]
    fn an_anti_affinity_group_limits_its_members_per_host() {
        let apart = Some(GroupPolicy::AtMost(1));
        let state = with([all([on(1, "a", apart)])]);
        assert!(broken(&decide(&state, all([on(1, "b", apart)])).unwrap_err()));
        assert!(decide(&state, all([on(2, "b", apart)])).is_ok());
        assert!(decide(&state, all([on(1, "b", Some(GroupPolicy::AtMost(2)))])).is_ok());
        assert!(
            broken(&decide(&state, all([on(2, "b", apart), on(2, "c", apart)])).unwrap_err()),
            "the policy holds within one command"
        );
        assert_eq!(decide(&state, all([on(1, "a", apart)])).unwrap(), vec![], "repeated");
        let freed = with([all([on(1, "a", apart)]), LedgerCommand::Release { consumer: ConsumerId::new("a") }]);
        assert!(decide(&freed, all([on(1, "b", apart)])).is_ok(), "a server without allocations is no member");
        assert!(freed.groups.is_empty() && freed.member_of.is_empty());
    }

    #[test]
    fn an_affinity_group_stays_where_its_first_member_is() {
        let together = Some(GroupPolicy::Together);
        let state = with([all([on(1, "a", together)])]);
        assert!(broken(&decide(&state, all([on(2, "b", together)])).unwrap_err()));
        assert!(decide(&state, all([on(1, "b", together)])).is_ok());
        assert!(broken(&decide(&with([]), all([on(1, "a", together), on(2, "b", together)])).unwrap_err()));
    }

    #[test]
    fn a_claim_that_breaks_the_unit_rules_is_refused() {
        let odd = Inventory {
            class: "VCPU".into(),
            total: 8,
            reserved: 0,
            min_unit: 1,
            max_unit: 8,
            step_size: 4,
            allocation_ratio: 1.0,
        };
        let LedgerCommand::Report { provider, name, traits, cells, pci, .. } = host(4) else { unreachable!() };
        let report = LedgerCommand::Report { provider, name, inventories: vec![odd], traits, cells, pci };
        assert!(matches!(decide(&with([report]), all([on(1, "a", None)])), Err(LedgerReject::DoesNotFit { .. })));
    }
}
