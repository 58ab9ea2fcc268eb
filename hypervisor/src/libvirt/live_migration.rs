//! Migrates running guests between libvirt hosts: peer to peer, so that the hosts can finish without the control plane.
//!
//! libvirt's migrate call lasts as long as the migration. A libvirtd serves only a limited number of calls of one
//! connection at a time. So the call runs in a thread with a connection of its own. Only this process knows whether the
//! thread still runs, and with which error it ended. The host itself also reports that a guest is migrating.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;
use roxmltree::{Document, Node};
use tokio::sync::watch;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::ErrorNumber;
use virt_sys as sys;

use super::error::{Context, number, translate};
use super::gates::Gates;
use super::host::LibvirtDriver;
use super::migrations::RunningMigration;
use super::storage::{self, HostStorage};
use super::{adopted, definition, disks, domain, migration, migration_plan, pool, secrets};
use crate::capability::live_migration::{
    ForceComplete, GuestMigrationState, GuestPresence, LiveMigration, MigrationAddressing, MigrationData,
    MigrationPlan, MigrationUris,
};
use crate::domain_xml::{GuestFiles, refile, repin, replug};
use crate::driver::{DriverError, DriverResult};
use crate::guest::GuestSpec;
use crate::options::LibvirtOptions;
use crate::volumes;

const CALL: &str = "live migration";

fn failed(message: impl Into<String>) -> DriverError {
    DriverError::Failed { call: CALL, message: message.into() }
}

fn child<'a>(node: Node<'a, 'a>, name: &str) -> Option<Node<'a, 'a>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn read_migration_data(connect: &Connect, options: &LibvirtOptions, domain: &Domain) -> DriverResult<MigrationData> {
    let xml = domain.xml_desc(sys::VIR_DOMAIN_XML_MIGRATABLE).during(CALL)?;
    let document = Document::parse(&xml).map_err(|error| failed(error.to_string()))?;
    let root = document.root_element();
    let kind = child(root, "os").and_then(|os| child(os, "type"));
    let attribute = |name: &str| kind.and_then(|kind| kind.attribute(name)).unwrap_or_default().to_owned();
    let cpu = child(root, "cpu");
    // With these modes the definition names no CPU model, so libvirt compares the CPUs only when the guest arrives.
    let described = cpu.filter(|cpu| !matches!(cpu.attribute("mode"), Some("host-passthrough" | "maximum")));
    let devices = child(root, "devices");
    let has = |name: &str| devices.is_some_and(|devices| child(devices, name).is_some());
    let bound = match (has("hostdev"), has("tpm")) {
        (true, _) => Some("it uses a device of its host".to_owned()),
        (_, true) => Some("it has a TPM".to_owned()),
        _ => None,
    };
    let disks = devices.into_iter().flat_map(|devices| devices.children()).filter(|node| node.has_tag_name("disk"));
    let of_nova = !domain::has_our_definition(domain).during(CALL)?;
    Ok(MigrationData {
        hypervisor_type: connect.driver_type().during(CALL)?,
        hypervisor_version: connect.hyp_version().during(CALL)?,
        cpu: described.and_then(|cpu| xml.get(cpu.range())).map(str::to_owned),
        arch: attribute("arch"),
        machine: attribute("machine"),
        virt_type: root.attribute("type").unwrap_or_default().to_owned(),
        memory_mib: domain.info().during(CALL)?.max_mem / 1024,
        disks: disks.filter_map(|disk| own_disk(domain, options, of_nova, disk)).collect(),
        bound,
    })
}

/// A writable local disk of the guest: its name in the guest, and its size in bytes as the guest sees it. `None` for
/// any other disk. Nova's files are outside of our directory.
fn own_disk(domain: &Domain, options: &LibvirtOptions, of_nova: bool, disk: Node<'_, '_>) -> Option<(String, u64)> {
    let part = |name: &str, key: &str| {
        let node = disk.children().find(|child| child.has_tag_name(name))?;
        node.attribute(key).map(str::to_owned)
    };
    let device = part("target", "dev")?;
    let path = part("source", "file").or_else(|| part("source", "dev"))?;
    // Nova gives a volume, and no other disk, a serial number. A volume on NFS is a file, too.
    let is_volume = disk.children().any(|child| child.has_tag_name("serial"));
    let of_nova = of_nova && !is_volume && disk.attribute("type") == Some("file");
    let local = storage::is_local(options, &path) || of_nova;
    if is_fixed(disk) || !local {
        return None;
    }
    let capacity = domain.block_info(&device, 0).map_or(0, |info| info.capacity);
    Some((device, capacity))
}

/// Whether a migration must not copy the disk: it is read-only, like a CD-ROM, or other guests have it, too.
fn is_fixed(disk: Node<'_, '_>) -> bool {
    ["readonly", "shareable"].iter().any(|name| disk.children().any(|child| child.has_tag_name(*name)))
}

