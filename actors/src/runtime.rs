//! Puts the actors to work and ends them.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::clock::Clock;
use chronova_events::envelope::Meta;
use chronova_events::ids::HostId;
use chronova_events::store::EventStore;
use chronova_hypervisor::driver::Driver;
use chronova_projections::runner::{self, ProjectionError};
use chronova_projections::views::Views;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::departures::Departures;
use crate::gateway::Gateway;
use crate::host::{HostAggregate, HostCommand};
use crate::hosts::{agent, fleet::Fleet, image_use::ImageUse};
use crate::house::{House, Options};
use crate::passwords::Passwords;
use crate::ports::{Images, Networks, Volumes};
use crate::process::interference::Interference;
use crate::process::supervisor;
use crate::reconcile::leftovers::Tidying;
use crate::reconcile::{
    filters, floating_ips, image_cache, interfaces, moved, networks as host_networks, placement, quota, reclaim,
    server_groups, shelved, volumes as host_volumes,
};
use crate::scheduler::Scheduler;

/// The log, the read models that follow it, and the aggregates: what ports are made of.
#[derive(Clone)]
pub struct Core {
    pub store: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub views: Arc<Views>,
    pub gateway: Arc<Gateway>,
    /// Only in proofs; `None` in a control plane.
    pub interference: Option<Arc<dyn Interference>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Core")
    }
}

impl Core {
    /// Folds what is in the log into `views` and starts the aggregates. Needs a running actix system.
    pub async fn start(
        store: Arc<dyn EventStore>,
        clock: Arc<dyn Clock>,
        views: impl Into<Arc<Views>>,
        threads: usize,
    ) -> Result<Self, ProjectionError> {
        let views = views.into();
        runner::catch_up(store.as_ref(), &views).await?;
        let gateway = Gateway::start(Arc::clone(&store), Arc::clone(&clock), threads);
        Ok(Self { store, clock, views, gateway, interference: None })
    }
}

/// Everything at work.
#[derive(Debug)]
pub struct Runtime {
    pub house: Arc<House>,
    tasks: JoinSet<()>,
    following: tokio::task::JoinHandle<()>,
    broken: watch::Receiver<Option<String>>,
}

impl Runtime {
    /// Follows the log, goes on with unfinished processes, attends to the hosts.
    pub async fn start(
        core: Core,
        drivers: Vec<Arc<dyn Driver>>,
        networks: Arc<dyn Networks>,
        images: Arc<dyn Images>,
        volumes: Arc<dyn Volumes>,
        options: Options,
    ) -> Self {
        let Core { store, clock, views, gateway, interference } = core;
        let (break_down, broken) = watch::channel(None);
        let following = {
            let (store, views) = (Arc::clone(&store), Arc::clone(&views));
            tokio::spawn(async move {
                let error = runner::follow(store, views).await;
                tracing::error!(%error, "the read models can no longer follow the log");
                break_down.send_replace(Some(error.to_string()));
            })
        };
        let uris = drivers.iter().map(|driver| driver.uri().to_owned());
        let fleet = Fleet::new(views.hosts.read(chronova_projections::hosts::Hosts::highest), uris);
        let scheduler = Arc::new(Scheduler::default());
        let house = Arc::new(House {
            gateway,
            views,
            fleet,
            networks,
            images,
            volumes,
            clock,
            passwords: Passwords::default(),
            scheduler,
            departures: Departures::default(),
            tidying: Tidying::default(),
            image_use: ImageUse::default(),
            log: Arc::clone(&store),
            options,
            interference,
        });
        retire(&house, &drivers).await;
        // No request is served yet: what nobody holds now, nobody will.
        quota::give_back(&house, &quota::plan(&house.views)).await;
        quota::settle(&house, &quota::misfits(&house.views)).await;
        server_groups::leave(&house, &server_groups::plan(&house.views)).await;
        host_volumes::give_back(&house, &host_volumes::plan(&house.views)).await;
        floating_ips::mend(&house, &floating_ips::plan(&house.views)).await;
        placement::mirror(&house).await;
        let mut tasks = JoinSet::new();
        tasks.spawn(supervisor::supervise(Arc::clone(&house), Arc::clone(&store)));
        tasks.spawn(reconcile(Arc::clone(&house)));
        tasks.spawn({
            let house = Arc::clone(&house);
            async move { reclaim::keep(&house).await }
        });
        tasks.spawn({
            let house = Arc::clone(&house);
            async move { image_cache::keep(&house).await }
        });
        tasks.spawn({
            let house = Arc::clone(&house);
            async move { shelved::keep(&house).await }
        });
        tasks.spawn(filters::keep(Arc::clone(&house), Arc::clone(&store)));
        tasks.spawn(floating_ips::keep(Arc::clone(&house), Arc::clone(&store)));
        tasks.spawn(interfaces::keep(Arc::clone(&house), Arc::clone(&store)));
        let (from, again) = (house.views.position(), house.options.resync);
        tasks.spawn(host_networks::keep(Arc::clone(&store), from, drivers.clone(), again));
        for driver in drivers {
            tasks.spawn(agent::attend(Arc::clone(&house), Arc::clone(&store), driver));
        }
        Self { house, tasks, following, broken }
    }

    /// Why the read models no longer follow the log; `None` as long as they do.
    pub fn broken(&self) -> watch::Receiver<Option<String>> {
        self.broken.clone()
    }

    /// Ends all work where it is; the log knows how to go on.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        self.house.gateway.stop();
        // The read models may take in what was appended last.
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.following.abort();
    }
}

/// Hosts that the log believes to be up and that are no longer configured will never answer: they are down.
async fn retire(house: &House, drivers: &[Arc<dyn Driver>]) {
    let configured = |uri: &str| drivers.iter().any(|driver| driver.uri() == uri);
    let gone: Vec<HostId> = house
        .views
        .hosts
        .read(|hosts| hosts.all().filter(|host| host.up && !configured(&host.uri)).map(|host| host.id).collect());
    for host in gone {
        let down = HostCommand::ReportDown { reason: "it is not configured any more".to_owned() };
        if let Err(error) = house.gateway.send::<HostAggregate>(&host, down, Meta::system("host-watch")).await {
            tracing::error!(%host, %error, "a host that is gone cannot be recorded as such");
        }
    }
}

async fn reconcile(house: Arc<House>) {
    let mut suspects = quota::Held::new();
    let mut misfits = quota::Misfits::new();
    let mut ghosts = server_groups::Ghosts::new();
    let mut idle = std::collections::BTreeSet::new();
    loop {
        tokio::time::sleep(house.options.reconcile).await;
        let now = quota::plan(&house.views);
        let leaked = now.intersection(&suspects).cloned().collect();
        quota::give_back(&house, &leaked).await;
        suspects = now;
        let now = quota::misfits(&house.views);
        quota::settle(&house, &now.intersection(&misfits).cloned().collect()).await;
        misfits = now;
        moved::confirm(&house).await;
        floating_ips::mend(&house, &floating_ips::plan(&house.views)).await;
        let now = server_groups::plan(&house.views);
        server_groups::leave(&house, &now.intersection(&ghosts).cloned().collect()).await;
        ghosts = now;
        let now = host_volumes::plan(&house.views);
        host_volumes::give_back(&house, &now.intersection(&idle).cloned().collect()).await;
        idle = now;
        placement::mirror(&house).await;
    }
}
