//! Takes hosts that no longer exist out of host aggregates.
//!
//! An administrator may add a host to an aggregate while another one removes the host. Both are in streams of their own.

use std::collections::BTreeSet;

use chronova_events::envelope::Meta;
use chronova_events::ids::HostId;

use crate::host_aggregate::{HostAggregateCommand, HostAggregatesId, HostAggregatesRoot};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// Hosts of host aggregates that are gone.
#[derive(Debug)]
pub struct GoneHosts;

impl Reconciler for GoneHosts {
    type Finding = HostId;

    const NAME: &'static str = "host-aggregates";
    const MENDS: &'static str = "hosts of host aggregates that are gone";
    const DEBOUNCES: bool = true;
    const AT_START: bool = true;

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let views = situation.views;
        views.host_aggregates.read(|aggregates| {
            let members = aggregates.all().flat_map(|aggregate| aggregate.hosts.iter().map(|(host, _)| *host));
            let members: BTreeSet<HostId> = members.collect();
            views.hosts.read(|hosts| members.into_iter().filter(|host| hosts.get(*host).is_none()).collect())
        })
    }

    fn describe(host: &Self::Finding) -> String {
        format!("host {host} is gone, and a host aggregate has it")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for host in findings {
            let forget = HostAggregateCommand::ForgetHost { host };
            let meta = Meta::system("reconcile-host-aggregates");
            if let Err(error) = context.gateway.send::<HostAggregatesRoot>(&HostAggregatesId, forget, meta).await {
                failures += 1;
                tracing::warn!(%host, %error, "a host that is gone stays in its host aggregates for now");
            }
        }
        failures
    }
}
