//! The dashboard: static pages below `/dashboard`, embedded in the program.
//!
//! The dashboard has no back end. Its pages call the public APIs of the same listener with the viewer's own token, so
//! the policy alone decides what a viewer sees. The sources are in `web/dashboard`, and are served unchanged.
//!
//! Invariants: pages load nothing from another host, and use only scripts and styles from our files ([`POLICY`]). All
//! files except [`INDEX`] and [`SCREEN`] are below a folder that is named after a hash of their content. So a browser
//! caches them for ever, and never mixes the files of two versions.

mod files;

use std::sync::LazyLock;

use actix_web::http::header::HeaderMap;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};

use self::files::{DashboardFile, FILES};
use crate::query::percent_decode;

/// The path of the dashboard on the common port.
pub const PATH: &str = "/dashboard";

/// The content security policy of the pages. noVNC needs `data:` images for the shape of the pointer.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(&str, &str); 6] = [
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
];

/// The first page, which names the folder of the other files.
static INDEX: LazyLock<DashboardFile> = LazyLock::new(|| page(files::INDEX));

/// The page that shows a server's screen to the holder of a console's address.
static SCREEN: LazyLock<DashboardFile> = LazyLock::new(|| page(SCREEN_PAGE));

/// The file name of [`SCREEN`]. noVNC's own page has the same name.
pub(crate) const SCREEN_PAGE: &str = "vnc_auto.html";

/// A page outside the folder of the other files.
fn page(name: &str) -> DashboardFile {
    let source = FILES.get(name).map(|file| String::from_utf8_lossy(&file.bytes).into_owned());
    let page = source.unwrap_or_default().replace("{{files}}", FILES.version());
    DashboardFile::new(name, page.into_bytes().into())
}

/// Answers with the page that shows a screen.
pub(crate) fn screen(request: &HttpRequest) -> HttpResponse {
    send(request, &SCREEN, "no-cache")
}

/// Whether a path belongs to the dashboard.
pub(crate) fn is_here(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers every request below [`PATH`].
pub(crate) fn answer(request: &HttpRequest) -> HttpResponse {
    if !matches!(request.method().as_str(), "GET" | "HEAD") {
        return start(HttpResponse::MethodNotAllowed()).insert_header(("Allow", "GET, HEAD")).finish();
    }
    let rest = request.path().strip_prefix(PATH).unwrap_or_default();
    match rest {
        // The target is relative, so that it is also right behind a proxy that adds a prefix.
        "" => start(HttpResponse::PermanentRedirect()).insert_header(("Location", "dashboard/")).finish(),
        "/" => send(request, &INDEX, "no-cache"),
        _ => match versioned(rest) {
            Some(file) => send(request, file, "public, max-age=31536000, immutable"),
            None => start(HttpResponse::NotFound()).insert_header(("Cache-Control", "no-store")).finish(),
        },
    }
}

/// The file of `/VERSION/NAME`.
fn versioned(rest: &str) -> Option<&'static DashboardFile> {
    let (version, name) = rest.strip_prefix('/')?.split_once('/')?;
    FILES.get(&percent_decode(name)?).filter(|_| version == FILES.version())
}

fn send(request: &HttpRequest, file: &DashboardFile, caching: &'static str) -> HttpResponse {
    let status = if has_it(request.headers(), &file.tag) { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    let mut response = start(status);
    response.insert_header(("ETag", file.tag.as_str())).insert_header(("Cache-Control", caching));
    if has_it(request.headers(), &file.tag) {
        return response.finish();
    }
    response.content_type(file.kind);
    if request.method() == "HEAD" { response.finish() } else { response.body(file.bytes.clone()) }
}

fn start(mut response: HttpResponseBuilder) -> HttpResponseBuilder {
    for header in HEADERS {
        response.insert_header(header);
    }
    response
}

/// Whether the browser has this content in its cache (`If-None-Match`).
fn has_it(headers: &HeaderMap, tag: &str) -> bool {
    let texts = headers.get_all("If-None-Match").filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|one| matches!(one.trim(), one if one == tag || one == "*"))
}

#[cfg(test)]
mod tests;
