//! Finds leftovers on a host: volumes that an interrupted operation of a control plane left. They are no guest's disks and
//! no whole images.
//!
//! A driver lists them. It cannot know which are still needed: the caller compares them with the log (see the sweep of the
//! host agents). Each is removed by its name, so that a second removal does nothing.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::ids::{ImageId, InstanceId};

use crate::driver::DriverResult;
use crate::volumes;

/// A volume that may have no use any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leftover {
    /// A copy of a guest's root disk, complete or not, on its way to become this image.
    Copy { instance: InstanceId, copy: ImageId },
    /// A disk as it was before a move that kept it in place: the volume's name without the guest's id.
    Kept { instance: InstanceId, suffix: String },
    /// The content of an image without the mark that it is whole: its upload was torn, or is at work.
    TornImage { checksum: String },
}

#[async_trait]
pub trait StorageCleanup: Send + Sync {
    /// The guests that are not defined and of which disk volumes are left.
    async fn orphans(&self) -> DriverResult<Vec<InstanceId>>;
    /// Lists the leftovers. A volume that another host on the same storage has just made may be missing.
    async fn leftovers(&self) -> DriverResult<Vec<Leftover>>;
    /// Removes what a torn upload left of an image. One that is whole, that is being uploaded through this driver, or that a
    /// disk on this host is based on all the same stays, and is no error.
    async fn remove_torn_image(&self, checksum: &str) -> DriverResult<()>;
}

/// The leftovers among the names of a host's volumes.
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
    fn names_tell_what_is_left_and_what_belongs_to_somebody() {
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
        assert_eq!(among(&[volumes::copy_complete(instance, copy)]), expected[..1], "a mark alone is one, too");
    }
}
