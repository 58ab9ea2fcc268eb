//! A whole control plane on a log in memory and a simulated fleet.
//!
//! The world has the log, hosts, ports and images. A [`Life`] is one run of the control plane, until [`Life::stop`] or
//! a blown fuse.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chronova_actors::aggregate::CommandError;
use chronova_actors::coordination::HostGate;
use chronova_actors::instance::{CallerRights, InstanceRequest, InstanceRoot, WorkRequest};
use chronova_actors::operations::Operations;
use chronova_actors::ports::NetworkService;
use chronova_actors::ports::keys::CertificateKeeper;
use chronova_actors::process;
use chronova_actors::process::context::StepContext;
use chronova_actors::process::definition::Definition;
use chronova_actors::process::interference::Interference;
use chronova_actors::runtime::{Leader, Leadership, Member, Ports, RuntimeOptions};
use chronova_actors::services::embedded::volume::service::EmbeddedVolumes;
use chronova_events::clock::SystemClock;
use chronova_events::envelope::{Cause, Meta, Position};
use chronova_events::ids::{FlavorId, HostId, InstanceId, PortId, ProcessId, ProjectId, UserId};
use chronova_events::instance::{
    Alive, BuildRequested, DiskConfig, FlavorSnapshot, Instance, Phase, PowerAction, RebuildRequested,
    RequestedNetworks, RequestedNic, UnshelveRequested, status,
};
use chronova_events::process::{Process, ProcessEvent, ProcessOutcome};
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
use chronova_events::store::faulty::FuseStore;
use chronova_events::store::memory::MemoryStore;
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::sim::{CoreOnly, SimFleet, SimUri};
use chronova_projections::processes::Processes;
use chronova_projections::runner;
use chronova_projections::views::Views;
use uuid::Uuid;

use crate::gates::{Brakes, Gate};
use crate::memory_certificates::MemoryCertificates;
use crate::memory_keys::MemoryKeys;
use crate::mixed_images::MixedImages;
use crate::mixed_networks::MixedNetworks;
use crate::quick::quick;
use crate::services::{OneImage, OneNetwork};
use crate::volume_kind::VolumeKind;

/// The time limit of a test's waits; only a hang reaches it.
const PATIENCE: Duration = Duration::from_mins(1);

/// The parts that survive a crash.
pub struct World {
    pub log: Arc<MemoryStore>,
    pub fleet: Arc<SimFleet>,
    pub network: Arc<OneNetwork>,
    pub images: Arc<OneImage>,
    pub keys: Arc<MemoryKeys>,
    /// The key manager with certificates, if there is one.
    pub certificates: Option<Arc<MemoryCertificates>>,
    pub options: RuntimeOptions,
    pub brakes: Arc<Brakes>,
    pub volume_kind: VolumeKind,
}

/// Options of one run of a control plane (a life).
#[derive(Default)]
pub struct Setting {
    /// The append at which the log's fuse blows, which ends the life.
    pub fuse: Option<u64>,
    /// Whether that append is lost, too.
    pub loses: bool,
    pub interference: Option<Arc<dyn Interference>>,
    /// Whether ports and filters come from the embedded network service instead of [`OneNetwork`].
    pub embedded_networks: bool,
    /// Read models from a checkpoint; otherwise they are folded from the whole log.
    pub views: Option<Views>,
    /// Whether drivers have only the core.
    pub core_only: bool,
    /// The number of configured hosts of the world; `None` for all.
    pub hosts: Option<usize>,
    /// The gate before work on hosts; `None` for an open one.
    pub host_gate: Option<HostGate>,
}

pub(crate) fn small(hosts: usize) -> SimUri {
    SimUri { vcpus: 8, memory_mib: 8192, disk_gib: 100, ..SimUri::new(hosts) }
}

impl World {
    /// A world with `hosts` hosts that answer at once.
    pub fn new(hosts: usize) -> Self {
        Self::of(small(hosts))
    }

    /// A world with `hosts` hosts that offer secure boot and emulated TPMs.
    pub fn with_tpms(hosts: usize) -> Self {
        Self::of(SimUri { tpm: true, ..small(hosts) })
    }

    /// A world with this fleet.
    pub fn of(uri: SimUri) -> Self {
        Self {
            log: MemoryStore::new(),
            fleet: SimFleet::new(uri),
            network: Arc::default(),
            images: Arc::default(),
            keys: Arc::default(),
            certificates: None,
            options: quick(),
            brakes: Arc::default(),
            volume_kind: VolumeKind::default(),
        }
    }

