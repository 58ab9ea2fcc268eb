//! Decides which faults strike, and when. Hosts fail and come back, driver calls fail or are slow, guests end by
//! themselves, and the control plane is killed.

use std::collections::BTreeMap;

use chronova_events::ids::InstanceId;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};

use super::draws::Dice;
use super::world::{ChaosWorld, Life};

/// The chance in thousandths that a fault begins or ends before an operation.
const TROUBLES: u64 = 250;
/// The chance in thousandths that a kill of the control plane is drawn before an operation. The kill comes at one of
/// the next 60 appends.
const KILLS: u64 = 5;
/// If at least one in this many hosts is down, no draw cuts off a further host.
const DOWN: usize = 8;

/// How many times each kind of fault struck.
#[derive(Debug, Default)]
pub(super) struct ChaosFaults {
    pub(super) counts: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Clone, Copy)]
enum ChaosFault {
    Faults,
    NoFaults,
    Death,
    Return,
    GuestEnds,
    GuestVanishes,
    Clings,
    Deaf,
    Roads,
}

impl ChaosFaults {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Draws whether a fault strikes before the next operation.
    pub(super) fn perhaps(&mut self, world: &ChaosWorld, life: &Life, dice: &mut Dice) {
        if dice.happens(KILLS) {
            self.count("kills of the control plane");
            life.store.arm(Some(1 + dice.below(60)));
        }
        if dice.happens(TROUBLES) {
            self.one(world, dice);
        }
    }

    /// Lets one fault strike while no control plane runs.
    pub(super) fn meanwhile(&mut self, world: &ChaosWorld, dice: &mut Dice) {
        self.one(world, dice);
    }

    fn one(&mut self, world: &ChaosWorld, dice: &mut Dice) {
        let fleet = &world.fleet;
        let down: Vec<usize> = (0..fleet.len()).filter(|host| !fleet.is_alive(*host)).collect();
        let host = dice.index(fleet.len());
        let many_down = down.len() * DOWN >= fleet.len();
        let kind = dice.weighed(&[
            (60, ChaosFault::Faults),
            (25, ChaosFault::NoFaults),
            (if many_down { 0 } else { 14 }, ChaosFault::Death),
            (if many_down { 40 } else { 14 }, ChaosFault::Return),
            (6, ChaosFault::GuestEnds),
            (2, ChaosFault::GuestVanishes),
            (2, ChaosFault::Clings),
            (2, ChaosFault::Deaf),
            (3, ChaosFault::Roads),
        ]);
        match kind {
            Some(ChaosFault::Faults) => {
                self.count("hosts with faults");
                fleet.set_faults(host, faults(dice));
            }
            Some(ChaosFault::NoFaults) => fleet.set_faults(host, FaultPlan::default()),
            Some(ChaosFault::Death) => {
                self.count("hosts cut off");
                fleet.kill_host(host);
            }
            Some(ChaosFault::Return) => {
                if let Some(host) = dice.one_of(&down) {
                    self.count("hosts returned");
                    returned(world, host, dice.happens(500));
                }
            }
            Some(ChaosFault::Roads) => {
                let fails = dice.happens(300);
                if fails {
                    self.count("spells in which live migrations fail");
                }
                fleet.fail_travellers(fails.then_some("the connection was reset"));
            }
            Some(guest) => self.befall_a_guest(guest, world, host, dice),
            None => {}
        }
    }

    fn befall_a_guest(&mut self, what: ChaosFault, world: &ChaosWorld, host: usize, dice: &mut Dice) {
        let fleet = &world.fleet;
        let guests: Vec<InstanceId> = fleet.guests(host).into_keys().collect();
        let Some(guest) = dice.one_of(&guests) else { return };
        // Some faults last until a later draw ends them. Only their beginning counts.
        let (what, begins, done) = match what {
            ChaosFault::GuestEnds => ("guests ended by themselves", true, fleet.crash_guest(host, guest)),
            ChaosFault::GuestVanishes => ("guests undefined by somebody else", true, fleet.lose_guest(host, guest)),
            ChaosFault::Clings => {
                let clings = dice.happens(500);
                ("guests that keep their devices", clings, fleet.set_clings(host, guest, clings))
            }
            _ => {
                let deaf = dice.happens(500);
                ("guests that ignore the power button", deaf, fleet.set_deaf(host, guest, deaf))
            }
        };
        if begins && done.is_ok() {
            self.count(what);
        }
    }
}

/// Brings a host back. If `guests_survived`, only its network failed, and its guests kept running.
fn returned(world: &ChaosWorld, host: usize, guests_survived: bool) {
    if let Err(error) = world.fleet.revive_host(host, guests_survived) {
        tracing::error!(host, %error, "a simulated host does not come back");
    }
}

/// Ends all faults and brings every host back.
pub(super) fn end(world: &ChaosWorld, dice: &mut Dice) {
    world.fleet.set_all_faults(&FaultPlan::default());
    world.fleet.fail_travellers(None);
    for host in 0..world.fleet.len() {
        let survived = dice.happens(500);
        if !world.fleet.is_alive(host) {
            returned(world, host, survived);
        }
        for guest in world.fleet.guests(host).into_keys() {
            // The guest may have gone meanwhile.
            let _ = world.fleet.set_clings(host, guest, false);
            let _ = world.fleet.set_deaf(host, guest, false);
        }
    }
}

fn faults(dice: &mut Dice) -> FaultPlan {
    const WORK: [DriverCall; 24] = [
        DriverCall::Spawn,
        DriverCall::Destroy,
        DriverCall::Start,
        DriverCall::Stop,
        DriverCall::RebootHard,
        DriverCall::Pause,
        DriverCall::Suspend,
        DriverCall::Resume,
        DriverCall::EnsureImage,
        DriverCall::EnsureNetwork,
        DriverCall::EnsureFilter,
        DriverCall::Redefine,
        DriverCall::CopyRoot,
        DriverCall::RemoveCopy,
        DriverCall::AttachDisk,
        DriverCall::DetachDisk,
        DriverCall::AttachNic,
        DriverCall::DetachNic,
        DriverCall::CreateVolume,
        DriverCall::ReceiveDisk,
        DriverCall::Install,
        DriverCall::StartMigration,
        DriverCall::MigrationState,
        DriverCall::PrepareDestination,
    ];
    const EFFECTS: [(u64, Effect); 7] = [
        (30, Effect::Refuse),
        (30, Effect::LoseReply),
        (20, Effect::Slow),
        (6, Effect::NoRoom),
        (8, Effect::Tear),
        (3, Effect::DieBefore),
        (3, Effect::DieAfter),
    ];
    let mut plan = FaultPlan::default();
    for _ in 0..=dice.below(6) {
        let call = if dice.happens(800) { dice.one_of(&WORK) } else { dice.one_of(DriverCall::ALL) };
        let chance = dice.one_of(&[0.1, 0.3, 0.7]);
        if let (Some(call), Some(chance), Some(effect)) = (call, chance, dice.weighed(&EFFECTS)) {
            // Only these calls can fail half-way.
            let whole = effect == Effect::Tear && !matches!(call, DriverCall::Spawn | DriverCall::Destroy);
            let effect = if whole { Effect::Refuse } else { effect };
            plan = plan.with(call, FaultTrigger::Chance(chance), effect);
        }
    }
    plan
}
