//! Finds the actor of an id, or starts it.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::{Actor, Addr};
use chronova_events::envelope::Meta;
use chronova_events::store::StoreError;
use tokio::sync::oneshot;

use super::arbiters::Arbiters;
use super::entity::{CommandReply, Entity, EntityContext, Execute, ReadState};
use crate::aggregate::{AggregateRoot, CommandError};

/// The number of locks among which the ids are divided, so that a million actors do not wait for one lock.
const SHARDS: usize = 64;
/// The most attempts to send a message before the call fails. If an actor has stopped, the next attempt goes to a new
/// actor of the same id.
const TRIES: u32 = 5;
/// Above this number of entries in a shard, entries of passivated actors are removed.
const SWEEP: usize = 1_024;

type ActorShard<A> = Mutex<HashMap<<A as AggregateRoot>::Id, Addr<Entity<A>>>>;

/// All actors of one kind of aggregate.
pub struct ActorDirectory<A: AggregateRoot> {
    shards: Vec<ActorShard<A>>,
    around: EntityContext,
    arbiters: Arc<Arbiters>,
}

impl<A: AggregateRoot> std::fmt::Debug for ActorDirectory<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActorDirectory").finish_non_exhaustive()
    }
}

impl<A: AggregateRoot> ActorDirectory<A> {
    pub fn new(around: EntityContext, arbiters: Arc<Arbiters>) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), around, arbiters }
    }

    /// Lets the actor of `id` decide `command`. Returns when the events are durable.
    pub async fn execute(&self, id: &A::Id, command: A::Command, meta: Arc<Meta>) -> CommandReply<A> {
        for _ in 0..TRIES {
            let (reply, answer) = oneshot::channel();
            let message = Execute { command: command.clone(), meta: Arc::clone(&meta), reply };
            let address = self.address(id).map_err(CommandError::Unavailable)?;
            if address.send(message).await.is_err() {
                // The actor was passivated before it took the command, so nothing has happened.
                self.forget(id, &address);
                continue;
            }
            return answer.await.unwrap_or_else(|_| {
                // The actor died during the command. Only the log shows whether the events were appended.
                self.forget(id, &address);
                Err(CommandError::Unavailable(StoreError::Closed))
            });
        }
        Err(CommandError::Unavailable(StoreError::Closed))
    }

    /// A copy of the state of `id`.
    pub async fn look(&self, id: &A::Id) -> Result<A::State, StoreError> {
        for _ in 0..TRIES {
            let (reply, answer) = oneshot::channel();
            let address = self.address(id)?;
            if address.send(ReadState(reply)).await.is_ok()
                && let Ok(state) = answer.await
            {
                return state;
            }
            self.forget(id, &address);
        }
        Err(StoreError::Closed)
    }

    /// The actor of `id`, started if necessary. Fails in a process that starts no actor.
    fn address(&self, id: &A::Id) -> Result<Addr<Entity<A>>, StoreError> {
        let mut shard = self.shard(id);
        if let Some(address) = shard.get(id)
            && address.connected()
        {
            return Ok(address.clone());
        }
        let arbiter = self.arbiters.of(id).ok_or(StoreError::Closed)?;
        if shard.len() >= SWEEP {
            shard.retain(|_, address| address.connected());
        }
        let (entity, around) = (id.clone(), self.around.clone());
        let address = Entity::start_in_arbiter(&arbiter, move |_| Entity::<A>::new(&entity, around));
        shard.insert(id.clone(), address.clone());
        Ok(address)
    }

    fn forget(&self, id: &A::Id, address: &Addr<Entity<A>>) {
        let mut shard = self.shard(id);
        if shard.get(id).is_some_and(|known| known == address) {
            shard.remove(id);
        }
    }

    fn shard(&self, id: &A::Id) -> MutexGuard<'_, HashMap<A::Id, Addr<Entity<A>>>> {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let index = usize::try_from(hasher.finish()).unwrap_or(0) % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
