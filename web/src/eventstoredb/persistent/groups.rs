//! All persistent subscriptions of the log: their definitions, and the tasks of the groups that are in use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use chronova_events::envelope::Revision;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::Status;
use uuid::Uuid;

use super::super::access::{LogRight, LogUser};
use super::super::served::ServedLog;
use super::group::{GroupMessage, GroupRunner, GroupStanding};
use super::records;
use super::settings::{FilterRecord, GroupRecord, PersistentGroupId, PersistentSettings};

/// The most groups of one user, and of all users.
const MAX_OF_USER: usize = 32;
const MAX_GROUPS: usize = 128;
/// The most messages that wait for the task of a group.
const MAX_MESSAGES: usize = 64;

/// The persistent subscriptions.
pub(in crate::eventstoredb) struct PersistentGroups {
    log: Arc<ServedLog>,
    known: Mutex<KnownGroups>,
    tasks: SyncMutex<JoinSet<()>>,
}

impl std::fmt::Debug for PersistentGroups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PersistentGroups").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct KnownGroups {
    /// The definitions, with the revision of their stream; `None` until somebody asks.
    defined: Option<(BTreeMap<PersistentGroupId, GroupRecord>, Revision)>,
    /// The tasks of the groups that are in use.
    working: BTreeMap<PersistentGroupId, mpsc::Sender<GroupMessage>>,
}

impl PersistentGroups {
    pub(in crate::eventstoredb) fn new(log: Arc<ServedLog>) -> Arc<Self> {
        Arc::new(Self { log, known: Mutex::default(), tasks: SyncMutex::default() })
    }

    pub(in crate::eventstoredb) fn log(&self) -> &Arc<ServedLog> {
        &self.log
    }

    /// Waits for the last checkpoints, after the server was told to stop.
    pub(in crate::eventstoredb) async fn stopped(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }

    /// Creates a group whose first event follows the place `after`.
    pub(super) async fn create(
        &self,
        user: &LogUser,
        id: PersistentGroupId,
        after: u64,
        filter: Option<FilterRecord>,
        settings: PersistentSettings,
    ) -> Result<(), Status> {
        may_consume(user)?;
        let mut known = self.known.lock().await;
        let (groups, _) = self.defined(&mut known).await?;
        if groups.contains_key(&id) {
            return Err(Status::already_exists(format!("the persistent subscription {} exists", id.shown())));
        }
        let own = groups.values().filter(|group| group.owner == user.name).count();
        if own >= MAX_OF_USER || groups.len() >= MAX_GROUPS {
            return Err(Status::resource_exhausted(format!(
                "a user may have {MAX_OF_USER} persistent subscriptions, and all users {MAX_GROUPS} together"
            )));
        }
        let parked_before = self.log.last_revision(&records::parked(&id)).await?.0;
        let (key, owner) = (Uuid::new_v4(), user.name.clone());
        let record = GroupRecord { id: id.clone(), key, owner, after, parked_before, filter, settings };
        let mut changed = groups.clone();
        changed.insert(id, record);
        self.save(&mut known, changed, user).await
    }

    /// Changes the settings of a group. Its consumers must subscribe again.
    pub(super) async fn update(
        &self,
        user: &LogUser,
        id: &PersistentGroupId,
        after: u64,
        settings: PersistentSettings,
    ) -> Result<(), Status> {
        let mut known = self.known.lock().await;
        let (groups, _) = self.defined(&mut known).await?;
        let record = GroupRecord { after, settings, ..owned(groups, user, id)?.clone() };
        let mut changed = groups.clone();
        changed.insert(id.clone(), record);
        let status = Status::unavailable("the persistent subscription was changed: subscribe again");
        end(&mut known, id, status).await;
        self.save(&mut known, changed, user).await
    }

    pub(super) async fn delete(&self, user: &LogUser, id: &PersistentGroupId) -> Result<(), Status> {
        let mut known = self.known.lock().await;
        let (groups, _) = self.defined(&mut known).await?;
        owned(groups, user, id)?;
        let mut changed = groups.clone();
        changed.remove(id);
        end(&mut known, id, Status::not_found("the persistent subscription was deleted")).await;
        self.save(&mut known, changed, user).await
    }

