//! Whether there is room.

use chronova_events::ids::{InstanceId, ProjectId};
use chronova_events::quota::{LimitsReset, LimitsSet, Quota, QuotaAdjusted, QuotaEvent, QuotaReleased, QuotaReserved};

use super::{DefaultLimits, Overdrawn, QuotaCommand, QuotaReject};

pub fn decide(state: &Quota, command: QuotaCommand) -> Result<Vec<QuotaEvent>, QuotaReject> {
    match command {
        QuotaCommand::Reserve { project, instances, cores, memory_mib, defaults } => {
            let new: Vec<_> = instances.into_iter().filter(|id| !state.held.contains_key(id)).collect();
            let over = lacking(state, new.len() as u64, (cores, memory_mib), &defaults);
            match (over.is_empty(), new.is_empty()) {
                (false, _) => Err(QuotaReject::Exceeded(over)),
                (true, true) => Ok(vec![]),
                (true, false) => Ok(vec![QuotaReserved { project, instances: new, cores, memory_mib }.into()]),
            }
        }
        QuotaCommand::Release { project, instance } => Ok(match state.held.contains_key(&instance) {
            true => vec![QuotaReleased { project, instance }.into()],
            false => vec![],
        }),
        QuotaCommand::Widen { project, instance, cores, memory_mib, defaults } => {
            let Some(held) = state.held.get(&instance) else { return Ok(vec![]) };
            let more = [("cores", u64::from(cores.saturating_sub(held.0))), ("ram", memory_mib.saturating_sub(held.1))];
            let over: Vec<_> = more.into_iter().filter_map(|want| overdrawn(state, want, &defaults)).collect();
            match over.is_empty() {
                true => Ok(adjust(state, project, instance, cores.max(held.0), memory_mib.max(held.1))),
                false => Err(QuotaReject::Exceeded(over)),
            }
        }
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

/// What there is no room for, of `count` servers with so many cores and so much memory each.
pub fn lacking(state: &Quota, count: u64, (cores, memory_mib): (u32, u64), defaults: &DefaultLimits) -> Vec<Overdrawn> {
    let (cores, memory) = (count.saturating_mul(u64::from(cores)), count.saturating_mul(memory_mib));
    let wanted = [("instances", count), ("cores", cores), ("ram", memory)];
    wanted.into_iter().filter_map(|want| overdrawn(state, want, defaults)).collect()
}

fn adjust(state: &Quota, project: ProjectId, instance: InstanceId, cores: u32, memory_mib: u64) -> Vec<QuotaEvent> {
    match state.held.get(&instance) {
        Some(held) if *held != (cores, memory_mib) => {
            vec![QuotaAdjusted { project, instance, cores, memory_mib }.into()]
        }
        _ => vec![],
    }
}

fn overdrawn(state: &Quota, (resource, requested): (&'static str, u64), defaults: &DefaultLimits) -> Option<Overdrawn> {
    let (used, default) = match resource {
        "instances" => (state.held.len() as u64, defaults.instances),
        "cores" => (state.cores, defaults.cores),
        _ => (state.memory_mib, defaults.memory_mib),
    };
    let limit = state.limits.get(resource).copied().unwrap_or(default);
    let fits = u64::try_from(limit).map_or(true, |limit| used.saturating_add(requested) <= limit);
    (!fits && requested > 0).then_some(Overdrawn { resource, requested, used, limit })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use chronova_events::fold::Fold;
    use chronova_events::ids::{InstanceId, ProjectId};

    fn reserve(instances: Vec<InstanceId>) -> QuotaCommand {
        let defaults = DefaultLimits { instances: 2, cores: -1, memory_mib: 1024 };
        QuotaCommand::Reserve { project: ProjectId::new("p"), instances, cores: 100, memory_mib: 512, defaults }
    }

    #[test]
    fn room_is_taken_once_and_never_beyond_the_limit() {
        let mut state = Quota::default();
        let (a, b, c) = (InstanceId::random(), InstanceId::random(), InstanceId::random());
        for event in decide(&state, reserve(vec![a, b])).unwrap() {
            state.evolve(&event, chronova_events::envelope::Timestamp(0));
        }
        assert_eq!(decide(&state, reserve(vec![a])).unwrap(), vec![], "a repeated reservation takes nothing more");
        let QuotaReject::Exceeded(over) = decide(&state, reserve(vec![c])).unwrap_err();
        let names: Vec<_> = over.iter().map(|o| o.resource).collect();
        assert_eq!(names, ["instances", "ram"], "cores have no limit");
        assert_eq!((over[1].requested, over[1].used, over[1].limit), (512, 1024, 1024));
        for event in decide(&state, QuotaCommand::Release { project: ProjectId::new("p"), instance: a }).unwrap() {
            state.evolve(&event, chronova_events::envelope::Timestamp(0));
        }
        assert!(decide(&state, reserve(vec![c])).is_ok());
    }

    #[test]
    fn a_server_that_grows_takes_the_difference() {
        let mut state = Quota::default();
        let (a, project) = (InstanceId::random(), ProjectId::new("p"));
        let evolve = |state: &mut Quota, events: Vec<QuotaEvent>| {
            for event in events {
                state.evolve(&event, chronova_events::envelope::Timestamp(0));
            }
        };
        let reserved = decide(&state, reserve(vec![a])).unwrap();
        evolve(&mut state, reserved);
        let widen = |cores, memory_mib| QuotaCommand::Widen {
            project: project.clone(),
            instance: a,
            cores,
            memory_mib,
            defaults: DefaultLimits { instances: 1, cores: 101, memory_mib: 1024 },
        };
        let QuotaReject::Exceeded(over) = decide(&state, widen(102, 1025)).unwrap_err();
        let seen: Vec<_> = over.iter().map(|one| (one.resource, one.requested, one.used)).collect();
        assert_eq!(seen, [("cores", 2, 100), ("ram", 513, 512)]);
        let widened = decide(&state, widen(101, 256)).unwrap();
        evolve(&mut state, widened);
        assert_eq!((state.cores, state.memory_mib), (101, 512), "the larger of both");
        let settle = QuotaCommand::Settle { project: project.clone(), instance: a, cores: 1, memory_mib: 256 };
        let settled = decide(&state, settle.clone()).unwrap();
        evolve(&mut state, settled);
        assert_eq!((state.cores, state.memory_mib), (1, 256));
        assert_eq!(decide(&state, settle).unwrap(), vec![], "repeated");
    }
}
