//! Random traffic on a small fleet while hosts and driver calls fail, and the control plane crashes at random appends.
//! After all faults are repaired, nothing is lost, duplicated, stuck or leaked, and the read models equal a rebuild.
//!
//! A seed decides the traffic, the faults and the crashes (not the order in which tasks run). Every seed is printed.
//! `CHRONOVA_SIMULATION_SEED` repeats the run of one seed; `CHRONOVA_SIMULATION_RUNS` sets the number of runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use chronova_events::entropy::SplitMix;
use chronova_events::ids::InstanceId;
use chronova_events::instance::PowerAction;
use chronova_events::store::EventStore;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger, SimUri};
use chronova_projections::checkpoint;
use chronova_tests::world::{Life, World};
use uuid::Uuid;

const RUNS: u64 = 6;
const HOSTS: usize = 3;
/// Lives of the control plane in one run. The last life does not crash, and repairs everything.
const LIVES: usize = 5;
const REQUESTS_A_LIFE: usize = 30;

struct Dice(SplitMix);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0.draw() % sides
    }

    fn host(&mut self) -> usize {
        usize::try_from(self.roll(HOSTS as u64)).unwrap()
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.roll(all.len() as u64)).unwrap()]
    }

    fn faults(&mut self) -> FaultPlan {
        const CALLS: [DriverCall; 8] = [
            DriverCall::Spawn,
            DriverCall::Destroy,
            DriverCall::Start,
            DriverCall::Stop,
            DriverCall::Redefine,
            DriverCall::EnsureImage,
            DriverCall::EnsureNetwork,
            DriverCall::Guests,
        ];
        const EFFECTS: [Effect; 6] =
            [Effect::Refuse, Effect::NoRoom, Effect::LoseReply, Effect::Tear, Effect::DieBefore, Effect::DieAfter];
        let mut plan = FaultPlan::default();
        for _ in 0..self.roll(4) {
            plan = plan.with(self.one_of(&CALLS), FaultTrigger::Chance(0.1), self.one_of(&EFFECTS));
        }
        plan
    }
}

/// The requests that decide which servers may exist at the end: all builds, and the acknowledged deletes.
#[derive(Default)]
struct SentRequests {
    /// Every requested server, and whether its build was acknowledged.
    servers: Vec<(InstanceId, bool)>,
    deleted: Vec<InstanceId>,
}

async fn traffic(world: &World, life: &Life, dice: &mut Dice, sent: &mut SentRequests) {
    for _ in 0..REQUESTS_A_LIFE {
        if life.store.is_blown() {
            return;
        }
        one(world, life, dice, sent).await;
        tokio::time::sleep(Duration::from_micros(dice.roll(4_000))).await;
    }
}

async fn one(world: &World, life: &Life, dice: &mut Dice, sent: &mut SentRequests) {
    let choice = dice.roll(100);
    if choice < 35 || sent.servers.is_empty() {
        let server = InstanceId(Uuid::from_u128(sent.servers.len() as u128 + 1));
        let acknowledged = life.build(server).await.is_ok();
        sent.servers.push((server, acknowledged));
        return;
    }
    let (server, _) = sent.servers[usize::try_from(dice.roll(sent.servers.len() as u64)).unwrap()];
    match choice {
        35..=54 => {
            if life.delete(server).await.is_ok() {
                sent.deleted.push(server);
            }
        }
        55..=79 => {
            let action = dice.one_of(&[
                PowerAction::Start,
                PowerAction::Stop,
                PowerAction::RebootSoft,
                PowerAction::RebootHard,
                PowerAction::Pause,
                PowerAction::Unpause,
                PowerAction::Suspend,
                PowerAction::Resume,
            ]);
            // The action is refused in most states. An accepted action must end.
            let _ = life.power(server, action).await;
        }
        80..=85 => world.fleet.kill_host(dice.host()),
        86..=91 => world.fleet.revive_host(dice.host(), dice.roll(2) == 0).unwrap(),
        92..=95 => world.fleet.set_faults(dice.host(), dice.faults()),
        _ => {
            // If the server has no guest on this host, the call has no effect.
            let host = dice.host();
            let _ = match dice.roll(2) {
                0 => world.fleet.crash_guest(host, server),
                _ => world.fleet.lose_guest(host, server),
            };
        }
    }
}

