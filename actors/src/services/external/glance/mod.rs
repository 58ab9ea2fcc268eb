//! Real Glance, as [`ImageService`](crate::ports::ImageService).
//!
//! - [`document`]: an image as Glance shows it;
//! - [`content`]: an image's bytes on their way;
//! - [`images`]: the port;
//! - [`resources`]: its optional part for Nova's old API.
//!
//! Invariants: a user's request reaches Glance with the user's token, so Glance applies the user's rights. Chronova
//! writes into a user's project with the user's token, as long as it has that token. Bytes reach a host only after an
//! inspection. The host compares them with the checksum that Glance showed when the request was accepted.

pub mod content;
pub mod document;
pub mod images;
pub mod resources;

#[cfg(test)]
mod tests;

pub use images::GlanceImages;
