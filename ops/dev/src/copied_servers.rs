//! Fills a log with copied servers: the events of one built server, repeated with other ids.
//!
//! A million servers over the API would take an hour; copying their events takes minutes. Every event is a copy of one
//! that the program wrote. The ids of the server, its process, its project, its host and its request are replaced by
//! others of the same length. The server's number and names, the host's name, and the times differ, too. So the log has
//! all events that the program would record. The simulated hosts get the guests, too.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronova_events::codec::BINCODE_2;
use chronova_events::entropy;
use chronova_events::envelope::{Cause, Meta, NewEvent, Position, Recorded, StreamId, Timestamp};
use chronova_events::host::HostEvent;
use chronova_events::ids::{HostId, InstanceId, ProcessId, ProjectId, RequestId};
use chronova_events::instance::{BuildRequested, InstanceEvent};
use chronova_events::registry::Event;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use chronova_projections::synthetic_log::SyntheticEvents;
use futures::{StreamExt as _, TryStreamExt as _};
use uuid::Uuid;

use super::settings::in_system;

/// Servers per append of claims and quota.
const CHUNK: usize = 1_000;
/// Appends under way at the same time.
const AT_ONCE: usize = 512;
const PAGE: usize = 10_000;

/// Adds `servers` servers to the log in `data`, evenly over the hosts. Blocks of [`CHUNK`] servers belong to `projects`
/// new projects in turn. The control plane must be stopped, and must have built one server before.
pub(super) fn fill(data: &Path, servers: usize, projects: usize) -> Result<()> {
    in_system(filled(data, servers, projects.max(1)))
}

async fn filled(data: &Path, servers: usize, projects: usize) -> Result<()> {
    let store = SqliteStore::open(data.join("log.db"), &SqliteOptions::default())?;
    let pattern = Pattern::read(&store).await?;
    for first in (0..servers).step_by(CHUNK) {
        chronova::output::complain(&format!("\rfilling: {first} of {servers} servers "));
        let project = ProjectId::new(format!("{:032x}", 0xf111_0000_u128 + (first / CHUNK % projects) as u128));
        let chunk: Vec<Copied> =
            (first..servers.min(first + CHUNK)).map(|number| pattern.copy(number, &project)).collect::<Result<_>>()?;
        let mut lines: BTreeMap<String, String> = BTreeMap::new();
        let (mut servers, mut processes) = (Vec::with_capacity(chunk.len()), Vec::with_capacity(chunk.len()));
        let (mut ledger, mut quota) = (Vec::new(), Vec::new());
        for copied in chunk {
            lines.entry(copied.fleet).or_default().push_str(&copied.guest);
            ledger.extend(copied.ledger);
            quota.extend(copied.quota);
            servers.push((StreamId::new("instance", copied.id), copied.instance));
            processes.push((StreamId::new("process", copied.process_id), copied.process));
        }
        append(&store, vec![(StreamId::new("quota", &project), quota)]).await?;
        // The servers' events come first, because they request the processes. The read models would ignore the end of
        // a process that is not requested yet, and the process would seem unfinished.
        append(&store, servers).await?;
        append(&store, processes).await?;
        append(&store, vec![(pattern.ledger.clone(), ledger)]).await?;
        for (fleet, lines) in &lines {
            journal(data, fleet, lines)?;
        }
    }
    chronova::output::complain("\r\x1b[K");
    store.close().await;
    Ok(())
}

/// Adds `events` events of servers that were built, stopped, started and deleted. At the end, `alive` servers exist.
pub(super) fn live(data: &Path, events: u64, alive: usize) -> Result<()> {
    in_system(async move {
        let store = SqliteStore::open(data.join("log.db"), &SqliteOptions::default())?;
        let meta = Meta::system("bench");
        let begin = store.read_all(Position::START, 1).await?.first().map_or(Timestamp(0), |first| first.recorded_at);
        let count = usize::try_from(events)?;
        let appends = SyntheticEvents::new(alive, CYCLES).take(count).zip(1_i64..).map(|((stream, event), number)| {
            let (store, new) = (Arc::clone(&store), NewEvent::new(event, Timestamp(begin.0 + number), &meta));
            async move { store.append(&stream, Expected::Any, vec![new]).await.map(drop) }
        });
        futures::stream::iter(appends).buffered(4 * AT_ONCE).try_for_each(|()| futures::future::ok(())).await?;
        store.close().await;
        Ok(())
    })
}

/// Times that each server is stopped and started.
const CYCLES: u32 = 2;