/// The guest's running and persistent definition at its destination; `None` if nothing changes.
fn definitions(
    domain: &Domain,
    plan: &MigrationPlan,
    files: Option<&GuestFiles>,
) -> Result<[Option<String>; 2], String> {
    let again = |kind: u32| -> Result<Option<String>, String> {
        let xml = domain.xml_desc(sys::VIR_DOMAIN_XML_MIGRATABLE | sys::VIR_DOMAIN_XML_SECURE | kind);
        let xml = xml.map_err(|error| error.message().to_owned())?;
        let there = repin(&xml, &plan.pinning).and_then(|there| replug(&there, &plan.nics));
        let there = match files {
            Some(files) => there.and_then(|there| refile(&there, files)),
            None => there,
        };
        let there = there.map_err(|error| error.to_string())?;
        Ok(Some(there).filter(|there| *there != xml))
    };
    Ok([again(0)?, again(sys::VIR_DOMAIN_XML_INACTIVE)?])
}

/// Whether the guest's root disk is a copy-on-write file without a base, as after a resize of a server that Nova built.
/// The new disk at the destination has a base. If only the parts with data were copied, the guest would read the base
/// wherever its own disk has a hole.
fn root_stands_alone(xml: &str, instance: InstanceId) -> Result<bool, roxmltree::Error> {
    let (document, root) = (Document::parse(xml)?, volumes::root(instance));
    let mut disks = document.descendants().filter(|node| node.has_tag_name("disk"));
    Ok(disks.any(|disk| {
        let part = |name: &str, key: &str| child(disk, name)?.attribute(key);
        let is_root = part("source", "file").and_then(|path| path.rsplit('/').next()) == Some(root.as_str());
        is_root && part("driver", "type") == Some("qcow2") && part("backingStore", "type").is_none()
    }))
}

/// Performs the migration. The call lasts as long as the migration.
fn travel(
    connect: &Connect,
    options: &LibvirtOptions,
    gates: &Gates<String>,
    instance: InstanceId,
    plan: &MigrationPlan,
) -> Result<(), String> {
    let message = |error: virt::error::Error| error.message().to_owned();
    let domain = connect.lookup_domain_by_uuid(instance.0).map_err(message)?;
    let files = adopted::files_there(options, &domain, instance, plan).map_err(|error| error.to_string())?;
    let definitions = definitions(&domain, plan, files.as_ref())?;
    // A disk that Nova made has a base file of Nova's, and not the image that the destination has. So such a disk is
    // copied as a whole.
    let whole = files.is_some()
        || root_stands_alone(&domain.xml_desc(0).map_err(message)?, instance).map_err(|error| error.to_string())?;
    let go = |plan: &MigrationPlan| {
        let parameters = migration_plan::parameters(plan, definitions.clone());
        let flags = migration_plan::flags(plan);
        let flags = if whole { migration_plan::with_whole_disks(flags) } else { flags };
        domain.migrate_to_uri3(Some(&plan.peer), parameters, flags).map_err(message)
    };
    let attached = disks::keys(&domain).unwrap_or_default();
    let gone = go(plan).or_else(|refusal| match migration_plan::without_post_copy(plan, &refusal) {
        Some(other) if migration::is_whole(&domain).map_err(message)? => {
            tracing::warn!(server = %instance, %refusal, "a live migration runs without post-copy");
            go(&other)
        }
        _ => Err(refusal),
    });
    if gone.is_ok() {
        for volume in attached {
            // The gate is taken while another guest gets the volume. Then the secret of the volume stays.
            if let Some(_until_done) = gates.try_enter(&volume)
                && let Err(error) = secrets::forget(connect, &volume)
            {
                tracing::debug!(%error, "the secret of a volume stays on the host that its guest has left");
            }
        }
    }
    gone
}

#[async_trait]
impl LiveMigration for LibvirtDriver {
    async fn migration_data(&self, instance: InstanceId) -> DriverResult<MigrationData> {
        self.ask(CALL, move |connect, options| {
            read_migration_data(connect, options, &domain::require(connect, instance)?)
        })
        .await
    }