    /// A life with a log that fails at the nth append, or never.
    pub async fn live(&self, fuse: Option<u64>, interference: Option<Arc<dyn Interference>>) -> Life {
        self.begin(Setting { fuse, interference, ..Setting::default() }).await
    }

    pub async fn begin(&self, setting: Setting) -> Life {
        let fused = FuseStore::new(Arc::clone(&self.log) as Arc<dyn EventStore>, setting.fuse);
        if setting.loses {
            fused.lose();
        }
        let store = Arc::clone(&fused) as Arc<dyn EventStore>;
        let gated = |driver| Gate::around(driver, fused.dead(), Arc::clone(&self.brakes));
        let offered: fn(Arc<dyn Driver>) -> Arc<dyn Driver> =
            if setting.core_only { CoreOnly::around } else { |all| all };
        let configured = self.fleet.drivers().into_iter().take(setting.hosts.unwrap_or(usize::MAX));
        let drivers: Vec<Arc<dyn Driver>> = configured.map(gated).map(offered).collect();
        let member = Member::start(store, Arc::new(SystemClock), setting.views.unwrap_or_default()).await.unwrap();
        let mut leadership = Leadership::take(&member, 1).unwrap();
        leadership.interference = setting.interference;
        leadership.host_gate = setting.host_gate.unwrap_or_else(HostGate::open);
        let mixed = MixedNetworks::new(Arc::clone(&self.network), &leadership);
        let networks: Arc<dyn NetworkService> =
            if setting.embedded_networks { Arc::clone(&mixed.service) as _ } else { mixed };
        let images = MixedImages::new(Arc::clone(&self.images), &leadership);
        let (gateway, views) = (Arc::clone(&leadership.gateway), Arc::clone(&leadership.views));
        let options = self.options.clone();
        let volumes = EmbeddedVolumes::new(gateway, views, Arc::clone(&images) as _, options.volume.clone());
        let port = self.volume_kind.around(Arc::clone(&volumes) as _);
        let keys = Arc::clone(&self.keys) as _;
        let certificates = self.certificates.clone().map(|kept| kept as Arc<dyn CertificateKeeper>);
        let ports = Ports { networks, images, volumes: port, keys, certificates };
        let leader = Box::pin(Leader::start(leadership, drivers, ports, options)).await;
        Life { member, leader, store: fused, volumes, fleet: Arc::clone(&self.fleet) }
    }

    /// The state of the log, from a fresh fold.
    pub async fn views(&self) -> Views {
        let views = Views::new();
        runner::catch_up(self.log.as_ref(), &views).await.unwrap();
        views
    }

