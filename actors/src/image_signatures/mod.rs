//! Signatures of images, and the certificates that prove them.
//!
//! - [`properties`]: the image properties that describe a signature;
//! - [`hash`]: the hash methods, for content that arrives in pieces;
//! - [`public_key`]: signatures by RSA and by elliptic curves;
//! - [`certificate`]: X.509 certificates;
//! - [`chain`]: a chain of certificates up to a trusted root;
//! - [`fault`]: Nova's messages about a signature or a certificate;
//! - [`check`]: when an image is verified, and with which certificates;
//! - [`placing`]: puts an image on a host, and verifies its signature;
//! - [`uploads`]: verifies an image during its upload to the embedded image service.
//!
//! Nova verifies while it downloads an image, and never verifies an image in a host's cache. Here, an image in a cache
//! is verified, too. A cached image is identified by the checksum of its content, so a digest of that content holds for
//! every image with the checksum. [`crate::coordination::known_digests`] remembers the digests.
//!
//! Invariants: a download is hashed while it goes to the host, so it is read once. If the signature is wrong, an error
//! follows the last byte, so the host discards the download. [`chain`] reads no clock, because the time is an argument.

pub mod certificate;
pub mod chain;
pub mod check;
pub mod fault;
pub mod hash;
pub mod placing;
pub mod properties;
pub mod public_key;
pub mod uploads;

#[cfg(test)]
mod tests;

pub use check::{ImageSignatures, SignatureOptions};
pub use fault::SignatureFault;
pub use placing::{ImageToPlace, PlaceError};
pub use uploads::UploadRefusal;
