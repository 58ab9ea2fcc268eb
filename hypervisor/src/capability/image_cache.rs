//! Lists the images in a host's cache. For each image, the list says whether a disk uses the image, and if not, since
//! when.
//!
//! The driver lists and removes images; its caller decides. The caller's notes are stored beside the image, so that
//! they survive the control plane. A note says since when the image is unused. The driver removes the note as soon as a
//! guest needs the image. An image without a note is never removed.
//!
//! Invariants: an image stays if a disk in the cache's directory is based on the image, or if a guest has the image
//! open. An interrupted removal leaves files that are no complete image. The next removal removes the rest.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chronova_events::envelope::Timestamp;

use crate::driver::DriverResult;
use crate::volumes;

/// An image in a host's cache, or the remaining files of an image after an interrupted removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedImage {
    pub checksum: String,
    /// The size of the file in bytes.
    pub size: u64,
    /// Whether a disk is based on the image, or a guest has it open. On shared storage, this includes the disks of all
    /// hosts.
    pub is_used: bool,
    /// Since when the image is unused, by the caller's last note. `None`: there is no note, because the image was used
    /// since the last note, or because it was never noted as unused.
    pub idle_since: Option<Timestamp>,
}

#[async_trait]
pub trait ImageCache: Send + Sync {
    /// Every cached image, except those that are being uploaded to the host.
    async fn cached_images(&self) -> DriverResult<Vec<CachedImage>>;
    /// Writes a note that says since when the image is unused. With `None`, the image is used, and the driver removes
    /// the note.
    async fn note_idle(&self, checksum: &str, since: Option<Timestamp>) -> DriverResult<()>;
    /// Removes an image that was noted as unused at `idle_by` or earlier. Returns whether it was removed. Returns
    /// `false` without an error if the image is used, was noted later, is being uploaded or does not exist.
    async fn remove_image(&self, checksum: &str, idle_by: Timestamp) -> DriverResult<bool>;
}

/// The existing volumes of an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CachedImageParts {
    content: bool,
    complete: bool,
    idle: bool,
}

/// Finds the images among the names of a host's volumes. Returns each image's checksum, and whether the image has a
/// note. Content without the mark `complete` belongs to an upload that was interrupted (see
/// [`crate::capability::storage_cleanup`]) or is running.
pub(crate) fn among(names: &[String]) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::<String, CachedImageParts>::new();
    for name in names {
        let (base, suffix) = name.split_once('.').unwrap_or((name, ""));
        let Some(checksum) = volumes::based_on(base) else { continue };
        let parts = found.entry(checksum.to_owned()).or_default();
        match suffix {
            "" if name == base => parts.content = true,
            "complete" => parts.complete = true,
            "idle" => parts.idle = true,
            _ => {}
        }
    }
    found.into_iter().filter(|(_, parts)| parts.complete || parts.idle).map(|(sum, parts)| (sum, parts.idle)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_distinguish_images_from_uploads() {
        let sum = |byte: &str| byte.repeat(32);
        let names = [
            format!("base-{}", sum("aa")),
            format!("base-{}.complete", sum("aa")),
            format!("base-{}", sum("bb")),
            format!("base-{}", sum("cc")),
            format!("base-{}.complete", sum("cc")),
            volumes::base_idle(&sum("cc")),
            volumes::base_idle(&sum("dd")),
            format!("base-{}.mine", sum("ee")),
            "base-notes.idle".to_owned(),
            "11111111-2222-3333-4444-555555555555_disk".to_owned(),
        ];
        let expected = [(sum("aa"), false), (sum("cc"), true), (sum("dd"), true)];
        assert_eq!(among(&names).into_iter().collect::<Vec<_>>(), expected);
    }
}
