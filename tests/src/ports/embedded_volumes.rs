//! The embedded volume service of a whole control plane, on a simulated host.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::services::embedded::volume::service::EmbeddedVolumes;
use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, ProjectId, VolumeId};
use chronova_hypervisor::driver::Driver;

use super::volumes::VolumeStage;
use crate::world::{Life, World};

pub struct EmbeddedVolumeStage {
    pub volumes: Arc<EmbeddedVolumes>,
    life: Life,
    host: String,
}

impl EmbeddedVolumeStage {
    /// An empty service with one host. Needs a running actix system.
    pub async fn new() -> Self {
        let life = World::new(1).live(None, None).await;
        life.hosts_up(1).await;
        let names: Vec<String> =
            life.context().views.hosts.read(|hosts| hosts.all().map(|host| host.hostname.clone()).collect());
        let host = names.into_iter().next().unwrap();
        Self { volumes: Arc::clone(&life.volumes), life, host }
    }

    pub async fn stop(self) {
        self.life.stop().await;
    }
}

#[async_trait]
impl VolumeStage for EmbeddedVolumeStage {
    async fn project(&self) -> ProjectId {
        ProjectId::new(VolumeId::random().to_string())
    }

    fn host(&self) -> String {
        self.host.clone()
    }

    fn driver(&self) -> (HostId, Arc<dyn Driver>) {
        let context = self.life.context();
        let host = context.views.hosts.read(|hosts| hosts.all().next().map(|host| host.id)).unwrap();
        (host, context.fleet.driver(host).unwrap())
    }

    async fn asked(&self, _: &ProjectId) -> Arc<Meta> {
        Meta::system("conformance")
    }
}
