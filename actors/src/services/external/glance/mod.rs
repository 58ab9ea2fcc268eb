//! Real Glance, as [`ImageService`](crate::ports::ImageService).
//!
//! - [`document`]: an image as Glance shows it, and as a server is made from it;
//! - [`content`]: an image's bytes on their way, with their checksum and a look at their format;
//! - [`images`]: the port.
//!
//! A user who waits is asked for as that user, with the service's token beside theirs; Glance's own rules then judge. A
//! process has no user's token, and asks as the service's own account: it outlives every token. What it makes belongs to
//! the project that it works for.

pub mod content;
pub mod document;
pub mod images;

pub use images::{GlanceImages, GlanceOptions};
