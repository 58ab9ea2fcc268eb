//! The end of a run. The faults stop, all work completes, and the invariants are checked. Then everything is deleted,
//! and leftovers are searched for.

use std::time::Duration;

use anyhow::Result;
use chronova_actors::reconcile::quota;
use chronova_actors::services::embedded::volume::reconcile::quota as volume_room;
use chronova_events::ids::InstanceId;
use chronova_events::instance::{Alive, Instance, Phase, status};
use chronova_events::store::EventStore as _;
use chronova_hypervisor::sim::Effect;
use chronova_projections::checkpoint;
use chronova_projections::processes::Processes;

use super::check::{self, BrokenInvariant};
use super::draws::Dice;
use super::faults::{self, ChaosFaults};
use super::findings::ChaosFindings;
use super::operations::{self, ChaosOperation};
use super::proof;
use super::settings::Settings;
use super::traffic::ChaosTraffic;
use super::world::{ChaosRequest, ChaosWorld, Life};

/// How long all work may take to end, by the run's clock.
const PATIENCE: Duration = Duration::from_hours(2);
/// All work has ended when no event was appended for this long. Every reconciler except that of the image cache runs at
/// least twice in this time.
const CALM: Duration = Duration::from_secs(150);
const LOOK: Duration = Duration::from_secs(5);
/// Number of reported differences between read models.
const DIFFERENCES: usize = 5;
/// Servers with a history in the report.
const STORIES: usize = 3;

pub(super) async fn hosts_answer(world: &ChaosWorld, life: &Life) -> bool {
    for _ in 0..1_000 {
        if all_up(world, life) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    false
}

fn all_up(world: &ChaosWorld, life: &Life) -> bool {
    let context = life.context();
    let answers = |id| context.fleet.driver(id).is_some();
    let up = context.views.hosts.read(|view| view.all().filter(|host| host.up && answers(host.id)).count());
    up == world.fleet.len()
}

/// Whether all work has ended.
fn is_calm(world: &ChaosWorld, life: &Life) -> bool {
    let views = life.views();
    views.position() >= life.store.head()
        && views.processes.read(Processes::is_empty)
        && all_up(world, life)
        && quota::plan(views).is_empty()
        && quota::misfits(views).is_empty()
        && volume_room::plan(views).is_empty()
}

async fn comes_to_rest(world: &ChaosWorld, life: &Life) -> bool {
    let end = world.age() + PATIENCE;
    let (mut since, mut seen) = (world.age(), life.store.head());
    while world.age() < end {
        tokio::time::sleep(LOOK).await;
        let head = life.store.head();
        if !is_calm(world, life) || head != seen {
            (since, seen) = (world.age(), head);
        } else if world.age().saturating_sub(since) >= CALM {
            return true;
        }
    }
    false
}

pub(super) async fn come_to_rest(
    settings: &Settings,
    world: &ChaosWorld,
    life: Life,
    mut traffic: ChaosTraffic,
    faults_at_work: ChaosFaults,
    lives: u32,
    mut dice: Dice,
) -> Result<ChaosFindings> {
    life.store.arm(None);
    faults::end(world, &mut dice);
    let mut wrong = Vec::new();
    if !answered(&mut traffic).await {
        wrong.push(BrokenInvariant::new("requests are never answered".to_owned()));
    }
    // Some work waits for a request that `finish_waiting_work` sends. So only the result of that function counts.
    let _ = comes_to_rest(world, &life).await;
    if !finish_waiting_work(world, &life, &mut dice).await {
        wrong.push(BrokenInvariant::new("the work does not end".to_owned()));
    }
    let rested = rebuilt(world, &life, &mut wrong).await?;
    wrong.extend(check::wrongs(world, &rested, &traffic.tally.borrow()));
    wrong.extend(proof::shared_disk_breaches(world).await?);
    let (servers, migrations) =
        (rested.servers.read(|all| all.all().count()), rested.migrations.read(|view| view.all().count()));
    if wrong.is_empty() {
        if !delete_everything(world, &life).await {
            wrong.push(BrokenInvariant::new("the deletion of everything does not end".to_owned()));
        }
        let gone = rebuilt(world, &life, &mut wrong).await?;
        wrong.extend(check::wrongs(world, &gone, &traffic.tally.borrow()));
        wrong.extend(check::remains(world, &gone));
    }
    life.end().await;
    if let Some(file) = &settings.log_file {
        proof::write_out(world.log.as_ref(), file).await?;
    }
    let (events, head, broken) = proof::chain(world.log.as_ref()).await?;
    wrong.extend(broken.map(|position| BrokenInvariant::new(format!("the chain of the log breaks at {position}"))));
    wrong.sort();
    wrong.dedup();
    let mut stories = Vec::new();
    let mut about: Vec<InstanceId> = wrong.iter().filter_map(|one| one.server).collect();
    about.dedup();
    for server in about.into_iter().take(STORIES) {
        stories.push(format!("  {server}\n{}", proof::story(world.log.as_ref(), server).await?));
    }
    let struck = world.fleet.struck().into_iter().map(|(effect, times)| (word(effect).to_owned(), times)).collect();
    tracing::debug!(seed = settings.seed, "a chaos run has ended");
    Ok(ChaosFindings {
        tally: traffic.tally.take(),
        faults_at_work,
        struck,
        lives,
        events,
        head,
        lasted: world.age(),
        took: Duration::ZERO,
        servers,
        migrations,
        wrong,
        stories,
    })
}

fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::Refuse => "refused",
        Effect::NoRoom => "no room",
        Effect::NoAgent => "no agent",
        Effect::LoseReply => "reply lost",
        Effect::Tear => "half done",
        Effect::DieBefore => "host died before the call",
        Effect::DieAfter => "host died after the call",
        Effect::Slow => "slow",
    }
}

