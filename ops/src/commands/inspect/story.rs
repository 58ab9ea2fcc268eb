//! Collects the events that belong to a subject, and groups them by cause.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::{Cause, Position, Recorded, StreamId, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::host::{Host, HostEvent};
use chronova_events::ids::InstanceId;
use chronova_events::instance::{Instance, InstanceEvent, status};
use chronova_events::process::{Process, ProcessEvent, ProcessOutcome, Task};
use chronova_events::registry::{Event, NounEvent};
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;
use serde::Serialize;
use uuid::Uuid;

use super::super::CommandFailure;
use super::super::log_pages::{mentions, payload, search};
use super::index::{InspectIndex, StorySubject};
use super::words;

/// The history of a subject.
#[derive(Debug, Serialize)]
pub struct Story {
    pub title: String,
    /// The subject's state after the last event that was read, as names and values.
    pub facts: Vec<(String, String)>,
    /// In the order in which they began.
    pub chapters: Vec<Chapter>,
}

/// The events that one request, or one action of the system, caused.
#[derive(Debug, Serialize)]
pub struct Chapter {
    pub title: String,
    pub request_id: Option<String>,
    pub correlation: String,
    /// The user, the process or the part of the system that made the request.
    pub by: String,
    pub began: String,
    pub took_seconds: f64,
    /// How the chapter's processes ended; `None` if it started no process.
    pub outcome: Option<&'static str>,
    pub lines: Vec<StoryLine>,
}

/// One event.
#[derive(Debug, Serialize)]
pub struct StoryLine {
    pub position: u64,
    pub at: String,
    /// Seconds since the chapter began.
    pub after_seconds: f64,
    /// Seconds since the previous event of the same process in this chapter; `None` for its first event, and for events
    /// of other streams.
    pub took_seconds: Option<f64>,
    /// The cause: `user`, the name of a process, or the part of the system.
    pub by: String,
    pub stream: String,
    pub kind: String,
    pub text: String,
    /// Whether something failed or was undone.
    pub trouble: bool,
}

pub(super) async fn tell(
    store: &dyn EventStore,
    index: &InspectIndex,
    subject: &StorySubject,
    until: Position,
    now: Timestamp,
) -> Result<Story, CommandFailure> {
    let mut events = candidates(store, index, subject, until).await?;
    let requests = requests_of(index, subject, &events);
    events.retain(|recorded| belongs(recorded, index, subject, &requests));
    let mut chapters: Vec<Vec<&Recorded>> = Vec::new();
    let mut by_correlation: BTreeMap<Uuid, usize> = BTreeMap::new();
    for recorded in &events {
        let chapter = *by_correlation.entry(recorded.meta.correlation).or_insert_with(|| {
            chapters.push(Vec::new());
            chapters.len() - 1
        });
        chapters[chapter].push(recorded);
    }
    let chapters = chapters.iter().map(|events| chapter(events, index)).collect::<Result<_, _>>()?;
    Ok(Story { title: index.title(subject), facts: facts(subject, &events, now)?, chapters })
}

/// The events that may belong to the subject: those that name it, and all events of its requests.
async fn candidates(
    store: &dyn EventStore,
    index: &InspectIndex,
    subject: &StorySubject,
    until: Position,
) -> Result<Vec<Arc<Recorded>>, CommandFailure> {
    let mut criteria = match subject {
        StorySubject::Server(id) => Criteria::default().server(*id),
        StorySubject::Process(id) => Criteria { servers: vec![id.0], ..Criteria::default() },
        StorySubject::Host(id) => Criteria::default().host(*id),
        StorySubject::Request(id) => Criteria { request_ids: vec![id.clone()], ..Criteria::default() },
    };
    criteria.learn(store).await?;
    loop {
        let mut events = Vec::new();
        search(store, until, &criteria, |recorded| {
            events.push(Arc::clone(recorded));
            Ok(())
        })
        .await?;
        // A request may have begun a process of the subject without an event of the subject itself.
        let own = events.iter().filter(|recorded| is_own(recorded, index, subject));
        let known = criteria.correlations.len();
        criteria.correlations.extend(own.map(|recorded| recorded.meta.correlation));
        if criteria.correlations.len() == known {
            return Ok(events);
        }
    }
}

