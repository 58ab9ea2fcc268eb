//! The version documents by which clients find the APIs. None of them needs a token.

use serde_json::{Value, json};

use crate::app::App;
use crate::links::Links;
use crate::microversion::{COMPUTE, PLACEMENT, VOLUME};
use crate::reply::Reply;
use crate::service::Service;

/// The version document at `path` (below the service's root), if there is one.
pub(crate) fn document(service: Service, path: &str, links: &Links) -> Option<Reply> {
    let root = links.root.as_str();
    let path = path.trim_end_matches('/');
    match (service, path) {
        (Service::Compute, "") => {
            Some(Reply::ok(json!({"versions": [compute_v2(root, false), compute_v21(root, false)]})))
        }
        (Service::Compute, "/v2") => Some(Reply::ok(json!({"version": compute_v2(root, true)}))),
        (Service::Compute, "/v2.1") => Some(Reply::ok(json!({"version": compute_v21(root, true)}))),
        (Service::Placement, "") => Some(Reply::ok(json!({"versions": [{
            "id": "v1.0",
            "max_version": PLACEMENT.max.to_string(),
            "min_version": PLACEMENT.min.to_string(),
            "status": "CURRENT",
            "links": [{"rel": "self", "href": ""}],
        }]}))),
        (Service::Identity, "") => Some(
            Reply::json(300, json!({"versions": {"values": [identity_v3(root)]}}))
                .header("Location", format!("{root}/v3/")),
        ),
        (Service::Identity, "/v3") => Some(Reply::ok(json!({"version": identity_v3(root)}))),
        (Service::Image, "") => Some(Reply::json(300, image_versions(root))),
        (Service::Image, "/versions") => Some(Reply::ok(image_versions(root))),
        (Service::Network, "") => Some(Reply::ok(json!({"versions": [{
            "id": "v2.0",
            "status": "CURRENT",
            "links": [{"rel": "self", "href": format!("{root}/v2.0/")}],
        }]}))),
        (Service::Network, "/v2.0") => Some(Reply::ok(network_resources(root))),
        (Service::Volume, "") => Some(Reply::json(300, json!({"versions": [volume_v3(root)]}))),
        (Service::Volume, "/v3") => Some(Reply::ok(json!({"versions": [volume_v3(root)]}))),
        _ => None,
    }
}

/// The answer to `GET /` on the common port. It has the address of each API, whether this process or another one serves
/// the API. The answer also lists the versions of the identity API, in the form of Keystone's root. So `--os-auth-url
/// http://HOST:PORT` finds that API.
pub(crate) fn index(host: &str, app: &App) -> Reply {
    let place = |service: Service| match app.elsewhere(service) {
        Some(place) => place.to_owned(),
        None => format!("{host}/{}", service.name()),
    };
    let services: serde_json::Map<String, Value> =
        Service::ALL.into_iter().map(|service| (service.name().to_owned(), json!(place(service)))).collect();
    let mut document = json!({"name": "chronova", "version": env!("CARGO_PKG_VERSION"), "services": services});
    if app.elsewhere(Service::Identity).is_none() {
        document["versions"] = json!({"values": [identity_v3(&place(Service::Identity))]});
    }
    Reply::ok(document)
}

fn compute_links(root: &str, path: &str, full: bool) -> Value {
    let mut links = vec![json!({"rel": "self", "href": format!("{root}/{path}/")})];
    if full {
        links.push(json!({"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"}));
    }
    Value::Array(links)
}

/// The legacy API: the same operations at the oldest version, without microversions.
fn compute_v2(root: &str, full: bool) -> Value {
    let mut version = json!({"id": "v2.0", "links": compute_links(root, "v2", full)});
    if full {
        version["media-types"] =
            json!([{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2"}]);
    }
    version["status"] = json!("DEPRECATED");
    version["version"] = json!("");
    version["min_version"] = json!("");
    version["updated"] = json!("2025-07-04T12:00:00Z");
    version
}

fn compute_v21(root: &str, full: bool) -> Value {
    let mut version = json!({"id": "v2.1", "links": compute_links(root, "v2.1", full)});
    if full {
        version["media-types"] =
            json!([{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}]);
    }
    version["status"] = json!("CURRENT");
    version["version"] = json!(COMPUTE.max.to_string());
    version["min_version"] = json!(COMPUTE.min.to_string());
    version["updated"] = json!("2013-07-23T11:33:21Z");
    version
}

fn identity_v3(root: &str) -> Value {
    json!({
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{root}/v3/")}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    })
}

/// Glance lists every version of its v2 API; the newest is current.
fn image_versions(root: &str) -> Value {
    let link = json!([{"rel": "self", "href": format!("{root}/v2/")}]);
    let versions: Vec<Value> = ["v2.9", "v2.7", "v2.6", "v2.5", "v2.4", "v2.3", "v2.2", "v2.1", "v2.0"]
        .into_iter()
        .enumerate()
        .map(|(age, id)| json!({"id": id, "status": if age == 0 { "CURRENT" } else { "SUPPORTED" }, "links": link}))
        .collect();
    json!({"versions": versions})
}

fn network_resources(root: &str) -> Value {
    let resource = |name: &str, collection: &str| json!({"name": name, "collection": collection, "links": [{"rel": "self", "href": format!("{root}/v2.0/{collection}")}]});
    json!({"resources": [
        resource("network", "networks"),
        resource("subnet", "subnets"),
        resource("port", "ports"),
        resource("router", "routers"),
        resource("floatingip", "floatingips"),
        resource("security_group", "security-groups"),
        resource("security_group_rule", "security-group-rules"),
        resource("extension", "extensions"),
        resource("quota", "quotas"),
    ]})
}

fn volume_v3(root: &str) -> Value {
    json!({
        "id": "v3.0",
        "status": "CURRENT",
        "version": VOLUME.max.to_string(),
        "min_version": VOLUME.min.to_string(),
        "updated": "2022-03-30T00:00:00Z",
        "links": [
            {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
            {"rel": "self", "href": format!("{root}/v3/")},
        ],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}],
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::reply::ReplyBody;

    fn body(service: Service, path: &str) -> Value {
        let links = Links {
            host: "http://h".into(),
            root: "http://h/x".into(),
            api: String::new(),
            project: None,
            path: String::new(),
        };
        match document(service, path, &links).unwrap().body {
            ReplyBody::Json(value) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn documents_name_the_address_of_the_request() {
        assert_eq!(body(Service::Compute, "/")["versions"][1]["links"][0]["href"], "http://h/x/v2.1/");
        assert_eq!(body(Service::Compute, "/v2.1/")["version"]["version"], COMPUTE.max.to_string());
        assert_eq!(body(Service::Placement, "")["versions"][0]["max_version"], "1.39");
        assert_eq!(body(Service::Identity, "/v3")["version"]["links"][0]["href"], "http://h/x/v3/");
        assert_eq!(body(Service::Image, "")["versions"][0]["status"], "CURRENT");
        assert_eq!(body(Service::Network, "")["versions"][0]["id"], "v2.0");
    }
}
