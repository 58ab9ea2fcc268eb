//! `/v2/images/{image_id}/file`: the bytes.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use chronova_actors::image_signatures::ImageSignatures;
use chronova_actors::services::embedded::image::embedded::EmbeddedImages;
use chronova_actors::services::embedded::image::files::IncomingUpload;
use chronova_actors::services::embedded::image::{ImageCommand, ImageRoot};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, UploadId};
use chronova_events::image::{ImageContent, ImageRecord};
use futures::StreamExt;
use futures::stream::BoxStream;

use super::access::permitted;
use super::answers;
use super::fault;
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::dispatch::Dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, get, put};

pub(super) const ROUTES: &[Route] = &[
    put("images.upload", "/images/{image_id}/file", handler!(upload))
        .policy_on_target("upload_image")
        .raw_body()
        .answers(no_content),
    get("images.download", "/images/{image_id}/file", handler!(download))
        .policy_on_target("download_image")
        .answers(answers::downloaded),
];

/// The most chunks that wait between the network and the writer.
const DEPTH: usize = 16;

async fn upload(mut ctx: Ctx) -> Result<Reply, Fault> {
    let (image, permit) = permitted(&ctx)?;
    check_media_type(&ctx)?;
    let announced = announced(&ctx)?;
    let upload = UploadId::random();
    let format = image.attributes.disk_format.clone().unwrap_or_default();
    let incoming = IncomingUpload { image: image.id, upload, format, announced };
    let bytes = ctx.take_payload_send(DEPTH);
    let (dispatch, images) = (ctx.app.dispatch()?.clone(), Arc::clone(ctx.app.images()?));
    let signed = SignedImage::of(&ctx, &image)?;
    // The upload runs in its own task from its first event on. If the client disconnects, this handler ends, but the
    // end of the upload must still be recorded.
    let done = tokio::spawn(async move { signed.store(&dispatch, &images, &permit, incoming, bytes).await });
    done.await.map_err(Fault::internal)??;
    Ok(Reply::empty(204))
}

fn check_media_type(ctx: &Ctx) -> Result<(), Fault> {
    match ctx.header("Content-Type") {
        Some(media) if media.eq_ignore_ascii_case("application/octet-stream") => Ok(()),
        other => Err(Fault::unsupported_media_type(format!(
            "Unsupported Content-Type: {}. Expected application/octet-stream",
            other.unwrap_or("none")
        ))),
    }
}

/// The number of bytes that the client announces.
fn announced(ctx: &Ctx) -> Result<Option<u64>, Fault> {
    let named = ctx.header("x-openstack-image-size").map(|text| {
        text.parse::<u64>().map_err(|_| Fault::bad_request(format!("Invalid x-openstack-image-size: {text}")))
    });
    let framed = ctx.header("Content-Length").and_then(|text| text.parse().ok());
    Ok(named.transpose()?.or(framed))
}

/// The signature that an image's properties describe, and the request for which Chronova reads the certificate.
struct SignedImage {
    signatures: Arc<ImageSignatures>,
    properties: Vec<(String, String)>,
    work: Arc<Meta>,
}

impl SignedImage {
    fn of(ctx: &Ctx, image: &ImageRecord) -> Result<Self, Fault> {
        // The key manager must apply the rights of this user, not those of Chronova's own account.
        ctx.app.keep_user_token(&ctx.requester, ctx.header("X-Auth-Token"));
        let signatures = Arc::clone(&ctx.queries()?.signatures);
        Ok(Self { signatures, properties: image.attributes.properties.clone(), work: ctx.service_caller().meta })
    }

    /// Records the start of the upload, and stores the image if its content has this signature. As in Glance, the image
    /// is deleted otherwise.
    async fn store(
        self,
        dispatch: &Dispatch,
        images: &EmbeddedImages,
        permit: &Permit,
        incoming: IncomingUpload,
        bytes: BoxStream<'static, io::Result<Bytes>>,
    ) -> Result<(), Fault> {
        let (image, upload) = (incoming.image, incoming.upload);
        // This command comes first, because it refuses an image that has its content already. So such an image is
        // neither verified nor deleted here.
        let started = dispatch::send::<ImageRoot>(dispatch, permit, &image, ImageCommand::StartUpload(upload)).await;
        started.map_err(|error| fault::of(image, error))?;
        let refused = match self.signatures.guard(&self.properties, &self.work, bytes).await {
            Ok((bytes, refusal)) => match receive(dispatch, images, permit, incoming, bytes).await {
                Ok(()) => return Ok(()),
                Err(fault) => refusal.get().ok_or(fault)?,
            },
            Err(refused) => {
                abandon(dispatch, permit, image, upload, refused.to_string()).await;
                refused
            }
        };
        if let Err(error) = dispatch::send::<ImageRoot>(dispatch, permit, &image, ImageCommand::Delete).await {
            tracing::warn!(%image, %error, "deleting an image with a wrong signature failed");
        }
        Err(Fault::bad_request(refused.to_string()))
    }
}

