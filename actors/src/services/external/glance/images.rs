//! Implements [`ImageService`] and [`ImageSource`] with Glance's images and their bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId, RequestId};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::capability::snapshots::PlacedCopy;
use chronova_hypervisor::driver::{ByteStream, DriverError, DriverResult, ImageSource};
use chronova_hypervisor::guest::ImageRef;
use serde::Deserialize;
use serde_json::json;

use super::PATCH;
use super::ceph_download::CephDownload;
use super::content::{SentContent, counted, look, verified};
use super::document::{GlanceImage, ImagePage, is_md5, new_image};
use crate::ports::{ImageDraft, ImageResources, ImageService, PortError, ServiceCaller, UserToken};
use crate::services::external::http::{CallFailure, OpenedAnswer, ServiceAnswer, ServiceRequest, pause_of, query_of};
use crate::services::external::keystone::{Asker, CalledService, SharedUserTokens};

/// Images in one page of a list.
const PAGE: usize = 500;
/// The most pages that are read.
const MOST_PAGES: usize = 20;
/// The longest wait until Glance gives up an interrupted upload. The timeout of a call limits the wait, too.
const GIVES_UP: Duration = Duration::from_secs(10);

/// The image service of the cloud, Glance.
#[derive(Debug)]
pub struct GlanceImages {
    service: Arc<CalledService>,
    /// The tokens of the users whose requests began the calling processes.
    users: SharedUserTokens,
    /// How images are read from Ceph; `None`: Glance sends all of them.
    download: Option<CephDownload>,
}

impl GlanceImages {
    pub fn new(service: Arc<CalledService>, users: SharedUserTokens, download: Option<CephDownload>) -> Arc<Self> {
        Arc::new(Self { service, users, download })
    }

    pub fn service(&self) -> &Arc<CalledService> {
        &self.service
    }

    pub(super) async fn ask(
        &self,
        asker: Asker<'_>,
        request: Option<&RequestId>,
        call: impl Fn(&str) -> ServiceRequest + Send + Sync,
    ) -> Result<ServiceAnswer, PortError> {
        self.service.call(asker, request, call).await.map_err(|failure| unanswered(&failure))
    }

    pub(super) async fn show_image(
        &self,
        asker: Asker<'_>,
        image: ImageId,
        request: Option<&RequestId>,
    ) -> Result<GlanceImage, PortError> {
        let answer = self.ask(asker, request, |root| ServiceRequest::get(format!("{root}/images/{image}"))).await?;
        match answer.status {
            200 => read(&answer),
            // Glance answers 403 or 404 for an image that the caller may not see.
            403 | 404 => Err(not_found(image)),
            _ => Err(refused("shows no image", asker, &answer)),
        }
    }

    /// Whether the image's owner shares the image with the project `with`.
    async fn is_shared(&self, image: ImageId, with: &ProjectId) -> Result<bool, PortError> {
        let call = |root: &str| ServiceRequest::get(format!("{root}/images/{image}/members/{with}"));
        let answer = self.ask(Asker::Own, None, call).await?;
        match answer.status {
            200 => Ok(true),
            403 | 404 => Ok(false),
            _ => Err(refused("shows no member of an image", Asker::Own, &answer)),
        }
    }

    /// The content of an image as a stream. If the user's token has expired, Chronova's own account fetches the
    /// content. The user's right was checked when the request was accepted.
    async fn content(&self, image: ImageId, meta: Option<&Meta>) -> Result<ByteStream, PortError> {
        let user = meta.and_then(|meta| self.users.of(meta));
        let request = meta.and_then(|meta| meta.request_id.as_ref());
        if let Some(user) = &user {
            match self.begin_content(image, Asker::User(user), request).await? {
                answer if answer.status() == 401 => {}
                answer => return taken(image, answer),
            }
        }
        taken(image, self.begin_content(image, Asker::Own, request).await?)
    }

