//! Reading JSON bodies within limits.

use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use serde_json::Value;

use crate::fault::Fault;
use crate::service::Service;

/// A client that has not sent its body within this time gets 408.
const PATIENCE: Duration = Duration::from_mins(1);

/// Reads the whole body; refuses one that is longer than `limit` bytes.
pub(crate) async fn read(payload: Payload, headers: &HeaderMap, limit: usize) -> Result<Bytes, Fault> {
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|value| value.parse::<u64>().ok());
    if announced.is_some_and(|length| length > u64::try_from(limit).unwrap_or(u64::MAX)) {
        return Err(Fault::too_large());
    }
    tokio::time::timeout(PATIENCE, collect(payload, limit))
        .await
        .unwrap_or_else(|_| Err(Fault::new(408, "The body did not arrive in time.")))
}

async fn collect(mut payload: Payload, limit: usize) -> Result<Bytes, Fault> {
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|error| Fault::malformed().caused_by(error))?;
        if body.len() + chunk.len() > limit {
            return Err(Fault::too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The JSON in a body; `None` when the body is empty. serde_json refuses nesting beyond 128 levels.
pub(crate) fn parse(service: Service, headers: &HeaderMap, body: &[u8]) -> Result<Option<Value>, Fault> {
    let media_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(|value| value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    if body.is_empty() {
        return Ok(None);
    }
    match (service, media_type.as_deref()) {
        (_, Some(media)) if media == "application/json" || media.ends_with("+json") => {}
        // Glance has its own media types for patches.
        (Service::Image, Some(media)) if media.starts_with("application/openstack-images") => {}
        (Service::Placement, None) => {
            return Err(Fault::bad_request("content-type header required when content-length > 0"));
        }
        (Service::Placement, Some(media)) => {
            return Err(Fault::unsupported_media_type(format!(
                "The media type {media} is not supported, use application/json"
            )));
        }
        // Keystone, Neutron and Glance ignore the media type. Nova reads plain text and form data as JSON, too.
        (Service::Identity | Service::Network | Service::Image, _)
        | (_, None | Some("" | "text/plain" | "application/x-www-form-urlencoded")) => {}
        (_, Some(_)) => return Err(Fault::unsupported_media_type("Unsupported Content-Type")),
    }
    serde_json::from_slice(body).map(Some).map_err(|error| malformed(service, &error))
}

fn malformed(service: Service, error: &serde_json::Error) -> Fault {
    let message = match service {
        Service::Compute | Service::Volume | Service::Metadata | Service::Chronova => {
            "Malformed request body".to_owned()
        }
        Service::Placement => format!("Malformed JSON: {error}"),
        Service::Identity | Service::Image => format!("Malformed JSON in request body: {error}"),
        Service::Network => {
            "The server could not comply with the request since it is either malformed or otherwise incorrect."
                .to_owned()
        }
    };
    Fault::bad_request(message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn status(service: Service, media: Option<&'static str>, body: &str) -> Result<bool, u16> {
        let mut headers = HeaderMap::new();
        if let Some(media) = media {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        }
        parse(service, &headers, body.as_bytes()).map(|value| value.is_some()).map_err(|fault| fault.status)
    }

    #[test]
    fn media_types_and_syntax() {
        assert_eq!(status(Service::Compute, Some("application/json; charset=utf-8"), "{}"), Ok(true));
        assert_eq!(status(Service::Compute, None, ""), Ok(false));
        assert_eq!(status(Service::Compute, None, "{"), Err(400));
        assert_eq!(status(Service::Compute, Some("application/xml"), "<a/>"), Err(415));
        assert_eq!(status(Service::Placement, None, "{}"), Err(400));
        assert_eq!(status(Service::Placement, Some("text/plain"), "{}"), Err(415));
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert_eq!(status(Service::Compute, Some("application/json"), &deep), Err(400));
    }
}
