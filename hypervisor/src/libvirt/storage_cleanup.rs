//! Finds volumes in the pool that an interrupted operation left.

use std::time::Duration;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;
use virt::connect::Connect;
use virt::storage_pool::StoragePool;

use super::error::Context;
use super::host::LibvirtDriver;
use super::{definition, pool};
use crate::capability::StorageCleanup;
use crate::capability::storage_cleanup::{self, Leftover};
use crate::driver::DriverResult;
use crate::options::LibvirtOptions;
use crate::volumes;

const CALL: &str = "leftovers";
/// How long the removal of an incomplete image waits for an upload of the image.
const BRIEFLY: Duration = Duration::from_secs(1);

/// Lists the leftovers without a refresh of the pool. The pool itself created these volumes, and
/// [`super::definition::orphans`] has just refreshed the pool for the same caller.
fn list(connect: &Connect, options: &LibvirtOptions) -> DriverResult<Vec<Leftover>> {
    let pool = pool::open(connect, options)?;
    Ok(storage_cleanup::among(&pool::names(&pool)?))
}

fn remove_torn(connect: &Connect, options: &LibvirtOptions, checksum: &str) -> DriverResult<()> {
    let pool = pool::open(connect, options)?;
    pool::refresh(&pool);
    let torn = Leftover::TornImage { checksum: checksum.to_owned() };
    let base = volumes::base_of(checksum);
    let names = pool::names(&pool)?;
    let Some(volume) = pool::lookup(&pool, &base)? else { return Ok(()) };
    // A power failure may destroy the mark but leave content and disks. Those disks work as long as the content exists.
    if !storage_cleanup::among(&names).contains(&torn) || is_used(&pool, &names, &volume.path().during(CALL)?)? {
        return Ok(());
    }
    pool::delete(&volume)
}

/// Whether a disk of a guest is based on the volume at `path`.
fn is_used(pool: &StoragePool, names: &[String], path: &str) -> DriverResult<bool> {
    for name in names.iter().filter(|name| volumes::owner(name).is_some()) {
        let Some(disk) = pool::lookup(pool, name)? else { continue };
        if pool::backing_path(&disk.xml_desc(0).during(CALL)?).as_deref() == Some(path) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[async_trait]
impl StorageCleanup for LibvirtDriver {
    async fn orphans(&self) -> DriverResult<Vec<InstanceId>> {
        let mut orphans = self.ask("orphans", definition::orphans).await?;
        orphans.retain(|instance| !self.guests.is_busy(instance));
        Ok(orphans)
    }

    async fn leftovers(&self) -> DriverResult<Vec<Leftover>> {
        self.ask(CALL, list).await
    }

    async fn remove_torn_image(&self, checksum: &str) -> DriverResult<()> {
        // An upload that is running completes the image soon.
        let Ok(pass) = self.images.alone_with(checksum, BRIEFLY).await else { return Ok(()) };
        let checksum = checksum.to_owned();
        self.call(CALL, move |connect, options| {
            let _until_done = pass;
            remove_torn(connect, options, &checksum)
        })
        .await
    }
}