/// Receives the bytes of an upload that has started, and records the result, or records that the upload was abandoned.
async fn receive(
    dispatch: &Dispatch,
    images: &EmbeddedImages,
    permit: &Permit,
    incoming: IncomingUpload,
    bytes: BoxStream<'static, io::Result<Bytes>>,
) -> Result<(), Fault> {
    let (image, upload) = (incoming.image, incoming.upload);
    let stored = match images.files.receive(incoming, bytes).await {
        Ok(stored) => stored,
        Err(error) => {
            abandon(dispatch, permit, image, upload, error.to_string()).await;
            return Err(fault::of_upload(error));
        }
    };
    match dispatch::send::<ImageRoot>(dispatch, permit, &image, ImageCommand::Store(stored)).await {
        Ok(_) => Ok(()),
        Err(error) => {
            // A rejection means that the image was deleted, so its file is removed, too. After any other error the
            // event may be in the log, so the next start decides whether the file stays.
            if error.rejection().is_some()
                && let Err(error) = images.files.remove(image).await
            {
                tracing::warn!(%image, %error, "removing the file of a deleted image failed");
            }
            Err(fault::of(image, error))
        }
    }
}

async fn abandon(dispatch: &Dispatch, permit: &Permit, image: ImageId, upload: UploadId, reason: String) {
    let abandon = ImageCommand::AbandonUpload { upload, reason };
    if let Err(error) = dispatch::send::<ImageRoot>(dispatch, permit, &image, abandon).await {
        // If the image was deleted meanwhile, no upload is left to abandon. If the log is full, the next start abandons
        // the upload.
        tracing::warn!(%image, %error, "abandoning an upload failed");
    }
}

async fn download(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, _) = permitted(&ctx)?;
    // As in Glance, an image without bytes answers 204 without a body.
    let Some(stored) = image.content.stored() else { return Ok(Reply::empty(204)) };
    check_active(&ctx, &image)?;
    let range = range(ctx.header("Range"), stored.size)?;
    let (offset, length) = range.unwrap_or((0, stored.size));
    let bytes = ctx.app.images()?.files.read(image.id, offset, Some(length)).await.map_err(Fault::internal)?;
    let reply = Reply::stream("application/octet-stream", Some(length), bytes.boxed_local());
    Ok(match range {
        Some(part) => partial(reply, part, stored.size),
        None => reply.header("Content-MD5", stored.checksum.clone()),
    })
}

fn check_active(ctx: &Ctx, image: &ImageRecord) -> Result<(), Fault> {
    match image.content {
        ImageContent::Deactivated(_) if !ctx.caller().is_admin => {
            Err(Fault::forbidden("The requested image has been deactivated. Image data download is forbidden."))
        }
        _ => Ok(()),
    }
}

fn partial(mut reply: Reply, (offset, length): (u64, u64), size: u64) -> Reply {
    reply.status = 206;
    let last = (offset + length).saturating_sub(1);
    reply.header("Content-Range", format!("bytes {offset}-{last}/{size}"))
}

/// Offset and length of a `Range: bytes=...` with one range.
fn range(header: Option<&str>, size: u64) -> Result<Option<(u64, u64)>, Fault> {
    let Some(header) = header else { return Ok(None) };
    let bad = || Fault::new(416, "The Range header is not satisfiable.");
    let (first, last) = header.strip_prefix("bytes=").and_then(|range| range.split_once('-')).ok_or_else(bad)?;
    let parse = |text: &str| text.trim().parse::<u64>().map_err(|_| bad());
    let (start, end) = match (first.trim(), last.trim()) {
        ("", suffix) => (size.saturating_sub(parse(suffix)?), size),
        (start, "") => (parse(start)?, size),
        (start, last) => (parse(start)?, parse(last)?.saturating_add(1).min(size)),
    };
    if start >= end || start >= size {
        return Err(bad());
    }
    Ok(Some((start, end - start)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn ranges() {
        let of = |text| range(Some(text), 10).ok().flatten();
        assert_eq!(of("bytes=2-4"), Some((2, 3)));
        assert_eq!(of("bytes=7-"), Some((7, 3)));
        assert_eq!(of("bytes=-4"), Some((6, 4)));
        assert_eq!(of("bytes=0-99"), Some((0, 10)));
        for bad in ["bytes=10-", "bytes=5-4", "lines=1-2", "bytes=a-b", "bytes=1-2,4-5"] {
            assert!(range(Some(bad), 10).is_err(), "{bad}");
        }
        assert_eq!(range(None, 10).unwrap(), None);
    }
}