async fn append(store: &Arc<SqliteStore>, appends: Vec<(StreamId, Vec<NewEvent>)>) -> Result<()> {
    let appends = appends
        .into_iter()
        .map(|(stream, events)| async move { store.append(&stream, Expected::Any, events).await.map(drop) });
    futures::stream::iter(appends).buffered(AT_ONCE).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// Adds guests to the file in which a simulated fleet stores its guests.
fn journal(data: &Path, fleet: &str, lines: &str) -> Result<()> {
    let path = data.join("sim").join(format!("{fleet}.fleet"));
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).with_context(|| path.display().to_string())?;
    Ok(file.write_all(lines.as_bytes())?)
}

/// The events that one server left in the log.
struct Pattern {
    request: BuildRequested,
    host: HostId,
    hostname: String,
    ledger: StreamId,
    events: Vec<FillingEvent>,
    /// The hosts whose names are as long as `hostname`.
    hosts: Vec<(HostId, String)>,
    begin: Timestamp,
    number: u64,
}

struct FillingEvent {
    noun: &'static str,
    kind: &'static str,
    version: u16,
    bytes: Vec<u8>,
    meta: Arc<Meta>,
}

/// The events of one copied server.
struct Copied {
    id: InstanceId,
    process_id: ProcessId,
    instance: Vec<NewEvent>,
    process: Vec<NewEvent>,
    ledger: Vec<NewEvent>,
    quota: Vec<NewEvent>,
    guest: String,
    fleet: String,
}

impl Pattern {
    async fn read(store: &Arc<SqliteStore>) -> Result<Self> {
        let mut all: Vec<Arc<Recorded>> = Vec::new();
        loop {
            let from = all.last().map_or(Position::START, |last| last.position);
            let page = store.read_all(from, PAGE).await?;
            if page.is_empty() {
                break;
            }
            all.extend(page);
        }
        let mut requests = Vec::new();
        let mut hosts: Vec<(HostId, String)> = Vec::new();
        for recorded in &all {
            match &**recorded.event()? {
                Event::InstanceEvent(InstanceEvent::BuildRequested(request)) => requests.push(request.clone()),
                Event::HostEvent(HostEvent::Registered(host)) if hosts.iter().all(|(known, _)| *known != host.host) => {
                    hosts.push((host.host, host.hostname.clone()));
                }
                _ => {}
            }
        }
        let number = requests.iter().map(|request| request.number).max().unwrap_or(0);
        let request = requests.into_iter().find(|request| request.batch == 1).context("no server was built alone")?;
        let placed = all.iter().find_map(|recorded| match recorded.event().ok()?.as_ref() {
            Event::InstanceEvent(InstanceEvent::Placed(placed)) if placed.process == request.process => {
                Some((placed.host, placed.hostname.clone()))
            }
            _ => None,
        });
        let (host, hostname) = placed.context("the server was placed nowhere")?;
        hosts.retain(|(_, name)| name.len() == hostname.len());
        let (mut events, mut ledger) = (Vec::new(), None);
        let own = [request.instance.0.as_bytes().to_vec(), request.instance.to_string().into_bytes()];
        for recorded in &all {
            let key = recorded.stream.key();
            let (event, bytes) = (recorded.event()?, recorded.event()?.encode()?);
            let noun = match event.as_ref() {
                Event::InstanceEvent(_) if key == request.instance.to_string() => "instance",
                Event::ProcessEvent(_) if key == request.process.to_string() => "process",
                Event::LedgerEvent(_) if own.iter().any(|id| holds(&bytes, id)) => {
                    ledger = Some(recorded.stream.clone());
                    "ledger"
                }
                Event::QuotaEvent(_) if own.iter().any(|id| holds(&bytes, id)) => "quota",
                _ => continue,
            };
            let meta = Arc::clone(&recorded.meta);
            events.push(FillingEvent { noun, kind: event.kind(), version: event.version(), bytes, meta });
        }
        let begin = all.last().map_or(Timestamp(0), |last| last.recorded_at);
        let ledger = ledger.context("the server claimed nothing")?;
        Ok(Self { request, host, hostname, ledger, events, hosts, begin, number })
    }

