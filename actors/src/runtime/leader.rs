//! What only the leader of a cluster runs, one at a time: the supervisor of processes, the host agents, the reconcilers and
//! the sweeps at start-up, all over the command gateway.
//!
//! Two leaders at the same time would drive one host twice. [`crate::coordination`] lists what else they would do twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::HostId;
use chronova_hypervisor::driver::Driver;
use tokio::task::JoinSet;

use super::contexts::Contexts;
use crate::gateway::Gateway;
use crate::host::{HostAggregate, HostCommand};
use crate::hosts::agent;
use crate::process::context::StepContext;
use crate::process::supervisor;
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::{
    filters, floating_ips, image_cache, interfaces, moved, networks as host_networks, quota, reclaim, server_groups,
    shelved, volumes as host_volumes,
};

/// The leader's work.
#[derive(Debug)]
pub struct Leader {
    gateway: Arc<Gateway>,
    tasks: JoinSet<()>,
}

impl Leader {
    /// Sweeps, goes on with unfinished processes, and attends to the hosts. Before it returns no request may be served.
    pub async fn start(contexts: &Contexts, drivers: Vec<Arc<dyn Driver>>) -> Self {
        let (store, views) = (&contexts.reconcile.log, &contexts.reconcile.views);
        retire(&contexts.steps, &drivers).await;
        sweep_at_start(&contexts.reconcile).await;
        let mut tasks = JoinSet::new();
        tasks.spawn(supervisor::supervise(Arc::clone(&contexts.steps), Arc::clone(store)));
        let reconciler = || Arc::clone(&contexts.reconcile);
        tasks.spawn(reconcile(reconciler()));
        tasks.spawn(reclaim::keep(reconciler()));
        tasks.spawn(image_cache::keep(reconciler()));
        tasks.spawn(shelved::keep(reconciler()));
        tasks.spawn(filters::keep(reconciler(), Arc::clone(store)));
        tasks.spawn(floating_ips::keep(reconciler(), Arc::clone(store)));
        tasks.spawn(interfaces::keep(reconciler(), Arc::clone(store)));
        let (from, again) = (views.position(), contexts.reconcile.host_options.resync);
        tasks.spawn(host_networks::keep(Arc::clone(store), from, drivers.clone(), again));
        for driver in drivers {
            tasks.spawn(agent::attend(Arc::clone(&contexts.hosts), Arc::clone(store), driver));
        }
        Self { gateway: Arc::clone(&contexts.steps.gateway), tasks }
    }

    /// Ends all work where it is; the log knows how to go on.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        self.gateway.stop();
    }
}

/// Hosts that the log believes to be up and that are no longer configured will never answer: they are down.
async fn retire(context: &StepContext, drivers: &[Arc<dyn Driver>]) {
    let configured = |uri: &str| drivers.iter().any(|driver| driver.uri() == uri);
    let gone: Vec<HostId> = context
        .views
        .hosts
        .read(|hosts| hosts.all().filter(|host| host.up && !configured(&host.uri)).map(|host| host.id).collect());
    for host in gone {
        let down = HostCommand::ReportDown { reason: "it is not configured any more".to_owned() };
        if let Err(error) = context.gateway.send::<HostAggregate>(&host, down, Meta::system("host-watch")).await {
            tracing::error!(%host, %error, "a host that is gone cannot be recorded as such");
        }
    }
}

/// No request is served yet: the room that nobody holds now stays unheld.
async fn sweep_at_start(context: &ReconcileContext) {
    quota::give_back(context, &quota::plan(&context.views)).await;
    quota::settle(context, &quota::misfits(&context.views)).await;
    server_groups::leave(context, &server_groups::plan(&context.views)).await;
    host_volumes::give_back(context, &host_volumes::plan(&context.views)).await;
    floating_ips::mend(context, &floating_ips::plan(&context.views)).await;
    context.placement.mirror().await;
}

async fn reconcile(context: Arc<ReconcileContext>) {
    let mut suspects = quota::Held::new();
    let mut misfits = quota::Misfits::new();
    let mut ghosts = server_groups::Ghosts::new();
    let mut idle = BTreeSet::new();
    loop {
        tokio::time::sleep(context.options.period).await;
        let now = quota::plan(&context.views);
        let leaked = now.intersection(&suspects).cloned().collect();
        quota::give_back(&context, &leaked).await;
        suspects = now;
        let now = quota::misfits(&context.views);
        quota::settle(&context, &now.intersection(&misfits).cloned().collect()).await;
        misfits = now;
        moved::confirm(&context).await;
        floating_ips::mend(&context, &floating_ips::plan(&context.views)).await;
        let now = server_groups::plan(&context.views);
        server_groups::leave(&context, &now.intersection(&ghosts).cloned().collect()).await;
        ghosts = now;
        let now = host_volumes::plan(&context.views);
        host_volumes::give_back(&context, &now.intersection(&idle).cloned().collect()).await;
        idle = now;
        context.placement.mirror().await;
    }
}
