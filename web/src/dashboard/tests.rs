//! Tests of the answers, and of the files themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use actix_web::body::to_bytes;
use actix_web::http::StatusCode;
use actix_web::test::TestRequest;
use regex::Regex;
use sha2::{Digest, Sha256};

use super::*;

fn asked(method: &str, path: &str, headers: &[(&'static str, &str)]) -> HttpResponse {
    let mut request = TestRequest::with_uri(path).method(method.parse().unwrap());
    for (name, value) in headers {
        request = request.insert_header((*name, *value));
    }
    answer(&request.to_http_request())
}

fn header<'a>(response: &'a HttpResponse, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

fn text(name: &str) -> String {
    String::from_utf8(FILES.get(name).unwrap().bytes.to_vec()).unwrap()
}

fn ours() -> impl Iterator<Item = (&'static str, String)> {
    FILES
        .all()
        .filter(|(name, _)| !name.starts_with("vendor/"))
        .map(|(name, _)| (name, text(name).replace("http://www.w3.org/2000/svg", "")))
}

#[actix_web::test]
async fn the_first_page_names_the_folder_of_the_others() {
    let page = asked("GET", "/dashboard/", &[]);
    assert_eq!(page.status(), StatusCode::OK);
    assert_eq!(header(&page, "Cache-Control"), "no-cache");
    let tag = header(&page, "ETag").to_owned();
    let body = String::from_utf8(to_bytes(page.into_body()).await.unwrap().to_vec()).unwrap();
    let script = format!("{}/app.js", FILES.version());
    assert!(body.contains(&script), "{body}");
    let script = asked("GET", &format!("/dashboard/{script}"), &[]);
    assert_eq!(script.status(), StatusCode::OK);
    assert!(header(&script, "Cache-Control").contains("immutable"));
    assert_eq!(header(&script, "Content-Type"), "text/javascript; charset=utf-8");
    assert_eq!(asked("GET", "/dashboard/", &[("If-None-Match", &tag)]).status(), StatusCode::NOT_MODIFIED);
    assert_eq!(asked("GET", "/dashboard/", &[("If-None-Match", "\"x\"")]).status(), StatusCode::OK);
    let bare = asked("GET", "/dashboard", &[]);
    assert_eq!((bare.status(), header(&bare, "Location")), (StatusCode::PERMANENT_REDIRECT, "dashboard/"));
}

#[test]
fn every_right_is_used() {
    let rights = text("lib/rights.js");
    let (_, rules) = rights.split_once("const RULES = {").unwrap();
    let (rules, _) = rules.split_once("};").unwrap();
    let names: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().split_once(": '")).map(|(name, _)| name).collect();
    assert!(names.len() > 10, "{names:?}");
    let all: String = ours().map(|(_, text)| text).collect();
    for name in names {
        let used = Regex::new(&format!(r"\bmay\.{name}\b")).unwrap();
        assert!(used.is_match(&all), "no page asks for the right {name}");
    }
}

#[test]
fn nothing_else_is_found_there() {
    let version = FILES.version();
    for path in ["app.js", "0000000000000000/app.js", "../Cargo.toml", "x", "index.html"] {
        assert_eq!(asked("GET", &format!("/dashboard/{path}"), &[]).status(), StatusCode::NOT_FOUND, "{path}");
    }
    for path in ["", "pages", "..%2f..%2fCargo.toml", "%ff", "app.js/", "//app.js"] {
        let path = format!("/dashboard/{version}/{path}");
        assert_eq!(asked("GET", &path, &[]).status(), StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(asked("POST", "/dashboard/", &[]).status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(is_here("/dashboard") && is_here("/dashboard/x") && !is_here("/dashboards"));
}

#[test]
fn every_answer_keeps_the_browser_strict() {
    let version = FILES.version();
    for path in ["/dashboard", "/dashboard/", &format!("/dashboard/{version}/app.js"), "/dashboard/missing"] {
        let answer = asked("GET", path, &[]);
        let policy = header(&answer, "Content-Security-Policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(header(&answer, "X-Content-Type-Options"), "nosniff");
        assert_eq!(header(&answer, "Referrer-Policy"), "no-referrer");
    }
}

/// The content security policy makes browsers refuse inline scripts and styles.
#[test]
fn pages_have_no_inline_scripts_styles_or_handlers_and_name_no_other_host() {
    let inline =
        Regex::new(r#"<script(?:>|[^>]*[^>/]>[^<])|<style|\sstyle="|\son[a-z]+="|javascript:|\beval\(|new Function"#)
            .unwrap();
    let remote = Regex::new(r"(?:https?:)?//[a-z0-9-]+\.[a-z]").unwrap();
    for (name, text) in ours() {
        assert!(!inline.is_match(&text), "{name}: {:?}", inline.find(&text));
        assert!(!remote.is_match(&text), "{name}: {:?}", remote.find(&text));
    }
}

/// Resolves `import x from './y.js'` against the folder of the importing file.
fn resolve(from: &str, import: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in import.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop().expect("within the folder")),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn every_imported_file_exists() {
    let import = Regex::new(r#"(?m)(?:^import\s[^;]*?from\s*|^import\s*|^export\s[^;]*?from\s*|[;}]import\{?[^;"]*?from|\bimport\()["']([^"']+)["']"#).unwrap();
    let mut found = 0;
    for (name, _) in FILES.all().filter(|(name, _)| name.ends_with("js")) {
        for one in import.captures_iter(&text(name)) {
            let wanted = resolve(name, &one[1]);
            assert!(FILES.get(&wanted).is_some(), "{name} imports {}", &one[1]);
            found += 1;
        }
    }
    assert!(found > 40, "{found} imports were found");
}

#[test]
fn libraries_match_their_checksums_and_have_licences() {
    let sums = text("vendor/SHA256SUMS");
    let listed: BTreeSet<String> = sums
        .lines()
        .map(|line| {
            let (sum, name) = line.split_once("  ").unwrap();
            let name = format!("vendor/{name}");
            let file = FILES.get(&name).unwrap_or_else(|| panic!("{name} is listed and not there"));
            assert_eq!(files::hex(&Sha256::digest(&file.bytes)), sum, "{name} was changed");
            name
        })
        .collect();
    let own = ["vendor/SHA256SUMS", "vendor/README.md"];
    for (name, _) in FILES.all().filter(|(name, _)| name.starts_with("vendor/") && !own.contains(name)) {
        assert!(listed.contains(name), "{name} is not listed");
        let library = name.split('/').nth(1).unwrap();
        assert!(FILES.get(&format!("vendor/{library}/LICENSE")).is_some(), "{library} has no licence");
    }
}

/// The size of the files that the first page loads is bounded. Console viewers are loaded on demand.
#[test]
fn the_pages_are_small() {
    const MOST: usize = 700_000;
    let consoles = ["vendor/xterm/", "vendor/novnc/"];
    let sent = FILES.all().filter(|(name, _)| !consoles.iter().any(|console| name.starts_with(console)));
    let (count, bytes) = sent.fold((0, 0), |(count, bytes), (_, file)| (count + 1, bytes + file.bytes.len()));
    assert!(count > 10 && bytes < MOST, "{count} files have {bytes} bytes");
}
