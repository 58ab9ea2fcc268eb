//! The only way to send commands to aggregates.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::envelope::{Meta, StreamId};
use chronova_events::fold::Fold;
use chronova_events::installation::{InstallationEvent, LogGeneration};
use chronova_events::registry::NounEvent;
use chronova_events::store::{AppendRight, EventStore, StoreError};

use crate::aggregate::{AggregateRoot, CommandError, Committed, EventOf};
use crate::shell::arbiters::Arbiters;
use crate::shell::directory::ActorDirectory;
use crate::shell::entity::{EntityContext, IDLE};
use crate::shell::folding::{self, StateKeeping};

/// An aggregate that the gateway can reach. Only the table below implements this trait.
pub trait Reachable: AggregateRoot + Sized {
    fn directory(gateway: &CommandGateway) -> &ActorDirectory<Self>;
}

/// Defines [`CommandGateway`] and what is done with the state of a stream: one line per aggregate.
macro_rules! gateway {
    ($( $field:ident: $aggregate:ty, )+) => {
        /// The actors of all aggregates.
        #[derive(Debug)]
        pub struct CommandGateway {
            $( $field: ActorDirectory<$aggregate>, )+
            arbiters: Arc<Arbiters>,
            /// `None` in a member that does not lead.
            right: Option<AppendRight>,
        }

        impl CommandGateway {
            /// Starts the gateway. Needs a running actix system. `threads` is the number of threads that the actors
            /// share; with 0, they run on the calling thread. `right` proves that the log accepts appends of this
            /// process.
            pub(crate) fn start(
                store: Arc<dyn EventStore>,
                clock: Arc<dyn Clock>,
                threads: usize,
                right: AppendRight,
            ) -> Arc<Self> {
                Self::with(store, clock, Arbiters::start(threads), Some(right))
            }

            /// A gateway that refuses every command, for a member that does not lead.
            pub(crate) fn refusing(store: Arc<dyn EventStore>, clock: Arc<dyn Clock>) -> Arc<Self> {
                Self::with(store, clock, Arbiters::none(), None)
            }

            fn with(
                store: Arc<dyn EventStore>,
                clock: Arc<dyn Clock>,
                arbiters: Arbiters,
                right: Option<AppendRight>,
            ) -> Arc<Self> {
                let arbiters = Arc::new(arbiters);
                let around = EntityContext { store, clock, idle: IDLE };
                Arc::new(Self {
                    $( $field: ActorDirectory::new(around.clone(), Arc::clone(&arbiters)), )+
                    arbiters,
                    right,
                })
            }
        }

        /// Keeps the state of `stream` in a snapshot, because its events leave the log's file. A stream without an
        /// aggregate has no state. `is_proved`: the present snapshot was compared with the events before it, so the fold
        /// begins there.
        ///
        /// # Errors
        /// The log cannot be read or written, or the snapshot is not the state.
        pub async fn keep_state(
            store: &dyn EventStore,
            stream: &StreamId,
            is_proved: bool,
        ) -> Result<StateKeeping, StoreError> {
            let noun = stream.category();
            $( if noun == <EventOf<$aggregate> as NounEvent>::NOUN {
                let has_ended: fn(&<$aggregate as AggregateRoot>::State) -> bool = <$aggregate>::has_ended;
                return Box::pin(folding::keep_state(store, stream, is_proved, has_ended)).await;
            } )+
            if *stream == LogGeneration::stream() {
                return folding::keep_state::<LogGeneration>(store, stream, is_proved, |_| false).await;
            }
            Ok(StateKeeping::NotNeeded)
        }

        /// The version of the states of the streams in a category; `None` if they have no state.
        pub fn state_version(category: &str) -> Option<u32> {
            $( if category == <EventOf<$aggregate> as NounEvent>::NOUN {
                return Some(<<$aggregate as AggregateRoot>::State as Fold>::STATE_VERSION);
            } )+
            (category == InstallationEvent::NOUN).then_some(LogGeneration::STATE_VERSION)
        }

        $( impl Reachable for $aggregate {
            fn directory(gateway: &CommandGateway) -> &ActorDirectory<Self> {
                &gateway.$field
            }
        } )+
    };
}

