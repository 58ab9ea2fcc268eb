//! A cached image as a volume to copy from.

use roxmltree::Document;
use virt::connect::Connect;
use virt::storage_vol::StorageVol;

use super::error::Context;
use super::pool;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{ImageFormat, ImageRef};
use crate::options::LibvirtOptions;
use crate::volumes;

/// The image in the host's cache. Fails if libvirt detects another format than that of the image. libvirt may detect
/// the content of a raw image as `iso`, which is accepted.
pub(super) fn volume(connect: &Connect, options: &LibvirtOptions, image: &ImageRef) -> DriverResult<StorageVol> {
    let bad = |reason: &str| DriverError::BadImage { image: image.id.to_string(), reason: reason.to_owned() };
    let cache = pool::open(connect, options)?;
    // The cached file was created as a raw volume and filled later, so libvirt must detect its format again.
    pool::refresh(&cache);
    let base = pool::lookup(&cache, &volumes::base(image))?.ok_or_else(|| bad("it is not in the host's cache"))?;
    let (seen, wanted) = (format_seen(&base)?, format_name(image.format));
    match (seen.as_str(), wanted) {
        ("qcow2", "qcow2") => Ok(base),
        // libvirt refuses a refresh while a volume is being written. A later attempt succeeds.
        ("raw", "qcow2") => Err(DriverError::Timeout { call: "image lookup", seconds: 0 }),
        ("raw" | "iso", "raw") => Ok(base),
        _ => Err(bad(&format!("it was declared as {wanted}, but its content is {seen}"))),
    }
}

/// The volume's format, as libvirt detected it.
pub(super) fn format_seen(volume: &StorageVol) -> DriverResult<String> {
    let xml = volume.xml_desc(0).during("volume")?;
    let document =
        Document::parse(&xml).map_err(|error| DriverError::Failed { call: "volume", message: error.to_string() })?;
    let mut nodes = document.descendants().filter(|node| node.has_tag_name("format"));
    Ok(nodes.find_map(|node| node.attribute("type")).unwrap_or_default().to_owned())
}

/// The image's format by libvirt's name.
pub(super) fn format_name(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Qcow2 => "qcow2",
        ImageFormat::Raw | ImageFormat::Iso => "raw",
    }
}
