#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::checkpoint::{CheckpointOptions, Checkpoints, differences, relabel};
use crate::runner::{catch_up, follow};
use crate::synthetic_log::SyntheticEvents;
use chronova_events::envelope::{Meta, NewEvent, StreamId, Timestamp};
use chronova_events::host::HostEvent;
use chronova_events::ids::HostId;
use chronova_events::registry::NounEvent as _;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::Expected;
use chronova_events::store::memory::MemoryStore;

fn keys() -> Arc<KeyRing> {
    KeyRing::in_memory().unwrap()
}

async fn live_on(store: &MemoryStore, life: &mut SyntheticEvents, events: usize) {
    for (stream, event) in life.take(events) {
        let new = NewEvent::new(event, Timestamp(1), &Meta::system("test"));
        store.append(&stream, Expected::Any, vec![new]).await.unwrap();
    }
}

/// Events come in and readers read all the time while everything is rebuilt, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn readers_see_no_gap_while_read_models_are_replaced() {
    let store = MemoryStore::new();
    let mut life = SyntheticEvents::new(20, 1);
    live_on(&store, &mut life, 2_000).await;
    let live = Arc::new(Views::new());
    catch_up(&*store, &live).await.unwrap();
    let following = tokio::spawn(follow(Arc::clone(&store) as _, Arc::clone(&live)));
    let over = Arc::new(AtomicBool::new(false));
    let writing = {
        let (store, over) = (Arc::clone(&store), Arc::clone(&over));
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                live_on(&store, &mut life, 3).await;
                tokio::task::yield_now().await;
            }
        })
    };
    let looks = Arc::new(AtomicU64::new(0));
    let reading = {
        let (live, over, looks) = (Arc::clone(&live), Arc::clone(&over), Arc::clone(&looks));
        tokio::task::spawn_blocking(move || {
            let (mut servers, mut requested) = (0, 0);
            while !over.load(Ordering::SeqCst) {
                let now = live.servers.read(|view| (view.all().count(), view.requested()));
                assert!(now.0 >= servers && now.1 >= requested, "servers have disappeared: {now:?}");
                assert_eq!(live.hosts.read(|hosts| hosts.all().count()), 100);
                (servers, requested) = now;
                looks.fetch_add(1, Ordering::SeqCst);
            }
        })
    };
    let works = Arc::new(WorkRegistry::default());
    let all: BTreeSet<&'static str> = Views::NAMES.iter().copied().collect();
    for _ in 0..10 {
        let before = looks.load(Ordering::SeqCst);
        let rebuilt = beside(&*store, &live, &all, &works, 5).await.unwrap();
        assert_eq!(rebuilt.differences, [""; 0]);
        while looks.load(Ordering::SeqCst) == before {
            tokio::task::yield_now().await;
        }
    }
    over.store(true, Ordering::SeqCst);
    writing.await.unwrap();
    reading.await.unwrap();
    assert!(live.wait_for(store.head(), std::time::Duration::from_mins(1)).await);
    following.abort();
    assert!(works.under_way().is_empty());
    let alone = Views::new();
    catch_up(&*store, &alone).await.unwrap();
    assert_eq!(differences(&live, &alone, 5), [""; 0]);
}

#[tokio::test]
async fn a_rebuild_corrects_a_wrong_read_model_and_reports_it() {
    let store = MemoryStore::new();
    live_on(&store, &mut SyntheticEvents::new(5, 0), 500).await;
    let live = Arc::new(Views::new());
    let all = store.read_all(Position::START, 1_000).await.unwrap();
    let but_some: Vec<_> = all.into_iter().filter(|event| &*event.kind != "instance.placed").collect();
    live.apply(&but_some).unwrap();
    let works = Arc::default();
    let rebuilt = beside(&*store, &live, &BTreeSet::from(["servers"]), &works, 3).await.unwrap();
    assert!(rebuilt.differences.len() == 3 && rebuilt.differences[0].starts_with("servers/"), "{rebuilt:?}");
    let alone = Views::new();
    catch_up(&*store, &alone).await.unwrap();
    live.adopt(&alone, &BTreeSet::from(["fleet", "server_groups"]));
    assert_eq!(differences(&live, &alone, 5), [""; 0]);
}