/// Whether all events of the event's request may belong to the subject.
fn is_own(recorded: &Recorded, index: &InspectIndex, subject: &StorySubject) -> bool {
    match subject {
        StorySubject::Server(id) => server_of(&recorded.stream, index) == Some(*id),
        StorySubject::Process(id) => recorded.stream.key() == id.to_string(),
        StorySubject::Host(_) | StorySubject::Request(_) => false,
    }
}

/// The requests (by correlation) that concern a server, and the servers that each of them concerns.
fn requests_of(
    index: &InspectIndex,
    subject: &StorySubject,
    events: &[Arc<Recorded>],
) -> BTreeMap<Uuid, BTreeSet<InstanceId>> {
    let StorySubject::Server(id) = subject else { return BTreeMap::new() };
    let mut requests: BTreeMap<Uuid, BTreeSet<InstanceId>> = BTreeMap::new();
    for recorded in events {
        if let Some(server) = server_of(&recorded.stream, index) {
            requests.entry(recorded.meta.correlation).or_default().insert(server);
        }
    }
    requests.retain(|_, servers| servers.contains(id));
    requests
}

/// The name of a process's subject.
fn subject_word(task: &Task) -> &'static str {
    match task.subject() {
        chronova_events::process::ProcessSubject::Server(_) => "server",
        chronova_events::process::ProcessSubject::Volume(_) => "volume",
        chronova_events::process::ProcessSubject::Host(_) => "host",
        chronova_events::process::ProcessSubject::Project(_) => "project",
    }
}

/// The server that a stream is about.
fn server_of(stream: &StreamId, index: &InspectIndex) -> Option<InstanceId> {
    match stream.category() {
        "instance" => stream.key().parse().ok(),
        "process" => index.processes.get(&stream.key().parse().ok()?)?.instance(),
        _ => None,
    }
}

fn belongs(
    recorded: &Recorded,
    index: &InspectIndex,
    subject: &StorySubject,
    requests: &BTreeMap<Uuid, BTreeSet<InstanceId>>,
) -> bool {
    match subject {
        StorySubject::Server(id) => {
            if let Some(server) = server_of(&recorded.stream, index) {
                return server == *id;
            }
            // One request may create many servers, so this skips events that name only other servers.
            let others = |servers: &BTreeSet<InstanceId>| servers.iter().any(|other| mentions(recorded, other.0));
            mentions(recorded, id.0) || requests.get(&recorded.meta.correlation).is_some_and(|servers| !others(servers))
        }
        StorySubject::Process(id) => {
            recorded.meta.cause == Cause::Process { process: *id }
                || recorded.stream.key() == id.to_string()
                || mentions(recorded, id.0)
        }
        StorySubject::Host(id) => recorded.stream.key() == id.to_string() || mentions(recorded, id.0),
        StorySubject::Request(id) => recorded.meta.request_id.as_ref().is_some_and(|known| known.as_str() == id),
    }
}

