//! What the log of a run proves, what it tells of a server, and a defect that is planted to be found.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use chronova_actors::process::interference::{Interference, Verdict, Way};
use chronova_events::chain::{Chain, EventHash};
use chronova_events::envelope::{Position, StreamId};
use chronova_events::ids::InstanceId;
use chronova_events::process::ProcessEvent;
use chronova_events::registry::Event;
use chronova_events::store::EventStore;

/// How much of an event is told, and how many of them.
const WIDTH: usize = 230;
const LAST: usize = 24;

/// Follows the chain from the first event to the last; gives back how many there are and the last one's hash, or where the
/// chain breaks.
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

/// `delete_instance.release_claim@3`: the third time that this step is due it is said to be done, and is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plant {
    process: String,
    step: String,
    nth: u64,
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}@{}", self.process, self.step, self.nth)
    }
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not PROCESS.STEP@N");
        let (step, nth) = text.split_once('@').ok_or_else(wrong)?;
        let (process, step) = step.split_once('.').ok_or_else(wrong)?;
        let nth = nth.parse().ok().filter(|nth| *nth > 0).ok_or_else(wrong)?;
        Ok(Self { process: process.to_owned(), step: step.to_owned(), nth })
    }
}

/// Somebody who skips what the plant says.
pub(super) struct Gardener {
    plant: Plant,
    seen: AtomicU64,
}

impl Gardener {
    pub(super) fn new(plant: Plant) -> Self {
        Self { plant, seen: AtomicU64::new(0) }
    }
}

impl Interference for Gardener {
    fn judge(&self, process: &'static str, step: &'static str, way: Way) -> Verdict {
        let here = (process, step, way) == (self.plant.process.as_str(), self.plant.step.as_str(), Way::Run);
        match here && self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.plant.nth {
            true => Verdict::Skip,
            false => Verdict::Pass,
        }
    }
}