    /// Invariants when no work is under way: nothing is leaked or lost.
    pub async fn check(&self) {
        let views = self.views().await;
        assert!(views.processes.read(Processes::is_empty), "a process is unfinished");
        let mut living = Vec::new();
        let mut placed = Vec::new();
        let mut connected = Vec::new();
        let mut away = Vec::new();
        let mut migrations = Vec::new();
        let mut staying = Vec::new();
        views.servers.read(|servers| {
            for row in servers.all() {
                if let Some(alive) = row.instance.alive() {
                    assert!(alive.ongoing.is_none(), "{} is stuck in {:?}", row.id, alive.ongoing);
                    assert!(!matches!(alive.phase, Phase::Building { .. }), "{} is stuck in building", row.id);
                    // Soft-deleted servers use no quota until they are restored.
                    if !alive.is_soft_deleted() {
                        living.push(row.id);
                    }
                    if alive.placement.is_some() {
                        placed.push(row.id);
                        // Users may detach all interfaces of a server.
                        if !alive.nics.is_empty() {
                            connected.push(row.id);
                        }
                    }
                    if alive.is_offloaded() {
                        away.push(row.id);
                    }
                    if let Some(moving) = &alive.moving {
                        assert_eq!(status::of_alive(alive).vm_state, "resized", "{} is stuck in a move", row.id);
                        migrations.push((row.id, InstanceId(moving.migration.0)));
                        if moving.stays() {
                            staying.push(row.id);
                        }
                    }
                }
            }
        });
        placed.sort();
        connected.sort();
        let guests: Vec<InstanceId> = self.fleet.whereabouts().into_keys().collect();
        assert_eq!(guests, placed, "the domains are not those of the servers with a host");
        assert_eq!(self.fleet.twins(), [], "a guest runs twice");
        let mut both: Vec<InstanceId> =
            migrations.iter().map(|(id, _)| *id).filter(|id| !staying.contains(id)).collect();
        both.sort();
        assert_eq!(self.fleet.doubles(), both, "the guests on two hosts are not those of unconfirmed moves");
        let mut kept = self.fleet.kept();
        kept.sort();
        let mut in_place = match self.fleet.has_shared_storage() {
            true => migrations.iter().map(|(id, _)| *id).collect(),
            false => staying,
        };
        in_place.sort();
        assert_eq!(kept, in_place, "the disks that are set aside are not those of unconfirmed moves");
        let shared_disk_breaches = self.fleet.shared_disk_breaches().into_iter();
        let spoilt: Vec<_> = shared_disk_breaches.filter(|breach| placed.contains(&breach.instance)).collect();
        assert_eq!(spoilt, [], "a disk is removed or overwritten while another host uses it");
        views.placement.read(|view| crate::pinned::check(&self.fleet, &view.ledger));
        views.placement.read(|view| crate::pci::check(&self.fleet, &view.ledger));
        views.placement.read(|view| crate::pci::check_ports(&self.network.equipped(), &view.ledger));
        crate::bandwidth::check(&self.network, &views);
        views.placement.read(|view| crate::gpus::check(&self.fleet, &view.ledger, &self.options.servers.mdevs));
        assert_eq!(self.fleet.leaks(), [], "a disk is left behind");
        assert_eq!(self.fleet.baseless(), [], "a disk has lost the image that it is based on");
        assert_eq!(self.fleet.copies(), [], "a copy of a disk is left behind");
        assert_eq!(self.fleet.frozen(), [], "a guest is still quiesced");
        assert_eq!(self.fleet.copying(), [], "the copy of an abandoned swap still runs");
        assert_eq!(self.fleet.passphrases(), [], "a host keeps the passphrase of a TPM");
        let mut secrets: Vec<Uuid> = views.servers.read(|servers| {
            let stored = servers.all().filter_map(|row| row.instance.alive()?.tpm.as_ref().map(|tpm| tpm.secret));
            stored.collect()
        });
        secrets.sort();
        assert_eq!(self.keys.secrets(), secrets, "the secrets are not those of living servers");
        assert_eq!(self.images.unfinished(), [], "an image has no bytes");
        let mut ports = self.network.holders();
        views.networks.read(|view| {
            ports.extend(view.ports().filter_map(|port| port.binding().device.parse::<InstanceId>().ok()));
        });
        ports.sort();
        ports.dedup();
        connected.extend(&away);
        connected.sort();
        assert_eq!(ports, connected, "the ports are not those of the servers with an interface");
        views.servers.read(|servers| {
            for row in servers.all() {
                let Some(server) = row.instance.alive() else { continue };
                let Some(placed) = &server.placement else { continue };
                self.check_interfaces(&views, row.id, server);
                let bound = self.network.host_of(row.id).unwrap_or_else(|| placed.hostname.clone());
                assert_eq!(bound, placed.hostname, "the port of {} is bound to another host", row.id);
            }
        });
        away.sort();
        let unbound: Vec<InstanceId> = self.network.unbound().into_iter().filter(|id| connected.contains(id)).collect();
        assert_eq!(unbound, away, "the unbound ports are not those of offloaded servers");
        assert_eq!(self.network.other_bindings(), [], "a port has a binding to another host than its server's");
        let mut claims: Vec<InstanceId> =
            views.placement.read(|view| view.ledger.consumers.keys().map(|c| c.as_str().parse().unwrap()).collect());
        claims.sort();
        let mut holders = placed.clone();
        holders.extend(migrations.iter().map(|(_, migration)| *migration));
        holders.sort();
        assert_eq!(claims, holders, "the allocations are not those of servers with a host and of their moves");
        assert!(chronova_actors::reconcile::quota::misfits(&views).is_empty(), "quota use and servers differ");
        let mut held: Vec<InstanceId> =
            views.quotas.read(|view| view.by_project.values().flat_map(|q| q.held.keys().copied()).collect());
        held.sort();
        living.sort();
        assert_eq!(held, living, "the servers that hold quota are not the living ones");
        crate::volumes::check(&views, &self.fleet);
        crate::volumes::check_disks(&views, &self.fleet, &self.volume_kind);
    }