gateway! {
    consoles: crate::console::ConsoleRoot,
    erasures: crate::erasure::ErasureRoot,
    flavors: crate::flavor::FlavorRoot,
    fleets: crate::fleet::FleetRoot,
    host_aggregates: crate::host_aggregate::HostAggregatesRoot,
    hosts: crate::host::HostRoot,
    identities: crate::services::embedded::identity::IdentityRoot,
    images: crate::services::embedded::image::ImageRoot,
    instances: crate::instance::InstanceRoot,
    keypairs: crate::keypair::KeypairRoot,
    ledger: crate::ledger::LedgerRoot,
    network_quotas: crate::services::embedded::network::quota::NetworkQuotaRoot,
    networks: crate::services::embedded::network::NetworkRoot,
    notification_outboxes: crate::notifications::outbox::NotificationOutboxRoot,
    processes: crate::process::ProcessRoot,
    quota_classes: crate::quota_class::QuotaClassRoot,
    quotas: crate::quota::QuotaRoot,
    routers: crate::services::embedded::network::router::RouterRoot,
    security_groups: crate::services::embedded::network::security_group::SecurityGroupRoot,
    server_groups: crate::server_group::ServerGroupRoot,
    volumes: crate::services::embedded::volume::VolumeRoot,
    volume_quotas: crate::services::embedded::volume::quota::VolumeQuotaRoot,
    volume_types: crate::services::embedded::volume::types::VolumeTypeRoot,
}

impl CommandGateway {
    /// Lets the aggregate `id` decide `command`. Returns when the events are durable.
    pub async fn send<A: Reachable>(
        &self,
        id: &A::Id,
        command: impl Into<A::Command>,
        meta: Arc<Meta>,
    ) -> Result<Committed, CommandError<A::Reject>> {
        self.check_right().map_err(CommandError::Unavailable)?;
        A::directory(self).execute(id, command.into(), meta).await
    }

    /// A copy of the state of the aggregate `id`.
    pub async fn look<A: Reachable>(&self, id: &A::Id) -> Result<A::State, StoreError> {
        self.check_right()?;
        A::directory(self).look(id).await
    }

    fn check_right(&self) -> Result<(), StoreError> {
        match &self.right {
            Some(_) => Ok(()),
            None => Err(StoreError::Io("another member leads this log".to_owned())),
        }
    }

    /// Ends all actors.
    pub fn stop(&self) {
        self.arbiters.stop();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use chronova_events::envelope::{NewEvent, Timestamp};
    use chronova_events::registry;
    use chronova_events::store::Expected;
    use chronova_events::store::memory::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn the_state_of_every_aggregate_can_be_kept() {
        let (store, meta, mut kept) = (MemoryStore::new(), Meta::system("test"), BTreeSet::new());
        for event in registry::samples() {
            let (noun, _) = event.kind().split_once('.').unwrap();
            let stream = match noun == InstallationEvent::NOUN {
                true => LogGeneration::stream(),
                false => StreamId::new(noun, "one"),
            };
            let new = NewEvent::new(event, Timestamp(1), &meta);
            store.append(&stream, Expected::Any, vec![new]).await.unwrap();
            // A later event may end the aggregate, and then nothing is kept. So the test keeps the state after each
            // event.
            match keep_state(&*store, &stream, false).await.unwrap() {
                StateKeeping::Kept => _ = kept.insert(noun),
                StateKeeping::NotNeeded => assert!(state_version(noun).is_none() || kept.contains(noun), "{noun}"),
            }
        }
        for noun in ["identity", "instance", "ledger", "process", "host", "image", "installation"] {
            assert!(kept.contains(noun) && state_version(noun).is_some(), "{noun}");
        }
        assert!(!kept.contains("access") && !kept.contains("external"));
    }
}
