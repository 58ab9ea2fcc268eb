//! A cache of rendered servers. With the cache, most of the work for a list of servers is copying text.
//!
//! An entry is found by server, table and version. An entry is valid only while all inputs of its text are the same.
//! The inputs are the row, the caller's visibility, and the parts from other read models ([`ServerViewExtras`]). When a
//! read model changes a cached row, the row moves to another address. The cache is bounded, and dropped entries cost
//! only time.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use chronova_events::ids::InstanceId;
use chronova_projections::servers::ServerRow;
use foldhash::fast::RandomState;

use super::views::server::{ServerView, ServerViewExtras, ServerVisibility};
use crate::fields::FieldTable;
use crate::microversion::Microversion;

/// The limit of cached text, in bytes. A thousand servers in full take less than two million.
const ROOM: usize = 16 << 20;
const SHARDS: usize = 16;
/// The size of an entry besides its text.
const ENTRY: usize = 256;

#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
struct RenderKey {
    server: InstanceId,
    /// The address of the field table, which identifies the table.
    table: usize,
    version: Microversion,
}

#[derive(Debug)]
struct RenderedServer {
    /// A weak reference. A strong one would force a read model to clone the row before a change.
    row: Weak<ServerRow>,
    sees: Arc<ServerVisibility>,
    beside: ServerViewExtras,
    text: Box<[u8]>,
}

#[derive(Debug, Default)]
struct RenderShard {
    new: HashMap<RenderKey, RenderedServer, RandomState>,
    /// The older entries. They are dropped when the newer entries fill half of the limit.
    old: HashMap<RenderKey, RenderedServer, RandomState>,
    taken: usize,
}

/// The cache; a process has one.
#[derive(Debug)]
pub(super) struct RenderedServers {
    shards: Vec<RwLock<RenderShard>>,
    hasher: RandomState,
    /// The visibilities of the latest callers. Callers with equal visibilities share one value, so that a comparison of
    /// pointers usually suffices.
    sees: RwLock<Vec<Arc<ServerVisibility>>>,
}

/// The number of remembered visibilities.
const SIGHTS: usize = 64;

impl Default for RenderedServers {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::default(),
            sees: RwLock::default(),
        }
    }
}

impl RenderedServers {
    /// A shared value equal to `sees`: the remembered value, if there is one.
    pub(super) fn same(&self, sees: ServerVisibility) -> Arc<ServerVisibility> {
        let known = |all: &[Arc<ServerVisibility>]| all.iter().find(|known| ***known == sees).cloned();
        if let Some(known) = known(&self.sees.read().unwrap_or_else(PoisonError::into_inner)) {
            return known;
        }
        let mut all = self.sees.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SIGHTS {
            all.clear();
        }
        let new = Arc::new(sees);
        all.push(Arc::clone(&new));
        new
    }

    /// Appends `view` as `table` shows it at `version`.
    pub(super) fn write(
        &self,
        table: &'static FieldTable<ServerView>,
        view: &ServerView,
        version: Microversion,
        out: &mut Vec<u8>,
    ) {
        let key = RenderKey { server: view.row.id, table: std::ptr::from_ref(table).addr(), version };
        let at = usize::try_from(self.hasher.hash_one(key)).unwrap_or(0) % SHARDS;
        if self.shards[at].read().unwrap_or_else(PoisonError::into_inner).copy(&key, view, out) {
            return;
        }
        let from = out.len();
        table.write(view, version, out);
        let entry = RenderedServer {
            row: Arc::downgrade(&view.row),
            sees: Arc::clone(&view.sees),
            beside: ServerViewExtras::of(view),
            text: out[from..].into(),
        };
        self.shards[at].write().unwrap_or_else(PoisonError::into_inner).keep(key, entry);
    }
}

impl RenderShard {
    fn copy(&self, key: &RenderKey, view: &ServerView, out: &mut Vec<u8>) -> bool {
        let found = self.new.get(key).or_else(|| self.old.get(key)).filter(|entry| entry.is_of(view));
        found.map(|entry| out.extend_from_slice(&entry.text)).is_some()
    }

    fn keep(&mut self, key: RenderKey, entry: RenderedServer) {
        let size = entry.text.len() + ENTRY;
        if self.taken + size > ROOM / SHARDS / 2 {
            self.old = std::mem::take(&mut self.new);
            self.taken = 0;
        }
        self.taken += size;
        if let Some(before) = self.new.insert(key, entry) {
            self.taken -= before.text.len() + ENTRY;
        }
    }
}

