//! The place of an image's data in Ceph, as Glance names it.

use chronova_events::ids::ImageId;

/// The name of the snapshot that Glance makes of each of its images.
pub(crate) const SNAPSHOT: &str = "snap";

/// The snapshot with the data of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CephPlace {
    /// The cluster's id.
    pub cluster: String,
    pub pool: String,
    pub image: String,
    pub snapshot: String,
}

impl CephPlace {
    /// The places of this image among the URLs. Glance names an image's data after the image. Other names are refused.
    /// Otherwise a user who may add places to images could read the disk of another project. Glance's Ceph user cannot
    /// read disks and volumes, but Chronova's Ceph user can.
    pub fn of_image(image: ImageId, urls: &[String]) -> Vec<Self> {
        let name = image.to_string();
        let places = urls.iter().filter_map(|url| Self::of_url(url));
        places.filter(|place| place.image == name && place.snapshot == SNAPSHOT).collect()
    }

    /// Reads `rbd://FSID/POOL/IMAGE/SNAPSHOT`. `None` for any other URL. Glance encodes the parts of the URL. A part
    /// with an encoded character is refused, because Glance's own names need none.
    fn of_url(url: &str) -> Option<Self> {
        let parts: Vec<&str> = url.strip_prefix("rbd://")?.split('/').collect();
        let [cluster, pool, image, snapshot] = parts.as_slice() else { return None };
        let is_plain = |part: &&str| {
            !part.is_empty()
                && !part.starts_with('-')
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        parts.iter().all(is_plain).then(|| Self {
            cluster: (*cluster).to_owned(),
            pool: (*pool).to_owned(),
            image: (*image).to_owned(),
            snapshot: (*snapshot).to_owned(),
        })
    }

    /// `POOL/IMAGE@SNAPSHOT`, as Ceph's programs take it.
    pub fn name(&self) -> String {
        format!("{}/{}@{}", self.pool, self.image, self.snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_named_after_the_image_are_its_data() {
        let image: ImageId = "8e54d1bd-2b0c-4c0e-9d2f-6d8a3a5f0b11".parse().unwrap();
        let urls = [
            format!("rbd://fsid/vms/{image}_disk/snap"),
            format!("rbd://fsid/volumes/volume-{image}/snap"),
            format!("rbd://fsid/images/{image}/other"),
            format!("rbd://fsid/images/{image}/snap"),
        ];
        let found = CephPlace::of_image(image, &urls);
        assert_eq!(found.iter().map(CephPlace::name).collect::<Vec<_>>(), [format!("images/{image}@snap")]);
    }

    #[test]
    fn only_whole_addresses_in_ceph_are_read() {
        let found = CephPlace::of_url("rbd://457eb676-33da-42ec-9a8c-9293d545c337/images/7a1f6f5c/snap").unwrap();
        assert_eq!(found.cluster, "457eb676-33da-42ec-9a8c-9293d545c337");
        assert_eq!((found.pool.as_str(), found.name().as_str()), ("images", "images/7a1f6f5c@snap"));
        for other in [
            "rbd://image",
            "rbd://fsid/images/7a1f6f5c",
            "rbd://fsid/images/7a1f6f5c/snap/more",
            "rbd://fsid/images//snap",
            "rbd://fsid/images/a%2Fb/snap",
            "rbd://fsid/images/a@b/snap",
            "rbd://fsid/-p/a/snap",
            "file:///images/7a1f6f5c",
            "",
        ] {
            assert_eq!(CephPlace::of_url(other), None, "{other}");
        }
    }
}
