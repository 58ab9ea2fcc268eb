//! Virtual networks of hosts, when their network is deleted.
//!
//! A host has a bridge and a DHCP server for each network that one of its guests is or was on: kept as long as the
//! network is, so that the next guest finds them. The end of the network is theirs; left behind, they would keep its
//! addresses from every later network of that host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Position;
use chronova_events::ids::NetworkId;
use chronova_events::network::NetworkEvent;
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
use chronova_hypervisor::driver::Driver;
use futures::future::join_all;

/// What is left to do: the networks that are no more, and the hosts (by URI) that have not yet said so.
type Pending = BTreeMap<NetworkId, BTreeSet<String>>;

/// Follows the log for ever. A host that does not answer is asked again every `again`.
pub async fn keep(store: Arc<dyn EventStore>, from: Position, drivers: Vec<Arc<dyn Driver>>, again: Duration) {
    let mut subscription = store.subscribe(from);
    drop(store);
    let mut pending = Pending::new();
    loop {
        let batch = if pending.is_empty() {
            subscription.next().await
        } else {
            tokio::time::sleep(again).await;
            subscription.poll().await
        };
        let Ok(batch) = batch else { return };
        for recorded in &batch {
            if let Ok(event) = recorded.event()
                && let Event::NetworkEvent(NetworkEvent::NetworkDeleted(deleted)) = event.as_ref()
            {
                pending.insert(deleted.network, drivers.iter().map(|driver| driver.uri().to_owned()).collect());
            }
        }
        remove(&drivers, &mut pending).await;
    }
}

async fn remove(drivers: &[Arc<dyn Driver>], pending: &mut Pending) {
    for (network, hosts) in pending.iter_mut() {
        let asked = drivers.iter().filter(|driver| hosts.contains(driver.uri()));
        let answers = join_all(asked.map(async |driver| {
            let answer = match driver.networks() {
                Some(networks) => networks.remove_network(*network).await,
                None => Ok(()),
            };
            (driver.uri(), answer)
        }))
        .await;
        for (uri, answer) in answers {
            match answer {
                Ok(()) => _ = hosts.remove(uri),
                Err(error) => tracing::warn!(%network, host = uri, %error, "a deleted network is still on a host"),
            }
        }
    }
    pending.retain(|_, hosts| !hosts.is_empty());
}