impl RenderedServer {
    /// While a weak reference to a row exists, no other row can get the same address. So the address identifies a
    /// cached row.
    fn is_of(&self, view: &ServerView) -> bool {
        std::ptr::eq(self.row.as_ptr(), Arc::as_ptr(&view.row))
            && (Arc::ptr_eq(&self.sees, &view.sees) || self.sees == view.sees)
            && self.beside.is_in(view)
    }
}

#[cfg(test)]
mod tests {
    use chronova_actors::ports::FloatingAddress;
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold as _;
    use chronova_events::ids::PortId;
    use chronova_events::instance::{Instance, InstanceEvent, samples};

    use super::*;
    use crate::compute::views::server::SERVER;
    use crate::links::Links;
    use crate::microversion::v;

    fn sees(extended: bool) -> Arc<ServerVisibility> {
        let text = || "http://h:1".to_owned();
        Arc::new(ServerVisibility {
            links: Links { host: text(), root: text(), api: text(), project: None, path: String::new() },
            extended,
            host_status: false,
            host_status_unknown: false,
            extra_specs: false,
            fault_details: false,
            groups: false,
            brief: false,
            names: Arc::default(),
        })
    }

    fn row(id: InstanceId) -> Option<Arc<ServerRow>> {
        let request = samples().into_iter().find(|event| matches!(event, InstanceEvent::BuildRequested(_)))?;
        let mut instance = Instance::default();
        instance.evolve(&request, Timestamp(1));
        Some(Arc::new(ServerRow { id, instance, actions: Vec::new() }))
    }

    fn view(row: &Arc<ServerRow>, sees: &Arc<ServerVisibility>) -> Option<ServerView> {
        ServerView::new(Arc::clone(row), None, sees)
    }

    #[test]
    fn changed_rows_are_rendered_again() -> Result<(), &'static str> {
        let cache = RenderedServers::default();
        let (own, all) = (sees(false), sees(true));
        let id = InstanceId::random();
        let mut row = row(id).ok_or("no sample")?;
        let check = |view: &ServerView| {
            for version in [v(2, 1), v(2, 96)] {
                // The second text comes from the cache.
                for _ in 0..2 {
                    let (mut cached, mut fresh) = (Vec::new(), Vec::new());
                    cache.write(&SERVER, view, version, &mut cached);
                    SERVER.write(view, version, &mut fresh);
                    assert_eq!(String::from_utf8_lossy(&cached), String::from_utf8_lossy(&fresh));
                }
            }
        };
        check(&view(&row, &own).ok_or("no view")?);
        check(&view(&row, &all).ok_or("no view")?);
        check(&ServerView { zone: Some("elsewhere".into()), ..view(&row, &own).ok_or("no view")? });
        check(&ServerView { host_status: "DOWN", ..view(&row, &own).ok_or("no view")? });
        let mut floats = view(&row, &own).ok_or("no view")?;
        let port = floats.row.server().and_then(|server| server.nics.first()).map_or(PortId::random(), |nic| nic.port);
        floats.floating = vec![FloatingAddress { port, address: [203, 0, 113, 5].into() }];
        check(&floats);
        drop(floats);
        // Changes the row as a read model does. The cache has only weak references, so the row moves to another
        // address.
        if let Instance::Alive(alive) = &mut Arc::make_mut(&mut row).instance {
            alive.request.name = "another".to_owned();
        }
        check(&view(&row, &own).ok_or("no view")?);
        Ok(())
    }

    #[test]
    fn the_cache_is_bounded() -> Result<(), &'static str> {
        let (cache, sees) = (RenderedServers::default(), sees(false));
        let mut text = Vec::new();
        for _ in 0..20_000 {
            let row = row(InstanceId::random()).ok_or("no sample")?;
            text.clear();
            cache.write(&SERVER, &view(&row, &sees).ok_or("no view")?, v(2, 96), &mut text);
        }
        let kept =
            cache.shards.iter().filter_map(|shard| shard.read().ok().map(|shard| shard.new.len() + shard.old.len()));
        let kept: usize = kept.sum();
        assert!(kept > 1_000 && kept * (text.len() + ENTRY) <= ROOM, "{kept} of {} bytes", text.len());
        Ok(())
    }
}
