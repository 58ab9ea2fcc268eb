//! Real Glance, as [`ImageService`](crate::ports::ImageService).
//!
//! - [`document`]: the document of an image in Glance's API;
//! - [`content`]: streams of image bytes;
//! - [`ceph_download`]: bytes that come from Ceph instead of Glance;
//! - [`images`]: the implementation of the port;
//! - [`resources`]: the optional part of the port, for Nova's old API.
//!
//! Invariants: a user's request reaches Glance with the user's token, so Glance applies the user's rights. Chronova
//! writes into a user's project with the user's token, as long as Chronova has that token. Bytes reach a host only
//! after an inspection. The host compares them with the checksum that Glance showed when the request was accepted; for
//! a server that Nova built, with the MD5 that Glance showed to Nova.

pub mod ceph_download;
pub mod content;
pub mod document;
pub mod images;
pub mod resources;

#[cfg(test)]
mod tests;

pub use ceph_download::CephDownload;
pub use images::GlanceImages;

/// The media type of a JSON patch (RFC 6902) in Glance's API.
const PATCH: &str = "application/openstack-images-v2.1-json-patch";