fn chapter(events: &[&Recorded], index: &InspectIndex) -> Result<Chapter, CommandFailure> {
    let (first, last) = (events[0], events[events.len() - 1]);
    let mut previous: BTreeMap<&StreamId, Timestamp> = BTreeMap::new();
    let mut lines = Vec::with_capacity(events.len());
    let (mut begun, mut ended) = (BTreeSet::new(), BTreeMap::new());
    let mut stuck = BTreeSet::new();
    let mut title = None;
    for recorded in events {
        let event = payload(recorded)?;
        title = title.or_else(|| words::deed(recorded.stream.key(), event));
        let mut took = None;
        if let Event::ProcessEvent(event) = &**event {
            took = previous.insert(&recorded.stream, recorded.recorded_at).map(|before| seconds(before, recorded));
            match event {
                ProcessEvent::Started(_) => _ = begun.insert(&recorded.stream),
                ProcessEvent::Finished(finished) => _ = ended.insert(&recorded.stream, finished.outcome),
                ProcessEvent::StepStuck(_) => _ = stuck.insert(&recorded.stream),
                ProcessEvent::StepDone(_) | ProcessEvent::StepUndone(_) => _ = stuck.remove(&recorded.stream),
                _ => {}
            }
        }
        lines.push(StoryLine {
            position: recorded.position.0,
            at: recorded.recorded_at.to_string(),
            after_seconds: seconds(first.recorded_at, recorded),
            took_seconds: took,
            by: match &recorded.meta.cause {
                Cause::User { .. } => "user".to_owned(),
                Cause::Process { process } => index.process_name(*process).to_owned(),
                Cause::System { part } => part.clone(),
            },
            stream: recorded.stream.to_string(),
            kind: recorded.kind.to_string(),
            text: words::sentence(event),
            trouble: words::is_trouble(event),
        });
    }
    let outcome = if !stuck.is_empty() {
        Some("stuck")
    } else if begun.iter().any(|stream| !ended.contains_key(stream)) {
        Some("not finished")
    } else if ended.values().any(|outcome| *outcome == ProcessOutcome::Failed) {
        Some("failed")
    } else if ended.values().any(|outcome| *outcome == ProcessOutcome::CalledOff) {
        Some("cancelled")
    } else {
        (!ended.is_empty()).then_some("succeeded")
    };
    Ok(Chapter {
        title: title.map_or_else(|| first.kind.to_string(), str::to_owned),
        request_id: events.iter().find_map(|one| one.meta.request_id.as_ref()).map(ToString::to_string),
        correlation: first.meta.correlation.to_string(),
        by: who(events, index),
        began: first.recorded_at.to_string(),
        took_seconds: seconds(first.recorded_at, last),
        outcome,
        lines,
    })
}

/// The requester: the user if the chapter has one, else the process or the part of the system.
fn who(events: &[&Recorded], index: &InspectIndex) -> String {
    let user = events.iter().find_map(|recorded| match &recorded.meta.cause {
        Cause::User { user, project, roles, source } => {
            let project = project.as_ref().map(|project| format!(" of project {project}")).unwrap_or_default();
            let from = source.as_ref().and_then(|source| source.address.as_ref());
            let from = from.map(|address| format!(" from {address}")).unwrap_or_default();
            Some(format!("user {user}{project} ({}){from}", roles.join(", ")))
        }
        Cause::Process { .. } | Cause::System { .. } => None,
    });
    user.unwrap_or_else(|| match &events[0].meta.cause {
        Cause::System { part } => format!("the system ({part})"),
        Cause::Process { process } => format!("process {} ({process})", index.process_name(*process)),
        Cause::User { user, .. } => format!("user {user}"),
    })
}

#[allow(clippy::cast_precision_loss)] // microseconds of a few hours
fn seconds(from: Timestamp, to: &Recorded) -> f64 {
    (to.recorded_at.0 - from.0) as f64 / 1e6
}