    async fn destination_obstacles(&self, migration_data: &MigrationData) -> DriverResult<Vec<String>> {
        let migration_data = migration_data.clone();
        self.ask(CALL, move |connect, options| {
            let mut obstacles = Vec::new();
            let kind = connect.driver_type().during(CALL)?;
            if kind != migration_data.hypervisor_type {
                obstacles.push(format!("its hypervisor is {kind}, not {}", migration_data.hypervisor_type));
            }
            // Nova raises `DestinationHypervisorTooOld` for the same reason.
            if connect.hyp_version().during(CALL)? < migration_data.hypervisor_version {
                obstacles.push("its hypervisor is older than the one that the guest runs on".to_owned());
            }
            let memory = connect.node_info().during(CALL)?.memory / 1024;
            if memory < migration_data.memory_mib {
                obstacles.push(format!("it has {memory} MiB of memory, the guest needs {}", migration_data.memory_mib));
            }
            let kind = (migration_data.arch.as_str(), migration_data.virt_type.as_str());
            if let Some(cpu) = &migration_data.cpu
                && !options.guests.trusts_cpus
                && let Some(reason) = migration::compare_cpu(connect, kind, cpu)?
            {
                obstacles.push(reason);
            }
            Ok(obstacles)
        })
        .await
    }

    async fn prepare_destination(&self, guest: &GuestSpec, copied: bool) -> DriverResult<()> {
        if !copied && !storage::shares_disks_alone(&self.options) {
            // On shared storage, this host's list may lack volumes that another host has just created.
            let disks = guest.volumes.clone();
            let secrets = self.hold_secrets(&disks, "destination", self.options.call_deadline).await?;
            let refresh = move |connect: &Connect, options: &LibvirtOptions| {
                let _until_done = secrets;
                pool::look_for(connect, options, &disks)?;
                pool::open(connect, options).map(|pool| pool::refresh(&pool))
            };
            return self.call("destination", refresh).await;
        }
        let spec = guest.clone();
        let secrets = self.hold_secrets(&spec.volumes, "destination", self.making()).await?;
        self.change("destination", guest.instance, self.making(), move |connect, options| {
            let _until_done = secrets;
            let site = HostStorage::new(connect, options);
            pool::look_for(connect, options, &spec.volumes)?;
            // A guest that already exists here has its disks.
            match domain::lookup(connect, spec.instance)? {
                Some(_) => Ok(()),
                None if !copied => definition::provide_files(site, &pool::open(connect, options)?, &spec),
                None => definition::provide_volumes(site, &spec, true, definition::DiskContent::FromElsewhere),
            }
        })
        .await
    }

    async fn start_migration(&self, instance: InstanceId, plan: &MigrationPlan) -> DriverResult<()> {
        let lasts = self.migrations.lasts(instance);
        let departing = self.ask(CALL, move |connect, _| {
            let domain = domain::require(connect, instance)?;
            migration::departing(&domain).during(CALL)
        });
        if departing.await?.is_some() || lasts {
            return Ok(());
        }
        let (ended, end) = watch::channel(None);
        let (link, session, plan) = (Arc::clone(&self.link), self.link.connect().await?, plan.clone());
        let (options, gates) = (Arc::clone(&self.options), Arc::clone(&self.volumes));
        let mut running = self.migrations.lock();
        running.retain(|_, known| known.end.borrow().is_none());
        let migration = plan.migration;
        thread::Builder::new()
            .name("libvirt-migrate".to_owned())
            .spawn(move || {
                // The migration gets a connection of its own, in most cases an idle one. No other call uses this
                // connection until the migration ends.
                let line = link.line(&session);
                let began = std::time::Instant::now();
                let line = line.map_err(|error| error.to_string());
                let end = line.and_then(|line| travel(&line, &options, &gates, instance, &plan));
                let milliseconds = began.elapsed().as_millis();
                tracing::info!(server = %instance, milliseconds, ok = end.is_ok(), "the hosts' migration has ended");
                ended.send_replace(Some(end));
            })
            .map_err(|error| failed(format!("cannot start a thread: {error}")))?;
        running.insert(instance, RunningMigration { migration, end });
        Ok(())
    }

    async fn migration_state(&self, instance: InstanceId) -> DriverResult<GuestMigrationState> {
        // `lasts` is read before the host is asked. So if the migration ends in between, the host already reports the
        // state after the migration.
        let lasts = self.migrations.lasts(instance);
        let mut state = self
            .ask("migration state", move |connect, _| {
                let Some(domain) = domain::lookup(connect, instance)? else {
                    return Ok(GuestMigrationState::of(GuestPresence::Absent));
                };
                let seen = || {
                    let departing = migration::departing(&domain)?;
                    let (presence, in_post_copy) = migration::presence(&domain)?;
                    // libvirt keeps the job of a broken post-copy, in case somebody repairs it.
                    let departing = departing.filter(|_| presence != GuestPresence::Torn);
                    Ok(GuestMigrationState { presence, departing, in_post_copy, failed: None })
                };
                seen().or_else(|error: virt::error::Error| match domain::lookup(connect, instance)? {
                    Some(_) => Err(translate("migration state", &error)),
                    None => Ok(GuestMigrationState::of(GuestPresence::Absent)),
                })
            })
            .await?;
        let begins = lasts && !matches!(state.presence, GuestPresence::Absent | GuestPresence::Torn);
        if begins && state.departing.is_none() {
            state.departing = Some(crate::capability::live_migration::MigrationProgress::default());
        }
        state.failed = self.migrations.failure(instance);
        Ok(state)
    }

