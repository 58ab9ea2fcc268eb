//! The port: images in Glance, and their bytes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId, RequestId};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::driver::{ByteStream, DriverError, DriverResult, ImageSource};
use chronova_hypervisor::guest::ImageRef;
use serde::Deserialize;

use super::content::{checked, counted, look, read_receipt};
use super::document::{GlanceImage, body};
use crate::ports::{ImageDraft, ImageService, PortError, ServiceCaller};
use crate::services::external::http::{
    CallFailure, CallOptions, ServiceAnswer, ServiceClient, ServiceRequest, TrustError,
};
use crate::services::external::keystone::KeystoneSession;
use crate::services::external::keystone::document::endpoint;

/// Images in one page of a list.
const PAGE: u32 = 500;
/// Pages that are read at most: more backups of one server are not kept.
const MOST_PAGES: usize = 20;
/// How long Glance may take to give up an upload that broke off.
const GIVES_UP: Duration = Duration::from_secs(10);

/// How Glance is called: `[glance]`, `[service_user]`.
#[derive(Debug, Clone)]
pub struct GlanceOptions {
    pub calls: CallOptions,
    /// `endpoint_override` or `api_servers`: where Glance is. Empty: as the catalogue says.
    pub endpoints: Vec<String>,
    pub service_type: String,
    /// `valid_interfaces`, the best first.
    pub interfaces: Vec<String>,
    pub region: Option<String>,
    /// `send_service_user_token`: add the service's token to calls that carry a user's.
    pub vouch: bool,
}

/// Real Glance.
#[derive(Debug)]
pub struct GlanceImages {
    options: GlanceOptions,
    client: Arc<ServiceClient>,
    account: Arc<KeystoneSession>,
}

/// For whom Glance is asked.
#[derive(Clone, Copy)]
enum Asker<'a> {
    User(&'a ServiceCaller),
    Service,
}

impl GlanceImages {
    /// `account`: the service's own, which is an administrator in Glance.
    pub fn new(options: GlanceOptions, account: Arc<KeystoneSession>) -> Result<Arc<Self>, TrustError> {
        let client = ServiceClient::new(options.calls.clone())?;
        Ok(Arc::new(Self { options, client, account }))
    }

    pub fn client(&self) -> &Arc<ServiceClient> {
        &self.client
    }

    /// The root of version 2, and the call with the right tokens.
    async fn prepared(
        &self,
        asker: Asker<'_>,
        request: Option<&RequestId>,
        call: impl FnOnce(&str) -> ServiceRequest + Send,
    ) -> Result<ServiceRequest, PortError> {
        let user = match asker {
            Asker::User(caller) => caller.token.as_ref(),
            Asker::Service => None,
        };
        let by_catalogue = self.options.endpoints.is_empty();
        let own = if user.is_none() || self.options.vouch || by_catalogue {
            Some(self.account.token(request).await.map_err(PortError::Unavailable)?)
        } else {
            None
        };
        let root = match (&own, self.options.endpoints.as_slice()) {
            (_, [first, ..]) => first.clone(),
            (Some(own), []) => {
                let interfaces: Vec<&str> = self.options.interfaces.iter().map(String::as_str).collect();
                let region = self.options.region.as_deref();
                let found = endpoint(&own.catalogue, &[&self.options.service_type], &interfaces, region);
                let missing = || format!("the catalogue has no endpoint of the type {}", self.options.service_type);
                found.ok_or_else(|| PortError::Unavailable(missing()))?.to_owned()
            }
            (None, []) => return Err(PortError::Unavailable("Glance has no address".to_owned())),
        };
        let root = root.trim_end_matches('/');
        let root = if root.ends_with("/v2") { root.to_owned() } else { format!("{root}/v2") };
        let mut call = call(&root).on_behalf_of(request);
        match (user, &own) {
            (Some(user), own) => {
                call = call.secret("x-auth-token", user);
                if let Some(own) = own.as_ref().filter(|_| self.options.vouch) {
                    call = call.secret("x-service-token", &own.token);
                }
            }
            (None, Some(own)) => call = call.secret("x-auth-token", &own.token),
            (None, None) => {}
        }
        Ok(call)
    }

    async fn ask(
        &self,
        asker: Asker<'_>,
        request: Option<&RequestId>,
        call: impl Fn(&str) -> ServiceRequest + Send + Sync,
    ) -> Result<ServiceAnswer, PortError> {
        let prepared = self.prepared(asker, request, &call).await?;
        let answer = self.client.call(prepared).await.map_err(|failure| unanswered(&failure))?;
        if answer.status != 401 {
            return Ok(answer);
        }
        // The service's own token may have been taken back; a user's is the user's affair.
        self.account.renew(request).await.map_err(PortError::Unavailable)?;
        let prepared = self.prepared(asker, request, &call).await?;
        self.client.call(prepared).await.map_err(|failure| unanswered(&failure))
    }

