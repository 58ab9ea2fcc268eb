//! Copies of disks, which become images or are set aside until the end of a move. A search for leftovers finds each of
//! them.

use chronova_events::ids::{ImageId, InstanceId};
use futures::StreamExt as _;

use super::{CheckOutcome, Checked as _, Trial, is_gone, require, violation};
use crate::capability::Needed as _;
use crate::capability::storage_cleanup::Leftover;
use crate::driver::StopMode;
use crate::guest::{ImageFormat, PowerState, Quiesce};

impl Trial {
    /// Copies the root disk of a running guest and of one that is off.
    pub(super) async fn copies(&self, instance: InstanceId) -> CheckOutcome {
        let driver = &self.driver;
        let [live, raw, off] = [1, 2, 3].map(|n| ImageId(uuid::Uuid::from_u128(0xc0f0 << 64 | n)));
        self.copy(instance, live, ImageFormat::Qcow2).await?;
        self.copy(instance, raw, ImageFormat::Raw).await?;
        self.is(instance, "a copied guest runs on", PowerState::Running).await?;
        driver.stop(instance, StopMode::Hard).await.check("stop before a copy")?;
        self.copy(instance, off, ImageFormat::Qcow2).await?;
        self.copy(instance, raw, ImageFormat::Raw).await?;
        self.is(instance, "a copied guest stays off", PowerState::Shutdown).await?;
        let snapshots = driver.snapshots().needed()?;
        let absent = snapshots.copy_root(InstanceId::random(), live, ImageFormat::Qcow2, Quiesce::No).await;
        is_gone("copy of an absent guest", &absent)?;
        driver.start(instance).await.check("start after a copy")
    }

    async fn copy(&self, instance: InstanceId, copy: ImageId, format: ImageFormat) -> CheckOutcome {
        let driver = &self.driver;
        let none = driver.snapshots().needed()?.read_copy(instance, copy).await;
        let none = match none {
            Ok(mut stream) => stream.next().await.is_none_or(|chunk| chunk.is_err()),
            Err(_) => true,
        };
        require("a copy that was not made cannot be read", none, copy)?;
        let snapshots = driver.snapshots().needed()?;
        let made = snapshots.copy_root(instance, copy, format, Quiesce::IfPossible).await.check("copy")?;
        let again = snapshots.copy_root(instance, copy, format, Quiesce::IfPossible).await.check("copy again")?;
        require("a second request for a copy changes nothing", made == again, (made, again))?;
        let left = Leftover::Copy { instance, copy };
        let listed = driver.storage_cleanup().needed()?.leftovers().await.check("leftovers")?;
        require(
            "a copy is listed once among the leftovers",
            listed.iter().filter(|one| **one == left).count() == 1,
            &listed,
        )?;
        let mut content = driver.snapshots().needed()?.read_copy(instance, copy).await.check("read copy")?;
        let (mut size, mut magic) = (0_u64, Vec::<u8>::new());
        while let Some(chunk) = content.next().await {
            let chunk = chunk.map_err(|error| violation("read copy", error))?;
            magic.extend(chunk.iter().take(4_usize.saturating_sub(magic.len())));
            size += chunk.len() as u64;
        }
        require("the size of a copy is the number of bytes read", size == made.size, (size, made))?;
        require("a copy has the wanted format", (magic == b"QFI\xfb") == (format == ImageFormat::Qcow2), &magic)?;
        driver.snapshots().needed()?.remove_copy(instance, copy).await.check("copy removal")?;
        driver.snapshots().needed()?.remove_copy(instance, copy).await.check("copy removal again")?;
        let listed = driver.storage_cleanup().needed()?.leftovers().await.check("leftovers")?;
        require("a removed copy is not listed among the leftovers", !listed.contains(&left), &listed)
    }

    /// Sets a disk aside and removes it again. Also checks that the removal of an interrupted upload does not affect a
    /// complete image.
    pub(super) async fn set_aside(&self, instance: InstanceId) -> CheckOutcome {
        let driver = &self.driver;
        driver.stop(instance, StopMode::Hard).await.check("stop before a disk is set aside")?;
        let disks = driver.disk_transfer().needed()?.disk_files(instance).await.check("disk files")?;
        let disk = disks.first().ok_or_else(|| violation("a guest has disks", "none"))?;
        let content = driver.disk_transfer().needed()?.read_disk(instance, disk).await.check("read disk")?;
        driver
            .disk_transfer()
            .needed()?
            .receive_disk(instance, &disk.kept(), content)
            .await
            .check("set a disk aside")?;
        let left = Leftover::Kept { instance, suffix: disk.kept().suffix };
        let listed = driver.storage_cleanup().needed()?.leftovers().await.check("leftovers")?;
        require("a disk that is set aside is listed among the leftovers", listed.contains(&left), &listed)?;
        for _ in 0..2 {
            driver
                .disk_transfer()
                .needed()?
                .remove_disk(instance, &disk.kept())
                .await
                .check("removal of a disk that is set aside")?;
        }
        let listed = driver.storage_cleanup().needed()?.leftovers().await.check("leftovers")?;
        require("a removed disk is not listed among the leftovers", !listed.contains(&left), &listed)?;
        // The image under the guest's disk is complete, so it does not count as an interrupted upload.
        driver
            .storage_cleanup()
            .needed()?
            .remove_torn_image(&self.fixture.image.checksum)
            .await
            .check("removal of a torn image")?;
        driver.start(instance).await.check("start on a disk that was set aside")
    }
}
