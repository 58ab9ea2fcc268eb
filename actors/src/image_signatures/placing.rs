//! Puts an image on a host, and verifies its signature.
//!
//! | the content's digest | what happens |
//! |---|---|
//! | is the image's checksum (same hash method), or is known | the signature is verified before the image is placed |
//! | is not known, and the host lacks the image | the download is hashed, and fails at its end on a wrong signature |
//! | is not known, and the host has the image | the image service's content is read once, and hashed |
//!
//! The digest of a hashed download is kept only after the host has found the content's checksum right.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_hypervisor::driver::{ByteStream, BytesAlone, Driver, DriverError, DriverResult, ImageSource};
use chronova_hypervisor::guest::ImageRef;
use futures::{StreamExt as _, stream};
use thiserror::Error;
use tokio::sync::watch;

use super::check::{ImageSignatures, SignatureCheck};
use super::fault::SignatureFault;
use super::hash::{HashMethod, bytes_of_hex, hex};

/// An image for a host.
#[derive(Debug, Clone, Copy)]
pub struct ImageToPlace<'a> {
    pub image: &'a ImageRef,
    /// The properties of the image.
    pub properties: &'a [(String, String)],
    /// The trusted certificates of the server; empty if there is no server.
    pub trusted: &'a [String],
    /// The work for which the image is placed. It names the user who reads the certificates.
    pub work: &'a Meta,
}

/// Why an image is not on the host.
#[derive(Debug, Error)]
pub enum PlaceError {
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Signature(#[from] SignatureFault),
}

impl ImageSignatures {
    /// Puts the image into the host's cache, and verifies its signature if the configuration or the server asks for it.
    /// A download that fails the check leaves nothing on the host.
    pub async fn place(
        &self,
        driver: &dyn Driver,
        source: Arc<dyn ImageSource>,
        wanted: ImageToPlace<'_>,
    ) -> Result<(), PlaceError> {
        let image = wanted.image;
        let Some(check) = self.check(wanted.properties, wanted.trusted, wanted.work).await? else {
            return Ok(driver.ensure_image(image, source).await?);
        };
        if let Some(digest) = self.known(&check, image) {
            judge(&check, image, &digest)?;
            // The known digest belongs to content with this checksum. So the host must read the bytes and compare their
            // checksum; it may not clone the image in Ceph.
            return Ok(driver.ensure_image(image, Arc::new(BytesAlone(source))).await?);
        }
        let check = Arc::new(check);
        let (digest, seen) = watch::channel(None);
        let hashed = HashedSource { source: Arc::clone(&source), check: Arc::clone(&check), digest };
        let placed = driver.ensure_image(image, Arc::new(hashed)).await;
        let seen = seen.borrow().clone();
        if let Some(digest) = &seen {
            // If the signature is wrong, the host reports only an interrupted download. This check returns the true
            // reason.
            judge(&check, image, digest)?;
        }
        placed?;
        let digest = match seen.or_else(|| self.known(&check, image)) {
            Some(digest) => digest,
            None => read(source.as_ref(), image, check.method()).await?,
        };
        self.digests.keep(&image.checksum, check.method().name(), digest.clone());
        Ok(judge(&check, image, &digest)?)
    }

    /// The digest of the content, if it is known without reading the content.
    fn known(&self, check: &SignatureCheck, image: &ImageRef) -> Option<Vec<u8>> {
        let method = check.method();
        match HashMethod::of_checksum(&image.checksum) == Some(method) {
            true => bytes_of_hex(&image.checksum),
            false => self.digests.of(&image.checksum, method.name()),
        }
    }
}

fn judge(check: &SignatureCheck, image: &ImageRef, digest: &[u8]) -> Result<(), SignatureFault> {
    let judged = check.judge(digest);
    match &judged {
        Ok(()) => tracing::info!(image = %image.id, "the signature of an image was verified"),
        Err(error) => tracing::error!(image = %image.id, %error, "the signature of an image is wrong"),
    }
    judged
}

/// Reads the content of an image that the host has, and returns its digest. The content's checksum proves that the host
/// has the same content.
async fn read(source: &dyn ImageSource, image: &ImageRef, method: HashMethod) -> DriverResult<Vec<u8>> {
    let bad = |reason: &str| DriverError::BadImage { image: image.id.to_string(), reason: reason.to_owned() };
    let same =
        HashMethod::of_checksum(&image.checksum).ok_or_else(|| bad("its checksum is neither SHA-256 nor SHA-512"))?;
    let (mut content, mut hash, mut sum) = (source.open(image).await?, method.begin(), same.begin());
    let mut left = image.size;
    while let Some(piece) = content.next().await {
        let unread =
            |error: io::Error| DriverError::ImageUnread { image: image.id.to_string(), reason: error.to_string() };
        let piece = piece.map_err(unread)?;
        left = left.checked_sub(piece.len() as u64).ok_or_else(|| bad("it is longer than announced"))?;
        hash.update(&piece);
        sum.update(&piece);
    }
    match hex(&sum.finish()) == image.checksum {
        true => Ok(hash.finish()),
        false => Err(bad("its content does not match its checksum")),
    }
}

/// A source whose content is hashed on its way. The content ends with an error if its signature is wrong.
struct HashedSource {
    source: Arc<dyn ImageSource>,
    check: Arc<SignatureCheck>,
    /// The digest of the last content that was read to its end.
    digest: watch::Sender<Option<Vec<u8>>>,
}

#[async_trait]
impl ImageSource for HashedSource {
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        let content = self.source.open(image).await?;
        let (check, digest) = (Arc::clone(&self.check), self.digest.clone());
        let state = Some((content, check.method().begin()));
        Ok(Box::pin(stream::unfold(state, move |state| {
            let (check, digest) = (Arc::clone(&check), digest.clone());
            async move {
                let (mut content, mut hash) = state?;
                match content.next().await {
                    Some(Ok(piece)) => {
                        hash.update(&piece);
                        Some((Ok(piece), Some((content, hash))))
                    }
                    Some(Err(error)) => Some((Err(error), None)),
                    None => {
                        let found = hash.finish();
                        let judged = check.judge(&found);
                        digest.send_replace(Some(found));
                        judged.err().map(|fault| (Err(io::Error::other(fault)), None))
                    }
                }
            }
        })))
    }
}
