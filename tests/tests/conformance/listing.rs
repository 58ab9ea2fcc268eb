//! Rules of Nova's code for lists of servers, beside its schemas: filters, orders, and the fields that each user sees.

use chronova_tests::compute_api::{ADMIN, Api};
use serde_json::json;

const USER: &str = "user:project";

struct Listed {
    api: Api,
    first: String,
    second: String,
}

impl Listed {
    async fn start() -> Self {
        let api = Api::start().await;
        let first = api.server(USER, Api::wish("a")).await;
        let second = api.server(USER, Api::wish("b")).await;
        Self { api, first, second }
    }

    async fn names(&self, token: &str, query: &str) -> Vec<String> {
        let answer = self.api.call("GET", &format!("/servers?{query}"), "2.74", token, None).await;
        assert_eq!(answer.status, 200, "{query}: {:?}", answer.body);
        let servers = answer.body["servers"].as_array().unwrap();
        servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect()
    }

    async fn refused(&self, token: &str, query: &str) -> (u16, String) {
        let answer = self.api.call("GET", &format!("/servers?{query}"), "2.74", token, None).await;
        (answer.status, answer.message().to_owned())
    }
}

#[actix_rt::test]
async fn orders() {
    let listed = Listed::start().await;
    for (query, expected) in [
        ("sort_key=display_name&sort_dir=asc", ["a", "b"]),
        ("sort_key=display_name", ["b", "a"]),
        // A missing direction equals the first direction. The final sort key, the time of creation, also has the first
        // direction.
        ("sort_key=host&sort_key=display_name&sort_dir=asc", ["a", "b"]),
        ("sort_key=vm_state&sort_dir=asc", ["a", "b"]),
        ("sort_key=vm_state&sort_dir=desc", ["b", "a"]),
        ("sort_dir=asc", ["a", "b"]),
        // Sort keys that Nova removes are dropped together with their directions.
        ("sort_key=vcpus&sort_dir=desc&sort_key=display_name&sort_dir=asc", ["a", "b"]),
    ] {
        let names = listed.names("admin:project", query).await;
        // A query that sorts by host has no fixed order, because the scheduler chooses the hosts.
        if !query.contains("host") {
            assert_eq!(names, expected, "{query}");
        }
        assert_eq!(names.len(), 2);
    }
    let more = "Invalid input received: Sort direction size exceeds sort key size";
    assert_eq!(listed.refused(USER, "sort_key=uuid&sort_dir=asc&sort_dir=asc").await, (400, more.to_owned()));
    let neither = "Invalid input received: Unknown sort direction, must be 'desc' or 'asc'";
    assert_eq!(listed.refused(USER, "sort_key=uuid&sort_dir=up").await, (400, neither.to_owned()));
    let host = "Only administrators can sort servers by host";
    assert_eq!(listed.refused(USER, "sort_key=host").await, (403, host.to_owned()));
    listed.api.stop().await;
}

