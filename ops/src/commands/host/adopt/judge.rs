//! Judges each guest that the hosts have and the log does not: what its definition tells, and what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_actors::instance::creation::hostname;
use chronova_actors::scheduler::RequestSpec;
use chronova_actors::scheduler::request::ResourceRequest;
use chronova_actors::services::embedded::image::embedded;
use chronova_events::envelope::Timestamp;
use chronova_events::host::KnownHost;
use chronova_events::ids::{ConsumerId, ImageId, InstanceId, ProcessId, ProjectId, ProviderId, UserId};
use chronova_events::instance::{
    Adopted, AdoptedState, BlockDevice, BuildRequested, DiskConfig, FlavorSnapshot, ImageSnapshot, NicInfo, Placed,
    Power, RequestedNetworks, RequestedNic,
};
use chronova_events::ledger::{Allocation, Claimed};
use chronova_hypervisor::found::{DefinitionMetadata, FoundGuest};
use chronova_hypervisor::guest::{NetworkSpec, PowerState};
use chronova_hypervisor::volumes;
use chronova_projections::views::Views;

use super::super::super::adopt::{AdoptedThing, AdoptionReport, AdoptionVerdict};
use super::facts::ToldServer;
use super::networks::PlannedNetworks;
use super::{AnsweredHost, GuestAdoptionChoices};

/// A guest that becomes a server of the log.
#[derive(Debug)]
pub(super) struct AdoptableGuest {
    pub(super) request: BuildRequested,
    pub(super) devices: Vec<BlockDevice>,
    /// The image of a root volume.
    pub(super) boot_image: Option<ImageSnapshot>,
    pub(super) placed: Placed,
    pub(super) nics: Vec<NicInfo>,
    pub(super) machine_type: Option<String>,
    pub(super) adopted: Adopted,
    pub(super) claim: Claimed,
}

/// The state of the judgement.
pub(super) struct GuestJudge<'a> {
    pub(super) views: &'a Views,
    pub(super) choices: &'a GuestAdoptionChoices,
    pub(super) now: Timestamp,
    pub(super) report: AdoptionReport,
    pub(super) networks: PlannedNetworks<'a>,
    /// The networks of the present host, by libvirt's names.
    pub(super) specs: BTreeMap<String, NetworkSpec>,
    /// The hosts of each guest, by name.
    hosts: BTreeMap<InstanceId, BTreeSet<String>>,
    /// The number for the next server, if the name of its domain has no number.
    next_number: u64,
    guests: Vec<AdoptableGuest>,
}

/// The parts of a server that its definition and the operator tell together.
struct ToldParts {
    flavor: FlavorSnapshot,
    image: Option<ImageSnapshot>,
    boot_image: Option<ImageSnapshot>,
    number: u64,
    devices: Vec<BlockDevice>,
    nics: Vec<NicInfo>,
}

impl<'a> GuestJudge<'a> {
    pub(super) fn new(views: &'a Views, choices: &'a GuestAdoptionChoices, now: Timestamp) -> Self {
        Self {
            views,
            choices,
            now,
            report: AdoptionReport::new(choices.leave_out.iter().cloned()),
            networks: PlannedNetworks::of(views, now),
            specs: BTreeMap::new(),
            hosts: BTreeMap::new(),
            next_number: views.servers.read(chronova_projections::servers::Servers::requested) + 1,
            guests: Vec::new(),
        }
    }

    /// Judges the guests of all hosts.
    pub(super) fn judge(
        mut self,
        hosts: &[AnsweredHost],
    ) -> (AdoptionReport, Vec<AdoptableGuest>, PlannedNetworks<'a>) {
        let known: Vec<(&AnsweredHost, KnownHost)> =
            hosts.iter().filter_map(|host| Some((host, self.host(host)?))).collect();
        for (host, row) in &known {
            for guest in &host.guests {
                self.hosts.entry(guest.instance).or_default().insert(row.hostname.clone());
            }
        }
        for (host, row) in &known {
            self.specs = host.networks.iter().map(|spec| (volumes::network_name(spec.network), spec.clone())).collect();
            for guest in &host.guests {
                self.guest(row, guest);
            }
        }
        (self.report, self.guests, self.networks)
    }

    /// The host as the log knows it.
    fn host(&mut self, host: &AnsweredHost) -> Option<KnownHost> {
        self.report.see(AdoptedThing::Host, &host.uri, &host.hostname);
        let known = self.views.hosts.read(|hosts| hosts.get(host.host).cloned());
        if known.is_none() {
            let way_out = "start the control plane with this host once, then stop it";
            self.report.obstacle(AdoptedThing::Host, &host.uri, "the log does not know it", way_out);
        }
        known
    }

