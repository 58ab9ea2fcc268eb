//! Detects hosts with the same storage: each host writes a mark on it and reads the marks of the others.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::ids::{HostId, InstanceId};
use virt::connect::Connect;

use super::error::Context as _;
use super::host::LibvirtDriver;
use super::{disks, domain, mdevs, pmem, pool, storage};
use crate::capability::SharedStorage;
use crate::driver::{DriverError, DriverResult};
use crate::options::LibvirtOptions;
use crate::volumes;

const CALL: &str = "storage mark";

/// The hosts that share this host's storage, by their marks on it, and this host itself.
fn sharers(connect: &Connect, options: &LibvirtOptions) -> DriverResult<BTreeSet<HostId>> {
    // The host's id is the UUID of the pool in its own directory ([`pool::open`]).
    let own = HostId(pool::open(connect, options)?.uuid().during(CALL)?);
    let Some(pool) = storage::shared_pool(connect, options)? else { return Ok(BTreeSet::from([own])) };
    let mark = volumes::host_mark(own);
    if pool::lookup(&pool, &mark)?.is_none() {
        // The mark may already exist although libvirt does not know it yet. The refresh below makes libvirt know the
        // mark, so this error is harmless.
        match pool::create_raw(&pool, &mark, storage::mark_size(options), "0644") {
            Ok(_) => {}
            Err(DriverError::Failed { message, .. }) if message.contains("exist") => {}
            Err(error) => return Err(error),
        }
    }
    pool::refresh(&pool);
    let mut hosts: BTreeSet<HostId> = pool::names(&pool)?.iter().filter_map(|name| volumes::marked_by(name)).collect();
    hosts.insert(own);
    Ok(hosts)
}

/// Removes the guest's files that are no disks, for example config drive and console log. The other host has its own. A
/// disk in the directory stays, because it is of an earlier `images_type`, and no other host has it.
fn remove_files(connect: &Connect, options: &LibvirtOptions, instance: InstanceId) -> DriverResult<()> {
    let pool = pool::open(connect, options)?;
    pool::refresh(&pool);
    let (drive, log) = (volumes::config_drive(instance), volumes::console_log(instance));
    let passes = |name: &str| volumes::owner(name) == Some(instance) && name.ends_with(storage::PASSING);
    let is_file = |name: &String| *name == drive || name.starts_with(&log) || passes(name);
    for name in pool::names(&pool)?.into_iter().filter(is_file) {
        if let Some(volume) = pool::lookup(&pool, &name)? {
            pool::delete(&volume)?;
        }
    }
    Ok(())
}

#[async_trait]
impl SharedStorage for LibvirtDriver {
    async fn storage_sharers(&self) -> DriverResult<BTreeSet<HostId>> {
        self.ask(CALL, sharers).await
    }

    fn shares_files(&self) -> bool {
        !storage::shares_disks_alone(&self.options)
    }

    async fn undefine(&self, instance: InstanceId) -> DriverResult<()> {
        let link = Arc::clone(&self.link);
        let undefined = self.change("undefine", instance, self.options.call_deadline, move |connect, options| {
            let domain = domain::lookup(connect, instance)?;
            if let Some(domain) = &domain
                && domain.is_active().during("undefine")?
            {
                return Err(DriverError::Failed { call: "undefine", message: "the guest runs".to_owned() });
            }
            // Persistent memory is the host's own, so it is removed although the disks stay. It is removed first,
            // because nothing looks for it once the definition is gone.
            pmem::remove(connect, options, instance)?;
            let mut attached = Vec::new();
            if let Some(domain) = domain {
                attached = disks::keys(&domain).unwrap_or_default();
                link.guests_known().leave(instance);
                mdevs::remove(&domain)?;
                domain::undefine(&domain).inspect_err(|_| link.guests_known().forget(instance))?;
            }
            let removed = match storage::shares_disks_alone(options) {
                true => remove_files(connect, options, instance),
                false => Ok(()),
            };
            Ok((attached, removed))
        });
        let (attached, removed) = undefined.await?;
        self.forget_secrets(attached).await;
        removed
    }
}