/// Waits for the answers to requests under way.
async fn answered(traffic: &mut ChaosTraffic) -> bool {
    let all = async { while traffic.under_way.join_next().await.is_some() {} };
    tokio::time::timeout(PATIENCE, all).await.is_ok()
}

/// Confirms or reverts resizes, and starts, hard-reboots or unrescues servers that lost their guests. Returns whether all
/// work has ended.
async fn finish_waiting_work(world: &ChaosWorld, life: &Life, dice: &mut Dice) -> bool {
    let mut rests = false;
    // A revert or a reboot can fail, so there are several rounds.
    for _ in 0..3 {
        let mut asked = 0;
        let alive: Vec<(InstanceId, Instance)> =
            life.views().servers.read(|all| all.all().map(|row| (row.id, row.instance.clone())).collect());
        for (id, server) in alive {
            let Some(alive) = server.alive() else { continue };
            let vanished = alive.placement.is_some() && !world.fleet.whereabouts().contains_key(&id);
            let Some(operation) = finishing(alive, vanished, dice) else { continue };
            life.api.ask(operations::plain(operation, id)).await;
            asked += 1;
        }
        rests = comes_to_rest(world, life).await;
        if asked == 0 {
            break;
        }
    }
    rests
}

/// The operation that a server still waits for. `vanished`: the server has a host, but no host has its guest.
pub(super) fn finishing(server: &Alive, vanished: bool, dice: &mut Dice) -> Option<ChaosOperation> {
    match (status::of_alive(server).status, server.phase) {
        ("VERIFY_RESIZE", _) if dice.happens(500) => Some(ChaosOperation::Confirm),
        ("VERIFY_RESIZE", _) => Some(ChaosOperation::Revert),
        (_, Phase::Stopped { .. }) if vanished => Some(ChaosOperation::Start),
        // As in Nova, a rescued server refuses a reboot.
        (_, Phase::Rescued { .. }) if vanished => Some(ChaosOperation::Unrescue),
        _ if vanished => Some(ChaosOperation::RebootHard),
        _ => None,
    }
}

/// Returns whether all work has ended.
async fn delete_everything(world: &ChaosWorld, life: &Life) -> bool {
    let mut rests = false;
    // The API refuses to delete a volume or snapshot that is in use, so deleting everything takes several rounds.
    for _ in 0..3 {
        for request in remaining(life) {
            life.api.ask(request).await;
        }
        rests = comes_to_rest(world, life).await;
    }
    rests
}

fn remaining(life: &Life) -> Vec<ChaosRequest> {
    let views = life.views();
    let mut all: Vec<ChaosRequest> = views.servers.read(|servers| {
        let alive = servers.all().filter(|row| row.instance.alive().is_some());
        alive.map(|row| operations::plain(ChaosOperation::ForceDelete, row.id)).collect()
    });
    for volume in views.volumes.read(|view| view.of(None)) {
        all.extend(volume.snapshots.keys().map(operations::remove_snapshot));
        all.push(operations::remove_volume(volume.created.volume));
    }
    all
}

/// Folds the read models from the whole log. A difference from the live ones is a broken invariant.
async fn rebuilt(
    world: &ChaosWorld,
    life: &Life,
    wrong: &mut Vec<BrokenInvariant>,
) -> Result<chronova_projections::views::Views> {
    life.views().wait_for(life.store.head(), Duration::from_mins(1)).await;
    let rebuilt = world.rebuilt().await?;
    let differences = checkpoint::differences(life.views(), &rebuilt, DIFFERENCES);
    wrong.extend(differences.into_iter().map(|one| BrokenInvariant::new(format!("a rebuild differs: {one}"))));
    Ok(rebuilt)
}
