//! An image for tests of checks that read only an image's properties.

use chronova_events::ids::ImageId;
use chronova_events::instance::ImageSnapshot;
use uuid::Uuid;

pub(crate) fn image_with(properties: &[(&str, &str)]) -> ImageSnapshot {
    ImageSnapshot {
        id: ImageId(Uuid::from_u128(3)),
        name: "cirros".into(),
        checksum: String::new(),
        format: "qcow2".into(),
        size: 1,
        virtual_size: 1,
        min_memory_mib: 0,
        min_disk_gib: 0,
        properties: properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    }
}