    async fn wait_for_migration(&self, instance: InstanceId, most: Duration) {
        let end = self.migrations.lock().get(&instance).map(|plan| plan.end.clone());
        let ended = async {
            match end {
                Some(mut end) => drop(end.wait_for(Option::is_some).await),
                None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(most, ended).await;
    }

    async fn abort_migration(&self, instance: InstanceId) -> DriverResult<()> {
        self.ask(CALL, move |connect, _| match domain::lookup(connect, instance)? {
            Some(domain) => migration::abort(&domain),
            None => Ok(()),
        })
        .await
    }

    async fn force_complete(&self, instance: InstanceId, how: ForceComplete) -> DriverResult<()> {
        self.ask(CALL, move |connect, _| {
            let domain = domain::require(connect, instance)?;
            if how == ForceComplete::PostCopy {
                match migration::start_post_copy(&domain) {
                    Err(DriverError::Failed { message, .. }) if migration_plan::set_out_without_post_copy(&message) => {}
                    started => {
                        let switched = started.is_ok();
                        tracing::info!(server = %instance, switched, "a live migration was asked to switch to post-copy");
                        return started;
                    }
                }
            }
            tracing::info!(server = %instance, "a live migration pauses its guest to end");
            domain.suspend().during(CALL)
        })
        .await
    }

    async fn set_max_downtime(&self, instance: InstanceId, milliseconds: u64) -> DriverResult<()> {
        self.ask(CALL, move |connect, _| {
            domain::require(connect, instance)?.migrate_set_max_downtime(milliseconds, 0).during(CALL)
        })
        .await
    }

    async fn tls_obstacle(&self) -> DriverResult<Option<String>> {
        self.ask("versions", |connect, _| {
            let (libvirt, hypervisor) = (connect.lib_version(), connect.hyp_version());
            Ok(migration_plan::tls_obstacle(libvirt.during("versions")?, hypervisor.during("versions")?))
        })
        .await
    }

    async fn interface_address(&self, name: &str) -> DriverResult<Option<String>> {
        let name = name.to_owned();
        self.ask("interface address", move |connect, _| {
            let interface = match connect.lookup_interface_by_name(&name) {
                Ok(interface) => interface,
                // The host has no such interface, or reports no interfaces at all.
                Err(error) if matches!(number(&error), Some(ErrorNumber::NoInterface | ErrorNumber::NoSupport)) => {
                    return Ok(None);
                }
                Err(error) => return Err(translate(CALL, &error)),
            };
            migration_plan::address_in(&interface.xml_desc(0).during(CALL)?).map_err(|error| failed(error.to_string()))
        })
        .await
    }

    fn migration_uris(&self, addressing: &MigrationAddressing<'_>) -> MigrationUris {
        migration_plan::uris(&self.uri, addressing)
    }

    async fn adopt_console(&self, instance: InstanceId, text: Bytes) -> DriverResult<()> {
        self.call("console log", move |connect, options| {
            let pool = pool::open(connect, options)?;
            // The older part of the console log is read from this volume.
            pool::put(connect, &pool, &format!("{}.0", volumes::console_log(instance)), &text)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn read_only_and_shared_disks_are_not_copied() {
        let xml = "<devices><disk device='cdrom'><source file='/p/a.iso'/><readonly/></disk>\
                   <disk device='disk'><source file='/p/a_disk'/></disk>\
                   <disk device='disk'><source file='/p/volume'/><shareable/></disk></devices>";
        let document = Document::parse(xml).unwrap();
        let disks = document.root_element().children();
        assert_eq!(disks.map(is_fixed).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn only_a_root_disk_without_a_base_stands_alone() {
        let id = InstanceId(uuid::Uuid::nil());
        let (root, other) = (volumes::root(id), volumes::swap(id));
        let base =
            "<backingStore type='file'><format type='raw'/><source file='/pool/base-a'/><backingStore/></backingStore>";
        for (name, format, store, alone) in [
            (&root, "qcow2", base, false),
            (&root, "qcow2", "<backingStore/>", true),
            (&root, "raw", "<backingStore/>", false),
            (&other, "qcow2", "<backingStore/>", false),
        ] {
            let xml = format!(
                "<domain><devices><disk type='file'><driver name='qemu' type='{format}'/><source file='/pool/{name}'/>\
                 {store}</disk></devices></domain>"
            );
            assert_eq!(root_stands_alone(&xml, id).unwrap(), alone, "{xml}");
        }
    }
}
