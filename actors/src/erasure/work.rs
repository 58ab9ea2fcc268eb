//! Executes an erasure, in an order that can be completed after any crash.
//!
//! | step | does | after a crash |
//! |---|---|---|
//! | plan | finds the servers with data to erase; a legal hold on any of the data refuses the erasure | nothing has changed |
//! | request | records the data to erase, the reason, and which keys to destroy | the next start continues here |
//! | tell | records the erasure in each affected stream: actors and read models forget | a repetition is harmless |
//! | destroy | destroys the keys | a repetition finds no keys |
//! | forget | drops earlier snapshots, cached events and checkpoints | a repetition is harmless |
//! | complete | records the end of the erasure | |
//!
//! New personal data of the same subject after the request is sealed under new keys. So this erasure does not erase it.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::codec::SEALED;
use chronova_events::envelope::{Meta, Recorded, Revision, StreamId};
use chronova_events::erasure::{ErasureCompleted, ErasureRequested, ErasureTarget};
use chronova_events::holds::HeldPart;
use chronova_events::ids::{ErasureId, InstanceId, ProjectId, UserId};
use chronova_events::sealed::DataSubject;
use chronova_events::sealed::keys::{KeyRing, KeySlot};
use chronova_events::store::{EventStore, StoreError};
use chronova_projections::history::History;
use chronova_projections::views::Views;

use super::error::ErasureError;
use super::table::HOLDERS;
use super::{ErasureArchiveId, ErasureCommand, ErasureRoot};
use crate::aggregate::{AggregateRoot, CommandError};
use crate::gateway::CommandGateway;
use crate::instance::{InstanceReject, InstanceRequest, InstanceRoot};
use crate::keypair::{KeypairCommand, KeypairRoot};

/// The longest wait for the read models before checkpoints are deleted.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of events of a stream that are read at once.
const PAGE: usize = 1_024;

/// The data that an erasure would remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasurePlan {
    pub whose: ErasureTarget,
    /// The user, if the user's own data is erased.
    pub user: Option<UserId>,
    /// Whether the user can still log in.
    pub user_exists: bool,
    /// The servers with data to erase, sorted.
    pub servers: Vec<InstanceId>,
    /// The servers that are not deleted.
    pub alive: Vec<InstanceId>,
}

impl ErasurePlan {
    /// Makes the plan from the read models and the keys, and changes nothing. A user is unknown if there is no account,
    /// no server and no personal data of the user.
    fn of(views: &Views, keys: Option<&KeyRing>, whose: ErasureTarget) -> Self {
        let user = match &whose {
            ErasureTarget::User(user) => Some(user.clone()),
            ErasureTarget::Server(_) | ErasureTarget::Project(_) => None,
        };
        let user_exists = user.as_ref().is_some_and(|user| HOLDERS.iter().any(|holder| holder.has_user(views, user)));
        let found: Vec<(InstanceId, bool)> = views.servers.read(|servers| {
            let all = servers.all().filter_map(|row| {
                let server = row.server()?;
                let concerned = match &whose {
                    ErasureTarget::User(user) => server.request.user == *user,
                    ErasureTarget::Project(project) => server.request.project == *project,
                    ErasureTarget::Server(id) => row.id == *id,
                };
                concerned.then(|| (row.id, row.instance.alive().is_some()))
            });
            all.collect()
        });
        let has_data = |user: &UserId| {
            // If the key file cannot be read, the user counts as known. The erasure then fails with the reason.
            keys.is_none_or(|keys| keys.has_key_of(&DataSubject::User(user.clone())).unwrap_or(true))
        };
        let user = user.filter(|user| user_exists || !found.is_empty() || has_data(user));
        let alive = found.iter().filter(|(_, alive)| *alive).map(|(id, _)| *id).collect();
        Self { whose, user, user_exists, servers: found.into_iter().map(|(id, _)| id).collect(), alive }
    }

    /// Whether the erasure would remove nothing.
    pub fn is_empty(&self) -> bool {
        self.user.is_none() && self.servers.is_empty()
    }

