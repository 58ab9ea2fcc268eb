//! Finds the ids of the users, projects, servers and hosts that a filter names.
//!
//! A name is looked up in the events that gave it. So a name is found even if its user, project or host is gone. The
//! names of users and servers are sealed, so after an erasure these names are not found.

use std::path::Path;

use chronova_events::envelope::{Position, Recorded};
use chronova_events::host::HostEvent;
use chronova_events::identity::IdentityEvent;
use chronova_events::instance::InstanceEvent;
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;
use uuid::Uuid;

use super::super::CommandFailure;
use super::super::log_pages::payload;
use super::server_names::ServerNames;

/// The number of events that are read at once.
const PAGE: usize = 1_024;

/// The ids in `given`, and the ids of the users whose names are in it. The users of a Keystone are known by id only.
pub(super) async fn users(given: &[String], store: &dyn EventStore) -> Result<Vec<String>, CommandFailure> {
    let read = |_: &Recorded, event: &Event| match event {
        Event::IdentityEvent(IdentityEvent::UserCreated(user)) => {
            Some((user.attributes.name.clone(), user.user.to_string()))
        }
        Event::IdentityEvent(IdentityEvent::UserDescribed(user)) => {
            Some((user.attributes.name.clone(), user.user.to_string()))
        }
        _ => None,
    };
    ids(given, &["identity.user_created", "identity.user_described"], read, store).await
}

/// The ids in `given`, and the ids of the projects whose names are in it.
pub(super) async fn projects(given: &[String], store: &dyn EventStore) -> Result<Vec<String>, CommandFailure> {
    let read = |_: &Recorded, event: &Event| match event {
        Event::IdentityEvent(IdentityEvent::ProjectCreated(project)) => {
            Some((project.attributes.name.clone(), project.project.to_string()))
        }
        Event::IdentityEvent(IdentityEvent::ProjectDescribed(project)) => {
            Some((project.attributes.name.clone(), project.project.to_string()))
        }
        _ => None,
    };
    ids(given, &["identity.project_created", "identity.project_described"], read, store).await
}

/// The ids of the hosts that `given` means: ids, or names that hosts ever had.
pub(super) async fn hosts(given: &[String], store: &dyn EventStore) -> Result<Vec<Uuid>, CommandFailure> {
    let name = |event: &Event| match event {
        Event::HostEvent(HostEvent::Registered(known)) => Some(known.hostname.clone()),
        // The host's machine may have been renamed since it registered.
        Event::HostEvent(HostEvent::CapabilitiesChanged(known)) => Some(known.hostname.clone()),
        _ => None,
    };
    of_streams("host", given, &["host.registered", "host.capabilities_changed"], name, store).await
}

/// The kinds of the events that name servers.
const SERVER_KINDS: [&str; 2] = ["instance.build_requested", "instance.renamed"];

fn server_name(event: &Event) -> Option<String> {
    match event {
        Event::InstanceEvent(InstanceEvent::BuildRequested(asked)) => Some(asked.name.clone()),
        Event::InstanceEvent(InstanceEvent::Renamed(renamed)) => Some(renamed.name.clone()),
        _ => None,
    }
}

/// Brings the file with the names of servers up to date.
pub(super) async fn keep_servers(store: &dyn EventStore, file: &Path) -> Result<(), CommandFailure> {
    ServerNames::keep(store, file, &SERVER_KINDS, server_name).await
}

/// The ids of the servers that `given` means: ids, or names that servers ever had. Several servers may have had a name.
/// `file`: that of the names. A name that it lacks is searched in the log.
pub(super) async fn servers(
    given: &[String],
    store: &dyn EventStore,
    file: Option<&Path>,
) -> Result<Vec<Uuid>, CommandFailure> {
    let is_name = |text: &String| text.parse::<Uuid>().is_err();
    let mut ids = given.to_vec();
    if let Some(file) = file.filter(|_| given.iter().any(is_name)) {
        let names = ServerNames::of(store, file, &SERVER_KINDS, server_name).await?;
        ids.clear();
        for text in given {
            let found = if is_name(text) { names.servers(store, text, server_name).await? } else { Vec::new() };
            match found.is_empty() {
                true => ids.push(text.clone()),
                false => ids.extend(found.iter().map(Uuid::to_string)),
            }
        }
    }
    of_streams("server", &ids, &SERVER_KINDS, server_name, store).await
}

/// The ids that `given` means: ids, or names that events of these kinds give to the nouns of their streams. A name that
/// no noun ever had is an error.
async fn of_streams(
    noun: &str,
    given: &[String],
    kinds: &[&str],
    name: impl Fn(&Event) -> Option<String>,
    store: &dyn EventStore,
) -> Result<Vec<Uuid>, CommandFailure> {
    let mut all = Vec::new();
    for text in given {
        if let Ok(id) = text.parse() {
            all.push(id);
            continue;
        }
        let read = |recorded: &Recorded, event: &Event| Some((name(event)?, recorded.stream.key().parse().ok()?));
        let found: Vec<Uuid> = named(std::slice::from_ref(text), kinds, read, store).await?;
        if found.is_empty() {
            return Err(CommandFailure::Usage(format!("no {noun} {text} is in the log")));
        }
        all.extend(found);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

async fn ids(
    given: &[String],
    kinds: &[&str],
    read: impl Fn(&Recorded, &Event) -> Option<(String, String)>,
    store: &dyn EventStore,
) -> Result<Vec<String>, CommandFailure> {
    // Keystone's ids have the form of UUIDs. A filter with ids alone need not search for names.
    let names: Vec<String> = given.iter().filter(|one| Uuid::try_parse(one).is_err()).cloned().collect();
    let mut all = given.to_vec();
    if !names.is_empty() {
        all.extend(named(&names, kinds, read, store).await?);
    }
    Ok(all)
}

/// The ids that events of these kinds give to these names.
async fn named<T>(
    names: &[String],
    kinds: &[&str],
    read: impl Fn(&Recorded, &Event) -> Option<(String, T)>,
    store: &dyn EventStore,
) -> Result<Vec<T>, CommandFailure> {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let criteria = Criteria { kinds, ..Criteria::default() };
    let (mut found, mut at) = (Vec::new(), Position::START);
    loop {
        let page = store.search(at, PAGE, &criteria).await?;
        for recorded in &page.events {
            found.extend(read(recorded, payload(recorded)?).filter(|(name, _)| names.contains(name)).map(|(_, id)| id));
        }
        if page.until == at {
            return Ok(found);
        }
        at = page.until;
    }
}
