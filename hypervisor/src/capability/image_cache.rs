//! Lists a host's cached images, says whether a disk needs them, and since when none does.
//!
//! A driver lists and removes; its caller decides. The caller's notes are kept beside the image, so that they
//! outlive the control plane: a mark says since when the image is unused. The mark goes as soon as a guest needs the image,
//! and an image without it is never removed.
//!
//! Invariants: an image that a disk in the cache's directory is based on, or that a guest has open, is not removed, whoever
//! asks; a removal that is torn leaves what is taken for no image, and is finished by the next one.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chronova_events::envelope::Timestamp;

use crate::driver::DriverResult;
use crate::volumes;

/// An image in a host's cache, or what a torn removal left of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedImage {
    pub checksum: String,
    /// Bytes of the file.
    pub size: u64,
    /// Whether a disk is based on it, or a guest has it open. On storage that hosts share: any disk there.
    pub is_used: bool,
    /// The last note. `None`: the image was asked for since, or was not looked at yet.
    pub idle_since: Option<Timestamp>,
}

#[async_trait]
pub trait ImageCache: Send + Sync {
    /// Every cached image, except those that are still being sent to the host.
    async fn cached_images(&self) -> DriverResult<Vec<CachedImage>>;
    /// Notes since when nobody uses the image; `None`: it is used.
    async fn note_idle(&self, checksum: &str, since: Option<Timestamp>) -> DriverResult<()>;
    /// Removes an image that was noted to be idle since then or earlier, and says whether it went. One that is used, younger,
    /// being sent to the host or not there stays as it is, and is no error.
    async fn remove_image(&self, checksum: &str, idle_by: Timestamp) -> DriverResult<bool>;
}

/// Which of its volumes an image has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CachedImageParts {
    content: bool,
    complete: bool,
    idle: bool,
}

/// The checksums of the images among the names of a host's volumes, and which of them are noted to be idle. A content alone
/// is a torn upload's (see [`crate::capability::storage_cleanup`]), or is just being sent.
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
    fn names_tell_images_from_what_is_being_sent() {
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
