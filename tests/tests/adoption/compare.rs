//! `adopt --dry-run --compare` asks a running Nova. Here an HTTP server gives the recorded answers of a real Nova.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use chronova::commands::Exit;
use chronova::commands::adopt::compare::CompareArgs;
use chronova::commands::adopt::{AdoptArgs, ReportForm};
use chronova_web::secret::Secret;
use serde_json::{Value, json};

use super::given::recorded;
use super::written::{dump_args, names, run};

const TOKEN: &str = "the-token-of-an-administrator";

/// The recorded answer to a path and a version; 406 for a version that was not recorded, 410 for another path.
fn answer(path: &str, version: &str) -> (u16, Value) {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    if path == "/nova/v2.1/" {
        return (200, json!({"version": {"id": "v2.1", "version": "2.93"}}));
    }
    if path == "/placement/" {
        return (200, json!({"versions": [{"id": "v1.0", "max_version": "1.36"}]}));
    }
    if !matches!(version, "compute 2.93" | "placement 1.36") {
        return (406, Value::Null);
    }
    let parts: Vec<&str> = path.split('/').skip(2).collect();
    let per_server = |id: &str, part: &str| {
        let all = recorded("api-per-server.json");
        all.as_array().unwrap().iter().find(|one| one["server"] == id).map(|one| one[part].clone())
    };
    let found = match parts.as_slice() {
        ["v2.1", "servers", "detail"] => {
            let mut servers = recorded("api-servers.json");
            servers["servers"].as_array_mut().unwrap().sort_by_key(|server| server["id"].to_string());
            Some(servers)
        }
        ["v2.1", "servers", id] => server(id),
        ["v2.1", "servers", id, "os-instance-actions"] => per_server(id, "actions"),
        ["v2.1", "servers", id, "os-volume_attachments"] => per_server(id, "volume_attachments"),
        ["v2.1", "flavors", "detail"] => Some(recorded("api-flavors.json")),
        ["v2.1", "os-server-groups"] => Some(recorded("api-server-groups.json")),
        ["v2.1", "os-hypervisors", "detail"] => Some(recorded("api-hypervisors.json")),
        ["v2.1", "os-services"] => Some(recorded("api-services.json")),
        ["allocations", id] => per_server(id, "allocations"),
        _ => None,
    };
    found.map_or((410, Value::Null), |body| (200, body))
}

/// The answer about one server. Unlike the lists, it has the server's group.
fn server(id: &str) -> Option<Value> {
    let servers = recorded("api-servers.json");
    let mut server = servers["servers"].as_array().unwrap().iter().find(|one| one["id"] == id)?.clone();
    let group = recorded("api-server-groups.json")["server_groups"][0].clone();
    let is_member = group["members"].as_array().unwrap().contains(&json!(id));
    server["server_groups"] = if is_member { json!([group["id"]]) } else { json!([]) };
    Some(json!({"server": server}))
}

/// Changes the answer to a path.
type Change = fn(&str, u16, Value) -> (u16, Value);

fn serve(stream: TcpStream, change: Change) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut line, mut version, mut token) = (String::new(), String::new(), String::new());
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or(0) == 0 || header.trim().is_empty() {
            break;
        }
        match header.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("OpenStack-API-Version") => value.clone_into(&mut version),
            Some((name, value)) if name.eq_ignore_ascii_case("X-Auth-Token") => value.clone_into(&mut token),
            _ => {}
        }
    }
    let (status, body) = if token == TOKEN { answer(&path, &version) } else { (401, Value::Null) };
    let (status, body) = change(&path, status, body);
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut stream = stream;
    let _ = stream.write_all((head + &body).as_bytes());
}

/// A Nova with the recorded answers, which `change` alters. Returns its address.
fn nova(change: Change) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| serve(stream, change)));
    format!("http://{address}")
}

fn compare_args(nova: &str, token: &str) -> AdoptArgs {
    let compare = CompareArgs {
        dry_run: true,
        compare: Some(format!("{nova}/nova/v2.1")),
        compare_placement: Some(format!("{nova}/placement")),
        os_token: Some(Secret::new(token)),
        ..CompareArgs::default()
    };
    AdoptArgs { compare, output: ReportForm::Json, ..dump_args() }
}

async fn compare(data: &Path, nova: &str, token: &str) -> (Result<Exit, String>, Value) {
    let (exit, text) = run(&compare_args(nova, token), data).await;
    (exit, serde_json::from_str(&text).unwrap_or_default())
}