/// A read model that can read the bytes of an older version is shown until it is rebuilt.
#[tokio::test]
async fn an_older_read_model_is_shown_until_it_is_rebuilt() {
    let store = MemoryStore::new();
    live_on(&store, &mut SyntheticEvents::new(5, 1), 700).await;
    let alone = Views::new();
    catch_up(&*store, &alone).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path(), CheckpointOptions::default(), keys());
    let saved = checkpoints.save(&alone).unwrap();
    relabel(&saved.path, "placement", 1).unwrap();
    let opened = checkpoints.open(&*store).await.unwrap();
    assert_eq!((opened.provisional.clone(), opened.absent.len()), (BTreeSet::from(["placement"]), 0));
    assert!(opened.remarks()[0].ends_with("while they are rebuilt: placement"), "{:?}", opened.remarks());
    let live = Arc::new(opened.views);
    assert!(live.placement.read(|view| view.ledger.providers.len()) == 100);
    let rebuilt = beside(&*store, &live, &opened.provisional, &Arc::default(), 5).await.unwrap();
    assert_eq!(rebuilt.differences, [""; 0]);
    assert_eq!(differences(&live, &alone, 5), [""; 0]);
}

/// Version 3 of the read model of hosts has no names of removed hosts. These must be known before the first request.
#[tokio::test]
async fn the_names_of_removed_hosts_are_filled_from_the_log() {
    let (store, host) = (MemoryStore::new(), HostId(uuid::Uuid::from_u128(1)));
    let is = |event: &HostEvent, kind: &str| event.kind() == kind;
    for kind in ["host.registered", "host.deregistered"] {
        let event = chronova_events::host::samples().into_iter().find(|event| is(event, kind)).unwrap();
        let new = NewEvent::new(event, Timestamp(1), &Meta::system("test"));
        store.append(&StreamId::new("host", host), Expected::Any, vec![new]).await.unwrap();
    }
    let alone = Views::new();
    catch_up(&*store, &alone).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path(), CheckpointOptions::default(), keys());
    let saved = checkpoints.save(&alone).unwrap();
    relabel(&saved.path, "hosts", 3).unwrap();
    let opened = checkpoints.open(&*store).await.unwrap();
    assert_eq!((opened.provisional.len(), opened.absent.clone()), (0, BTreeSet::from(["hosts"])));
    fill(&*store, &opened.views, &opened.absent, &Arc::default()).await.unwrap();
    let name = opened.views.hosts.read(|hosts| hosts.name_of(host).map(str::to_owned));
    assert_eq!(name.as_deref(), Some("h1"));
}

/// Two read models in the checkpoint have another version. These two are filled from the log, all others from the
/// checkpoint.
#[tokio::test]
async fn read_models_of_another_version_are_filled_from_the_log() {
    let store = MemoryStore::new();
    live_on(&store, &mut SyntheticEvents::new(5, 1), 700).await;
    let alone = Views::new();
    catch_up(&*store, &alone).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path(), CheckpointOptions::default(), keys());
    let saved = checkpoints.save(&alone).unwrap();
    for name in ["servers", "quotas"] {
        relabel(&saved.path, name, 0).unwrap();
    }
    let opened = checkpoints.open(&*store).await.unwrap();
    assert_eq!(opened.absent, BTreeSet::from(["quotas", "servers"]));
    assert!(opened.remarks()[0].ends_with("are rebuilt first: quotas, servers"), "{:?}", opened.remarks());
    assert!(differences(&opened.views, &alone, 100).iter().all(|line| !line.starts_with("hosts")));
    fill(&*store, &opened.views, &opened.absent, &Arc::default()).await.unwrap();
    assert_eq!(differences(&opened.views, &alone, 5), [""; 0]);
    assert_eq!(opened.views.marked(), alone.marked());
    // Queries about the past do not begin at such a checkpoint.
    assert!(checkpoints.nearest(|_| true).is_none());
}