    async fn begin_content(
        &self,
        image: ImageId,
        asker: Asker<'_>,
        request: Option<&RequestId>,
    ) -> Result<OpenedAnswer, PortError> {
        let (begun, mut made) = (Instant::now(), 0);
        loop {
            let call = |root: &str| ServiceRequest::get(format!("{root}/images/{image}/file"));
            let opened = self.service.open(asker, request, call).await;
            // A service that hangs uses up the whole timeout at the first attempt, so there is no second attempt.
            let last = made == self.service.options().retries || begun.elapsed() >= self.service.options().timeout;
            match opened {
                Ok(answer) if answer.status() < 500 || last => return Ok(answer),
                Err(failure) if last => return Err(unanswered(&failure)),
                _ => tokio::time::sleep(pause_of(made)).await,
            }
            made += 1;
        }
    }

    /// The image for a server. If Glance does not know the virtual size of a qcow2 image, the size comes from the
    /// header of the content.
    async fn complete(&self, found: GlanceImage, meta: Option<&Meta>) -> Result<ImageSnapshot, PortError> {
        let mut snapshot = found.snapshot()?;
        if found.virtual_size.is_none_or(|size| size == 0) && snapshot.format == "qcow2" && snapshot.size > 0 {
            let judged = look(self.content(found.id, meta).await?, snapshot.size, "qcow2").await;
            let (judged, _) = judged.map_err(|error| PortError::Unavailable(error.to_string()))?;
            let inspected =
                judged.map_err(|error| PortError::Invalid(format!("Image {} is unacceptable: {error}", found.id)))?;
            snapshot.virtual_size = inspected.virtual_size.unwrap_or(snapshot.size);
        }
        Ok(snapshot)
    }