    /// The definition of a group, and the way to its task, which begins if it does not run.
    pub(super) async fn open(
        &self,
        id: &PersistentGroupId,
    ) -> Result<(GroupRecord, mpsc::Sender<GroupMessage>), Status> {
        let mut known = self.known.lock().await;
        let record = self.defined(&mut known).await?.0.get(id).cloned().ok_or_else(|| missing(id))?;
        if let Some(task) = known.working.get(id).filter(|task| !task.is_closed()) {
            return Ok((record, task.clone()));
        }
        let (sender, messages) = mpsc::channel(MAX_MESSAGES);
        let runner = GroupRunner::new(Arc::clone(&self.log), record.clone(), messages).await?;
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(runner.run());
        known.working.insert(id.clone(), sender.clone());
        Ok((record, sender))
    }

    /// The description of a group.
    pub(super) async fn describe(&self, id: &PersistentGroupId) -> Result<(GroupRecord, GroupStanding), Status> {
        let (record, task) = self.open(id).await?;
        let (answer, standing) = oneshot::channel();
        task.send(GroupMessage::Describe(answer)).await.map_err(|_| missing(id))?;
        Ok((record, standing.await.map_err(|_| missing(id))?))
    }

    /// The groups of a source, or of all sources.
    pub(super) async fn list(&self, source: Option<&str>) -> Result<Vec<PersistentGroupId>, Status> {
        let mut known = self.known.lock().await;
        let (groups, _) = self.defined(&mut known).await?;
        let wanted = groups.keys().filter(|id| source.is_none_or(|source| id.source == source));
        Ok(wanted.cloned().collect())
    }

    /// Sends the parked events of a group again, at most `limit`.
    pub(super) async fn replay(
        &self,
        user: &LogUser,
        id: &PersistentGroupId,
        limit: Option<u64>,
    ) -> Result<(), Status> {
        {
            let mut known = self.known.lock().await;
            owned(&self.defined(&mut known).await?.0, user, id)?;
        }
        let (_, task) = self.open(id).await?;
        let (answer, begun) = oneshot::channel();
        task.send(GroupMessage::Replay { limit, answer }).await.map_err(|_| missing(id))?;
        begun.await.map_err(|_| missing(id))
    }

    /// The definitions, which are read from the log at first.
    async fn defined<'known>(
        &self,
        known: &'known mut KnownGroups,
    ) -> Result<&'known (BTreeMap<PersistentGroupId, GroupRecord>, Revision), Status> {
        let read = match known.defined.take() {
            Some(read) => read,
            None => {
                let (groups, revision) = records::groups(&self.log).await?;
                (groups.into_iter().map(|record| (record.id.clone(), record)).collect(), revision)
            }
        };
        Ok(known.defined.insert(read))
    }

    /// Records changed definitions. After a failure, the next call reads them from the log again.
    async fn save(
        &self,
        known: &mut KnownGroups,
        groups: BTreeMap<PersistentGroupId, GroupRecord>,
        user: &LogUser,
    ) -> Result<(), Status> {
        let Some((_, revision)) = known.defined.take() else {
            return Err(Status::internal("the definitions of persistent subscriptions were not read"));
        };
        let list = groups.values().cloned().collect();
        let revision = records::save_groups(&self.log, list, revision, &user.name).await?;
        known.defined = Some((groups, revision));
        Ok(())
    }
}

/// Ends the task of a group, after its last checkpoint.
async fn end(known: &mut KnownGroups, id: &PersistentGroupId, status: Status) {
    let Some(task) = known.working.remove(id) else { return };
    let (answer, ended) = oneshot::channel();
    if task.send(GroupMessage::End { status, answer }).await.is_ok() {
        // An error means that the task has ended by itself.
        let _ = ended.await;
    }
}

/// Checks that the user may create groups and consume their events. Both append to the log.
pub(super) fn may_consume(user: &LogUser) -> Result<(), Status> {
    if user.right < LogRight::Write {
        return Err(Status::permission_denied("this user may only read; persistent subscriptions record checkpoints"));
    }
    Ok(())
}

/// The group, if the user may change it. Only the user who created a group and peers may change the group.
fn owned<'groups>(
    groups: &'groups BTreeMap<PersistentGroupId, GroupRecord>,
    user: &LogUser,
    id: &PersistentGroupId,
) -> Result<&'groups GroupRecord, Status> {
    may_consume(user)?;
    let record = groups.get(id).ok_or_else(|| missing(id))?;
    if record.owner != user.name && user.right < LogRight::Peer {
        return Err(Status::permission_denied("this persistent subscription belongs to another user"));
    }
    Ok(record)
}

fn missing(id: &PersistentGroupId) -> Status {
    Status::not_found(format!("there is no persistent subscription {}", id.shown()))
}
