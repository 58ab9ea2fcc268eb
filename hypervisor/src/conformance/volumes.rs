//! Checks the pool of the volume service.

use chronova_events::ids::{SnapshotId, VolumeId};
use futures::StreamExt as _;

use super::{CheckOutcome, Checked as _, Trial, require, violation};
use crate::capability::Needed as _;
use crate::capability::volume_store::{PoolVolume, VolumeContent};
use crate::checksum::RunningDigest;
use crate::volumes;

const MIB: u64 = 1 << 20;
/// The length of this text selects MD5, which is enough to tell contents apart.
const MD5: &str = "00000000000000000000000000000000";

impl Trial {
    /// The image is already in the host's cache.
    pub(super) async fn volumes(&self) -> CheckOutcome {
        let driver = &self.driver;
        let pool = driver.volume_store().needed()?.volume_pool().await.check("volume pool")?;
        require("the pool has free space", pool.capacity > 0 && pool.free > 0, &pool)?;
        let before = driver.volume_store().needed()?.volumes().await.check("volumes")?;
        let (blank, root) = (volumes::volume(VolumeId::random()), volumes::volume(VolumeId::random()));
        let (snapshot, absent) = (volumes::snapshot(SnapshotId::random()), volumes::volume(VolumeId::random()));
        let size = (self.fixture.image.virtual_size / MIB + 64) * MIB;

        let image = VolumeContent::Image(self.fixture.image.clone());
        // If a creation is repeated, the last call decides the size and the content, because an earlier call may have
        // been interrupted.
        for (size, content) in [(size, &image), (64 * MIB, &VolumeContent::Blank), (64 * MIB, &VolumeContent::Blank)] {
            driver
                .volume_store()
                .needed()?
                .create_volume(&blank, size, content)
                .await
                .check("blank volume instead of another one")?;
        }
        driver.volume_store().needed()?.create_volume(&root, size, &image).await.check("volume of an image")?;
        let copy = VolumeContent::Copy { of: root.clone(), user: None };
        driver.volume_store().needed()?.create_volume(&snapshot, size, &copy).await.check("copy of a volume")?;
        let lost = VolumeContent::Copy { of: absent.clone(), user: None };
        require(
            "a copy of a missing volume is refused",
            driver.volume_store().needed()?.create_volume(&absent, size, &lost).await.is_err(),
            &absent,
        )?;
        self.kept(&before, &[(&blank, 64 * MIB), (&root, size), (&snapshot, size)]).await?;

        let (of_root, of_copy) = (self.content(&root).await?, self.content(&snapshot).await?);
        require("a copy has the content of its volume", of_root == of_copy, (&of_root, &of_copy))?;
        require("a volume of an image has content", of_root != self.content(&blank).await?, &of_root)?;

        for wanted in [128 * MIB, 96 * MIB] {
            driver
                .volume_store()
                .needed()?
                .resize_volume(&blank, wanted, None)
                .await
                .check("a volume grows and never shrinks")?;
        }
        require(
            "a resize of a missing volume is refused",
            driver.volume_store().needed()?.resize_volume(&absent, size, None).await.is_err(),
            &absent,
        )?;
        self.kept(&before, &[(&blank, 128 * MIB), (&root, size), (&snapshot, size)]).await?;

        for _ in 0..2 {
            for name in [&blank, &root, &snapshot, &absent] {
                driver
                    .volume_store()
                    .needed()?
                    .delete_volume(name)
                    .await
                    .check("deletion of a volume, or of a missing one")?;
            }
        }
        self.kept(&before, &[]).await
    }

    async fn kept(&self, before: &[PoolVolume], ours: &[(&String, u64)]) -> CheckOutcome {
        let mut wanted = before.to_vec();
        wanted.extend(ours.iter().map(|(name, size)| PoolVolume { name: (*name).clone(), size: *size }));
        wanted.sort();
        let mut now = self.driver.volume_store().needed()?.volumes().await.check("volumes")?;
        now.sort();
        require("the pool lists the volumes that exist, with their sizes", now == wanted, (&now, &wanted))
    }

    /// The length and checksum of the bytes that a guest would read.
    async fn content(&self, name: &str) -> Result<(u64, String), super::ConformanceViolation> {
        let mut stream =
            self.driver.volume_store().needed()?.read_volume(name, None).await.check("reading a volume")?;
        let (mut length, mut check) = (0, RunningDigest::new(MD5));
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| violation("reading a volume", error))?;
            length += chunk.len() as u64;
            check.update(&chunk);
        }
        Ok((length, check.finish()))
    }
}