    fn copy(&self, number: usize, project: &ProjectId) -> Result<Copied> {
        let (id, process_id) = (InstanceId::random(), ProcessId::random());
        let (host, hostname) = self.hosts.get(number % self.hosts.len().max(1)).context("there are no hosts")?;
        let (fleet, index) = place_of(hostname).with_context(|| format!("{hostname} is no simulated host"))?;
        let old = &self.request;
        let exchange: [(Vec<u8>, Vec<u8>); 7] = [
            (old.instance.0.as_bytes().to_vec(), id.0.as_bytes().to_vec()),
            (old.instance.to_string().into_bytes(), id.to_string().into_bytes()),
            (old.process.0.as_bytes().to_vec(), process_id.0.as_bytes().to_vec()),
            (old.process.to_string().into_bytes(), process_id.to_string().into_bytes()),
            (old.project.as_str().as_bytes().to_vec(), project.as_str().as_bytes().to_vec()),
            (self.host.0.as_bytes().to_vec(), host.0.as_bytes().to_vec()),
            (self.hostname.as_bytes().to_vec(), hostname.as_bytes().to_vec()),
        ];
        let at = Timestamp(self.begin.0 + i64::try_from(number)? + 1);
        let mut metas: Vec<(*const Meta, Arc<Meta>)> = Vec::new();
        // A listing of one server's events also has every event whose correlation id is in the server's own stream. So
        // each copied server gets correlation ids of its own.
        let mut correlations: BTreeMap<Uuid, Uuid> = BTreeMap::new();
        let mut copied = Copied {
            id,
            process_id,
            instance: Vec::new(),
            process: Vec::new(),
            ledger: Vec::new(),
            quota: Vec::new(),
            guest: String::new(),
            fleet: fleet.to_owned(),
        };
        for part in &self.events {
            let mut bytes = part.bytes.clone();
            for (old, new) in exchange.iter().filter(|(old, new)| old.len() == new.len()) {
                replace(&mut bytes, old, new);
            }
            let mut event = Event::decode(part.kind, part.version, BINCODE_2, &bytes)?;
            if let Event::InstanceEvent(InstanceEvent::BuildRequested(request)) = &mut event {
                request.number = self.number + number as u64 + 1;
                request.name = format!("server-{number}");
                request.hostname = request.name.clone();
            }
            let known = metas.iter().find(|(of, _)| *of == Arc::as_ptr(&part.meta)).map(|(_, meta)| Arc::clone(meta));
            let meta = known.unwrap_or_else(|| {
                let correlation = *correlations.entry(part.meta.correlation).or_insert_with(entropy::uuid);
                let request_id = part.meta.request_id.as_ref().map(|_| RequestId::new(format!("req-{correlation}")));
                let cause = cause(&part.meta.cause, process_id, project);
                let meta = Arc::new(Meta { request_id, correlation, cause, ..(*part.meta).clone() });
                metas.push((Arc::as_ptr(&part.meta), Arc::clone(&meta)));
                meta
            });
            let new = NewEvent::new(event, at, &meta);
            match part.noun {
                "instance" => copied.instance.push(new),
                "process" => copied.process.push(new),
                "ledger" => copied.ledger.push(new),
                _ => copied.quota.push(new),
            }
        }
        let (cpus, memory, disk) = (old.flavor.vcpus, old.flavor.memory_mib, old.flavor.root_gib);
        let name = format!("instance-{:08x}", self.number + number as u64 + 1);
        copied.guest = format!("{index} define {id} {cpus} {memory} {disk} {name}\n{index} on {id}\n");
        Ok(copied)
    }
}

fn cause(of: &Cause, process: ProcessId, project: &ProjectId) -> Cause {
    match of {
        Cause::User { user, roles, .. } => {
            Cause::User { user: user.clone(), project: Some(project.clone()), roles: roles.clone(), source: None }
        }
        Cause::Process { .. } => Cause::Process { process },
        Cause::System { part } => Cause::System { part: part.clone() },
    }
}

/// The fleet and the index of a host: `sim-0001` is host 0 of the fleet `sim`.
fn place_of(hostname: &str) -> Option<(&str, usize)> {
    let (fleet, number) = hostname.rsplit_once('-')?;
    Some((fleet, number.parse::<usize>().ok()?.checked_sub(1)?))
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Replaces every `old` by `new`, which has the same length.
fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let mut at = 0;
    while at + old.len() <= bytes.len() {
        if &bytes[at..at + old.len()] == old {
            bytes[at..at + old.len()].copy_from_slice(new);
            at += old.len();
        } else {
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_replaced_wherever_they_occur() {
        let mut bytes = b"..ab..abab.".to_vec();
        replace(&mut bytes, b"ab", b"xy");
        assert_eq!(bytes, b"..xy..xyxy.");
        assert!(holds(&bytes, b"yx") && !holds(&bytes, b"ab"));
    }
}
