//! The images of users, for Nova's old API: each call goes to Glance with the user's token.

use async_trait::async_trait;
use chronova_events::ids::ImageId;
use serde_json::{Value, json};

use super::PATCH;
use super::document::GlanceImage;
use super::images::{GlanceImages, not_found, refused};
use crate::ports::{ImageInfo, ImageListRequest, ImageResources, PortError, PropertyChange, ServiceCaller};
use crate::services::external::http::{ServiceRequest, query_of};
use crate::services::external::keystone::Asker;

/// The account for a call: the user's token, or Chronova's own account for a part of Chronova. Any other caller without
/// a token is refused.
fn asker(caller: &ServiceCaller) -> Result<Asker<'_>, PortError> {
    match &caller.token {
        Some(user) => Ok(Asker::User(user)),
        None if caller.is_admin => Ok(Asker::Own),
        None => Err(PortError::Forbidden("The request has no user token, and Glance needs one.".to_owned())),
    }
}

/// The change as a JSON patch (RFC 6902). The operation `add` also replaces an existing value.
fn patch(change: &PropertyChange) -> Value {
    let path = |name: &str| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    let removed = change.remove.iter().map(|name| json!({"op": "remove", "path": path(name)}));
    let set = change.set.iter().map(|(name, value)| json!({"op": "add", "path": path(name), "value": value}));
    removed.chain(set).collect()
}

#[async_trait]
impl ImageResources for GlanceImages {
    async fn show(&self, image: ImageId, caller: &ServiceCaller) -> Result<ImageInfo, PortError> {
        let found = self.show_image(asker(caller)?, image, caller.meta.request_id.as_ref()).await?;
        Ok(found.info())
    }

    async fn list(&self, request: &ImageListRequest, caller: &ServiceCaller) -> Result<Vec<ImageInfo>, PortError> {
        let wanted = [("visibility", &request.visibility), ("member_status", &request.member_status)];
        let given: Vec<(&str, &str)> =
            wanted.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
        let found = self.pages(asker(caller)?, caller.meta.request_id.as_ref(), &query_of(&given)).await?;
        Ok(found.into_iter().map(GlanceImage::info).collect())
    }

    async fn change_properties(
        &self,
        image: ImageId,
        change: PropertyChange,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        let (asker, body) = (asker(caller)?, patch(&change));
        let call = |root: &str| ServiceRequest::patch(format!("{root}/images/{image}")).json(&body).kind(PATCH);
        let answer = self.ask(asker, caller.meta.request_id.as_ref(), call).await?;
        match answer.status {
            200 => Ok(()),
            404 => Err(not_found(image)),
            // Too many properties. Nova's old API answers 400.
            413 => Err(PortError::Invalid(answer.complaint())),
            _ => Err(refused("changes no image", asker, &answer)),
        }
    }

    async fn delete(&self, image: ImageId, caller: &ServiceCaller) -> Result<(), PortError> {
        let asker = asker(caller)?;
        let call = |root: &str| ServiceRequest::delete(format!("{root}/images/{image}"));
        let answer = self.ask(asker, caller.meta.request_id.as_ref(), call).await?;
        match answer.status {
            204 => Ok(()),
            404 => Err(not_found(image)),
            _ => Err(refused("deletes no image", asker, &answer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_one_patch() {
        let change = PropertyChange { remove: vec!["a/b~".to_owned()], set: vec![("c".to_owned(), "1".to_owned())] };
        let expected = json!([
            {"op": "remove", "path": "/a~1b~0"},
            {"op": "add", "path": "/c", "value": "1"},
        ]);
        assert_eq!(patch(&change), expected);
    }
}