/// The subject's state after these events, from its own stream.
fn facts(
    subject: &StorySubject,
    events: &[Arc<Recorded>],
    now: Timestamp,
) -> Result<Vec<(String, String)>, CommandFailure> {
    let pair = |name: &str, value: String| (name.to_owned(), value);
    Ok(match subject {
        StorySubject::Server(id) => {
            let instance = folded::<Instance, InstanceEvent>(events, &id.to_string())?;
            let Some(server) = instance.known() else { return Ok(Vec::new()) };
            let asked = &server.request;
            let mut facts = vec![
                pair("status", status::of(&instance).map_or_else(String::new, |status| words::status(&status))),
                pair("project", asked.project.to_string()),
                pair("user", asked.user.to_string()),
                pair("flavor", words::flavor(&asked.flavor)),
                pair(
                    "image",
                    asked.image.as_ref().map_or("none".into(), |image| format!("{} ({})", image.name, image.id)),
                ),
                pair("host", server.placement.as_ref().map_or("none".into(), |placed| placed.hostname.clone())),
                pair("addresses", words::addresses(&server.nics)),
                pair("created", server.created_at.to_string()),
            ];
            facts.extend(server.launched_at.map(|at| pair("launched", at.to_string())));
            facts.extend(server.terminated_at.map(|at| pair("deleted", at.to_string())));
            facts.extend(server.fault.as_deref().map(|(fault, at)| {
                pair("fault", format!("{} {} at {at}: {}", fault.code, fault.message, fault.details))
            }));
            facts
        }
        StorySubject::Process(id) => match folded::<Process, ProcessEvent>(events, &id.to_string())? {
            Process::Absent => vec![pair("state", "requested, without a record yet".to_owned())],
            Process::Finished { task, outcome, .. } => vec![
                pair(subject_word(&task), task.subject().to_string()),
                pair("state", format!("finished: {}", words::outcome(outcome))),
            ],
            Process::Running(run) => vec![
                pair(subject_word(&run.task), run.task.subject().to_string()),
                pair("state", format!("at work for {:.3} s, attempt {}", age(run.started_at, now), run.attempt)),
                pair("done", run.done.iter().map(|record| record.step.as_str()).collect::<Vec<_>>().join(", ")),
                pair("stuck", format!("{} times at the step now due", run.stuck)),
            ],
        },
        StorySubject::Host(id) => {
            let host = folded::<Host, HostEvent>(events, &id.to_string())?;
            let Some(host) = host.0 else { return Ok(Vec::new()) };
            let state = match (&host.down_reason, host.up) {
                _ if host.forced_down => "forced down".to_owned(),
                (_, true) => "up".to_owned(),
                (reason, false) => format!("down: {}", reason.as_deref().unwrap_or("no reason given")),
            };
            let allowed = match (&host.disabled_reason, host.enabled) {
                (_, true) => "yes".to_owned(),
                (reason, false) => format!("no: {}", reason.as_deref().unwrap_or("no reason given")),
            };
            let has = &host.capabilities;
            let mut told = vec![
                pair("address", host.uri.clone()),
                pair("state", state),
                pair("takes servers", allowed),
                pair("has", format!("{} CPUs, {} MiB, {} GiB", has.vcpus, has.memory_mib, has.disk_gib)),
            ];
            if let Some(maintenance) = &host.maintenance {
                told.push(pair("in maintenance", maintenance.reason.clone().unwrap_or_else(|| "yes".to_owned())));
            }
            if let Some(drain) = &host.drain {
                let ended = if drain.ended_at.is_some() { "over" } else { "under way" };
                let (left, leaving, stays) = (drain.left.len(), drain.leaving.len(), drain.stays.len());
                told.push(pair("drain", format!("{ended}: {left} left, {leaving} leaving, {stays} stay")));
            }
            told
        }
        StorySubject::Request(_) => vec![pair("events", events.len().to_string())],
    })
}

#[allow(clippy::cast_precision_loss)] // as above
fn age(since: Timestamp, now: Timestamp) -> f64 {
    (now.0 - since.0).max(0) as f64 / 1e6
}

fn folded<S: Fold<Event = E>, E: NounEvent>(events: &[Arc<Recorded>], key: &str) -> Result<S, CommandFailure> {
    let mut state = S::default();
    for recorded in events.iter().filter(|recorded| recorded.stream.key() == key) {
        if let Some(event) = E::of(payload(recorded)?) {
            state.evolve(event, recorded.recorded_at);
        }
    }
    Ok(state)
}
