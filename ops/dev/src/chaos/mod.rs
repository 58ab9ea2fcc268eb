//! `chronova-dev chaos`: random operations on a simulated fleet, while hosts fail, driver calls fail or are slow, and
//! the control plane is killed. Afterwards nothing may be stuck, lost, duplicated or left behind.
//!
//! A run has the whole control plane: API, actors, processes, scheduler, reconcilers, host agents. The run simulates
//! the hosts ([`chronova_hypervisor::sim`]), the image service and the clock.
//!
//! | file | what |
//! |---|---|
//! | `draws` | random draws from the seed |
//! | `world` | the parts that outlive a control plane, and one life of it |
//! | `images` | the image service |
//! | `operations`, `traffic` | the operations, the choice of the next one, the answers |
//! | `faults` | faults, and when they strike |
//! | `final_checks` | all faults end and all work finishes; then everything is deleted |
//! | `check` | the invariants that must hold at the end |
//! | `proof` | the chain of the log, the story of a server |
//! | `planted_defect` | a deliberate defect, which the check must find |
//! | `settings`, `findings` | the settings and the findings of a run |
//! | `report` | the report |
//!
//! Invariant: the same seed, number of operations, number of hosts and kind of storage give the same log, byte for
//! byte. Everything runs on one thread. The clock stands still while work is ready, and then jumps to the next due
//! time. Ids, draws and faults derive from the seed ([`chronova_events::entropy`]). Nothing here may ask the machine
//! for time, randomness or threads.

mod check;
mod draws;
mod faults;
mod final_checks;
mod findings;
mod images;
mod operations;
mod planted_defect;
mod proof;
mod report;
mod settings;
#[cfg(test)]
mod tests;
mod traffic;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chronova_actors::process::interference::Interference;
use chronova_events::entropy;
use serde_json::Value;

use super::settings::Common;
use draws::Dice;
use faults::ChaosFaults;
use findings::ChaosFindings;
use planted_defect::{DefectPlanter, PlantedDefect};
use settings::Settings;
use traffic::ChaosTraffic;
use world::{ChaosRequest, ChaosWorld, Life};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ChaosArgs {
    /// Operations asked for
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    operations: u32,
    /// Simulated hosts
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    hosts: u32,
    /// The source of all chances; the same number gives the same run [default: one from the machine]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Runs, with this seed and those that follow it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: u32,
    /// The hosts have one storage for the guests' disks; otherwise each has its own
    #[arg(long)]
    shared_storage: bool,
    /// Plants a defect: at the Nth time, a step reports success without doing anything
    #[arg(long, value_name = "PROCESS.STEP@N", hide = true)]
    plant: Option<PlantedDefect>,
    /// Writes the log to a file as well, an event a line
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Prints every operation on standard error
    #[arg(long, hide = true)]
    trace: bool,
}

/// Runs with each seed until one fails.
pub(super) fn run(common: &Common, args: &ChaosArgs) -> Result<ExitCode> {
    // The seed has few digits, because people type it.
    let first = args.seed.unwrap_or_else(|| entropy::number() % 1_000_000);
    for seed in (0..u64::from(args.seeds)).map(|next| first.wrapping_add(next)) {
        let settings = Settings {
            seed,
            operations: common.sized(args.operations, args.operations.min(500)),
            hosts: common.sized(args.hosts, args.hosts.min(20)),
            shared_storage: args.shared_storage,
            plant: args.plant.clone(),
            log_file: args.log_file.clone(),
            trace: args.trace,
        };
        let found = once(&settings).with_context(|| format!("seed {seed}: `{}` repeats it", settings.command()))?;
        let text = if common.json {
            format!("{:#}\n", report::json(&settings, &found))
        } else {
            report::text(&settings, &found)
        };
        chronova::output::print(&text);
        if !found.wrong.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Executes one run on a new thread, so that it shares no thread-local state with other runs.
fn once(settings: &Settings) -> Result<ChaosFindings> {
    let (settings, begun) = (settings.clone(), Instant::now());
    let thread = std::thread::Builder::new().name("chaos".to_owned()).spawn(move || -> Result<ChaosFindings> {
        entropy::seed_this_thread(Some(settings.seed));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        let system = actix_rt::System::with_tokio_rt(move || runtime);
        let found = system.block_on(live_through(&settings));
        entropy::seed_this_thread(None);
        found
    });
    let found = thread.context("no thread")?.join();
    let mut found = found.map_err(|_| anyhow::anyhow!("the run panicked"))??;
    found.took = begun.elapsed();
    Ok(found)
}

async fn live_through(settings: &Settings) -> Result<ChaosFindings> {
    let interference = settings.plant.clone().map(|plant| Arc::new(DefectPlanter::new(plant)) as Arc<dyn Interference>);
    let world = ChaosWorld::new(settings, interference)?;
    let mut dice = Dice::new(settings.seed);
    let mut life = world.begin().await?;
    ensure!(final_checks::hosts_answer(&world, &life).await, "the hosts never came up");
    let networks = furnish(&life).await?;
    let (mut faults_at_work, mut lives) = (ChaosFaults::default(), 1);
    let mut traffic = ChaosTraffic::new(Dice::new(settings.seed ^ 0x000d_ecaf), networks);
    traffic.trace = settings.trace;
    for index in 0..settings.operations {
        if life.store.is_blown() {
            life = restart(&world, life, &mut traffic, &mut faults_at_work, &mut dice).await?;
            lives += 1;
        }
        faults_at_work.perhaps(&world, &life, &mut dice);
        traffic.ask(index, &world, &life);
        let pause = if dice.happens(250) { Duration::ZERO } else { dice.milliseconds(300) };
        tokio::time::sleep(pause).await;
        if index.is_multiple_of(250) && !settings.trace {
            chronova::output::complain(&format!(
                "\rchaos: seed {}: {index} of {} ",
                settings.seed, settings.operations
            ));
        }
    }
    if life.store.is_blown() {
        life = restart(&world, life, &mut traffic, &mut faults_at_work, &mut dice).await?;
        lives += 1;
    }
    chronova::output::complain("\r\x1b[K");
    final_checks::come_to_rest(settings, &world, life, traffic, faults_at_work, lives, dice).await
}

/// Kills the control plane, and starts another one after a while. Meanwhile hosts still fail and return.
async fn restart(
    world: &ChaosWorld,
    dead: Life,
    traffic: &mut ChaosTraffic,
    faults_at_work: &mut ChaosFaults,
    dice: &mut Dice,
) -> Result<Life> {
    traffic.cut().await;
    dead.end().await;
    for _ in 0..dice.below(4) {
        faults_at_work.meanwhile(world, dice);
        tokio::time::sleep(dice.milliseconds(8_000)).await;
    }
    world.begin().await
}

/// Creates flavors and networks and lifts the quotas. Returns the networks' ids.
async fn furnish(life: &Life) -> Result<Vec<String>> {
    let ask = async |request: ChaosRequest| -> Result<Value> {
        let path = request.path.clone();
        let (status, body) = life.api.ask(request).await;
        ensure!(status < 300, "{path}: {status}: {body}");
        Ok(body)
    };
    for request in operations::furniture() {
        ask(request).await?;
    }
    let mut networks = Vec::new();
    for number in 1..=2 {
        let made = ask(operations::network(number)).await?;
        let id = made["network"]["id"].as_str().context("a network without an id")?.to_owned();
        ask(operations::subnet(&id, number)).await?;
        networks.push(id);
    }
    Ok(networks)
}
