//! The forms in which the services write their errors.

use serde_json::{Value, json};

use super::Fault;
use crate::microversion::{self, Microversion};
use crate::reply::Reply;
use crate::service::Service;

/// The facts about the request on which the form of a fault depends.
#[derive(Debug, Clone, Copy)]
pub struct RenderContext<'a> {
    pub service: Service,
    /// The client's `Accept` header, which Glance's form depends on.
    pub accept: &'a str,
    /// `None` before the version is negotiated.
    pub version: Option<Microversion>,
    pub request_id: &'a str,
}

/// The fault as the service would answer it.
pub fn render(fault: &Fault, context: &RenderContext<'_>) -> Reply {
    let mut reply = if fault.status == 401 && context.service != Service::Identity {
        // keystonemiddleware writes this body, so all services behind it have the same one.
        Reply::json(401, keystone_body(fault))
    } else {
        match context.service {
            Service::Compute | Service::Volume | Service::Chronova => Reply::json(fault.status, nova_body(fault)),
            // Placement's framework answers HTML to clients that accept HTML and no JSON.
            Service::Placement if wants_page(context.accept) => webob(fault, context.accept),
            Service::Placement => Reply::json(fault.status, placement_body(fault, context)),
            Service::Identity => Reply::json(fault.status, keystone_body(fault)),
            Service::Network => Reply::json(fault.status, neutron_body(fault)),
            // OpenStack's SDK uploads images with an empty `Accept`, and shows the reason of HTML and JSON only. Glance
            // would send text.
            Service::Image if context.accept.is_empty() => webob(fault, "text/html"),
            Service::Image | Service::Metadata => webob(fault, context.accept),
        }
    };
    reply.headers.extend(fault.headers.iter().cloned());
    reply
}

/// Nova's form: `{"itemNotFound": {"code": 404, "message": "..."}}`.
fn nova_body(fault: &Fault) -> Value {
    let name = if fault.key.is_empty() { nova_name(fault.status) } else { fault.key.as_ref() };
    let mut inner = json!({"code": fault.status, "message": fault.message});
    if matches!(fault.status, 413 | 429)
        && let Some((_, seconds)) = fault.headers.iter().find(|(name, _)| *name == "Retry-After")
    {
        inner["retryAfter"] = json!(seconds);
    }
    let mut body = serde_json::Map::new();
    body.insert(name.to_owned(), inner);
    Value::Object(body)
}

fn nova_name(status: u16) -> &'static str {
    match status {
        400 => "badRequest",
        401 => "unauthorized",
        403 => "forbidden",
        404 => "itemNotFound",
        405 => "badMethod",
        409 => "conflictingRequest",
        413 | 429 => "overLimit",
        415 => "badMediaType",
        501 => "notImplemented",
        503 => "serviceUnavailable",
        _ => "computeFault",
    }
}

/// Placement's form: `{"errors": [{"status", "title", "detail", "code" (from 1.23), "request_id"}]}`.
fn placement_body(fault: &Fault, context: &RenderContext<'_>) -> Value {
    let mut error = json!({
        "status": fault.status,
        "title": title(fault.status),
        "detail": format!("{}\n\n   ", explained(fault)),
    });
    if context.version.is_some_and(|version| version.at_least(microversion::v(1, 23))) {
        let code = if fault.key.is_empty() { "placement.undefined_code" } else { fault.key.as_ref() };
        error["code"] = json!(code);
    }
    error["request_id"] = json!(context.request_id);
    if fault.status == 406 && context.version.is_none() {
        error["max_version"] = json!(microversion::PLACEMENT.max.to_string());
        error["min_version"] = json!(microversion::PLACEMENT.min.to_string());
    }
    json!({"errors": [error]})
}

/// webob puts its own sentence for the status before the detail.
fn explained(fault: &Fault) -> String {
    let standard = match fault.status {
        400 => "The server could not comply with the request since it is either malformed or otherwise incorrect.",
        403 => "Access was denied to this resource.",
        404 => "The resource could not be found.",
        405 => "The method specified is not allowed for this resource.",
        406 => "The resource could not be generated that was acceptable to your browser (content of type ).",
        409 => "There was a conflict when trying to complete your request.",
        415 => "The request media type is not supported by this server.",
        _ => "",
    };
    if standard.is_empty() || fault.message == standard {
        return fault.message.clone();
    }
    format!("{standard}\n\n {}", fault.message)
}

/// Keystone's form: `{"error": {"code", "message", "title"}}`.
fn keystone_body(fault: &Fault) -> Value {
    json!({"error": {"code": fault.status, "message": fault.message, "title": title(fault.status)}})
}

/// Neutron's form: `{"NeutronError": {"type", "message", "detail"}}`.
fn neutron_body(fault: &Fault) -> Value {
    let kind = if fault.key.is_empty() { neutron_type(fault.status) } else { fault.key.as_ref() };
    json!({"NeutronError": {"type": kind, "message": fault.message, "detail": ""}})
}

fn neutron_type(status: u16) -> &'static str {
    match status {
        400 => "HTTPBadRequest",
        403 => "PolicyNotAuthorized",
        404 => "HTTPNotFound",
        405 => "HTTPMethodNotAllowed",
        409 => "HTTPConflict",
        413 => "HTTPRequestEntityTooLarge",
        415 => "HTTPUnsupportedMediaType",
        501 => "HTTPNotImplemented",
        503 => "HTTPServiceUnavailable",
        _ => "HTTPInternalServerError",
    }
}

