//! The appends of ordinary operations, counted. Each append of an operation waits for the one before it, so on a
//! replicated log their number determines the operation's time.

use chronova_events::instance::{PowerAction, RequestedNetworks};
use chronova_tests::creation::create_request;
use chronova_tests::world::{Life, Setting, World};

/// The number of appends that [`Self::nouns`] has returned.
struct AppendCount(usize);

impl AppendCount {
    async fn nouns(&mut self, life: &Life) -> Vec<String> {
        assert!(life.settled().await);
        let all = life.store.streams();
        let nouns = all.iter().skip(self.0).map(|stream| stream.category().to_owned()).collect();
        self.0 = all.len();
        nouns
    }
}

/// Boots, stops, starts and deletes a server. Returns the nouns of the appends of each.
async fn lifetime(networks: RequestedNetworks) -> [Vec<String>; 4] {
    let world = World::new(1);
    let life = world.begin(Setting::default()).await;
    life.hosts_up(1).await;
    let mut count = AppendCount(0);
    count.nouns(&life).await;
    let mut request = create_request(1);
    request.template.networks = networks;
    let server = life.create(request).await.unwrap()[0];
    let boot = count.nouns(&life).await;
    assert_eq!(life.status(server), "ACTIVE");
    life.power(server, PowerAction::Stop).await.unwrap();
    let stop = count.nouns(&life).await;
    assert_eq!(life.status(server), "SHUTOFF");
    life.power(server, PowerAction::Start).await.unwrap();
    let start = count.nouns(&life).await;
    assert_eq!(life.status(server), "ACTIVE");
    life.delete(server).await.unwrap();
    let delete = count.nouns(&life).await;
    life.stop().await;
    world.check().await;
    [boot, stop, start, delete]
}

#[actix_rt::test]
async fn a_boot_without_networks_takes_six_appends() {
    let [boot, stop, start, delete] = lifetime(RequestedNetworks::None).await;
    assert_eq!(boot, ["quota", "instance", "ledger", "instance", "instance", "process"]);
    assert_eq!(stop, ["instance", "instance", "process"]);
    assert_eq!(start, ["instance", "instance", "process"]);
    assert_eq!(delete, ["instance", "ledger", "quota", "instance", "process"]);
}

/// The ports of this world's network service are not in the log.
#[actix_rt::test]
async fn interfaces_take_one_more_append() {
    let [boot, stop, start, delete] = lifetime(RequestedNetworks::Auto).await;
    assert_eq!(boot, ["quota", "instance", "ledger", "instance", "instance", "instance", "process"]);
    assert_eq!([stop.len(), start.len(), delete.len()], [3, 3, 5]);
}