    async fn show(
        &self,
        asker: Asker<'_>,
        image: ImageId,
        request: Option<&RequestId>,
    ) -> Result<GlanceImage, PortError> {
        let answer = self.ask(asker, request, |root| ServiceRequest::get(format!("{root}/images/{image}"))).await?;
        match answer.status {
            200 => read(&answer),
            // Glance hides what it does not show; an administrator of another service should not tell either.
            403 | 404 => Err(not_found(image)),
            _ => Err(refused("shows no image", &answer)),
        }
    }

    /// Whether another project shares the image with this one.
    async fn is_shared(&self, image: ImageId, with: &ProjectId) -> Result<bool, PortError> {
        let call = |root: &str| ServiceRequest::get(format!("{root}/images/{image}/members/{with}"));
        let answer = self.ask(Asker::Service, None, call).await?;
        match answer.status {
            200 => Ok(true),
            403 | 404 => Ok(false),
            _ => Err(refused("shows no member of an image", &answer)),
        }
    }

    /// The content, as it is sent.
    async fn content(&self, image: ImageId) -> Result<ByteStream, PortError> {
        let call = |root: &str| ServiceRequest::get(format!("{root}/images/{image}/file"));
        for last in [false, true] {
            let prepared = self.prepared(Asker::Service, None, call).await?;
            let answer = self.client.open(prepared).await.map_err(|failure| unanswered(&failure))?;
            match answer.status() {
                200 => return Ok(answer.bytes()),
                401 if !last => drop(self.account.renew(None).await.map_err(PortError::Unavailable)?),
                403 | 404 => return Err(not_found(image)),
                204 => return Err(PortError::Invalid(format!("Image {image} has no bytes."))),
                status => return Err(PortError::Unavailable(format!("Glance gives no bytes of an image ({status})"))),
            }
        }
        Err(PortError::Unavailable("Glance gives no bytes of an image".to_owned()))
    }

    /// What a server is made from. The size of the disk of an image that came by an older Glance is in its header alone.
    async fn complete(&self, found: GlanceImage) -> Result<ImageSnapshot, PortError> {
        let mut snapshot = found.snapshot()?;
        if found.virtual_size.is_none() && snapshot.format == "qcow2" && snapshot.size > 0 {
            let judged = look(self.content(found.id).await?, snapshot.size, "qcow2").await;
            let (judged, _) = judged.map_err(|error| PortError::Unavailable(error.to_string()))?;
            let inspected =
                judged.map_err(|error| PortError::Invalid(format!("Image {} is unacceptable: {error}", found.id)))?;
            snapshot.virtual_size = inspected.virtual_size.unwrap_or(snapshot.size);
        }
        Ok(snapshot)
    }