fn wants_page(accept: &str) -> bool {
    let accept = accept.to_ascii_lowercase();
    accept.contains("text/html") && !accept.contains("application/") && !accept.contains("*/*")
}

/// The form of the library webob: HTML, JSON or text, by the client's `Accept`. Glance, the metadata service and
/// Placement's HTML pages use it.
fn webob(fault: &Fault, accept: &str) -> Reply {
    let status = format!("{} {}", fault.status, title(fault.status));
    let accept = accept.to_ascii_lowercase();
    if accept.contains("text/html") || accept.contains("*/*") || accept.contains("text/*") {
        let message = escape(&fault.message);
        let page = format!(
            "<html>\n <head>\n  <title>{status}</title>\n </head>\n <body>\n  <h1>{status}</h1>\n  {message}<br /><br />\n\n\n\n </body>\n</html>"
        );
        Reply::bytes(fault.status, "text/html; charset=UTF-8", page)
    } else if accept.contains("application/json") || accept.contains("application/*") {
        let message = format!("{}<br /><br />\n\n\n", escape(&fault.message));
        Reply::json(fault.status, json!({"message": message, "code": status, "title": title(fault.status)}))
    } else {
        Reply::text(fault.status, format!("{status}\n\n{}\n\n   ", fault.message))
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The status in words.
pub(crate) fn title(status: u16) -> &'static str {
    actix_web::http::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .map_or("Error", |reason| if reason == "Payload Too Large" { "Request Entity Too Large" } else { reason })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::microversion::v;
    use crate::reply::ReplyBody;

    fn body(fault: &Fault, service: Service, version: Option<Microversion>) -> Value {
        let context = RenderContext { service, accept: "", version, request_id: "req-1" };
        match render(fault, &context).body {
            ReplyBody::Json(value) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nova_form() {
        let fault = Fault::not_found("Instance x could not be found.");
        assert_eq!(
            body(&fault, Service::Compute, Some(v(2, 1))),
            json!({"itemNotFound": {"code": 404, "message": "Instance x could not be found."}})
        );
        assert_eq!(
            body(&Fault::over_limit("Quota exceeded"), Service::Compute, None),
            json!({"overLimit": {"code": 413, "message": "Quota exceeded", "retryAfter": "0"}})
        );
        let secret = Fault::internal("password is 123");
        assert!(!body(&secret, Service::Compute, None).to_string().contains("123"));
    }

    #[test]
    fn a_request_too_large_for_an_event_gets_413() {
        let cause = chronova_events::store::StoreError::TooLarge { size: 2 << 20, limit: 1 << 20 };
        for service in Service::ALL {
            let fault = Fault::of_log(&cause);
            assert_eq!(fault.status, 413);
            let shown =
                match render(&fault, &RenderContext { service, accept: "", version: None, request_id: "req-1" }).body {
                    ReplyBody::Json(value) => value.to_string(),
                    ReplyBody::Bytes { bytes, .. } => String::from_utf8(bytes.to_vec()).unwrap(),
                    _ => String::new(),
                };
            assert!(shown.contains("Request is too large"), "{shown}");
        }
    }

    #[test]
    fn unauthorized_is_the_middlewares_form_everywhere() {
        for service in Service::ALL {
            let body = body(&Fault::unauthorized(), service, None);
            assert_eq!(body["error"]["code"], 401);
            assert_eq!(body["error"]["title"], "Unauthorized");
        }
    }

    #[test]
    fn placement_form_has_the_code_from_1_23_and_the_range_before_a_version_is_known() {
        let fault = Fault::conflict("Update conflict").key("placement.concurrent_update");
        let old = body(&fault, Service::Placement, Some(v(1, 22)));
        assert!(old["errors"][0].get("code").is_none());
        let new = body(&fault, Service::Placement, Some(v(1, 23)));
        assert_eq!(new["errors"][0]["code"], "placement.concurrent_update");
        assert_eq!(new["errors"][0]["request_id"], "req-1");
        let refused = body(&Fault::not_acceptable("Unacceptable version header: 9.9"), Service::Placement, None);
        assert_eq!(refused["errors"][0]["max_version"], "1.39");
        assert_eq!(refused["errors"][0]["min_version"], "1.0");
    }

    #[test]
    fn glance_answers_as_the_client_accepts() {
        let fault = Fault::not_found("No image found with ID <x>");
        let context = RenderContext { service: Service::Image, accept: "*/*", version: None, request_id: "req-1" };
        let ReplyBody::Bytes { content_type, bytes } = render(&fault, &context).body else { panic!("no page") };
        assert!(content_type.starts_with("text/html"));
        let page = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(page.contains("<title>404 Not Found</title>") && page.contains("ID &lt;x&gt;"));
        let upload = RenderContext { accept: "", ..context };
        let ReplyBody::Bytes { content_type, .. } = render(&fault, &upload).body else { panic!("no page") };
        assert!(content_type.starts_with("text/html"), "the SDK shows no reason from {content_type}");
    }

    #[test]
    fn neutron_form() {
        let fault = Fault::not_found("Network x could not be found.").key("NetworkNotFound");
        assert_eq!(
            body(&fault, Service::Network, None),
            json!({"NeutronError": {"type": "NetworkNotFound", "message": "Network x could not be found.", "detail": ""}})
        );
    }
}