    /// Reports that information about a guest is missing.
    pub(super) fn lacks(&mut self, guest: &FoundGuest, reason: impl Into<String>, way_out: &'static str) {
        self.report.obstacle(AdoptedThing::Server, &guest.instance.to_string(), reason, way_out);
    }

    fn guest(&mut self, host: &KnownHost, guest: &FoundGuest) {
        let id = guest.instance.to_string();
        let told = self.choices.facts.servers.get(&guest.instance).cloned().unwrap_or_default();
        if !self.is_open(host, guest, &told) {
            return;
        }
        let Some(metadata) = &guest.metadata else {
            let way_out = "adopt it from its control plane's databases, or leave it out";
            return self.lacks(guest, "Chronova did not define it: it has no metadata element of Chronova", way_out);
        };
        for words in &guest.beyond {
            self.lacks(guest, format!("it has {words}, which its definition does not tell completely"), "leave it out");
        }
        let Some(parts) = self.parts(host, guest, metadata, &told) else { return };
        self.notes(guest, &parts);
        let adoptable = self.adoptable(host, guest, (metadata, &told), parts);
        if let Some(adoptable) = adoptable
            && !self.report.is_in_the_way(AdoptedThing::Server, &id)
        {
            self.guests.push(adoptable);
        }
    }

    /// Whether the guest may become a server: the log does not know it, and it is on this host alone.
    fn is_open(&mut self, host: &KnownHost, guest: &FoundGuest, told: &ToldServer) -> bool {
        let (id, name) = (guest.instance.to_string(), guest.metadata.as_ref().map(|known| known.display_name.as_str()));
        self.report.see(AdoptedThing::Server, &id, name.unwrap_or_default());
        if self.report.leaves_out(AdoptedThing::Server, &id) {
            return false;
        }
        if self.views.servers.read(|servers| servers.get(guest.instance).is_some()) {
            self.report.find(AdoptedThing::Server, &id, AdoptionVerdict::Skipped, "the log knows it already", "");
            return false;
        }
        let several = self.hosts.get(&guest.instance).filter(|hosts| hosts.len() > 1).cloned();
        match (several, &told.host) {
            (None, _) => true,
            (Some(_), Some(named)) if *named == host.hostname => true,
            (Some(hosts), Some(named)) if hosts.contains(named) => {
                self.report.note(AdoptedThing::Server, &id, format!("its guest on {} is left alone", host.hostname));
                false
            }
            (Some(hosts), _) => {
                let hosts: Vec<String> = hosts.into_iter().collect();
                let reason = format!("several hosts have it: {}", hosts.join(", "));
                self.lacks(guest, reason, "tell servers.ID.host");
                false
            }
        }
    }

    /// Collects the parts, and reports each one that is missing.
    fn parts(
        &mut self,
        host: &KnownHost,
        guest: &FoundGuest,
        metadata: &DefinitionMetadata,
        told: &ToldServer,
    ) -> Option<ToldParts> {
        let flavor = self.flavor(guest, metadata, told);
        let images = match metadata.image {
            Some(id) => self.image(guest, id).map(|image| (Some(image), None)),
            None if told.no_image => Some((None, None)),
            None => match told.image {
                Some(id) => self.image(guest, id).map(|image| (None, Some(image))),
                None => {
                    let reason = "its root disk is a volume, whose image the definition does not name";
                    self.lacks(guest, reason, "tell servers.ID.image, or servers.ID.no_image");
                    None
                }
            },
        };
        let number = self.number(guest);
        let devices = self.devices(guest, metadata);
        let nics = self.nics(host, guest, (metadata, told));
        let (image, boot_image) = images?;
        Some(ToldParts { flavor: flavor?, image, boot_image, number: number?, devices: devices?, nics: nics? })
    }

