//! Checks how unused images are noted and removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::InstanceId;

use super::{CheckOutcome, Checked as _, ConformanceViolation, CountingSource, Trial, image_of, require};
use crate::capability::Needed as _;
use crate::capability::image_cache::CachedImage;
use crate::guest::ImageRef;

const THEN: Timestamp = Timestamp(1_000_000);
const LATER: Timestamp = Timestamp(2_000_000);

impl Trial {
    async fn look_up(&self, image: &ImageRef) -> Result<Option<CachedImage>, ConformanceViolation> {
        let all = self.driver.image_cache().needed()?.cached_images().await.check("cached images")?;
        Ok(all.into_iter().find(|known| known.checksum == image.checksum))
    }

    /// An image under a guest stays, even if a caller notes it as unused.
    pub(super) async fn used_image(&self, instance: InstanceId) -> CheckOutcome {
        let image = &self.fixture.image;
        let disks = self.driver.disk_transfer().needed()?.disk_files(instance).await.check("disks of the guest")?;
        let is_based = disks.iter().any(|disk| disk.suffix == "_disk" && !disk.raw);
        let found = self.look_up(image).await?;
        let is_used = found.as_ref().map(|found| found.is_used);
        require("an image is marked as used exactly if a disk is based on it", is_used == Some(is_based), &found)?;
        if !is_based {
            return Ok(());
        }
        self.driver
            .image_cache()
            .needed()?
            .note_idle(&image.checksum, Some(THEN))
            .await
            .check("note of an idle image")?;
        let gone = self
            .driver
            .image_cache()
            .needed()?
            .remove_image(&image.checksum, LATER)
            .await
            .check("removal of a used image")?;
        require("a used image is not removed", !gone && self.look_up(image).await?.is_some(), gone)?;
        self.driver.image_cache().needed()?.note_idle(&image.checksum, None).await.check("note of a used image")?;
        let found = self.look_up(image).await?;
        require("a used image is not idle", found.as_ref().is_some_and(|found| found.idle_since.is_none()), &found)
    }

    /// Checks an image that was never used by a guest.
    pub(super) async fn idle_image(&self) -> CheckOutcome {
        let (image, content) = image_of(Bytes::from(vec![9_u8; 70_000]));
        let source = Arc::new(CountingSource { content, opened: AtomicU32::new(0) });
        let ensure = || self.driver.ensure_image(&image, Arc::clone(&source) as Arc<dyn crate::driver::ImageSource>);
        let sum = image.checksum.as_str();
        let remove =
            async |by| self.driver.image_cache().needed()?.remove_image(sum, by).await.check("removal of an image");
        // A failed run may have left the image.
        self.driver.image_cache().needed()?.note_idle(sum, Some(THEN)).await.check("note of an image")?;
        remove(LATER).await?;
        self.driver
            .image_cache()
            .needed()?
            .note_idle(sum, Some(THEN))
            .await
            .check("note of an image that is not there")?;
        require("an image that is not in the cache cannot be removed", !remove(LATER).await?, ())?;
        let found = self.look_up(&image).await?;
        require("an image that is not in the cache is not listed", found.is_none(), &found)?;

        ensure().await.check("image that no guest uses")?;
        let found = self.look_up(&image).await?;
        let fresh = found.as_ref().is_some_and(|found| !found.is_used && found.idle_since.is_none());
        require("a new image is neither used nor idle", fresh, &found)?;
        require("an image that is not noted as idle is not removed", !remove(LATER).await?, ())?;
        self.driver.image_cache().needed()?.note_idle(sum, Some(LATER)).await.check("note")?;
        self.driver.image_cache().needed()?.note_idle(sum, Some(THEN)).await.check("note again")?;
        let found = self.look_up(&image).await?;
        let since = found.as_ref().and_then(|found| found.idle_since);
        require("the last note of idleness counts", since == Some(THEN), &found)?;
        require("an image that became idle after the limit is not removed", !remove(Timestamp(THEN.0 - 1)).await?, ())?;
        ensure().await.check("image again")?;
        require("an image that was requested again is not removed", !remove(LATER).await?, ())?;
        self.driver.image_cache().needed()?.note_idle(sum, Some(THEN)).await.check("note once more")?;
        require("an image that became idle by the limit is removed", remove(THEN).await?, ())?;
        let found = self.look_up(&image).await?;
        require("a removed image is not listed", found.is_none(), &found)?;
        require("a removed image cannot be removed again", !remove(LATER).await?, ())?;
        ensure().await.check("image after its removal")?;
        let opened = source.opened.load(Ordering::SeqCst);
        require("a removed image is sent again", opened == 2, opened)?;
        self.driver
            .image_cache()
            .needed()?
            .note_idle(sum, Some(THEN))
            .await
            .check("note of an image that was sent again")?;
        require("an image is removed a second time", remove(LATER).await?, ())
    }
}