    /// Waits until Glance has given up an interrupted upload, so that the next upload finds the image empty. Returns
    /// `false` if the image is still `saving` after the wait.
    async fn given_up(&self, asker: Asker<'_>, image: ImageId, request: Option<&RequestId>) -> bool {
        let is_saving = async {
            while self.show_image(asker, image, request).await.is_ok_and(|found| found.status == "saving") {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(GIVES_UP.min(self.service.options().timeout), is_saving).await.is_ok()
    }

    /// Compares the stored image with the bytes that were sent. If they differ, the image does not hold the server's
    /// disk, so the image is deleted.
    async fn compare(
        &self,
        asker: Asker<'_>,
        image: ImageId,
        sent: &SentContent,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let stored = self.show_image(asker, image, meta.request_id.as_ref()).await?;
        let by_sha512 = stored.os_hash_algo.as_deref() == Some("sha512");
        let same = stored.size == Some(sent.size)
            && (!by_sha512 || stored.os_hash_value.as_deref() == Some(sent.sha512.as_str()));
        if stored.status == "active" && !same {
            let _ = self.delete_known(image, meta).await;
            return Err(PortError::Invalid(format!(
                "Glance stored different data for image {image} than was uploaded."
            )));
        }
        Ok(())
    }

    /// After an upload without an answer, Glance may show the image as complete. If the image then does not have
    /// exactly the bytes of the server's disk, it is deleted. `sent`: the bytes, if all of them were sent.
    async fn drop_wrong(
        &self,
        asker: Asker<'_>,
        image: ImageId,
        sent: Option<&SentContent>,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        if let Some(sent) = sent {
            return self.compare(asker, image, sent, meta).await;
        }
        if self.show_image(asker, image, meta.request_id.as_ref()).await?.status == "active" {
            let _ = self.delete_known(image, meta).await;
        }
        Ok(())
    }

    /// Deletes the image with Chronova's own account if Glance does not accept the user's token any more. So failed
    /// work leaves nothing behind.
    async fn delete_known(&self, image: ImageId, meta: &Meta) -> Result<(), PortError> {
        let user = self.users.of(meta);
        let (asker, request) = (asker_of(user.as_ref()), meta.request_id.as_ref());
        let call = |root: &str| ServiceRequest::delete(format!("{root}/images/{image}"));
        let mut answer = self.ask(asker, request, call).await?;
        if answer.status == 401 && user.is_some() {
            answer = self.ask(Asker::Own, request, call).await?;
        }
        match answer.status {
            204 => Ok(()),
            404 => Err(not_found(image)),
            _ => Err(refused("deletes no image", asker, &answer)),
        }
    }

    /// Reads all pages of a list, newest image first, but at most [`MOST_PAGES`].
    pub(super) async fn pages(
        &self,
        asker: Asker<'_>,
        request: Option<&RequestId>,
        query: &str,
    ) -> Result<Vec<GlanceImage>, PortError> {
        let mut all = Vec::new();
        let mut next = format!("/images?sort=created_at:desc&limit={PAGE}&{query}");
        for _ in 0..MOST_PAGES {
            let answer = self.ask(asker, request, |root| ServiceRequest::get(format!("{root}{next}"))).await?;
            if answer.status != 200 {
                return Err(refused("lists no images", asker, &answer));
            }
            let page: ImagePage = read(&answer)?;
            all.extend(page.images);
            match page.next {
                Some(more) => more.trim_start_matches("/v2").clone_into(&mut next),
                None => return Ok(all),
            }
        }
        tracing::warn!(most = PAGE * MOST_PAGES, "the list of images in Glance was cut off");
        Ok(all)
    }
}

/// The account that makes a process's requests to Glance: the user whose request began the process, if the user's token
/// is still known. Otherwise, for example after a restart, Chronova's own account makes them.
fn asker_of(user: Option<&UserToken>) -> Asker<'_> {
    user.map_or(Asker::Own, Asker::User)
}

fn taken(image: ImageId, answer: OpenedAnswer) -> Result<ByteStream, PortError> {
    match answer.status() {
        200 => Ok(answer.bytes()),
        204 => Err(PortError::Invalid(format!("Image {image} has no data."))),
        403 | 404 => Err(not_found(image)),
        status => Err(PortError::Unavailable(format!("Glance does not send the data of the image ({status})"))),
    }
}

pub(super) fn not_found(image: ImageId) -> PortError {
    PortError::NotFound(format!("Image {image} could not be found."))
}

fn unanswered(failure: &CallFailure) -> PortError {
    PortError::Unavailable(failure.to_string())
}

pub(super) fn read<T: for<'a> Deserialize<'a>>(answer: &ServiceAnswer) -> Result<T, PortError> {
    serde_json::from_slice(&answer.body)
        .map_err(|_| PortError::Unavailable("Glance's answer is not JSON of the expected form".to_owned()))
}

pub(super) fn refused(what: &str, asker: Asker<'_>, answer: &ServiceAnswer) -> PortError {
    let message = format!("Glance {what} ({})", answer.complaint());
    match (answer.status, asker) {
        (401, Asker::User(_)) => PortError::Forbidden(
            "Glance does not accept the user's token. If the token has expired, set [service_user] \
             send_service_user_token: then Glance accepts an expired token during long work."
                .to_owned(),
        ),
        (400, _) => PortError::Invalid(message),
        (404, _) => PortError::NotFound(message),
        (403 | 413, _) => PortError::Forbidden(message),
        (409, _) => PortError::Conflict(message),
        _ => PortError::Unavailable(message),
    }
}

#[async_trait]
impl ImageService for GlanceImages {
    async fn find(&self, image: ImageId, project: &ProjectId, is_admin: bool) -> Result<ImageSnapshot, PortError> {
        let found = self.show_image(Asker::Own, image, None).await?;
        let sees = is_admin || found.is_open() || found.belongs_to(project) || self.is_shared(image, project).await?;
        if sees { self.complete(found, None).await } else { Err(not_found(image)) }
    }

    async fn find_as(
        &self,
        image: ImageId,
        project: &ProjectId,
        caller: &ServiceCaller,
    ) -> Result<ImageSnapshot, PortError> {
        let Some(user) = &caller.token else { return self.find(image, project, caller.is_admin).await };
        let found = self.show_image(Asker::User(user), image, caller.meta.request_id.as_ref()).await?;
        self.complete(found, Some(&caller.meta)).await
    }

    async fn format_of(&self, image: ImageId, work: &Arc<Meta>) -> Result<String, PortError> {
        let user = self.users.of(work);
        let found = self.show_image(asker_of(user.as_ref()), image, work.request_id.as_ref()).await?;
        Ok(found.disk_format.unwrap_or_default())
    }

