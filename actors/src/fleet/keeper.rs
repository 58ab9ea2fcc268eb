//! Gives each added host an agent, and ends the agent of each removed host.
//!
//! The log records that a host was added or removed, and the keeper follows the log. So a crash between the event and
//! its effect loses nothing, because the next start reads the same events.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::fleet::{FleetChanges, FleetEvent};
use chronova_events::ids::HostId;
use chronova_events::registry::NounEvent as _;
use chronova_events::store::EventStore;
use chronova_events::store::tail::Subscription;
use chronova_hypervisor::driver::Driver;
use tokio::task::{AbortHandle, JoinSet};

use crate::hosts::agent;
use crate::hosts::context::HostContext;
use crate::operations::Operations;

/// Opens the drivers of a URI, one for each host. The error says why the URI cannot be used.
pub type HostOpener = Arc<dyn Fn(&str) -> Result<Vec<Arc<dyn Driver>>, String> + Send + Sync>;

/// The hosts of the configuration file, and the way to open more.
#[derive(Clone)]
pub struct HostSource {
    pub configured: Vec<Arc<dyn Driver>>,
    pub opener: HostOpener,
}

impl std::fmt::Debug for HostSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostSource").field("configured", &self.configured.len()).finish_non_exhaustive()
    }
}

/// A fleet to which no host can be added.
impl From<Vec<Arc<dyn Driver>>> for HostSource {
    fn from(configured: Vec<Arc<dyn Driver>>) -> Self {
        Self { configured, opener: Arc::new(|uri| Err(format!("{uri} cannot be added to these hosts"))) }
    }
}

impl HostSource {
    /// The hosts at start: those of the configuration file, with the changes in the log.
    pub(crate) fn at_start(&self, changes: &FleetChanges) -> Vec<Arc<dyn Driver>> {
        let mut all = self.configured.clone();
        for uri in &changes.added {
            match (self.opener)(uri) {
                Ok(opened) => all.extend(opened),
                Err(reason) => tracing::error!(uri, reason, "a host that was added cannot be opened"),
            }
        }
        let mut known = std::collections::BTreeSet::new();
        all.retain(|driver| !changes.removed.contains(driver.uri()) && known.insert(driver.uri().to_owned()));
        for driver in self.configured.iter().filter(|driver| changes.removed.contains(driver.uri())) {
            let uri = driver.uri();
            tracing::warn!(
                uri,
                "the host was removed with chronova host remove: remove it from [chronova] hypervisors"
            );
        }
        all
    }
}

/// The agents of all hosts.
pub(crate) struct HostKeeper {
    pub context: Arc<HostContext>,
    pub store: Arc<dyn EventStore>,
    pub operations: Arc<Operations>,
    pub opener: HostOpener,
    /// By the host's URI.
    pub agents: BTreeMap<String, AbortHandle>,
}

impl HostKeeper {
    /// Follows the log until the task is dropped.
    pub(crate) async fn keep(mut self, mut subscription: Subscription) {
        let mut tasks = JoinSet::new();
        self.forget_removed().await;
        loop {
            let batch = match subscription.next().await {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::error!(%error, "the keeper of hosts cannot follow the log any more");
                    // The agents of added hosts continue.
                    while tasks.join_next().await.is_some() {}
                    return;
                }
            };
            let events = batch.iter().filter_map(|recorded| FleetEvent::of(recorded.event().ok()?));
            for event in events.cloned().collect::<Vec<_>>() {
                match event {
                    FleetEvent::HypervisorAdded(added) => self.add(&added.uri, &mut tasks),
                    FleetEvent::HypervisorRemoved(removed) => self.remove(&removed.uri, removed.host).await,
                }
            }
            while tasks.try_join_next().is_some() {}
        }
    }

    fn add(&mut self, uri: &str, tasks: &mut JoinSet<()>) {
        let opened = match (self.opener)(uri) {
            Ok(opened) => opened,
            Err(reason) => return tracing::error!(uri, reason, "a host that was added cannot be opened"),
        };
        for driver in opened {
            if self.context.fleet.add_driver(&driver) {
                let task = agent::attend(Arc::clone(&self.context), Arc::clone(&self.store), Arc::clone(&driver));
                self.agents.insert(driver.uri().to_owned(), tasks.spawn(task));
            }
        }
    }

    async fn remove(&mut self, uri: &str, host: HostId) {
        if let Some(agent) = self.agents.remove(uri) {
            agent.abort();
        }
        self.context.fleet.forget(uri);
        self.deregister(host).await;
    }

    /// Takes removed hosts out of the list of hosts, in case a crash prevented this earlier.
    async fn forget_removed(&self) {
        let configured: Vec<String> = self.context.fleet.drivers().iter().map(|one| one.uri().to_owned()).collect();
        let Ok(changes) = self.context.gateway.look::<super::FleetRoot>(&super::FleetId).await else { return };
        let is_gone = |uri: &String| changes.removed.contains(uri) && !configured.contains(uri);
        let hosts: Vec<HostId> = self
            .context
            .views
            .hosts
            .read(|hosts| hosts.all().filter(|host| is_gone(&host.uri)).map(|host| host.id).collect());
        for host in hosts {
            self.deregister(host).await;
        }
    }

    async fn deregister(&self, host: HostId) {
        if self.context.views.hosts.read(|hosts| hosts.get(host).is_none()) {
            return;
        }
        if let Err(error) = self.operations.remove_host(Meta::system("fleet"), host).await {
            tracing::warn!(%host, %error, "a removed host stays in the list of hosts");
        }
    }
}
