//! The set of all read models.
//!
//! Each read model is behind an `Arc` that only the fold changes. [`Views::fork`] shares all of them at one position at
//! no cost, for a checkpoint or a query about the past. The next change of a shared read model copies it first. Readers
//! never wait for the copy, because they read the old read model until it is done.
//!
//! Invariants: all read models are at the same position unless a batch is being folded. Only one batch is folded at a
//! time. An event that cannot be decoded changes nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use chronova_events::envelope::{Position, Recorded, Timestamp};
use chronova_events::ids::EventId;
use chronova_events::pointer::PositionWatch;
use chronova_events::registry::{self, DecodeError};
use serde::{Deserialize, Serialize};

use crate::Projection;

/// One read model behind its lock.
#[derive(Debug, Default)]
pub struct View<P>(RwLock<Arc<P>>);

impl<P: Projection> View<P> {
    /// Reads the read model under its lock. `look` must be fast: it copies `Arc`s out and returns.
    pub fn read<R>(&self, look: impl FnOnce(&P) -> R) -> R {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The read model as it is now, for a look that takes long. While it is held, the next change copies the read model.
    pub fn share(&self) -> Arc<P> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn put(&self, view: Arc<P>) {
        let before = {
            let mut place = self.0.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, view)
        };
        // Dropping a large read model takes time, so this happens after the lock is released.
        drop(before);
    }

    /// Changes the read model. The caller holds the lock of the mark in [`Views`].
    fn change(&self, change: impl FnOnce(&mut P)) {
        let shared = Some(self.share()).filter(|view| Arc::strong_count(view) > 2);
        if let Some(shared) = shared {
            // Readers read the old value during the copy.
            self.put(Arc::new(P::clone(&shared)));
        }
        let mut place = self.0.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut place));
    }
}

/// The position up to which read models are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    pub position: Position,
    /// The event at that position. A checkpoint recognises its log by this event.
    pub event: Option<EventId>,
    /// The latest time of any event so far. Unlike a clock, this time never goes back.
    pub moment: Timestamp,
}

impl Mark {
    fn pass(&mut self, batch: &[Arc<Recorded>]) {
        for recorded in batch {
            self.moment = self.moment.max(recorded.recorded_at);
        }
        if let Some(last) = batch.last() {
            (self.position, self.event) = (last.position, Some(last.id));
        }
    }
}

/// Visits every read model of two [`Views`].
pub(crate) trait ViewVisitor {
    fn visit<P: Projection>(&mut self, left: &View<P>, right: &View<P>);
}

/// How the bytes of a read model in a checkpoint were used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RestoreOutcome {
    Current,
    /// The bytes have an older version. The read model is shown until the rebuild is done.
    Provisional,
    Outdated,
    /// No read model has this name any more.
    Unknown,
    Damaged,
}