    /// Waits until Glance has given up an upload that broke off, so that the next one finds the image empty.
    async fn given_up(&self, image: ImageId, request: Option<&RequestId>) {
        let _ = tokio::time::timeout(GIVES_UP, async {
            while self.show(Asker::Service, image, request).await.is_ok_and(|found| found.status == "saving") {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
        .await;
    }
}

fn not_found(image: ImageId) -> PortError {
    PortError::NotFound(format!("Image {image} could not be found."))
}

fn unanswered(failure: &CallFailure) -> PortError {
    PortError::Unavailable(failure.to_string())
}

fn read<T: for<'a> Deserialize<'a>>(answer: &ServiceAnswer) -> Result<T, PortError> {
    serde_json::from_slice(&answer.body)
        .map_err(|_| PortError::Unavailable("Glance's answer makes no sense".to_owned()))
}

fn refused(what: &str, answer: &ServiceAnswer) -> PortError {
    let message = format!("Glance {what} ({})", answer.complaint());
    match answer.status {
        400 => PortError::Invalid(message),
        404 => PortError::NotFound(message),
        403 | 413 => PortError::Forbidden(message),
        409 => PortError::Conflict(message),
        _ => PortError::Unavailable(message),
    }
}

/// A page of images.
#[derive(Debug, Deserialize)]
struct ImagePage {
    images: Vec<GlanceImage>,
    next: Option<String>,
}

#[async_trait]
impl ImageService for GlanceImages {
    async fn find(&self, image: ImageId, project: &ProjectId, is_admin: bool) -> Result<ImageSnapshot, PortError> {
        let found = self.show(Asker::Service, image, None).await?;
        let sees = is_admin || found.is_open() || found.belongs_to(project) || self.is_shared(image, project).await?;
        if sees { self.complete(found).await } else { Err(not_found(image)) }
    }

    async fn find_as(
        &self,
        image: ImageId,
        project: &ProjectId,
        caller: &ServiceCaller,
    ) -> Result<ImageSnapshot, PortError> {
        if caller.token.is_none() {
            return self.find(image, project, caller.is_admin).await;
        }
        let found = self.show(Asker::User(caller), image, caller.meta.request_id.as_ref()).await?;
        self.complete(found).await
    }

    async fn create(&self, draft: ImageDraft, meta: Arc<Meta>) -> Result<(), PortError> {
        let (request, image) = (meta.request_id.as_ref(), draft.image);
        let body = body(&draft);
        let call = |root: &str| ServiceRequest::post(format!("{root}/images")).json(&body);
        let answer = self.ask(Asker::Service, request, call).await?;
        match answer.status {
            201 => Ok(()),
            409 => match self.show(Asker::Service, image, request).await {
                // Made before, by this very draft.
                Ok(found) if found.belongs_to(&draft.owner) && found.status == "queued" => Ok(()),
                _ => Err(refused("makes no image", &answer)),
            },
            _ => Err(refused("makes no image", &answer)),
        }
    }

    async fn upload(&self, image: ImageId, bytes: ByteStream, meta: Arc<Meta>) -> Result<(), PortError> {
        let request = meta.request_id.as_ref();
        let found = self.show(Asker::Service, image, request).await?;
        match found.status.as_str() {
            "active" | "deactivated" => return Ok(()),
            "saving" => self.given_up(image, request).await,
            _ => {}
        }
        let (bytes, receipt) = counted(bytes);
        let call = |root: &str| ServiceRequest::put(format!("{root}/images/{image}/file")).upload(bytes);
        let prepared = self.prepared(Asker::Service, request, call).await?;
        let answer = self.client.upload(prepared).await;
        let Some(sent) = read_receipt(&receipt) else {
            self.given_up(image, request).await;
            return Err(match answer {
                Ok(answer) if answer.status >= 300 => refused("takes no bytes", &answer),
                Err(failure) => unanswered(&failure),
                Ok(_) => {
                    // Half of the bytes would pass for all of them.
                    let _ = self.delete(image, meta).await;
                    PortError::Unavailable("the bytes of an image broke off".to_owned())
                }
            });
        };
        match answer {
            Ok(answer) if answer.status >= 300 => return Err(refused("takes no bytes", &answer)),
            Err(failure) => return Err(unanswered(&failure)),
            Ok(_) => {}
        }
        let stored = self.show(Asker::Service, image, request).await?;
        let by_sha512 = stored.os_hash_algo.as_deref() == Some("sha512");
        let same = stored.size == Some(sent.size)
            && (!by_sha512 || stored.os_hash_value.as_deref() == Some(sent.sha512.as_str()));
        if stored.status == "active" && !same {
            let _ = self.delete(image, meta).await;
            return Err(PortError::Unavailable("Glance has other bytes than were sent".to_owned()));
        }
        Ok(())
    }

    async fn delete(&self, image: ImageId, meta: Arc<Meta>) -> Result<(), PortError> {
        let call = |root: &str| ServiceRequest::delete(format!("{root}/images/{image}"));
        let answer = self.ask(Asker::Service, meta.request_id.as_ref(), call).await?;
        match answer.status {
            204 => Ok(()),
            404 => Err(not_found(image)),
            _ => Err(refused("deletes no image", &answer)),
        }
    }

    async fn backups(&self, like: ImageId, instance: InstanceId, kind: &str) -> Result<Vec<ImageId>, PortError> {
        let owner = match self.show(Asker::Service, like, None).await {
            Ok(found) => found.owner,
            Err(PortError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let Some(owner) = owner else { return Ok(Vec::new()) };
        let mut backups = Vec::new();
        let mut next = format!(
            "/images?owner={owner}&status=active&image_type=backup&backup_type={kind}&instance_uuid={instance}\
             &sort=created_at:desc&limit={PAGE}"
        );
        for _ in 0..MOST_PAGES {
            let answer = self.ask(Asker::Service, None, |root| ServiceRequest::get(format!("{root}{next}"))).await?;
            if answer.status != 200 {
                return Err(refused("lists no images", &answer));
            }
            let page: ImagePage = read(&answer)?;
            let own = page.images.iter().filter(|image| image.owner.as_deref() == Some(owner.as_str()));
            backups.extend(own.map(|image| image.id));
            match page.next {
                Some(more) => next = more.trim_start_matches("/v2").to_owned(),
                None => return Ok(backups),
            }
        }
        Ok(backups)
    }
}

#[async_trait]
impl ImageSource for GlanceImages {
    /// A server's disk is made of these bytes, so they are what was promised, and hold no reference to another file.
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        let unusable = |reason: String| DriverError::BadImage { image: image.id.to_string(), reason };
        let found = self.show(Asker::Service, image.id, None).await.map_err(|error| unusable(error.to_string()))?;
        if found.os_hash_value.as_deref() != Some(image.checksum.as_str()) {
            return Err(unusable("it is no longer there".to_owned()));
        }
        let format = found.disk_format.unwrap_or_default();
        let bytes = self.content(image.id).await.map_err(|error| unusable(error.to_string()))?;
        let bytes = checked(bytes, image.size, &image.checksum);
        let (judged, bytes) = look(bytes, image.size, &format)
            .await
            .map_err(|error| unusable(format!("its bytes broke off: {error}")))?;
        judged.map_err(|error| unusable(error.to_string()))?;
        Ok(bytes)
    }
}
