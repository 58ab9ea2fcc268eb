//! The bodies of refusals, as schemas. [`fault::render`](crate::fault::render) writes the bodies.

use serde_json::Value;

use crate::microversion::Microversion;
use crate::schema::{Property, Schema, array, integer, object, object_of, opt, req, string};
use crate::service::Service;

/// The names that Nova gives to faults. The last ten are Chronova's own: two about image properties, and eight that
/// tell `chronova manage` the exit code.
const NOVA: [&str; 21] = [
    "badRequest",
    "unauthorized",
    "forbidden",
    "itemNotFound",
    "badMethod",
    "conflictingRequest",
    "overLimit",
    "badMediaType",
    "notImplemented",
    "serviceUnavailable",
    "computeFault",
    "invalidImagePropertyName",
    "invalidImagePropertyValue",
    "computeHostNotFound",
    "healNotSupported",
    "portsNotRead",
    "portsNotUpdated",
    "portsNotRestored",
    "allocationUpdateFailed",
    "volumeNotAttached",
    "hostConflict",
];

/// The schema of the JSON body with which a service refuses with `status`.
pub fn body(service: Service, status: u16, version: Microversion) -> Value {
    let schema = match service {
        // keystonemiddleware writes this body for all services behind it.
        _ if status == 401 => keystone(),
        Service::Compute | Service::Volume | Service::Chronova => nova(),
        Service::Placement => placement(),
        Service::Identity => keystone(),
        Service::Network => neutron(),
        Service::Image | Service::Metadata => webob(),
    };
    schema.render(version)
}

/// Whether the service writes refusals as HTML or text for clients that prefer it.
pub const fn may_be_page(service: Service) -> bool {
    matches!(service, Service::Placement | Service::Image | Service::Metadata)
}

/// `{"itemNotFound": {"code": 404, "message": "..."}}`
fn nova() -> Schema {
    let fault = || object([req("code", integer()), req("message", string()), opt("retryAfter", string())]);
    let named: Vec<Property> = NOVA.into_iter().map(|name| opt(name, fault())).collect();
    object_of(named).min_properties(1).max_properties(1)
}

/// `{"errors": [{"status": 404, "title": "Not Found", ...}]}`. A refusal before the version is known has no `code`. The
/// refusal of an unsupported version names the oldest and the newest supported version.
fn placement() -> Schema {
    let error = object([
        req("status", integer()),
        req("title", string()),
        req("detail", string()),
        opt("code", string()).since(1, 23),
        req("request_id", string()),
        opt("max_version", string()),
        opt("min_version", string()),
    ]);
    object([req("errors", array(error).min_items(1).max_items(1))])
}

/// `{"error": {"code": 401, "message": "...", "title": "Unauthorized"}}`
fn keystone() -> Schema {
    object([req("error", object([req("code", integer()), req("message", string()), req("title", string())]))])
}

/// `{"NeutronError": {"type": "NetworkNotFound", "message": "...", "detail": ""}}`
fn neutron() -> Schema {
    object([req("NeutronError", object([req("type", string()), req("message", string()), req("detail", string())]))])
}

/// `{"message": "...", "code": "404 Not Found", "title": "Not Found"}`
fn webob() -> Schema {
    object([req("message", string()), req("code", string()), req("title", string())])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde_json::json;

    use super::*;
    use crate::fault::{Fault, RenderContext, render};
    use crate::microversion;
    use crate::reply::ReplyBody;
    use crate::schema::{Dialect, Validator};

    fn refusals() -> [Fault; 12] {
        [
            Fault::bad_request("no"),
            Fault::unauthorized(),
            Fault::forbidden("no"),
            Fault::not_found("no"),
            Fault::method_not_allowed("GET"),
            Fault::not_acceptable("no"),
            Fault::conflict("no"),
            Fault::over_limit("no"),
            Fault::too_many_requests("no", 1),
            Fault::unsupported_media_type("no"),
            Fault::internal("no"),
            Fault::unavailable("no"),
        ]
    }

    #[test]
    fn every_rendered_fault_has_the_form_of_its_service() {
        for service in Service::ALL {
            let newest = microversion::span(service).map(|span| span.max);
            for version in [None, newest] {
                for fault in refusals() {
                    let context = RenderContext { service, accept: "application/json", version, request_id: "req-1" };
                    let ReplyBody::Json(shown) = render(&fault, &context).body else { panic!("{service:?}: no JSON") };
                    let schema = body(service, fault.status, version.unwrap_or(Microversion::NONE));
                    let checked = Validator::compile(schema, Dialect::Plain).unwrap().check(&shown);
                    assert!(checked.is_ok(), "{service:?}: {shown} {checked:?}");
                }
            }
        }
    }

    #[test]
    fn another_form_is_refused() {
        let compute = Validator::compile(body(Service::Compute, 404, Microversion::NONE), Dialect::Plain).unwrap();
        for wrong in [
            json!({"itemNotFound": {"code": "404", "message": "no"}}),
            json!({"itemNotFound": {"code": 404}}),
            json!({"notAFault": {"code": 404, "message": "no"}}),
            json!({}),
        ] {
            assert!(compute.check(&wrong).is_err(), "{wrong}");
        }
    }
}
