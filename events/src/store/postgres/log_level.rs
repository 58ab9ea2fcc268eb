//! The level of the log in the head row: the leader raises it, and writes no event above it.
//!
//! Each member announces the newest level that it knows ([`super::following`]). The leader raises the level to the
//! lowest one of all living members ([`super::lease`]). A member that knows a lower level cannot join and cannot take
//! the lead. If it runs already, it stops.

use std::sync::atomic::{AtomicU16, Ordering};

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
