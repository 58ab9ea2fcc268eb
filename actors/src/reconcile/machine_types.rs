//! Records the machine types of servers that have none, as Nova's compute service does at its start.
//!
//! A server gets this record with its first host. A server that another control plane built, or an older version, may
//! lack it. Then another value of `[libvirt] hw_machine_type` would change the guest the next time it is defined.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::Alive;

use crate::instance::{InstanceRecord, InstanceRoot};
use crate::process::machine;
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// The most servers of one run. The run at the start must not delay the first request by the appends of a whole cloud;
/// the periodic runs record the rest.
const MOST: usize = 1_000;

/// Servers at rest on a host without a recorded machine type, each with the type that its guest has got so far.
#[derive(Debug)]
pub struct UnsetMachineTypes;

/// Whether the server has run, and has no machine type. The image of most adopted servers names the type.
fn is_unset(server: &Alive) -> bool {
    server.machine_type().is_none() && server.launched_at.is_some() && server.ongoing.is_none()
}

impl Reconciler for UnsetMachineTypes {
    type Finding = (InstanceId, String);

    const NAME: &'static str = "machine-types";
    const REPAIRS: &'static str = "servers on a host that have no recorded machine type";
    const ON_A_COPY: CopyConduct<Self::Finding> = CopyConduct::ChangesLogAlone;
    const AT_START: bool = true;

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let types = &situation.server_options.machine_types;
        // The architecture of a host that never answered is unknown.
        let arches: BTreeMap<HostId, String> = situation.views.hosts.read(|hosts| {
            let known = hosts.all().filter(|host| !host.capabilities.cpu_arch.is_empty());
            known.map(|host| (host.id, host.capabilities.cpu_arch.clone())).collect()
        });
        situation.views.servers.read(|servers| {
            let alive = servers.all().filter_map(|row| row.instance.alive().map(|server| (row.id, server)));
            let named = alive.filter(|(_, server)| is_unset(server)).filter_map(|(id, server)| {
                let arch = arches.get(&server.placement.as_ref()?.host)?;
                Some((id, machine::of_new_guest(server, arch, types)))
            });
            named.take(MOST).collect()
        })
    }

    fn describe((instance, machine_type): &Self::Finding) -> String {
        format!("server {instance}: {machine_type}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for (instance, machine_type) in findings {
            let record = InstanceRecord::MachineType { machine_type };
            let sent = context.gateway.send::<InstanceRoot>(&instance, record, Meta::system("machine-types")).await;
            if let Err(error) = sent {
                failures += 1;
                tracing::warn!(%instance, %error, "recording the machine type of a server failed, retrying");
            }
        }
        failures
    }
}
