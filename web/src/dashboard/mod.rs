//! The dashboard: static pages below `/dashboard`, which are part of the program.
//!
//! It has no back end of its own. Its pages ask the public APIs of the same listener with the viewer's own token, so
//! that the policy alone decides what a viewer sees. The sources are in `web/dashboard`, and are served as they are.
//!
//! Invariants: nothing comes from another host, and no page runs a script or a style that is not a file of ours
//! ([`POLICY`]). All files but the first lie below a folder that is named after their content, so a browser keeps them
//! for ever, and never mixes the files of two versions.

mod files;

use std::sync::LazyLock;

use actix_web::http::header::HeaderMap;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};

use self::files::{DashboardFile, FILES};
use crate::query::percent_decode;

/// The dashboard's path, beside the services.
pub const PATH: &str = "/dashboard";

/// The limits on what pages load and do. noVNC gives the pointer its shape with a `data:` image.
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

/// The first page, in which the folder of the other files is named.
static INDEX: LazyLock<DashboardFile> = LazyLock::new(|| {
    let source = FILES.get(files::INDEX).map(|file| String::from_utf8_lossy(&file.bytes).into_owned());
    let page = source.unwrap_or_default().replace("{{files}}", FILES.version());
    DashboardFile::new(files::INDEX, page.into_bytes().into())
});

/// Whether a path is the dashboard's.
pub(crate) fn is_here(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers whatever is asked below [`PATH`].
pub(crate) fn answer(request: &HttpRequest) -> HttpResponse {
    if !matches!(request.method().as_str(), "GET" | "HEAD") {
        return start(HttpResponse::MethodNotAllowed()).insert_header(("Allow", "GET, HEAD")).finish();
    }
    let rest = request.path().strip_prefix(PATH).unwrap_or_default();
    match rest {
        // Relative, so that it is right behind a proxy that adds a prefix.
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

/// Whether the browser says that it has this content.
fn has_it(headers: &HeaderMap, tag: &str) -> bool {
    let texts = headers.get_all("If-None-Match").filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|one| matches!(one.trim(), one if one == tag || one == "*"))
}

#[cfg(test)]
mod tests;
