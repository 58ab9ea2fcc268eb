//! Finds leftovers on a host: volumes that an interrupted operation may have left.
//!
//! The driver lists these volumes, but cannot know which of them are still needed. The caller compares the list with
//! the log (see the sweep of the host agents). Each leftover is removed by its name, so that repeating a removal is
//! harmless.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::ids::{ImageId, InstanceId};

use crate::driver::DriverResult;
use crate::volumes;

/// A volume that may no longer be needed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leftover {
    /// A copy of a guest's root disk, complete or not, for this image.
    Copy { instance: InstanceId, copy: ImageId },
    /// A disk that a move set aside. `suffix` is the volume's name without the guest's id.
    Kept { instance: InstanceId, suffix: String },
    /// The content of an image without the mark of a complete upload: the upload was interrupted or is running.
    TornImage { checksum: String },
}

#[async_trait]
pub trait StorageCleanup: Send + Sync {
    /// The guests that have disk volumes here but no domain.
    async fn orphans(&self) -> DriverResult<Vec<InstanceId>>;
    /// Lists the leftovers. The list may lack a volume that another host on the same storage has just created.
    async fn leftovers(&self) -> DriverResult<Vec<Leftover>>;
    /// Removes the rest of an interrupted upload of an image. Does nothing if the image is complete, if this driver is
    /// uploading it, or if a disk on this host is based on it. None of these is an error.
    async fn remove_torn_image(&self, checksum: &str) -> DriverResult<()>;
}

/// Finds the leftovers among the names of a host's volumes.
pub(crate) fn among(names: &[String]) -> Vec<Leftover> {
    let there: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let found: BTreeSet<Leftover> = names.iter().filter_map(|name| leftover(name, &there)).collect();
    found.into_iter().collect()
}

fn leftover(name: &str, there: &BTreeSet<&str>) -> Option<Leftover> {
    if let Some(checksum) = volumes::based_on(name) {
        let whole = there.contains(volumes::complete(name).as_str());
        return (!whole).then(|| Leftover::TornImage { checksum: checksum.to_owned() });
    }
    let instance = volumes::owner(name)?;
    if let Some(copy) = volumes::copied_to(name) {
        return Some(Leftover::Copy { instance, copy });
    }
    let suffix = name.strip_prefix(&instance.to_string())?;
    suffix
        .starts_with(crate::capability::disk_transfer::KEPT)
        .then(|| Leftover::Kept { instance, suffix: suffix.to_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::capability::disk_transfer::DiskFile;
    use crate::conformance::pretended_image;

    #[test]
    fn names_distinguish_leftovers_from_used_volumes() {
        let (instance, copy) = (InstanceId::random(), ImageId::random());
        let (image, _) = pretended_image();
        let torn = "ab".repeat(32);
        let kept = DiskFile { suffix: "_disk.eph0".to_owned(), size: 0, capacity: 0, raw: false }.kept();
        let names = [
            volumes::root(instance),
            volumes::ephemeral(instance, 0),
            volumes::config_drive(instance),
            volumes::rescue(instance),
            volumes::console_log(instance),
            volumes::copy(instance, copy),
            volumes::copy_complete(instance, copy),
            volumes::suffixed(instance, &kept.suffix),
            volumes::base(&image),
            volumes::base_complete(&image),
            format!("base-{torn}"),
            "base-notes".to_owned(),
            format!("{instance}_copy.mine"),
            format!("base-{}.complete", "cd".repeat(32)),
        ];
        let expected = [
            Leftover::Copy { instance, copy },
            Leftover::Kept { instance, suffix: kept.suffix },
            Leftover::TornImage { checksum: torn },
        ];
        assert_eq!(among(&names), expected);
        assert_eq!(among(&[volumes::copy_complete(instance, copy)]), expected[..1], "a mark alone must be listed");
    }
}
