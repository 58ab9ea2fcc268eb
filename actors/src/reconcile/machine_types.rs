//! Records the machine type of a server that has a host and no record.
//!
//! A server gets its record with its first host. Servers of older versions and adopted servers may have none. As in
//! Nova, they get one when the service starts, so that a later change of `[libvirt] hw_machine_type` does not affect
//! them. A server without a host, such as a shelved one, is left to the operator (`nova-manage libvirt
//! update_machine_type`).

use std::collections::BTreeSet;

use chronova_events::envelope::Meta;
use chronova_events::ids::InstanceId;
use chronova_events::instance::Phase;
use chronova_hypervisor::options::MachineTypes;
use chronova_projections::views::Views;

use crate::hardware::default_machine_type;
use crate::instance::{InstanceRecord, InstanceRoot};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// Servers with a host and without a recorded machine type, each with the type to record. A server that is being built
/// is left out, because its process records the type.
pub fn plan(views: &Views, types: &MachineTypes) -> BTreeSet<(InstanceId, String)> {
    let arch = |host| views.hosts.read(|hosts| hosts.get(host).map(|host| host.capabilities.cpu_arch.clone()));
    views.servers.read(|servers| {
        let unrecorded = servers.all().filter_map(|row| {
            let server = row.instance.alive()?;
            let host = server.placement.as_ref()?.host;
            let open = server.machine_type.is_none() && !matches!(server.phase, Phase::Building { .. });
            open.then(|| (row.id, default_machine_type(server, &arch(host).unwrap_or_default(), types)))
        });
        unrecorded.collect()
    })
}

/// Servers without a recorded machine type.
#[derive(Debug)]
pub struct UnrecordedMachineTypes;

impl Reconciler for UnrecordedMachineTypes {
    type Finding = (InstanceId, String);

    const NAME: &'static str = "machine-types";
    const REPAIRS: &'static str = "servers on hosts whose machine types are not recorded";
    const ON_A_COPY: CopyConduct<Self::Finding> = CopyConduct::ChangesLogAlone;
    const AT_START: bool = true;
    const BY_CLOCK: bool = false;

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        plan(situation.views, &situation.server_options.machine_types)
    }

    fn describe((instance, machine_type): &Self::Finding) -> String {
        format!("machine type {machine_type} of server {instance}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for (instance, machine_type) in findings {
            tracing::info!(%instance, machine_type, "recording the machine type of a server");
            let (record, meta) =
                (InstanceRecord::MachineType { machine_type }, Meta::system("reconcile-machine-types"));
            if let Err(error) = context.gateway.send::<InstanceRoot>(&instance, record, meta).await {
                failures += 1;
                tracing::warn!(%instance, %error, "recording the machine type of a server failed, retrying at the next start");
            }
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use chronova_events::envelope::{NewEvent, StreamId, Timestamp};
    use chronova_events::host::{HostEvent, Registered};
    use chronova_events::ids::{HostId, ImageId, ProcessId};
    use chronova_events::instance::{
        self, BuildSucceeded, InstanceEvent, MachineTypeRecorded, OffloadRequested, Offloaded, Placed, ShelveRequested,
        Shelved,
    };
    use chronova_events::registry::Event;
    use chronova_events::store::memory::MemoryStore;
    use chronova_events::store::{EventStore as _, Expected};
    use chronova_projections::runner;
    use uuid::Uuid;

    use super::*;
    use crate::instance::sample_image::image_with;

    const PROCESS: ProcessId = ProcessId(Uuid::from_u128(1));

    async fn put(log: &MemoryStore, stream: StreamId, event: impl Into<Event>) {
        let new = NewEvent::new(event, Timestamp(1), &Meta::system("test"));
        log.append(&stream, Expected::Any, vec![new]).await.unwrap();
    }

    /// A server whose image has these properties, and its later events.
    async fn server(log: &MemoryStore, n: u128, image: &[(&str, &str)], more: Vec<InstanceEvent>) -> InstanceId {
        let id = InstanceId(Uuid::from_u128(n));
        let request = instance::samples().into_iter().find_map(|event| match event {
            InstanceEvent::BuildRequested(request) => Some(request),
            _ => None,
        });
        let mut request = request.unwrap();
        request.instance = id;
        request.image = Some(image_with(image).into());
        put(log, StreamId::new("instance", id), InstanceEvent::from(request)).await;
        for event in more {
            put(log, StreamId::new("instance", id), event).await;
        }
        id
    }

    #[tokio::test]
    async fn servers_on_hosts_get_a_record_and_shelved_ones_do_not() {
        let (log, host) = (MemoryStore::new(), HostId(Uuid::from_u128(7)));
        let sample = chronova_events::host::samples().into_iter().find_map(|event| match event {
            HostEvent::Registered(registered) => Some(registered),
            _ => None,
        });
        put(&log, StreamId::new("host", host), HostEvent::from(Registered { host, ..sample.unwrap() })).await;
        let placed = || -> InstanceEvent {
            let (hostname, availability_zone) = ("h1".to_owned(), "nova".to_owned());
            Placed { process: PROCESS, host, hostname, attempt: 1, availability_zone }.into()
        };
        let built = || vec![placed(), BuildSucceeded { process: PROCESS }.into()];
        let image = ImageId(Uuid::from_u128(3));
        let shelved: [InstanceEvent; 4] = [
            ShelveRequested { process: PROCESS, image: Some(image) }.into(),
            Shelved { process: PROCESS, image }.into(),
            OffloadRequested { process: PROCESS }.into(),
            Offloaded { process: PROCESS }.into(),
        ];
        let known: InstanceEvent = MachineTypeRecorded { machine_type: "pc".into() }.into();
        let plain = server(&log, 1, &[], built()).await;
        let named = server(&log, 2, &[("hw_machine_type", "pc-q35-7.2")], built()).await;
        let foreign = server(&log, 3, &[("hw_emulation_architecture", "aarch64")], built()).await;
        server(&log, 4, &[], [built(), vec![known]].concat()).await;
        server(&log, 5, &[], [built(), shelved.to_vec()].concat()).await;
        server(&log, 6, &[], vec![placed()]).await;
        let views = Views::new();
        runner::catch_up(&*log, &views).await.unwrap();
        let types = MachineTypes::parse(&["x86_64=q35".to_owned(), "aarch64=virt".to_owned()]);
        let expected = [(plain, "q35"), (named, "pc-q35-7.2"), (foreign, "virt")];
        let expected: BTreeSet<_> = expected.map(|(id, machine_type)| (id, machine_type.to_owned())).into();
        assert_eq!(plan(&views, &types), expected);
    }
}
