//! Detects hosts with the same storage: each host writes a mark on it and reads the marks of the others.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::ids::{HostId, InstanceId};
use virt::connect::Connect;

use super::error::Context as _;
use super::host::LibvirtDriver;
use super::{domain, pmem, pool, storage};
use crate::capability::SharedStorage;
use crate::driver::{DriverError, DriverResult};
use crate::options::LibvirtOptions;
use crate::volumes;

const CALL: &str = "storage mark";

/// The hosts that share this host's storage. Each of them has left its mark on the storage.
fn sharers(connect: &Connect, options: &LibvirtOptions) -> DriverResult<BTreeSet<HostId>> {
    // The id of the directory's pool is the host's id.
    let own = HostId(pool::open(connect, options)?.uuid().during(CALL)?);
    let Some(pool) = storage::shared_pool(connect, options)? else { return Ok(BTreeSet::from([own])) };
    let mark = volumes::host_mark(own);
    if pool::lookup(&pool, &mark)?.is_none() {
        // The mark may already exist although libvirt does not know it yet. The refresh below makes libvirt know the
        // mark, so this error is harmless.
        match pool::create_raw(&pool, &mark, 0, "0644") {
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

#[async_trait]
impl SharedStorage for LibvirtDriver {
    async fn storage_sharers(&self) -> DriverResult<BTreeSet<HostId>> {
        self.ask(CALL, sharers).await
    }

    async fn undefine(&self, instance: InstanceId) -> DriverResult<()> {
        let link = Arc::clone(&self.link);
        self.change("undefine", instance, self.options.call_deadline, move |connect, options| {
            let domain = domain::lookup(connect, instance)?;
            if let Some(domain) = &domain
                && domain.is_active().during(CALL)?
            {
                return Err(DriverError::Failed { call: "undefine", message: "the guest runs".to_owned() });
            }
            // Persistent memory is the host's own, so it goes although the disks stay. It goes first, because nothing
            // looks for it once the definition is gone.
            pmem::remove(connect, options, instance)?;
            let Some(domain) = domain else { return Ok(()) };
            link.guests_known().leave(instance);
            domain::undefine(&domain).inspect_err(|_| link.guests_known().forget(instance))
        })
        .await
    }
}