    /// The flavor of the log with the name in the definition. Its sizes must be those of the guest.
    fn flavor(
        &mut self,
        guest: &FoundGuest,
        metadata: &DefinitionMetadata,
        told: &ToldServer,
    ) -> Option<FlavorSnapshot> {
        let known = self.views.flavors.read(|view| match &told.flavor {
            Some(id) => view.flavors.by_id.get(id).cloned(),
            None => view.flavors.named(&metadata.flavor_name).cloned(),
        });
        let sizes = format!(
            "{} vCPUs, {} MiB, a root disk of {} GiB, {} GiB ephemeral, {} MiB swap",
            metadata.vcpus, metadata.memory_mib, metadata.root_gib, metadata.ephemeral_gib, metadata.swap_mib
        );
        let Some(flavor) = known else {
            let reason = format!("the log has no flavor {} (its guest has {sizes})", metadata.flavor_name);
            self.lacks(guest, reason, "create the flavor with its extra specs, or tell servers.ID.flavor");
            return None;
        };
        let definition = &flavor.definition;
        let root_fits = metadata.image.is_none() || definition.root_gib == metadata.root_gib;
        let fits = root_fits
            && (definition.vcpus, definition.memory_mib) == (metadata.vcpus, metadata.memory_mib)
            && (definition.ephemeral_gib, definition.swap_mib) == (metadata.ephemeral_gib, metadata.swap_mib);
        if !fits {
            let reason = format!("the flavor {} has other sizes than its guest, which has {sizes}", definition.name);
            self.lacks(guest, reason, "create a flavor with these sizes, and tell servers.ID.flavor");
            return None;
        }
        Some(FlavorSnapshot {
            id: definition.flavor.clone(),
            name: definition.name.clone(),
            vcpus: definition.vcpus,
            memory_mib: definition.memory_mib,
            root_gib: definition.root_gib,
            ephemeral_gib: definition.ephemeral_gib,
            swap_mib: definition.swap_mib,
            extra_specs: flavor.extra_specs.clone(),
        })
    }

    /// The image, which determines the hardware of the next definition.
    fn image(&mut self, guest: &FoundGuest, id: ImageId) -> Option<ImageSnapshot> {
        if let Some(told) = self.choices.facts.images.get(&id) {
            return Some(told.snapshot(id));
        }
        let known = self.views.images.read(|images| images.get(id));
        let image = known.and_then(|record| embedded::snapshot(&record).ok());
        if image.is_none() {
            let way_out = "upload it again with this id and its properties, or tell images.ID";
            self.lacks(guest, format!("the log has no image {id}"), way_out);
        }
        image
    }

    /// The server's number, from which later definitions form the domain's name.
    fn number(&mut self, guest: &FoundGuest) -> Option<u64> {
        let template = &self.choices.servers.instance_name_template;
        if let Some(number) = template.number(&guest.domain_name) {
            return Some(number);
        }
        if template.fill(guest.instance, self.next_number) == guest.domain_name {
            self.next_number += 1;
            return Some(self.next_number - 1);
        }
        let reason = format!("its domain {} is not named by [DEFAULT] instance_name_template", guest.domain_name);
        self.lacks(guest, reason, "configure the template of the lost cloud");
        None
    }

    fn notes(&mut self, guest: &FoundGuest, parts: &ToldParts) {
        let id = guest.instance.to_string();
        let told = self.choices.facts.servers.contains_key(&guest.instance);
        if !told {
            let lost = "its keypair, user data, metadata, tags, description and times are unknown";
            self.report.note(AdoptedThing::Server, &id, lost);
        }
        for nic in parts.nics.iter().filter(|nic| nic.fixed_ips.is_empty()) {
            self.report.note(AdoptedThing::Server, &id, format!("no address of its interface {} is known", nic.mac));
        }
    }

    fn adoptable(
        &mut self,
        host: &KnownHost,
        guest: &FoundGuest,
        (metadata, told): (&DefinitionMetadata, &ToldServer),
        parts: ToldParts,
    ) -> Option<AdoptableGuest> {
        let ToldParts { flavor, image, boot_image, number, devices, nics } = parts;
        let build = ProcessId::derive(guest.instance.0, "adopted build");
        let request = request(guest, (metadata, told), (build, number), flavor, image, &nics);
        let claim = self.claim(host, guest, &request, boot_image.as_ref())?;
        let zone = self.views.host_aggregates.read(|view| view.zone_of(host.id).map(str::to_owned));
        let placed = Placed {
            process: build,
            host: host.id,
            hostname: host.hostname.clone(),
            attempt: 1,
            availability_zone: zone.unwrap_or_else(|| self.choices.servers.availability_zone.clone()),
        };
        let (state, power) = state(guest);
        let adopted = Adopted {
            build,
            state,
            power,
            // The guest was launched at an unknown time before.
            launched_at: Some(self.now),
            fault: None,
            shelved: None,
            rescue: None,
            moving: None,
            actions: Vec::new(),
        };
        let machine_type = guest.machine_type.clone();
        Some(AdoptableGuest { request, devices, boot_image, placed, nics, machine_type, adopted, claim })
    }

