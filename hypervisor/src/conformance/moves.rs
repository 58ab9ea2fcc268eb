//! Checks the disk operations of a move: reading, setting aside, writing back and growing.

use bytes::Bytes;
use futures::{StreamExt as _, stream};

use super::{CheckOutcome, Checked as _, Trial, require, violation};
use crate::capability::Needed as _;
use crate::capability::disk_transfer::DiskFile;
use crate::driver::StopMode;
use crate::guest::{GuestSpec, PowerState, RootDisk};

const ROOT: &str = "_disk";

impl Trial {
    /// The guest runs before and after this check.
    pub(super) async fn moves(&self, guest: &GuestSpec) -> CheckOutcome {
        let (driver, instance) = (&self.driver, guest.instance);
        driver.stop(instance, StopMode::Hard).await.check("stop before a move")?;
        let root = self.disk(guest, ROOT).await?;
        let kept = root.kept();

        let torn = stream::iter([Ok(Bytes::from_static(b"torn"))]);
        let result = driver.disk_transfer().needed()?.receive_disk(instance, &kept, Box::pin(torn)).await;
        require("a disk that arrives incomplete is refused", result.is_err(), &result)?;
        let content = driver.disk_transfer().needed()?.read_disk(instance, &root).await.check("read disk")?;
        driver.disk_transfer().needed()?.receive_disk(instance, &kept, content).await.check("set a disk aside")?;
        let there = self.disk(guest, &kept.suffix).await?;
        require("a disk that is set aside is complete", there.size == root.size && there.is_kept(), (&there, &root))?;
        self.sizes(guest, &there).await?;
        let content = driver
            .disk_transfer()
            .needed()?
            .read_disk(instance, &there)
            .await
            .check("read a disk that is set aside")?;
        driver
            .disk_transfer()
            .needed()?
            .receive_disk(instance, &there.unkept(), content)
            .await
            .check("put a disk back")?;
        for _ in 0..2 {
            driver
                .disk_transfer()
                .needed()?
                .remove_disk(instance, &there)
                .await
                .check("remove a disk that is set aside")?;
        }
        let all = driver.disk_transfer().needed()?.disk_files(instance).await.check("disk files")?;
        require("a removed disk is not listed", all.iter().all(|disk| !disk.is_kept()), &all)?;

        let boots = self.boot_count(instance).await?;
        let larger = larger(guest);
        for _ in 0..2 {
            driver.disk_transfer().needed()?.install(&larger, true).await.check("guest with existing disks")?;
            self.is(instance, "the guest runs", PowerState::Running).await?;
        }
        self.boots(instance, boots + 1).await?;
        let grown = self.disk(guest, ROOT).await?;
        require("the guest's disk grew with its flavor", grown.capacity > root.capacity, (&grown, &root))?;
        driver.stop(instance, StopMode::Hard).await.check("stop after growth")?;
        driver.disk_transfer().needed()?.install(&larger, false).await.check("guest that stays off")?;
        self.is(instance, "the guest is off", PowerState::Shutdown).await?;
        driver.start(instance).await.check("start after a move")
    }

    async fn disk(&self, guest: &GuestSpec, suffix: &str) -> Result<DiskFile, super::ConformanceViolation> {
        let all = self.driver.disk_transfer().needed()?.disk_files(guest.instance).await.check("disk files")?;
        let found = all.iter().find(|disk| disk.suffix == suffix);
        found.cloned().ok_or_else(|| violation("the guest's disks are listed", format!("{suffix} is not in {all:?}")))
    }

    /// The number of bytes read must equal the announced size.
    async fn sizes(&self, guest: &GuestSpec, disk: &DiskFile) -> CheckOutcome {
        let mut content =
            self.driver.disk_transfer().needed()?.read_disk(guest.instance, disk).await.check("read disk")?;
        let mut size = 0;
        while let Some(chunk) = content.next().await {
            size += chunk.map_err(|error| violation("read disk", error))?.len() as u64;
        }
        require("the size of a disk is the number of bytes read", size == disk.size, (size, disk))
    }
}

fn larger(guest: &GuestSpec) -> GuestSpec {
    let root = guest.root.clone().map(|root| RootDisk { size_gib: root.size_gib + 1, ..root });
    GuestSpec { root, swap_mib: guest.swap_mib * 2, ..guest.clone() }
}