    async fn create(&self, draft: ImageDraft, meta: Arc<Meta>) -> Result<(), PortError> {
        let user = self.users.of(&meta);
        let (asker, request, image) = (asker_of(user.as_ref()), meta.request_id.as_ref(), draft.image);
        let body = new_image(&draft);
        let call = |root: &str| ServiceRequest::post(format!("{root}/images")).json(&body);
        let answer = self.ask(asker, request, call).await?;
        match answer.status {
            201 => Ok(()),
            409 => match self.show_image(asker, image, request).await {
                // An earlier attempt with the same draft created the image.
                Ok(found) if found.belongs_to(&draft.owner) && found.status == "queued" => Ok(()),
                _ => Err(refused("makes no image", asker, &answer)),
            },
            _ => Err(refused("makes no image", asker, &answer)),
        }
    }

    async fn upload(&self, image: ImageId, bytes: ByteStream, meta: Arc<Meta>) -> Result<(), PortError> {
        let user = self.users.of(&meta);
        let (asker, request) = (asker_of(user.as_ref()), meta.request_id.as_ref());
        match self.show_image(asker, image, request).await?.status.as_str() {
            "active" | "deactivated" => return Ok(()),
            // If Glance died during an upload, the image stays in `saving`, and Glance accepts no other upload.
            "saving" if !self.given_up(asker, image, request).await => {
                return Err(PortError::Conflict(format!("Image {image} is still being saved: Glance takes no bytes.")));
            }
            _ => {}
        }
        let (bytes, receipt) = counted(bytes);
        let call = |root: &str| ServiceRequest::put(format!("{root}/images/{image}/file"));
        let answer = self.service.upload(asker, request, call, bytes).await;
        match (answer, receipt.read()) {
            (Ok(answer), _) if answer.status >= 300 => {
                self.given_up(asker, image, request).await;
                Err(refused("takes no bytes", asker, &answer))
            }
            (Ok(_), Some(sent)) => self.compare(asker, image, &sent, &meta).await,
            (Ok(_), None) => {
                // Glance may have stored a part of the bytes as if it were the whole image.
                let _ = self.delete_known(image, &meta).await;
                Err(PortError::Unavailable("the upload of the image's data was interrupted".to_owned()))
            }
            (Err(failure), sent) => {
                self.given_up(asker, image, request).await;
                self.drop_wrong(asker, image, sent.as_ref(), &meta).await?;
                Err(unanswered(&failure))
            }
        }
    }

    fn takes_placed(&self) -> bool {
        true
    }

    async fn adopt(&self, image: ImageId, copy: &PlacedCopy, meta: Arc<Meta>) -> Result<(), PortError> {
        let user = self.users.of(&meta);
        let (asker, request) = (asker_of(user.as_ref()), meta.request_id.as_ref());
        if self.show_image(asker, image, request).await?.status != "queued" {
            return Ok(());
        }
        // Without the hash, nobody could check the image's data later.
        let hash = json!({"os_hash_algo": "sha512", "os_hash_value": copy.sha512});
        let place = json!({"url": copy.url, "metadata": {}, "validation_data": hash});
        let body = json!([{"op": "add", "path": "/locations/-", "value": place}]);
        let call = |root: &str| ServiceRequest::patch(format!("{root}/images/{image}")).json(&body).kind(PATCH);
        let answer = self.ask(asker, request, call).await?;
        match answer.status {
            200 => Ok(()),
            // Glance's `show_multiple_locations` is off, or its policy or `hashing_algorithm` forbids this.
            400 | 403 | 409 => {
                Err(PortError::Forbidden(format!("Glance takes no place of data ({})", answer.complaint())))
            }
            _ => Err(refused("takes no place of data", asker, &answer)),
        }
    }

    async fn delete(&self, image: ImageId, meta: Arc<Meta>) -> Result<(), PortError> {
        let meta = &meta;
        let delete = |earlier: Option<Result<(), PortError>>| async move {
            match (earlier, self.delete_known(image, meta).await) {
                (Some(Ok(())), Err(PortError::NotFound(_))) => Ok(()),
                (_, deleted) => deleted,
            }
        };
        let is_last = |deleted: &Result<(), PortError>| matches!(deleted, Err(PortError::Unavailable(_)));
        // Glance may still create the image for a call that had no answer in time.
        self.service.again_if_late(meta.request_id.as_ref(), delete, is_last).await
    }