    /// Refuses to erase data of a user or server that is not deleted, unless `even_alive`.
    ///
    /// # Errors
    /// The user exists, or a server is not deleted.
    pub fn admit(&self, even_alive: bool) -> Result<(), ErasureError> {
        match self.user_exists || !self.alive.is_empty() {
            true if !even_alive => Err(ErasureError::Alive { servers: self.alive.len(), user: self.user_exists }),
            _ => Ok(()),
        }
    }
}

/// The parts that an erasure needs.
#[derive(Clone)]
pub struct Eraser {
    store: Arc<dyn EventStore>,
    gateway: Arc<CommandGateway>,
    views: Arc<Views>,
    /// The past states of the read models, in memory and in checkpoints. They still have the data.
    history: Option<Arc<History>>,
}

impl std::fmt::Debug for Eraser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Eraser").field("history", &self.history).finish_non_exhaustive()
    }
}

impl Eraser {
    /// An eraser of `store`, the log that `views` follow.
    pub fn new(
        store: Arc<dyn EventStore>,
        gateway: Arc<CommandGateway>,
        views: Arc<Views>,
        history: Option<Arc<History>>,
    ) -> Self {
        Self { store, gateway, views, history }
    }

    /// The data that an erasure would remove now.
    pub fn plan(&self, whose: ErasureTarget) -> ErasurePlan {
        ErasurePlan::of(&self.views, self.store.keys().map(|keys| &**keys), whose)
    }

    /// Erases the data of `plan`. Returns when none of the data can be read any more.
    pub async fn erase(
        &self,
        plan: ErasurePlan,
        reason: String,
        meta: &Arc<Meta>,
    ) -> Result<ErasureCompleted, ErasureError> {
        let keys = self.keys()?;
        let (erasure, user, servers) = (ErasureId::random(), plan.user, plan.servers);
        let mut request = ErasureRequested { erasure, whose: plan.whose, reason, user, servers, keys_before: 0 };
        self.check_holds(&request).await?;
        request.keys_before = keys.next().0;
        for subject in subjects(request.user.as_ref(), &request.servers) {
            keys.retire(&subject);
        }
        self.send::<ErasureRoot>(&ErasureArchiveId, ErasureCommand::Request(request.clone()), meta).await?;
        self.carry_out(&request, meta).await
    }

    /// Refuses to erase data that is under a legal hold.
    async fn check_holds(&self, request: &ErasureRequested) -> Result<(), ErasureError> {
        for hold in self.store.holds()?.0 {
            if self.is_held(request, &hold.of).await? {
                return Err(ErasureError::Held { hold: hold.id, of: hold.of.to_string(), reason: hold.reason });
            }
        }
        Ok(())
    }

    async fn is_held(&self, request: &ErasureRequested, part: &HeldPart) -> Result<bool, StoreError> {
        Ok(match part {
            HeldPart::Project(project) => self.owners(request).iter().any(|(owner, _)| owner.as_str() == project),
            HeldPart::User(user) => {
                let own = request.user.as_ref().is_some_and(|own| own.as_str() == user);
                own || self.owners(request).iter().any(|(_, owner)| owner.as_str() == user)
            }
            HeldPart::Server(server) => request.servers.iter().any(|id| id.0 == *server),
            HeldPart::Positions { first, last } => self.has_sealed(request, *first, *last).await?,
        })
    }

    /// The projects and users of the servers.
    fn owners(&self, request: &ErasureRequested) -> Vec<(ProjectId, UserId)> {
        self.views.servers.read(|servers| {
            let rows = request.servers.iter().filter_map(|id| servers.get(*id)?.server());
            rows.map(|server| (server.request.project.clone(), server.request.user.clone())).collect()
        })
    }