/// Ends all faults and makes every host reachable. Starts servers that do not run, which recreates lost guests.
async fn heal(world: &World, life: &Life) {
    for host in 0..HOSTS {
        world.fleet.set_faults(host, FaultPlan::default());
        world.fleet.revive_host(host, false).unwrap();
    }
    life.hosts_up(HOSTS).await;
    life.settled().await;
    compared(world, life).await;
    life.settled().await;
    let servers: Vec<InstanceId> =
        life.context().views.servers.read(|servers| servers.all().map(|row| row.id).collect());
    for server in servers {
        match life.status(server) {
            "SHUTOFF" => life.power(server, PowerAction::Start).await.unwrap(),
            "PAUSED" | "SUSPENDED" => life.power(server, PowerAction::RebootHard).await.unwrap(),
            _ => {}
        }
    }
    life.settled().await;
    // The resync removes leftovers without a request.
    compared(world, life).await;
    life.settled().await;
}

/// Waits until the hosts have listed their guests four times each on average. That usually suffices for two comparisons
/// of each host with the log.
async fn compared(world: &World, life: &Life) {
    let wanted = world.fleet.calls(DriverCall::Guests) + 4 * HOSTS as u64;
    life.until(|_| world.fleet.calls(DriverCall::Guests) >= wanted).await;
}

async fn run(seed: u64) {
    eprintln!("CHRONOVA_SIMULATION_SEED={seed}");
    let mut dice = Dice(SplitMix::new(seed));
    let uri = SimUri { vcpus: 8, memory_mib: 8192, disk_gib: 100, seed, ..SimUri::new(HOSTS) };
    let mut world = World::of(uri);
    world.options.hosts.resync = Duration::from_millis(50);
    world.options.hosts.heartbeat = Duration::from_millis(20);
    let mut sent = SentRequests::default();
    for _ in 1..LIVES {
        let fuse = 20 + dice.roll(400);
        let life = world.live(Some(fuse), None).await;
        traffic(&world, &life, &mut dice, &mut sent).await;
        // A life that did not reach its fuse may crash here, while processes are under way.
        if dice.roll(2) == 0 {
            tokio::time::sleep(Duration::from_millis(dice.roll(40))).await;
            life.store.blow();
        }
        life.stop().await;
    }
    let life = world.live(None, None).await;
    traffic(&world, &life, &mut dice, &mut sent).await;
    heal(&world, &life).await;
    let head = life.store.head();
    assert!(life.context().views.wait_for(head, Duration::from_mins(1)).await);
    let differences = checkpoint::differences(&life.context().views, &world.views().await, 10);
    life.stop().await;
    assert_eq!(differences, Vec::<String>::new(), "seed {seed}: the read models differ from a rebuild");
    world.check().await;
    fulfilled(&world, &sent, seed).await;
}

async fn fulfilled(world: &World, sent: &SentRequests, seed: u64) {
    let story = world.story().await;
    for (server, acknowledged) in &sent.servers {
        let status = story.iter().find(|(id, _)| id == server).map_or("ABSENT", |(_, status)| status);
        let possible: &[&str] = match (sent.deleted.contains(server), acknowledged) {
            (true, _) => &["DELETED"],
            (false, true) => &["ACTIVE", "ERROR", "DELETED"],
            (false, false) => &["ABSENT", "ACTIVE", "ERROR", "DELETED"],
        };
        assert!(possible.contains(&status), "seed {seed}: {server} is {status}, not one of {possible:?}");
    }
    let guests = world.fleet.whereabouts().len();
    eprintln!("  {} servers asked for, {} deleted, {guests} running", sent.servers.len(), sent.deleted.len());
}

#[actix_rt::test]
async fn after_random_faults_nothing_is_lost_doubled_stuck_or_leaked() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("CHRONOVA_SIMULATION_SEED") {
        return run(seed).await;
    }
    for seed in 1..=number("CHRONOVA_SIMULATION_RUNS").unwrap_or(RUNS) {
        run(seed).await;
    }
}
