//! The decisions of a project's quota.

use chronova_events::ids::{InstanceId, ProcessId, ProjectId};
use chronova_events::quota::{
    LimitsReset, LimitsSet, Quota, QuotaAdjusted, QuotaClaimWithdrawn, QuotaClaimed, QuotaEvent, QuotaReleased,
    ServersClaimed,
};

use super::{DefaultLimits, InsufficientQuota, QuotaCommand, QuotaReject, ServerQuotaClaim, ServersWanted};

pub fn decide(state: &Quota, command: QuotaCommand) -> Result<Vec<QuotaEvent>, QuotaReject> {
    match command {
        QuotaCommand::Claim(wanted) => claim(state, *wanted),
        QuotaCommand::Release { project, instance } => Ok(match state.held.contains_key(&instance) {
            true => vec![QuotaReleased { project, instance }.into()],
            false => vec![],
        }),
        QuotaCommand::ClaimForServer(claim) => claim_for_server(state, *claim),
        QuotaCommand::Withdraw { project, process, instance } => Ok(match is_open(state, process, instance) {
            true => vec![QuotaClaimWithdrawn { project, process, instance }.into()],
            false => vec![],
        }),
        QuotaCommand::Settle { project, instance, cores, memory_mib } => {
            Ok(adjust(state, project, instance, cores, memory_mib))
        }
        QuotaCommand::SetLimits { project, limits } => Ok(vec![LimitsSet { project, limits }.into()]),
        QuotaCommand::ResetLimits { project } => Ok(match state.limits.is_empty() {
            true => vec![],
            false => vec![LimitsReset { project }.into()],
        }),
    }
}

/// The resources whose quota is too small for `count` more servers, each with `cores` cores and `memory_mib` MiB.
fn lacking(
    state: &Quota,
    count: u64,
    (cores, memory_mib): (u32, u64),
    defaults: &DefaultLimits,
) -> Vec<InsufficientQuota> {
    let (cores, memory) = (count.saturating_mul(u64::from(cores)), count.saturating_mul(memory_mib));
    let wanted = [("instances", count), ("cores", cores), ("ram", memory)];
    wanted.into_iter().filter_map(|want| overdrawn(state, want, defaults)).collect()
}

/// Claims only the amounts that the server does not hold yet. Even if the server already holds everything, the claim
/// requests its process.
fn claim_for_server(state: &Quota, claim: ServerQuotaClaim) -> Result<Vec<QuotaEvent>, QuotaReject> {
    let ServerQuotaClaim { project, process, instance, asks_for, cores, memory_mib, defaults } = claim;
    if is_open(state, process, instance) {
        return Ok(vec![]);
    }
    let held = state.held.get(&instance).copied();
    let (has_cores, has_memory) = held.unwrap_or_default();
    let more = [
        ("instances", u64::from(held.is_none())),
        ("cores", u64::from(cores.saturating_sub(has_cores))),
        ("ram", memory_mib.saturating_sub(has_memory)),
    ];
    let over: Vec<_> = more.into_iter().filter_map(|want| overdrawn(state, want, &defaults)).collect();
    match over.is_empty() {
        true => Ok(vec![QuotaClaimed { project, process, instance, asks_for, cores, memory_mib }.into()]),
        false => Err(QuotaReject::Exceeded(over)),
    }
}

fn is_open(state: &Quota, process: ProcessId, instance: InstanceId) -> bool {
    state.open.get(&instance).is_some_and(|open| open.by_process.contains_key(&process))
}

/// Takes quota for a request. Limits the number of servers before making their ids, so that a request for a billion
/// servers costs no more than other requests.
fn claim(state: &Quota, wanted: ServersWanted) -> Result<Vec<QuotaEvent>, QuotaReject> {
    let ServersWanted { project, process, min_count, max_count, most, cores, memory_mib, group, defaults } = wanted;
    let over = lacking(state, u64::from(max_count), (cores, memory_mib), &defaults);
    let room = room(&over, max_count);
    if room < min_count {
        return Err(QuotaReject::Exceeded(over));
    }
    if room > most {
        return Err(QuotaReject::TooManyAtOnce { most });
    }
    let ids = (0..room).map(|index| InstanceId::derive(process.0, &format!("server-{index}")));
    let instances: Vec<_> = ids.filter(|id| !state.held.contains_key(id)).collect();
    Ok(match instances.is_empty() {
        true => vec![],
        false => vec![ServersClaimed { project, process, instances, cores, memory_mib, group }.into()],
    })
}