    /// Checks that the server, its guest and the network service have the same interfaces.
    fn check_interfaces(&self, views: &Views, id: InstanceId, server: &Alive) {
        let macs: BTreeSet<String> = server.nics.iter().map(|nic| nic.mac.clone()).collect();
        let guests = (0..self.fleet.len()).find_map(|host| self.fleet.guests(host).remove(&id));
        let found = guests.map(|guest| crate::pci::with_saved(server, guest.nics));
        assert_eq!(found, Some(macs), "the guest of {id} has other interfaces");
        let ports: BTreeSet<PortId> = server.nics.iter().map(|nic| nic.port).collect();
        let mut bound: BTreeSet<PortId> = self.network.ports_of(id).into_iter().collect();
        bound.extend(
            views
                .networks
                .read(|view| view.of_device(&id.to_string()).map(|port| port.created.port).collect::<Vec<_>>()),
        );
        assert_eq!(bound, ports, "the ports of {id} differ from its interfaces");
    }

    /// The number of events in which a reconciler gave back quota, or a place in a group, that a process took.
    pub async fn given_back_by_reconcilers(&self) -> usize {
        let events = self.log.read_all(Position::START, usize::MAX).await.unwrap();
        let reconciled = |cause: &Cause| match cause {
            Cause::System { part } => part == "reconcile-quota" || part == "reconcile-server-groups",
            Cause::User { .. } | Cause::Process { .. } => false,
        };
        events.iter().filter(|event| reconciled(&event.meta.cause)).count()
    }

    /// The faults of the servers, for the message of a failed assertion.
    pub async fn faults(&self) -> Vec<String> {
        let views = self.views().await;
        let fault = |row: &chronova_projections::servers::ServerRow| row.server().and_then(|s| s.fault.clone());
        views.servers.read(|servers| servers.all().filter_map(|row| fault(row)).map(|f| format!("{:?}", f.0)).collect())
    }

    /// The outcome of the last process of this kind that began; `None` if none began, or if it has not ended.
    pub async fn outcome_of(&self, definition: &Definition) -> Option<ProcessOutcome> {
        let events = self.log.read_all(Position::START, usize::MAX).await.unwrap();
        let (mut stream, mut outcome) = (None, None);
        for event in &events {
            match event.event().unwrap().as_ref() {
                Event::ProcessEvent(ProcessEvent::Started(started))
                    if process::definition_of(&started.task).name == definition.name =>
                {
                    (stream, outcome) = (Some(event.stream.clone()), None);
                }
                Event::ProcessEvent(ProcessEvent::Finished(finished)) if stream.as_ref() == Some(&event.stream) => {
                    outcome = Some(finished.outcome);
                }
                _ => {}
            }
        }
        outcome
    }

    /// The status of each server, as a user sees it.
    pub async fn story(&self) -> Vec<(InstanceId, &'static str)> {
        let views = self.views().await;
        views.servers.read(|servers| {
            servers.all().map(|row| (row.id, status::of(&row.instance).map_or("ABSENT", |s| s.status))).collect()
        })
    }
}

/// One life of the control plane.
pub struct Life {
    pub member: Member,
    pub leader: Leader,
    pub store: Arc<FuseStore>,
    pub volumes: Arc<EmbeddedVolumes>,
    fleet: Arc<SimFleet>,
}

impl Life {
    pub fn operations(&self) -> &Arc<Operations> {
        self.leader.operations()
    }

    pub fn context(&self) -> &Arc<StepContext> {
        &self.leader.contexts.steps
    }

    /// Waits until every host is registered, is up and has answered in this life, not only in an earlier one.
    pub async fn hosts_up(&self, hosts: usize) {
        self.hosts_up_of(hosts, hosts).await;
    }

    /// Waits until `up` hosts are up and `known` hosts are registered.
    pub async fn hosts_up_of(&self, up: usize, known: usize) {
        self.until(|context| {
            let answers = |host: HostId| context.fleet.driver(host).is_some();
            context.views.hosts.read(|view| view.all().filter(|host| host.up && answers(host.id)).count()) == up
                && context
                    .views
                    .placement
                    .read(|view| view.ledger.providers.values().filter(|provider| provider.parent.is_none()).count())
                    == known
        })
        .await;
    }