#[actix_rt::test]
async fn filters() {
    let listed = Listed::start().await;
    let path = format!("/servers/{}/action", listed.first);
    assert_eq!(listed.api.call("POST", &path, "2.1", USER, Some(json!({"os-stop": null}))).await.status, 202);
    listed.api.life.settled().await;
    for (token, query, expected) in [
        (USER, "status=SHUTOFF", vec!["a"]),
        (USER, "status=shutoff&status=Active", vec!["b", "a"]),
        // No server has a task, so none matches REBOOT. A filter by both statuses matches every active server.
        (USER, "status=REBOOT", vec![]),
        (USER, "status=REBOOT&status=ACTIVE", vec!["b"]),
        // Without `all_tenants`, a filter by project is ignored: every caller lists the servers of their own project.
        (ADMIN, "tenant_id=project", vec![]),
        (ADMIN, "project_id=project", vec![]),
        (ADMIN, "tenant_id=project&all_tenants", vec!["b", "a"]),
        (ADMIN, "project_id=project&all_tenants=True", vec!["b", "a"]),
        (ADMIN, "project_id=project&all_tenants=0", vec![]),
        // An invalid value of `deleted` means false.
        ("admin:project", "deleted=perhaps", vec!["b", "a"]),
        ("admin:project", "power_state=4", vec!["a"]),
        ("admin:project", "launch_index=^0", vec!["b", "a"]),
        // Ordinary users may not use these filters at this version, so the API ignores them.
        (USER, "power_state=4", vec!["b", "a"]),
        (USER, "metadata={}", vec!["b", "a"]),
        (USER, "deleted=true", vec!["b", "a"]),
    ] {
        assert_eq!(listed.names(token, query).await, expected, "{query} as {token}");
    }
    assert_eq!(listed.refused(ADMIN, "metadata={}").await, (400, "Invalid filter field: metadata.".to_owned()));
    assert_eq!(listed.refused(ADMIN, "_surprise=1").await, (400, "Invalid filter field: _surprise.".to_owned()));
    let (status, message) = listed.refused(ADMIN, "all_tenants=perhaps").await;
    assert_eq!(status, 400);
    assert!(message.starts_with("Invalid input received: Unrecognized value 'perhaps', acceptable values are: '0'"));
    assert_eq!(listed.refused(ADMIN, "locked=perhaps").await.0, 400);

    // `changes-since` and `changes-before` include deleted servers.
    let gone = format!("/servers/{}", listed.second);
    assert_eq!(listed.api.call("DELETE", &gone, "2.1", USER, None).await.status, 204);
    listed.api.life.settled().await;
    assert_eq!(listed.names(USER, "").await, ["a"]);
    assert_eq!(listed.names(USER, "changes-since=2020-01-01T00:00:00Z").await, ["b", "a"]);
    assert_eq!(listed.names(USER, "changes-before=2100-01-01T00:00:00Z").await, ["b", "a"]);
    let deleted = "Only administrators may list deleted instances";
    assert_eq!(listed.refused(USER, "status=DELETED").await, (403, deleted.to_owned()));
    assert_eq!(listed.names(USER, "status=DELETED&status=SHUTOFF").await, ["a"]);
    assert_eq!(listed.names("admin:project", "status=DELETED").await, ["b"]);
    listed.api.stop().await;
}

/// Fields that are neither in a schema nor in a sample.
#[actix_rt::test]
async fn spellings() {
    let api = Api::start().await;
    let mut request = Api::wish("a");
    request["accessIPv6"] = json!("0000:0000::0000:babe:220.12.22.2");
    let id = api.server(USER, request).await;
    let shown = api.get(&format!("/servers/{id}"), "2.1").await;
    assert_eq!(shown["server"]["accessIPv6"], "::babe:dc0c:1602");
    // A path with a trailing slash is unknown.
    assert_eq!(api.call("GET", "/servers/", "2.1", USER, None).await.status, 404);
    assert_eq!(api.call("GET", "/os-simple-tenant-usage/", "2.1", ADMIN, None).await.status, 404);
    let root = api.ask("GET", "/compute/", "2.1", "", None).await;
    assert_eq!((root.status, &root.body["versions"][1]["id"]), (200, &json!("v2.1")));
    api.stop().await;
}

/// Nova stores and shows the time of a change in whole seconds. So `changes-before` with the time that a server shows
/// includes the server.
#[actix_rt::test]
async fn changes_before_a_servers_own_time_include_it() {
    let listed = Listed::start().await;
    let shown = listed.api.get(&format!("/servers/{}", listed.first), "2.74").await;
    let updated = shown["server"]["updated"].as_str().unwrap().to_owned();
    assert!(listed.names(USER, &format!("changes-before={updated}")).await.contains(&"a".to_owned()), "{updated}");
    assert!(listed.names(USER, &format!("changes-since={updated}")).await.contains(&"a".to_owned()), "{updated}");
    assert_eq!(listed.names(USER, "changes-before=2001-01-01T00:00:00Z").await, Vec::<String>::new());
    listed.api.stop().await;
}