/// How many of `count` servers the quota admits.
fn room(over: &[InsufficientQuota], count: u32) -> u32 {
    let fits = |one: &InsufficientQuota| {
        let each = (one.requested / u64::from(count.max(1))).max(1);
        let free = u64::try_from(one.limit).unwrap_or(u64::MAX).saturating_sub(one.used);
        u32::try_from(free / each).unwrap_or(u32::MAX)
    };
    over.iter().map(fits).min().unwrap_or(count)
}

/// Sets the amounts that the server holds. The event also ends the server's open claims.
fn adjust(state: &Quota, project: ProjectId, instance: InstanceId, cores: u32, memory_mib: u64) -> Vec<QuotaEvent> {
    match state.held.get(&instance) {
        Some(held) if *held != (cores, memory_mib) || state.open.contains_key(&instance) => {
            vec![QuotaAdjusted { project, instance, cores, memory_mib }.into()]
        }
        _ => vec![],
    }
}

fn overdrawn(
    state: &Quota,
    (resource, requested): (&'static str, u64),
    defaults: &DefaultLimits,
) -> Option<InsufficientQuota> {
    let (used, default) = match resource {
        "instances" => (state.held.len() as u64, defaults.instances),
        "cores" => (state.cores, defaults.cores),
        _ => (state.memory_mib, defaults.memory_mib),
    };
    let limit = match defaults.enforced {
        true => state.limits.get(resource).copied().unwrap_or(default),
        false => -1,
    };
    let fits = u64::try_from(limit).map_or(true, |limit| used.saturating_add(requested) <= limit);
    (!fits && requested > 0).then_some(InsufficientQuota { resource, requested, used, limit })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use chronova_events::fold::Fold;

    const UNLIMITED: DefaultLimits = DefaultLimits::NONE;

    fn claim_of(instance: InstanceId, process: u128, cores: u32, memory_mib: u64) -> ServerQuotaClaim {
        let (project, process) = (ProjectId::new("p"), ProcessId(uuid::Uuid::from_u128(process)));
        let asks_for = ProcessId::derive(process.0, "move");
        ServerQuotaClaim { project, process, instance, asks_for, cores, memory_mib, defaults: UNLIMITED }
    }

    fn claim_command(claim: ServerQuotaClaim) -> QuotaCommand {
        QuotaCommand::ClaimForServer(Box::new(claim))
    }

    /// The claim of a new server in a small project.
    fn reserve(instance: InstanceId) -> QuotaCommand {
        let defaults = DefaultLimits { instances: 2, memory_mib: 1024, ..UNLIMITED };
        claim_command(ServerQuotaClaim { defaults, ..claim_of(instance, 1, 100, 512) })
    }

    fn withdraw(instance: InstanceId, process: u128) -> QuotaCommand {
        let process = ProcessId(uuid::Uuid::from_u128(process));
        QuotaCommand::Withdraw { project: ProjectId::new("p"), process, instance }
    }

    /// Decides, folds the events, and returns their number.
    #[track_caller]
    fn told(state: &mut Quota, command: QuotaCommand) -> usize {
        let events = decide(state, command).unwrap();
        for event in &events {
            state.evolve(event, chronova_events::envelope::Timestamp(0));
        }
        events.len()
    }

    #[track_caller]
    fn overdrawn_by(state: &Quota, command: QuotaCommand) -> Vec<InsufficientQuota> {
        match decide(state, command) {
            Err(QuotaReject::Exceeded(over)) => over,
            other => panic!("{other:?}"),
        }
    }

    fn wanted(min_count: u32, max_count: u32, limits: [i64; 3]) -> ServersWanted {
        let [instances, cores, memory_mib] = limits;
        ServersWanted {
            project: ProjectId::new("p"),
            process: ProcessId(uuid::Uuid::from_u128(7)),
            min_count,
            max_count,
            most: 100,
            cores: 2,
            memory_mib: 512,
            group: None,
            defaults: DefaultLimits { instances, cores, memory_mib, enforced: true },
        }
    }

    fn claimed(wanted: ServersWanted) -> Result<usize, QuotaReject> {
        let events = decide(&Quota::default(), QuotaCommand::Claim(Box::new(wanted)))?;
        Ok(events
            .iter()
            .map(|event| if let QuotaEvent::ServersClaimed(one) = event { one.instances.len() } else { 0 })
            .sum())
    }

    #[test]
    fn a_claim_takes_as_many_servers_as_fit() {
        let unlimited = [-1, -1, -1];
        assert_eq!(claimed(wanted(1, 1, unlimited)), Ok(1));
        assert_eq!(claimed(wanted(1, 10, [5, -1, -1])), Ok(5));
        assert_eq!(claimed(wanted(1, 10, [5, 7, -1])), Ok(3), "each server has two cores");
        assert_eq!(claimed(wanted(1, 10, [5, 7, 1024])), Ok(2), "512 MiB each");
        let over = |limits| overdrawn_by(&Quota::default(), QuotaCommand::Claim(Box::new(wanted(4, 10, limits))));
        let seen: Vec<_> = over([5, 7, -1]).iter().map(|one| (one.resource, one.requested, one.limit)).collect();
        assert_eq!(seen, [("instances", 10, 5), ("cores", 20, 7)], "the refusal names the requested amounts");
    }

    #[test]
    fn a_request_for_a_billion_servers_is_refused_at_once() {
        const BILLION: u32 = 1_000_000_000;
        let unlimited = [-1, -1, -1];
        let too_many = Err(QuotaReject::TooManyAtOnce { most: 100 });
        assert_eq!(claimed(wanted(1, BILLION, unlimited)), too_many, "only the option limits the request");
        assert_eq!(claimed(wanted(1, 100, unlimited)), Ok(100));
        assert_eq!(claimed(wanted(1, u32::MAX, [-1, -1, 1024])), Ok(2));
        assert_eq!(claimed(wanted(BILLION, BILLION, unlimited)), too_many);
        let over =
            overdrawn_by(&Quota::default(), QuotaCommand::Claim(Box::new(wanted(BILLION, BILLION, [10, -1, -1]))));
        assert_eq!((over[0].requested, over[0].limit), (1_000_000_000, 10), "quota is checked before the option");
    }

    #[test]
    fn the_ids_of_a_claim_derive_from_its_process() {
        let claim = || QuotaCommand::Claim(Box::new(wanted(2, 2, [2, -1, -1])));
        let mut state = Quota::default();
        let events = decide(&state, claim()).unwrap();
        assert_eq!(events, decide(&state, claim()).unwrap());
        for event in &events {
            state.evolve(event, chronova_events::envelope::Timestamp(0));
        }
        assert_eq!((state.held.len(), state.cores, state.memory_mib), (2, 4, 1024));
        let mut roomy = wanted(2, 2, [4, -1, -1]);
        assert_eq!(decide(&state, QuotaCommand::Claim(Box::new(roomy.clone()))).unwrap(), vec![], "repeated");
        roomy.process = ProcessId(uuid::Uuid::from_u128(8));
        assert_eq!(
            decide(&state, QuotaCommand::Claim(Box::new(roomy))).unwrap().len(),
            1,
            "another request reserves its own quota"
        );
    }

    #[test]
    fn nothing_is_limited_if_limits_are_not_enforced() {
        let limited = LimitsSet { project: ProjectId::new("p"), limits: vec![("instances".to_owned(), 0)] };
        let mut state = Quota::default();
        state.evolve(&limited.into(), chronova_events::envelope::Timestamp(0));
        let mut asked = wanted(3, 3, [1, 1, 1]);
        assert_eq!(overdrawn_by(&state, QuotaCommand::Claim(Box::new(asked.clone()))).len(), 3);
        asked.defaults.enforced = false;
        assert_eq!(decide(&state, QuotaCommand::Claim(Box::new(asked))).unwrap().len(), 1);
    }

    #[test]
    fn quota_is_reserved_once_and_never_beyond_the_limit() {
        let mut state = Quota::default();
        let (a, b, c) = (InstanceId::random(), InstanceId::random(), InstanceId::random());
        assert_eq!([told(&mut state, reserve(a)), told(&mut state, reserve(b))], [1, 1]);
        assert_eq!(told(&mut state, reserve(a)), 0, "a repeated claim takes nothing more");
        let over = overdrawn_by(&state, reserve(c));
        let names: Vec<_> = over.iter().map(|o| o.resource).collect();
        assert_eq!(names, ["instances", "ram"], "cores have no limit");
        assert_eq!((over[1].requested, over[1].used, over[1].limit), (512, 1024, 1024));
        told(&mut state, QuotaCommand::Release { project: ProjectId::new("p"), instance: a });
        assert!(decide(&state, reserve(c)).is_ok());
    }

    #[test]
    fn a_server_that_grows_takes_the_difference() {
        let mut state = Quota::default();
        let (a, project) = (InstanceId::random(), ProjectId::new("p"));
        told(&mut state, reserve(a));
        let widen = |cores, memory_mib| {
            let defaults = DefaultLimits { instances: 1, cores: 101, memory_mib: 1024, enforced: true };
            claim_command(ServerQuotaClaim { defaults, ..claim_of(a, 2, cores, memory_mib) })
        };
        let over = overdrawn_by(&state, widen(102, 1025));
        let seen: Vec<_> = over.iter().map(|one| (one.resource, one.requested, one.used)).collect();
        assert_eq!(seen, [("cores", 2, 100), ("ram", 513, 512)]);
        told(&mut state, widen(101, 256));
        assert_eq!((state.cores, state.memory_mib), (101, 512), "the quota is the larger amount of each resource");
        let settle = QuotaCommand::Settle { project: project.clone(), instance: a, cores: 1, memory_mib: 256 };
        told(&mut state, settle.clone());
        assert_eq!((state.cores, state.memory_mib), (1, 256));
        assert_eq!(told(&mut state, settle), 0, "repeated");
    }

    #[test]
    fn a_withdrawn_claim_keeps_the_quota_of_other_claims() {
        let (mut state, a) = (Quota::default(), InstanceId(uuid::Uuid::from_u128(0xA)));
        told(&mut state, claim_command(claim_of(a, 1, 2, 512)));
        told(&mut state, QuotaCommand::Settle { project: ProjectId::new("p"), instance: a, cores: 2, memory_mib: 513 });
        // Two claims are open at the same time. The server refuses the two requests in either order.
        for (first, second, left) in [(2, 3, (8, 1024)), (3, 2, (4, 2048))] {
            told(&mut state, claim_command(claim_of(a, 2, 4, 2048)));
            told(&mut state, claim_command(claim_of(a, 3, 8, 1024)));
            assert_eq!(
                (state.cores, state.memory_mib),
                (8, 2048),
                "the server holds the largest amount of each resource"
            );
            assert_eq!(told(&mut state, withdraw(a, first)), 1);
            assert_eq!((state.cores, state.memory_mib), left);
            assert_eq!(told(&mut state, withdraw(a, first)), 0, "repeated");
            assert_eq!(told(&mut state, withdraw(a, second)), 1);
            assert_eq!(
                (state.cores, state.memory_mib, state.open.len()),
                (2, 513, 0),
                "the quota is that from before the claims"
            );
        }
    }

    #[test]
    fn a_withdrawn_claim_of_a_server_without_quota_releases_all_of_it() {
        let (mut state, a) = (Quota::default(), InstanceId(uuid::Uuid::from_u128(0xA)));
        told(&mut state, claim_command(claim_of(a, 1, 2, 512)));
        told(&mut state, withdraw(a, 1));
        assert_eq!(state, Quota::default());
    }

    #[test]
    fn a_settlement_or_release_of_quota_ends_open_claims() {
        let (mut state, a) = (Quota::default(), InstanceId(uuid::Uuid::from_u128(0xA)));
        told(&mut state, claim_command(claim_of(a, 1, 2, 512)));
        told(&mut state, QuotaCommand::Settle { project: ProjectId::new("p"), instance: a, cores: 1, memory_mib: 512 });
        assert_eq!(told(&mut state, withdraw(a, 1)), 0, "the settlement has ended the claim");
        assert_eq!((state.cores, state.held.len()), (1, 1));
        told(&mut state, claim_command(claim_of(a, 2, 4, 512)));
        told(&mut state, QuotaCommand::Release { project: ProjectId::new("p"), instance: a });
        assert_eq!(told(&mut state, withdraw(a, 2)), 0, "the release has ended the claim");
        assert_eq!(state, Quota::default());
    }

    /// The server was resized to a smaller flavor. Its revert claims quota for the larger one.
    #[test]
    fn a_revert_claims_only_the_quota_that_the_server_gave_up() {
        let (mut state, instance) = (Quota::default(), InstanceId(uuid::Uuid::from_u128(1)));
        told(&mut state, claim_command(claim_of(instance, 1, 4, 512)));
        let settled = QuotaCommand::Settle { project: ProjectId::new("p"), instance, cores: 1, memory_mib: 128 };
        assert_eq!(told(&mut state, settled), 1);
        assert_eq!((state.cores, state.memory_mib), (1, 128));
        let within = |cores| {
            let defaults = DefaultLimits { cores, ..UNLIMITED };
            claim_command(ServerQuotaClaim { defaults, ..claim_of(instance, 2, 4, 512) })
        };
        let over = overdrawn_by(&state, within(3));
        assert_eq!(over, [InsufficientQuota { resource: "cores", requested: 3, used: 1, limit: 3 }]);
        assert_eq!(told(&mut state, within(4)), 1);
        assert_eq!((state.cores, state.memory_mib), (4, 512));
        assert_eq!(told(&mut state, withdraw(instance, 2)), 1);
        assert_eq!((state.cores, state.memory_mib), (1, 128), "a refused revert keeps nothing");
    }
}