    /// Waits until `met`, or until the life is over; panics after a minute. Returns whether the life is still running.
    pub async fn until(&self, met: impl Fn(&StepContext) -> bool) -> bool {
        let waiting = async {
            while !met(self.context()) {
                if self.store.is_blown() {
                    return false;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            true
        };
        let alive = tokio::time::timeout(PATIENCE, waiting).await;
        alive.unwrap_or_else(|_| panic!("still waiting for: {:?}", self.pending()))
    }

    /// Waits until nothing is under way. Returns whether the life is still running.
    pub async fn settled(&self) -> bool {
        self.until(|context| {
            let caught_up = context.views.position() >= self.store.head();
            caught_up
                && context.views.processes.read(Processes::is_empty)
                && chronova_actors::reconcile::quota::plan(&context.views).is_empty()
                && chronova_actors::reconcile::quota::misfits(&context.views).is_empty()
                && self.is_tidy()
        })
        .await
    }

    /// Whether no answering host has leftovers of a server that left it.
    fn is_tidy(&self) -> bool {
        if self.fleet.copies().iter().any(|(host, ..)| self.fleet.is_alive(*host)) {
            return false;
        }
        let alive = |hosts: &[usize]| hosts.iter().filter(|host| self.fleet.is_alive(**host)).count();
        self.fleet.whereabouts().into_iter().all(|(id, hosts)| match (self.instance_now(id), alive(&hosts)) {
            (_, 0) => true,
            (Instance::Alive(server), count) => count == 1 || server.moving.is_some(),
            (Instance::Deleted(_), _) => false,
            (Instance::Absent, count) => count == 1,
        })
    }

    fn pending(&self) -> Vec<(String, Process)> {
        let views = &self.context().views;
        views.processes.read(|view| view.pending().map(|p| (p.task.name().to_owned(), p.state.clone())).collect())
    }

    pub async fn stop(self) {
        self.leader.stop().await;
        self.member.stop().await;
    }

    pub async fn delete(&self, instance: InstanceId) -> Result<(), String> {
        let process = ProcessId::random();
        self.instance(instance, InstanceRequest::Delete { process, force: false, asker: ADMIN }).await
    }

    pub async fn power(&self, instance: InstanceId, action: PowerAction) -> Result<(), String> {
        let process = ProcessId::random();
        self.instance(instance, InstanceRequest::Power { process, action, asker: ADMIN }).await
    }

    pub async fn soft_delete(&self, instance: InstanceId) -> Result<(), String> {
        let process = ProcessId::random();
        self.instance(instance, InstanceRequest::SoftDelete { process, asker: ADMIN }).await
    }

    /// Requests work on a server, such as rescue, rebuild or unshelve.
    pub async fn work(&self, instance: InstanceId, request: WorkRequest) -> Result<(), String> {
        self.instance(instance, request).await
    }

    /// Requests a rebuild. `reimage`: the image is written to the root volume.
    pub async fn rebuild(&self, instance: InstanceId, reimage: bool) -> Result<(), String> {
        let now = build_request(instance);
        let request = RebuildRequested {
            process: ProcessId::random(),
            image: OneImage::snapshot(),
            other_image: false,
            preserve_ephemeral: false,
            reimage,
            name: "rebuilt".to_owned(),
            hostname: now.hostname,
            description: now.description,
            key: now.key,
            user_data: now.user_data,
            metadata: now.metadata,
            trusted_certs: now.trusted_certs,
            disk_config: now.disk_config,
            access_ip_v4: now.access_ip_v4,
            access_ip_v6: now.access_ip_v6,
        };
        self.work(instance, WorkRequest::Rebuild { request: Box::new(request), files: None, asker: ADMIN }).await
    }

    pub async fn rescue(&self, instance: InstanceId) -> Result<(), String> {
        let image = OneImage::snapshot();
        self.work(instance, WorkRequest::Rescue { process: ProcessId::random(), image, asker: ADMIN }).await
    }

    pub async fn unrescue(&self, instance: InstanceId) -> Result<(), String> {
        self.work(instance, WorkRequest::Unrescue { process: ProcessId::random(), asker: ADMIN }).await
    }

    pub async fn offload(&self, instance: InstanceId) -> Result<(), String> {
        self.work(instance, WorkRequest::Offload { process: ProcessId::random(), asker: ADMIN }).await
    }

    pub async fn unshelve(&self, instance: InstanceId) -> Result<(), String> {
        let request = UnshelveRequested { process: ProcessId::random(), availability_zone: None, host: None };
        self.work(instance, WorkRequest::Unshelve { request, asker: ADMIN }).await
    }

    /// Requests a change of the password as the API does: stores the password in memory, then sends the command.
    pub async fn change_password(&self, instance: InstanceId, password: &str) -> Result<(), String> {
        let process = ProcessId::random();
        // The test does not wait for the result.
        let _told = self.context().passwords.lend(process, password.to_owned());
        self.work(instance, WorkRequest::ChangePassword { process, asker: ADMIN }).await
    }

    /// Requests a further interface.
    pub async fn attach_nic(&self, instance: InstanceId) -> Result<(), String> {
        let wanted = RequestedNic { network: None, port: None, fixed_ip: None, tag: None };
        let process = ProcessId::random();
        self.instance(instance, InstanceRequest::AttachNic { process, wanted, asker: ADMIN }).await
    }

    /// Requests the detachment of the server's last interface.
    pub async fn detach_nic(&self, instance: InstanceId) -> Result<(), String> {
        let now = self.instance_now(instance);
        let port = now.alive().and_then(|server| server.nics.last()).map(|nic| nic.port).ok_or("no interface")?;
        let process = ProcessId::random();
        self.instance(instance, InstanceRequest::DetachNic { process, port, asker: ADMIN }).await
    }

    /// The status of the server, as a user sees it.
    pub fn status(&self, instance: InstanceId) -> &'static str {
        status::of(&self.instance_now(instance)).map_or("ABSENT", |status| status.status)
    }

    /// Waits until a user would see `wanted`.
    pub async fn shows(&self, instance: InstanceId, wanted: &str) {
        self.until(|_| self.status(instance) == wanted).await;
    }

    /// The message of the server's fault.
    pub fn fault(&self, instance: InstanceId) -> String {
        let now = self.instance_now(instance);
        now.known().and_then(|server| server.fault.clone()).map(|fault| fault.0.message).unwrap_or_default()
    }

    /// The index of the server's host in the world.
    pub fn host_of(&self, world: &World, instance: InstanceId) -> Option<usize> {
        let placed = self.instance_now(instance).alive()?.placement.clone()?;
        (0..world.fleet.len()).find(|host| world.fleet.uri().host_id(*host) == placed.host)
    }

    /// Sends a request to a server. The error is the refusal.
    pub async fn instance(&self, id: InstanceId, request: impl Into<InstanceRequest>) -> Result<(), String> {
        let sent = self.context().gateway.send::<InstanceRoot>(&id, request.into(), user_meta()).await;
        sent.map(|_| ()).map_err(|error: CommandError<_>| error.to_string())
    }

    pub fn instance_now(&self, instance: InstanceId) -> Instance {
        let views = &self.context().views;
        views.servers.read(|servers| servers.get(instance).map(|row| row.instance.clone()).unwrap_or_default())
    }
}

pub const ADMIN: CallerRights = CallerRights { overrides_lock: true };

pub(crate) fn user_meta() -> Arc<Meta> {
    let cause = Cause::User { user: UserId::new("u"), project: Some(ProjectId::new("p")), roles: vec![], source: None };
    Arc::new(Meta { request_id: None, correlation: Uuid::new_v4(), causation: None, cause })
}

/// A request for a small server.
pub fn build_request(instance: InstanceId) -> BuildRequested {
    BuildRequested {
        instance,
        process: ProcessId::derive(instance.0, "build"),
        // The names of libvirt domains have this number.
        number: u64::try_from(instance.0.as_u128() & 0xffff_ffff).unwrap(),
        reservation: "r-00000001".to_owned(),
        launch_index: 0,
        batch: 1,
        project: ProjectId::new("p"),
        user: UserId::new("u"),
        name: "server".to_owned(),
        hostname: "server".to_owned(),
        description: None,
        flavor: Arc::new(FlavorSnapshot {
            id: FlavorId::new("1"),
            name: "tiny".to_owned(),
            vcpus: 1,
            memory_mib: 128,
            root_gib: 1,
            ephemeral_gib: 0,
            swap_mib: 0,
            extra_specs: vec![],
        }),
        image: Some(Arc::new(OneImage::snapshot())),
        key: None,
        user_data: None,
        config_drive: false,
        networks: RequestedNetworks::Auto,
        security_groups: vec!["default".to_owned()],
        metadata: vec![],
        tags: vec![],
        availability_zone: None,
        forced_host: None,
        requested_host: None,
        scheduler_hints: vec![],
        disk_config: DiskConfig::Manual,
        access_ip_v4: None,
        access_ip_v6: None,
        trusted_certs: vec![],
    }
}
