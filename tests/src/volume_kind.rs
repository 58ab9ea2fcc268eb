//! The kinds of volume services that a simulated world can have.

use std::sync::Arc;

use chronova_actors::ports::VolumeService;
use chronova_events::ids::VolumeId;

use crate::choosing_volumes::ChoosingVolumes;
use crate::migrating_volumes::{EndedMigrations, MigratingVolumes};

#[derive(Debug, Clone, Default)]
pub enum VolumeKind {
    #[default]
    Embedded,
    /// Chooses the ids of volumes and attachments itself.
    Choosing,
    /// Migrates attached volumes itself.
    Migrating(Arc<EndedMigrations>),
}

impl VolumeKind {
    /// The volume service of this kind, which keeps its volumes in the embedded one.
    pub fn around(&self, embedded: Arc<dyn VolumeService>) -> Arc<dyn VolumeService> {
        match self {
            Self::Embedded => embedded,
            Self::Choosing => Arc::new(ChoosingVolumes(embedded)),
            Self::Migrating(ended) => Arc::new(MigratingVolumes { volumes: embedded, ended: Arc::clone(ended) }),
        }
    }

    pub fn chooses_ids(&self) -> bool {
        matches!(self, Self::Choosing)
    }

    /// The volume of the embedded service that has the content of this volume.
    pub fn content_of(&self, volume: VolumeId) -> VolumeId {
        match self {
            Self::Migrating(ended) => ended.content_of(volume),
            Self::Embedded | Self::Choosing => volume,
        }
    }
}
