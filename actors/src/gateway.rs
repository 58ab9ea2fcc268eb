//! The way to the aggregates: commands go in here, and nowhere else.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::envelope::Meta;
use chronova_events::store::{EventStore, StoreError};

use crate::aggregate::{Aggregate, CommandError, Committed};
use crate::shell::arbiters::Arbiters;
use crate::shell::directory::Directory;
use crate::shell::entity::{IDLE, Surroundings};

/// An aggregate that the gateway can reach; implemented by the table below only.
pub trait Reachable: Aggregate + Sized {
    fn directory(gateway: &Gateway) -> &Directory<Self>;
}

/// Defines [`Gateway`]: one line per aggregate.
macro_rules! gateway {
    ($( $field:ident: $aggregate:ty, )+) => {
        /// Every aggregate there is.
        #[derive(Debug)]
        pub struct Gateway {
            $( $field: Directory<$aggregate>, )+
            arbiters: Arc<Arbiters>,
        }

        impl Gateway {
            /// Needs a running actix system. `threads` is how many threads the actors share; 0: the
            /// one that calls.
            pub fn start(store: Arc<dyn EventStore>, clock: Arc<dyn Clock>, threads: usize) -> Arc<Self> {
                let arbiters = Arc::new(Arbiters::start(threads));
                let around = Surroundings { store, clock, idle: IDLE };
                Arc::new(Self {
                    $( $field: Directory::new(around.clone(), Arc::clone(&arbiters)), )+
                    arbiters,
                })
            }
        }

        $( impl Reachable for $aggregate {
            fn directory(gateway: &Gateway) -> &Directory<Self> {
                &gateway.$field
            }
        } )+
    };
}

gateway! {
    consoles: crate::console::ConsoleAggregate,
    erasures: crate::erasure::ErasureAggregate,
    flavors: crate::flavor::FlavorAggregate,
    host_aggregates: crate::host_aggregate::HostAggregatesAggregate,
    hosts: crate::host::HostAggregate,
    identities: crate::services::embedded::identity::IdentityAggregate,
    images: crate::services::embedded::image::ImageAggregate,
    instances: crate::instance::InstanceAggregate,
    keypairs: crate::keypair::KeypairAggregate,
    ledger: crate::ledger::LedgerAggregate,
    network_quotas: crate::services::embedded::network::quota::NetworkQuotaAggregate,
    networks: crate::services::embedded::network::NetworkAggregate,
    processes: crate::process::ProcessAggregate,
    quota_classes: crate::quota_class::QuotaClassAggregate,
    quotas: crate::quota::QuotaAggregate,
    routers: crate::services::embedded::network::router::RouterAggregate,
    security_groups: crate::services::embedded::network::security_group::SecurityGroupAggregate,
    server_groups: crate::server_group::ServerGroupAggregate,
    volumes: crate::services::embedded::volume::VolumeAggregate,
    volume_quotas: crate::services::embedded::volume::quota::VolumeQuotaAggregate,
    volume_types: crate::services::embedded::volume::types::VolumeTypeAggregate,
}

impl Gateway {
    /// Has `command` decided by the aggregate `id`; answers when what happened is durable.
    pub async fn send<A: Reachable>(
        &self,
        id: &A::Id,
        command: A::Command,
        meta: Arc<Meta>,
    ) -> Result<Committed, CommandError<A::Reject>> {
        A::directory(self).execute(id, command, meta).await
    }

    /// A copy of the state of the aggregate `id`.
    pub async fn look<A: Reachable>(&self, id: &A::Id) -> Result<A::State, StoreError> {
        A::directory(self).look(id).await
    }

    /// Ends all actors.
    pub fn stop(&self) {
        self.arbiters.stop();
    }
}