/// Defines [`Views`]: one line per read model.
macro_rules! views {
    ($( $(#[$doc:meta])* $field:ident: $projection:ty, )+) => {
        /// Every read model, all at the same position.
        #[derive(Debug)]
        pub struct Views {
            $( $(#[$doc])* pub $field: View<$projection>, )+
            /// The read models that are folded; the others do not change. Empty: all are folded.
            only: BTreeSet<&'static str>,
            mark: Mutex<Mark>,
            position: PositionWatch,
            /// The task that folds a live log holds this lock during a batch. So a rebuilt read model replaces the live
            /// one only between two batches.
            pub(crate) turn: tokio::sync::Mutex<()>,
        }

        impl Views {
            /// The names of the read models.
            pub const NAMES: &'static [&'static str] = &[$( <$projection>::NAME ),+];

            pub fn new() -> Self {
                Self::at(Mark::default(), BTreeSet::new())
            }

            fn at(mark: Mark, only: BTreeSet<&'static str>) -> Self {
                Self {
                    $( $field: View::default(), )+
                    only,
                    mark: Mutex::new(mark),
                    position: PositionWatch::new(mark.position),
                    turn: tokio::sync::Mutex::new(()),
                }
            }

            /// Folds a batch into the read models, and then publishes its position.
            pub fn apply(&self, batch: &[Arc<Recorded>]) -> Result<(), DecodeError> {
                let mut mark = self.mark();
                let nouns = self.decode(batch)?;
                let any = nouns.iter().fold(0, |any, noun| any | noun);
                $( {
                    let wanted = bits(<$projection>::NOUNS);
                    if any & wanted != 0 && self.folds(<$projection>::NAME) {
                        self.$field.change(|view| {
                            for (recorded, _) in batch.iter().zip(&nouns).filter(|(_, noun)| *noun & wanted != 0) {
                                // `decode` has already decoded the event.
                                if let Ok(event) = recorded.event() {
                                    view.apply(recorded, event);
                                }
                            }
                        });
                    }
                } )+
                mark.pass(batch);
                if self.position.get() != mark.position {
                    self.position.set(mark.position);
                }
                Ok(())
            }

            /// The bits of the nouns that the folded read models use.
            fn wanted(&self) -> u64 {
                let mut wanted = 0;
                $( if self.folds(<$projection>::NAME) { wanted |= bits(<$projection>::NOUNS); } )+
                wanted
            }

            /// The beginnings of the kinds of the events that the folded read models use. Empty: all kinds.
            pub(crate) fn kinds(&self) -> Vec<String> {
                let mut nouns = Some(BTreeSet::new());
                $( if self.folds(<$projection>::NAME) { add(&mut nouns, <$projection>::NOUNS); } )+
                nouns.unwrap_or_default().into_iter().map(|noun| format!("{noun}.")).collect()
            }

            /// Returns a second set that shares all read models, as they are between two batches. The fork copies no
            /// rows.
            pub fn fork(&self) -> Self {
                let mark = self.mark();
                let fork = Self::at(*mark, self.only.clone());
                $( fork.$field.put(self.$field.share()); )+
                fork
            }

            pub(crate) fn each(&self, other: &Self, visitor: &mut impl ViewVisitor) {
                $( visitor.visit(&self.$field, &other.$field); )+
            }

            /// Takes the named read models from `other`.
            pub fn adopt(&self, other: &Self, names: &BTreeSet<&'static str>) {
                let _mark = self.mark();
                $( if names.contains(<$projection>::NAME) { self.$field.put(other.$field.share()); } )+
            }

            /// Reads one read model from a checkpoint's bytes.
            pub(crate) fn restore(&self, name: &str, version: u32, bytes: &[u8]) -> RestoreOutcome {
                match name {
                    $( <$projection>::NAME => {
                        let (view, how) = if version == <$projection>::VERSION {
                            (chronova_events::codec::decode_snapshot::<$projection>(bytes).ok(), RestoreOutcome::Current)
                        } else {
                            (<$projection>::older(version, bytes), RestoreOutcome::Provisional)
                        };
                        match view {
                            Some(view) => {
                                self.$field.put(Arc::new(view));
                                how
                            }
                            None if how == RestoreOutcome::Current => RestoreOutcome::Damaged,
                            None => RestoreOutcome::Outdated,
                        }
                    } )+
                    _ => RestoreOutcome::Unknown,
                }
            }

            /// How many bytes of memory the read models take, roughly.
            pub fn weight(&self) -> u64 {
                let mut weight = 0;
                $( weight += self.$field.read(Projection::weight); )+
                weight
            }
        }
    };
}

views! {
    console_tokens: crate::consoles::ConsoleTokens,
    erasures: crate::erasures::ErasuresView,
    flavors: crate::flavors::FlavorsView,
    fleet: crate::fleet::FleetView,
    host_aggregates: crate::host_aggregates::HostAggregatesView,
    hosts: crate::hosts::Hosts,
    identities: crate::identities::Identities,
    images: crate::images::ImagesView,
    keypairs: crate::keypairs::KeypairsView,
    migrations: crate::migrations::Migrations,
    networks: crate::networks::NetworksView,
    placement: crate::placement::Placement,
    processes: crate::processes::Processes,
    quotas: crate::quotas::Quotas,
    security_groups: crate::security_groups::SecurityGroupsView,
    server_groups: crate::server_groups::ServerGroupsView,
    servers: crate::servers::Servers,
    volumes: crate::volumes::VolumesView,
}

impl Default for Views {
    fn default() -> Self {
        Self::new()
    }
}

impl Views {
    /// Creates empty read models. Only the named read models are folded; a rebuild uses this.
    pub fn only(names: BTreeSet<&'static str>) -> Self {
        Self::at(Mark::default(), names)
    }

    /// The position up to which all events are in the read models.
    pub fn position(&self) -> Position {
        self.position.get()
    }

    /// The mark of the read models. Waits for a batch that is being folded.
    pub fn marked(&self) -> Mark {
        *self.mark()
    }

    /// The position of the read models. `None` while a batch is being folded, because then some read models are ahead
    /// of others. A reader that gets the same position before and after its reads has read one consistent state.
    pub fn steady(&self) -> Option<Position> {
        match self.mark.try_lock() {
            Ok(mark) => Some(mark.position),
            Err(std::sync::TryLockError::Poisoned(mark)) => Some(mark.into_inner().position),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    fn mark(&self) -> MutexGuard<'_, Mark> {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_mark(&self, mark: Mark) {
        *self.mark() = mark;
        self.position.set(mark.position);
    }

    fn folds(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.contains(name)
    }

    /// Decodes the events that the read models use. Another thread can call this before `apply`.
    pub fn decode(&self, batch: &[Arc<Recorded>]) -> Result<Vec<u64>, DecodeError> {
        let wanted = self.wanted();
        batch
            .iter()
            .map(|recorded| {
                let noun = bit(&recorded.kind);
                // An unknown event must not be skipped, because a newer version has written it.
                if noun == 0 || noun & wanted != 0 {
                    recorded.event()?;
                }
                Ok(noun)
            })
            .collect()
    }

    /// Waits until the read models include `position`, so that a client reads its own writes. Returns whether they do
    /// within `patience`.
    pub async fn wait_for(&self, position: Position, patience: Duration) -> bool {
        // In most cases the read models include the position already, so this check avoids a timer.
        self.position.get() >= position || tokio::time::timeout(patience, self.position.reaches(position)).await.is_ok()
    }
}

/// The nouns (first words) of all event kinds, sorted.
static NOUNS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let nouns: BTreeSet<&str> = registry::catalogue().iter().map(|entry| noun_of(entry.kind)).collect();
    nouns.into_iter().collect()
});

fn noun_of(kind: &str) -> &str {
    kind.split_once('.').map_or(kind, |(noun, _)| noun)
}

/// The bit of a kind's noun; 0 if the noun is unknown.
fn bit(kind: &str) -> u64 {
    NOUNS.binary_search(&noun_of(kind)).map_or(0, |at| 1 << (at % 64))
}

/// Adds the nouns of a read model. `None`: a read model uses all nouns.
fn add(nouns: &mut Option<BTreeSet<&'static str>>, more: &'static [&'static str]) {
    match nouns {
        Some(nouns) if !more.is_empty() => nouns.extend(more),
        _ => *nouns = None,
    }
}

/// The bits of these nouns; all bits if `nouns` is empty.
fn bits(nouns: &[&str]) -> u64 {
    if nouns.is_empty() { u64::MAX } else { nouns.iter().fold(0, |bits, noun| bits | bit(noun)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use chronova_events::envelope::{Meta, Revision, StreamId};
    use chronova_events::registry::Event;
    use std::sync::OnceLock;

    /// A recorded event of any kind.
    fn recorded(position: u64, event: &Event) -> Arc<Recorded> {
        Arc::new(Recorded {
            position: Position(position),
            stream: StreamId::new("any", uuid::Uuid::from_u128(1)),
            revision: Revision(position),
            id: EventId(uuid::Uuid::from_u128(u128::from(position))),
            kind: Arc::from(event.kind()),
            version: event.version(),
            codec: chronova_events::codec::BINCODE_2,
            recorded_at: Timestamp(i64::try_from(position).unwrap()),
            meta: Meta::system("test"),
            data: event.encode().unwrap().into(),
            hash: None,
            keys: None,
            decoded: OnceLock::new(),
        })
    }

    struct Outsiders<'a>(&'a [Event]);

    impl ViewVisitor for Outsiders<'_> {
        fn visit<P: Projection>(&mut self, _: &View<P>, _: &View<P>) {
            let wanted = bits(P::NOUNS);
            let mut view = P::default();
            let before = serde_json::to_value(&view).unwrap();
            for event in self.0.iter().filter(|event| bit(event.kind()) & wanted == 0) {
                view.apply(&recorded(1, event), event);
                let after = serde_json::to_value(&view).unwrap();
                assert_eq!(after, before, "{} uses {}, whose noun is not in its `NOUNS`", P::NAME, event.kind());
            }
            for noun in P::NOUNS {
                assert_ne!(bit(noun), 0, "`NOUNS` of {} has the unknown noun {noun}", P::NAME);
            }
        }
    }

    #[test]
    fn read_models_look_only_at_the_nouns_they_name() {
        assert!(NOUNS.len() <= 64);
        let views = Views::new();
        views.each(&views, &mut Outsiders(&registry::samples()));
    }

    #[test]
    fn a_fork_stays_where_it_is() {
        let views = Views::new();
        let samples = registry::samples();
        let batch: Vec<_> = samples.iter().zip(1..).map(|(event, position)| recorded(position, event)).collect();
        let (first, rest) = batch.split_at(batch.len() / 2);
        views.apply(first).unwrap();
        let fork = views.fork();
        let alone = Views::new();
        alone.apply(first).unwrap();
        views.apply(rest).unwrap();
        assert_eq!(fork.marked(), alone.marked());
        assert!(crate::checkpoint::differences(&fork, &alone, 10).is_empty());
        assert!(!crate::checkpoint::differences(&fork, &views, 10).is_empty());
        assert_eq!(views.position(), Position(batch.len() as u64));
    }

    #[test]
    fn only_the_named_read_models_are_folded() {
        let samples = registry::samples();
        let batch: Vec<_> = samples.iter().zip(1..).map(|(event, position)| recorded(position, event)).collect();
        let (some, all) = (Views::only(BTreeSet::from(["flavors"])), Views::new());
        some.apply(&batch).unwrap();
        all.apply(&batch).unwrap();
        let left = crate::checkpoint::differences(&some, &all, 1_000);
        assert!(!left.is_empty() && left.iter().all(|line| !line.starts_with("flavors/")), "{left:?}");
        let none = Views::new();
        none.adopt(&some, &BTreeSet::from(["flavors"]));
        assert_eq!(crate::checkpoint::differences(&none, &some, 10), [""; 0]);
    }

    #[test]
    fn an_event_of_an_unknown_noun_is_refused() {
        let views = Views::new();
        let samples = registry::samples();
        let mut strange = Arc::into_inner(recorded(1, &samples[0])).unwrap();
        strange.kind = Arc::from("quux.happened");
        let batch = [recorded(1, &samples[0]), Arc::new(strange)];
        assert_eq!(views.apply(&batch), Err(DecodeError::UnknownKind("quux.happened".to_owned())));
        assert_eq!(views.position(), Position::START);
        assert!(crate::checkpoint::differences(&views, &Views::new(), 10).is_empty());
    }
}
