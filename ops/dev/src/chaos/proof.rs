//! Verifies the log of a run, and shows the history of a server.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_events::chain::{Chain, EventHash};
use chronova_events::envelope::{Position, Revision, StreamId, Timestamp};
use chronova_events::fold::Fold as _;
use chronova_events::ids::InstanceId;
use chronova_events::instance::Instance;
use chronova_events::process::ProcessEvent;
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
use chronova_hypervisor::sim::{DriverCall, SharedDiskBreach};

use super::check::BrokenInvariant;
use super::world::ChaosWorld;

/// A start of a guest within this time after another host's return does not count as a breach. The time is twice the
/// latency of a driver call.
const MOMENT: Duration = Duration::from_millis(40);
/// The most characters of an event in the report.
const WIDTH: usize = 230;
const LAST: usize = 24;

/// Verifies the hash chain from the first event to the last. Returns the number of events, the last hash, and the
/// position of a break.
pub(super) async fn chain(log: &dyn EventStore) -> Result<(u64, EventHash, Option<Position>)> {
    let (mut chain, mut position, mut broken) = (Chain::after(EventHash::default()), Position::START, None);
    loop {
        let batch = log.read_all(position, 4_096).await?;
        let Some(last) = batch.last() else { return Ok((position.0, chain.head, broken)) };
        for recorded in &batch {
            if !chain.accepts(recorded) && broken.is_none() {
                broken = Some(recorded.position);
            }
        }
        position = last.position;
    }
}

/// Writes every event of the log to `file`, one line each: position, time in microseconds since 1970, stream, event.
pub(super) async fn write_out(log: &dyn EventStore, file: &Path) -> Result<()> {
    let mut out = BufWriter::new(File::create(file).with_context(|| format!("{} cannot be written", file.display()))?);
    let mut position = Position::START;
    loop {
        let batch = log.read_all(position, 4_096).await?;
        let Some(last) = batch.last() else { break };
        for recorded in &batch {
            let (at, stream) = (recorded.recorded_at.0, &recorded.stream);
            writeln!(out, "{} {at} {stream} {:?}", recorded.position.0, recorded.event()?)?;
        }
        position = last.position;
    }
    Ok(out.flush()?)
}

/// The last events of a server and of the processes that worked on it.
pub(super) async fn story(log: &dyn EventStore, server: InstanceId) -> Result<String> {
    let mut streams = BTreeSet::from([StreamId::new("instance", server)]);
    let (mut lines, mut position) = (Vec::new(), Position::START);
    loop {
        let batch = log.read_all(position, 4_096).await?;
        let Some(last) = batch.last() else { break };
        for recorded in &batch {
            let Ok(event) = recorded.event() else { continue };
            if let Event::ProcessEvent(ProcessEvent::Started(started)) = event.as_ref()
                && started.task.instance() == Some(server)
            {
                streams.insert(recorded.stream.clone());
            }
            if streams.contains(&recorded.stream) {
                let mut text = format!("{event:?}");
                if let Some((end, _)) = text.char_indices().nth(WIDTH) {
                    text.truncate(end);
                    text.push_str("...");
                }
                lines.push(format!("    {:>8} {} {text}", recorded.position.0, recorded.stream));
            }
        }
        position = last.position;
    }
    let mut told = String::new();
    for line in &lines[lines.len().saturating_sub(LAST)..] {
        let _ = writeln!(told, "{line}");
    }
    Ok(told)
}

/// Driver calls that used a disk on shared storage while another host owned it.
pub(super) async fn shared_disk_breaches(world: &ChaosWorld) -> Result<Vec<BrokenInvariant>> {
    let (fleet, mut wrong) = (&world.fleet, Vec::new());
    // Any host may remove the disks of a deleted server.
    let lives = |breach: &SharedDiskBreach| fleet.whereabouts().contains_key(&breach.instance);
    for SharedDiskBreach { instance, at, call, here, there } in fleet.shared_disk_breaches().into_iter().filter(lives) {
        let server = as_of(world.log.as_ref(), instance, world.moment(at)).await?;
        let Some(server) = server.alive() else { continue };
        // The control plane may start a guest before it can ask a host that has just come back. Then QEMU's lock
        // protects the disk.
        let starts = matches!(call, DriverCall::Install | DriverCall::Spawn | DriverCall::Start | DriverCall::Redefine);
        let knows = |up_for: Duration| !starts || up_for > MOMENT;
        let there = there.into_iter().filter(|(_, up_for)| knows(*up_for)).map(|(other, _)| other);
        for other in there.filter(|other| server.concerns(fleet.uri().host_id(*other))) {
            let (call, here, other) = (call.name(), fleet.hostname(here), fleet.hostname(other));
            let what = format!("its disk was removed or written over while {other} had it: {call} on {here}");
            wrong.push(BrokenInvariant::of(instance, what));
        }
    }
    Ok(wrong)
}

/// The state of a server at a past moment.
async fn as_of(log: &dyn EventStore, id: InstanceId, moment: Timestamp) -> Result<Instance> {
    let (mut server, stream) = (Instance::default(), StreamId::new("instance", id));
    let mut read = Revision::NONE;
    loop {
        let batch = log.read_stream(&stream, read, 4_096).await?;
        let Some(last) = batch.last() else { return Ok(server) };
        read = last.revision;
        for recorded in &batch {
            if recorded.recorded_at > moment {
                return Ok(server);
            }
            if let Event::InstanceEvent(event) = recorded.event()?.as_ref() {
                server.evolve(event, recorded.recorded_at);
            }
        }
    }
}