    /// The allocations on the host's own provider.
    fn claim(
        &mut self,
        host: &KnownHost,
        guest: &FoundGuest,
        request: &BuildRequested,
        boot_image: Option<&ImageSnapshot>,
    ) -> Option<Claimed> {
        let provider = ProviderId(host.id.0);
        let mut spec = RequestSpec::of_build(request, &BTreeSet::new(), &self.choices.servers.availability_zone);
        if request.image.is_none() {
            spec.image = boot_image.cloned().map(Arc::new);
            spec.volume_backed = true;
            Arc::make_mut(&mut spec.flavor).root_gib = 0;
        }
        let wanted = ResourceRequest::of(&spec, false);
        let resources = wanted.totals();
        let offered: BTreeSet<String> = self.views.placement.read(|view| {
            let known = view.ledger.providers.get(&provider);
            known.map(|known| known.inventories.keys().cloned().collect()).unwrap_or_default()
        });
        let missing: Vec<&str> =
            resources.keys().map(String::as_str).filter(|class| !offered.contains(*class)).collect();
        if !missing.is_empty() || wanted.groups.keys().any(|suffix| !suffix.is_empty()) {
            let reason = match missing.is_empty() {
                false => format!("{} itself does not offer {}", host.hostname, missing.join(", ")),
                true => "its flavor asks for several groups of resources".to_owned(),
            };
            self.lacks(guest, reason, "tell a flavor without these resources, or leave it out");
            return None;
        }
        Some(Claimed {
            consumer: ConsumerId::new(guest.instance.to_string()),
            project: request.project.clone(),
            user: request.user.clone(),
            consumer_type: Some("INSTANCE".to_owned()),
            allocations: vec![Allocation { provider, resources: resources.into_iter().collect() }],
        })
    }
}

/// The server's state, and the power state of its guest.
fn state(guest: &FoundGuest) -> (AdoptedState, Power) {
    match guest.power {
        _ if guest.saved => (AdoptedState::Suspended, Power::Shutdown),
        PowerState::Running => (AdoptedState::Active, Power::Running),
        PowerState::Paused => (AdoptedState::Paused, Power::Paused),
        PowerState::Shutdown => (AdoptedState::Stopped, Power::Shutdown),
        PowerState::Crashed => (AdoptedState::Stopped, Power::Crashed),
        PowerState::Suspended => (AdoptedState::Active, Power::Suspended),
        PowerState::NoState => (AdoptedState::Error, Power::NoState),
    }
}

/// The request that would have built the guest. Unknown parts are as if nobody had requested them.
fn request(
    guest: &FoundGuest,
    (metadata, told): (&DefinitionMetadata, &ToldServer),
    (build, number): (ProcessId, u64),
    flavor: FlavorSnapshot,
    image: Option<ImageSnapshot>,
    nics: &[NicInfo],
) -> BuildRequested {
    let name = told.name.clone().unwrap_or_else(|| metadata.display_name.clone());
    let project = told.project.as_ref().map_or_else(|| metadata.project.clone(), ProjectId::new);
    let user = told.user.as_ref().map_or_else(|| metadata.user.clone(), UserId::new);
    let own = told.hostname.clone().unwrap_or_else(|| hostname(&name, guest.instance));
    let wanted =
        |nic: &NicInfo| RequestedNic { network: Some(nic.network), port: Some(nic.port), fixed_ip: None, tag: None };
    BuildRequested {
        instance: guest.instance,
        process: build,
        number,
        reservation: String::new(),
        launch_index: 0,
        batch: 1,
        project,
        user,
        name,
        hostname: own,
        description: told.description.clone(),
        flavor: Arc::new(flavor),
        image: image.map(Arc::new),
        key: None,
        user_data: None,
        config_drive: guest.has_config_drive,
        networks: match nics.is_empty() {
            true => RequestedNetworks::None,
            false => RequestedNetworks::These(nics.iter().map(wanted).collect()),
        },
        security_groups: Vec::new(),
        metadata: told.metadata.clone().into_iter().collect(),
        tags: Vec::new(),
        availability_zone: None,
        forced_host: None,
        requested_host: None,
        scheduler_hints: Vec::new(),
        disk_config: DiskConfig::Manual,
        access_ip_v4: None,
        access_ip_v6: None,
        trusted_certs: Vec::new(),
    }
}