    async fn backups(&self, like: ImageId, instance: InstanceId, kind: &str) -> Result<Vec<ImageId>, PortError> {
        let owner = match self.show_image(Asker::Own, like, None).await {
            Ok(found) => found.owner,
            Err(PortError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let Some(owner) = owner else { return Ok(Vec::new()) };
        let query = [
            ("owner", owner.as_str()),
            ("status", "active"),
            ("image_type", "backup"),
            ("backup_type", kind),
            ("instance_uuid", &instance.to_string()),
        ];
        let mut found = self.pages(Asker::Own, None, &query_of(&query)).await?;
        found.retain(|image| image.owner.as_deref() == Some(owner.as_str()));
        Ok(found.iter().map(|image| image.id).collect())
    }

    async fn open_as(&self, image: &ImageRef, meta: &Meta) -> DriverResult<ByteStream> {
        self.open_content(image, Some(meta)).await
    }

    async fn places_as(&self, image: &ImageRef, meta: &Meta) -> DriverResult<Vec<String>> {
        Ok(self.shown_for_content(image, Some(meta)).await?.places())
    }

    fn resources(&self) -> Option<&dyn ImageResources> {
        Some(self)
    }
}

impl GlanceImages {
    /// Opens the content for a server's disk. The inspection refuses content that refers to another file. The host
    /// later compares the checksum of all bytes. If that checksum is an MD5, the bytes are also compared with Glance's
    /// SHA-2, because other content may have the same MD5. Glance has no SHA-2 of an image that a release before Rocky
    /// stored.
    async fn open_content(&self, image: &ImageRef, meta: Option<&Meta>) -> DriverResult<ByteStream> {
        let unread = |error: PortError| unread(image, error);
        let unusable = |reason: String| unusable(image, reason);
        let found = self.shown_for_content(image, meta).await?;
        let format = found.disk_format.clone().unwrap_or_default();
        let checked = |bytes| match found.sha2().filter(|_| is_md5(&image.checksum)) {
            Some(sha2) => verified(bytes, sha2),
            None => bytes,
        };
        let of_ceph = match self.download.as_ref().and_then(|download| download.open(image.id, &found.places())) {
            Some(Ok(bytes)) => Some(look(checked(bytes), image.size, &format).await),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        let looked = match of_ceph {
            Some(Ok(looked)) => {
                tracing::info!(image = %image.id, "reading an image from Ceph");
                Ok(looked)
            }
            failed => {
                if let Some(Err(error)) = failed {
                    tracing::warn!(image = %image.id, %error, "an image cannot be read from Ceph; Glance sends it");
                }
                let bytes = self.content(image.id, meta).await.map_err(unread)?;
                look(checked(bytes), image.size, &format).await
            }
        };
        let (judged, bytes) = looked.map_err(|error| unread(PortError::Unavailable(error.to_string())))?;
        judged.map_err(|error| unusable(error.to_string()))?;
        Ok(bytes)
    }

    /// The image, if it still has the content that `image` names.
    async fn shown_for_content(&self, image: &ImageRef, meta: Option<&Meta>) -> DriverResult<GlanceImage> {
        let user = meta.and_then(|meta| self.users.of(meta));
        let request = meta.and_then(|meta| meta.request_id.as_ref());
        let found = match self.show_image(asker_of(user.as_ref()), image.id, request).await {
            Err(PortError::Forbidden(_)) if user.is_some() => self.show_image(Asker::Own, image.id, request).await,
            shown => shown,
        };
        let found = found.map_err(|error| unread(image, error))?;
        found.has_content(&image.checksum).map_err(|reason| unusable(image, reason))?;
        Ok(found)
    }
}

fn unusable(image: &ImageRef, reason: String) -> DriverError {
    DriverError::BadImage { image: image.id.to_string(), reason }
}

fn unread(image: &ImageRef, error: PortError) -> DriverError {
    match error {
        PortError::Unavailable(reason) => DriverError::ImageUnread { image: image.id.to_string(), reason },
        other => unusable(image, other.to_string()),
    }
}

#[async_trait]
impl ImageSource for GlanceImages {
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        self.open_content(image, None).await
    }
}