#[actix_rt::test]
async fn a_dry_run_compares_the_answers_of_the_running_nova() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let (exit, told) = compare(&data, &nova(unchanged), TOKEN).await;
    assert_eq!((exit, &told["unexplained"]), (Ok(Exit::Yes), &json!([])), "{told}");
    // 4 servers with 4 requests each, and 5 lists.
    assert!(told["compared"].as_u64().unwrap() >= 21, "{told}");
    let explained = told["explained"].to_string();
    assert!(explained.contains("os-services .nova-compute:h1.id"), "{explained}");
    // The recording has answers of the newest version alone. The comparison asks at all versions.
    let unanswered = told["unanswered"].to_string();
    for release in
        ["2.1", "2.12", "2.25", "2.38", "2.42", "2.53", "2.60", "2.65", "2.72", "2.79", "2.87", "2.88", "2.90"]
    {
        for name in [
            "servers/detail",
            "servers/{id}",
            "os-instance-actions",
            "os-volume_attachments",
            "flavors/detail",
            "os-server-groups",
            "os-hypervisors/detail",
            "os-aggregates",
            "os-migrations",
            "os-services",
        ] {
            assert!(unanswered.contains(&format!("{name} at compute {release}: 406")), "{name} {release}: {told}");
        }
    }
    // A difference that no line explains.
    let other = nova(|path, status, mut body| {
        if path.contains("/flavors/detail") && !body.is_null() {
            body["flavors"][0]["ram"] = json!(129);
        }
        (status, body)
    });
    let (exit, told) = compare(&data, &other, TOKEN).await;
    let expected = json!(["flavors/detail .flavors[].ram: Nova 129, here 128"]);
    assert_eq!((exit, &told["unexplained"]), (Ok(Exit::No), &expected));
    let (exit, _) = compare(&data, &nova(unchanged), "wrong").await;
    assert!(exit.unwrap_err().contains("its root answers 401"));
    assert!(names(parent.path()).is_empty(), "the comparison wrote into the data folder");
}

fn unchanged(_: &str, status: u16, body: Value) -> (u16, Value) {
    (status, body)
}

/// A comparison without the rights to compare is no proof of equality.
#[actix_rt::test]
async fn an_account_without_the_rights_fails_the_comparison() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let closed: Change = |path, status, body| match path.contains("/os-hypervisors/detail") && status == 200 {
        true => (403, json!({"forbidden": {"code": 403, "message": "Policy doesn't allow it"}})),
        false => (status, body),
    };
    let (exit, told) = compare(&data, &nova(closed), TOKEN).await;
    assert_eq!((exit, &told["unexplained"]), (Ok(Exit::No), &json!([])), "{told}");
    assert_eq!(told["refused"], json!(["os-hypervisors/detail at compute 2.93"]));
    let args = AdoptArgs { output: ReportForm::Table, ..compare_args(&nova(closed), TOKEN) };
    let (exit, text) = run(&args, &data).await;
    assert_eq!(exit, Ok(Exit::No));
    assert!(
        text.contains("refused      os-hypervisors/detail at compute 2.93: the account may not ask this"),
        "{text}"
    );
}

/// One flavor in each page; a link says that there are more.
fn paged(path: &str, status: u16, mut body: Value) -> (u16, Value) {
    if !path.contains("/flavors/detail") || body.is_null() {
        return (status, body);
    }
    let flavors = body["flavors"].as_array().unwrap().clone();
    let after = path.split_once("marker=").map(|(_, marker)| marker.to_owned());
    let at = after.map_or(0, |id| flavors.iter().position(|one| one["id"] == json!(id)).unwrap() + 1);
    body["flavors"] = flavors.get(at..=at).unwrap_or_default().into();
    if at + 1 < flavors.len() {
        body["flavors_links"] = json!([{"rel": "next", "href": "http://nova/flavors/detail?marker=x"}]);
    }
    (status, body)
}

#[actix_rt::test]
async fn all_pages_of_a_list_are_compared() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let (exit, told) = compare(&data, &nova(paged), TOKEN).await;
    assert_eq!((exit, &told["unexplained"]), (Ok(Exit::Yes), &json!([])), "{told}");
    let other = nova(|path, status, body| {
        let (status, mut body) = paged(path, status, body);
        if body["flavors"][0]["id"] == "9" {
            body["flavors"][0]["ram"] = json!(1);
        }
        (status, body)
    });
    let (exit, told) = compare(&data, &other, TOKEN).await;
    let expected = json!(["flavors/detail .flavors[].ram: Nova 1, here 40000"]);
    assert_eq!((exit, &told["unexplained"]), (Ok(Exit::No), &expected), "{told}");
}