    /// Whether the streams have sealed events at these positions.
    async fn has_sealed(&self, request: &ErasureRequested, first: u64, last: u64) -> Result<bool, StoreError> {
        for stream in self.streams(request) {
            let mut at = Revision::NONE;
            loop {
                let page = self.store.read_stream(&stream, at, PAGE).await?;
                let Some(newest) = page.last() else { break };
                at = newest.revision;
                let held = |event: &Recorded| event.codec == SEALED && (first..=last).contains(&event.position.0);
                if page.iter().any(|event| held(event)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Continues erasures that a crash has interrupted. Returns how many it completed.
    pub async fn resume(&self) -> Result<usize, ErasureError> {
        let open: Vec<ErasureRequested> = self
            .views
            .erasures
            .read(|view| view.erasures.unfinished().into_iter().map(|erasure| erasure.request.clone()).collect());
        for request in &open {
            self.carry_out(request, &Meta::system("erasure")).await?;
        }
        Ok(open.len())
    }

    async fn carry_out(&self, request: &ErasureRequested, meta: &Arc<Meta>) -> Result<ErasureCompleted, ErasureError> {
        self.tell(request, meta).await?;
        let keys = Arc::clone(self.keys()?);
        let subjects = subjects(request.user.as_ref(), &request.servers);
        let before = KeySlot(request.keys_before);
        let destroyed = tokio::task::spawn_blocking(move || keys.destroy_all(&subjects, before)).await;
        let destroyed = destroyed.map_err(|error| StoreError::Io(error.to_string()))??;
        self.store.forget(&self.streams(request)).await?;
        // The actors forgot the data when they recorded the erasure. The read models must fold the erasure, too. Only
        // then can the earlier checkpoints be deleted.
        if !self.views.wait_for(self.store.head(), PATIENCE).await {
            return Err(ErasureError::Behind);
        }
        if let Some(history) = self.history.clone() {
            let forgotten = tokio::task::spawn_blocking(move || history.forget()).await;
            forgotten.map_err(std::io::Error::other).and_then(|done| done).map_err(ErasureError::Checkpoints)?;
        }
        let completed = ErasureCompleted { erasure: request.erasure, keys: destroyed };
        self.send::<ErasureRoot>(&ErasureArchiveId, ErasureCommand::RecordCompleted(completed.clone()), meta).await?;
        Ok(completed)
    }

    /// Records the erasure in every stream concerned.
    async fn tell(&self, request: &ErasureRequested, meta: &Arc<Meta>) -> Result<(), ErasureError> {
        let erasure = request.erasure;
        for server in &request.servers {
            match self.gateway.send::<InstanceRoot>(server, InstanceRequest::Erase { erasure }, Arc::clone(meta)).await
            {
                Ok(_) | Err(CommandError::Rejected(InstanceReject::NotFound)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(user) = &request.user {
            let command = KeypairCommand::Erase { user: user.clone(), erasure };
            self.send::<KeypairRoot>(user, command, meta).await?;
        }
        for holder in HOLDERS {
            holder.erase(&self.gateway, &self.views, request, meta).await?;
        }
        Ok(())
    }

    async fn send<A: crate::gateway::Reachable>(
        &self,
        id: &A::Id,
        command: A::Command,
        meta: &Arc<Meta>,
    ) -> Result<(), ErasureError> {
        self.gateway.send::<A>(id, command, Arc::clone(meta)).await?;
        Ok(())
    }

    /// The streams whose events may have had the erased data in personal fields.
    fn streams(&self, request: &ErasureRequested) -> Vec<StreamId> {
        let mut all: Vec<StreamId> = request.servers.iter().map(InstanceRoot::stream).collect();
        all.extend(request.user.iter().map(KeypairRoot::stream));
        all.extend(HOLDERS.iter().flat_map(|holder| holder.streams(&self.views, request)));
        all
    }

    fn keys(&self) -> Result<&Arc<KeyRing>, ErasureError> {
        self.store.keys().ok_or(ErasureError::NoKeys)
    }
}

fn subjects(user: Option<&UserId>, servers: &[InstanceId]) -> Vec<DataSubject> {
    servers.iter().map(|server| DataSubject::Server(*server)).chain(user.cloned().map(DataSubject::User)).collect()
}
