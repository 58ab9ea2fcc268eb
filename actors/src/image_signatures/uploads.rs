//! Verifies an image during its upload, as Glance does.
//!
//! The content is hashed on its way to the image service. If its signature is wrong, an error follows the last byte, so
//! the service discards the content.

use std::io;

use chronova_events::envelope::Meta;
use chronova_hypervisor::driver::ByteStream;
use futures::{StreamExt as _, stream};
use tokio::sync::watch;

use super::check::ImageSignatures;
use super::fault::SignatureFault;

/// Says, after the content of an upload has been read, why it was refused.
#[derive(Debug, Clone)]
pub struct UploadRefusal(watch::Receiver<Option<SignatureFault>>);

impl UploadRefusal {
    /// `None`: the content has not been refused.
    pub fn get(&self) -> Option<SignatureFault> {
        self.0.borrow().clone()
    }
}

impl ImageSignatures {
    /// Lets the content of an image through, and verifies its signature on the way. An image is not verified if its
    /// properties describe no signature, or if the cloud has no key manager.
    ///
    /// # Errors
    /// The signature's description is wrong, or its certificate cannot be read.
    pub async fn guard(
        &self,
        properties: &[(String, String)],
        work: &Meta,
        content: ByteStream,
    ) -> Result<(ByteStream, UploadRefusal), SignatureFault> {
        let (refused, refusal) = watch::channel(None);
        let Some(check) = self.check_of_upload(properties, work).await? else {
            return Ok((content, UploadRefusal(refusal)));
        };
        let begin = Some((content, check.method().begin(), check, refused));
        let guarded = stream::unfold(begin, |state| async move {
            let (mut content, mut hash, check, refused) = state?;
            match content.next().await {
                Some(Ok(piece)) => {
                    hash.update(&piece);
                    Some((Ok(piece), Some((content, hash, check, refused))))
                }
                Some(Err(error)) => Some((Err(error), None)),
                None => {
                    let fault = check.judge(&hash.finish()).err()?;
                    refused.send_replace(Some(fault.clone()));
                    Some((Err(io::Error::other(fault)), None))
                }
            }
        });
        Ok((Box::pin(guarded), UploadRefusal(refusal)))
    }
}
