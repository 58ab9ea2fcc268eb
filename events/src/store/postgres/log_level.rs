//! The level of the log in the head row: the leader raises it, and writes no event above it.
//!
//! Each member announces the newest level that it knows ([`super::following`]). The leader raises the level to the
//! lowest one of all living members. A member that knows a lower level cannot join and cannot take the lead. If it runs
//! already, it stops.

use std::sync::atomic::{AtomicU16, Ordering};

use super::lease::LeaseTerms;
use super::link::DatabaseLink;
use super::schema;
use crate::registry::Event;
use crate::store::StoreError;
use crate::store::levels::EventLevels;

/// The events that this process knows, and the level of the log, as the leader knows it.
pub(super) struct LogLevel {
    levels: EventLevels,
    /// The database has confirmed this level, so every later leader knows it, too.
    reached: AtomicU16,
}

impl LogLevel {
    pub(super) fn new(levels: EventLevels) -> Self {
        Self { levels, reached: AtomicU16::new(0) }
    }

    pub(super) fn newest(&self) -> u16 {
        self.levels.newest()
    }

    pub(super) fn reached(&self) -> u16 {
        self.reached.load(Ordering::SeqCst)
    }

    pub(super) fn reach(&self, level: u16) {
        self.reached.fetch_max(level, Ordering::SeqCst);
    }

    pub(super) fn knows(&self, kind: &str, version: u16) -> bool {
        self.levels.knows(kind, version)
    }

    /// The version in which this leader writes the event.
    pub(super) fn version(&self, event: &Event) -> Result<u16, StoreError> {
        let level = self.reached();
        self.levels.version_to_write(event, level).ok_or_else(|| StoreError::BelowLevel {
            kind: event.kind().to_owned(),
            needed: level.saturating_add(1),
            level,
        })
    }
}

impl LeaseTerms {
    /// Raises the level of the log if all living members know a higher one. Only the holder of the lease may call this.
    /// `looks` is a connection whose commits need not be replicated.
    pub(super) async fn follow_levels(&self, looks: &DatabaseLink) -> Result<(), StoreError> {
        let newest = self.level.newest();
        let reached = self.level.reached();
        if reached < newest && schema::common_level(&looks.client).await?.is_none_or(|common| common > reached) {
            // Every later leader must see the new level, so this write waits for the standby.
            let link = DatabaseLink::open(&self.config).await?;
            self.raise_level(&link).await?;
        }
        Ok(())
    }

    /// Like [`LeaseTerms::follow_levels`], on a connection whose commits are replicated.
    pub(super) async fn raise_level(&self, link: &DatabaseLink) -> Result<(), StoreError> {
        let raised = schema::raise_level(&link.client, &self.cell, &self.holder, self.level.newest()).await?;
        if let Some(level) = raised {
            tracing::warn!(level, "all members know the next level of the log: older versions cannot join any more");
            self.level.reach(level);
        }
        Ok(())
    }
}
