//! All read models together.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use chronova_events::envelope::{Position, Recorded};
use chronova_events::registry::DecodeError;
use tokio::sync::watch;

use crate::Projection;

/// One read model behind its lock.
#[derive(Debug, Default)]
pub struct View<P>(RwLock<P>);

impl<P: Projection> View<P> {
    /// Looks at the read model. Copy `Arc`s out and return: nothing slow belongs into `look`.
    pub fn read<R>(&self, look: impl FnOnce(&P) -> R) -> R {
        look(&self.guard())
    }

    fn guard(&self) -> RwLockReadGuard<'_, P> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut P) -> R) -> R {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Defines [`Views`]: one line per read model.
macro_rules! views {
    ($( $(#[$doc:meta])* $field:ident: $projection:ty, )+) => {
        /// Every read model, all at the same position.
        #[derive(Debug)]
        pub struct Views {
            $( $(#[$doc])* pub $field: View<$projection>, )+
            position: watch::Sender<Position>,
        }

        impl Views {
            pub fn new() -> Self {
                Self { $( $field: View::default(), )+ position: watch::Sender::new(Position::START) }
            }

            /// Folds a batch into every read model and then makes its position known.
            pub fn apply(&self, batch: &[std::sync::Arc<Recorded>]) -> Result<(), DecodeError> {
                for recorded in batch {
                    recorded.event()?;
                }
                $( self.$field.write(|view| {
                    for recorded in batch {
                        // Decoded above; `event` only hands out what is there.
                        if let Ok(event) = recorded.event() {
                            view.apply(recorded, event);
                        }
                    }
                }); )+
                if let Some(last) = batch.last() {
                    self.position.send_replace(last.position);
                }
                Ok(())
            }

            /// Calls `each` with every read model's name, version and JSON form.
            pub fn export(&self, mut each: impl FnMut(&'static str, u32, serde_json::Value)) {
                $( each(
                    <$projection>::NAME,
                    <$projection>::VERSION,
                    self.$field.read(|view| serde_json::to_value(view).unwrap_or_default()),
                ); )+
            }

            /// Takes back what [`Views::export`] gave; says whether `name` at `version` is one of ours and fits.
            pub(crate) fn import(&self, name: &str, version: u32, value: serde_json::Value) -> bool {
                match name {
                    $( <$projection>::NAME if version == <$projection>::VERSION => {
                        match serde_json::from_value::<$projection>(value) {
                            Ok(view) => {
                                self.$field.write(|place| *place = view);
                                true
                            }
                            Err(_) => false,
                        }
                    } )+
                    _ => false,
                }
            }

            /// How many read models there are.
            pub(crate) const COUNT: usize = [$( <$projection>::NAME ),+].len();
        }
    };
}

views! {
    erasures: crate::erasures::ErasuresView,
    flavors: crate::flavors::FlavorsView,
    fleet: crate::fleet::Fleet,
    host_aggregates: crate::host_aggregates::HostAggregatesView,
    hosts: crate::hosts::Hosts,
    identities: crate::identities::Identities,
    images: crate::images::Images,
    keypairs: crate::keypairs::KeypairsView,
    networks: crate::networks::Networks,
    placement: crate::placement::Placement,
    processes: crate::processes::Processes,
    quotas: crate::quotas::Quotas,
    security_groups: crate::security_groups::SecurityGroupsView,
    server_groups: crate::server_groups::ServerGroupsView,
    servers: crate::servers::Servers,
}

impl Default for Views {
    fn default() -> Self {
        Self::new()
    }
}

impl Views {
    /// The position up to which all events are in the read models.
    pub fn position(&self) -> Position {
        *self.position.borrow()
    }

    pub(crate) fn set_position(&self, position: Position) {
        self.position.send_replace(position);
    }

    /// Waits until the read models include `position`, so that a requester reads its own writes. Says whether they do
    /// within `patience`.
    pub async fn wait_for(&self, position: Position, patience: Duration) -> bool {
        let mut changed = self.position.subscribe();
        tokio::time::timeout(patience, changed.wait_for(|at| *at >= position)).await.is_ok_and(|at| at.is_ok())
    }
}
