//! Serves the files of a viewer that runs in browsers, from the folder in `[DEFAULT] web`. If that folder lacks noVNC's
//! page, the dashboard's own page for screens is served in its place. Nothing else is served.

use std::path::{Component, Path};

use actix_web::{HttpRequest, HttpResponse};

use crate::dashboard;
use crate::query::percent_decode;

/// The largest served file, in bytes.
const LARGEST: u64 = 16 << 20;

pub(super) async fn answer(folder: &Path, file: &str, request: &HttpRequest) -> HttpResponse {
    if !matches!(request.method().as_str(), "GET" | "HEAD") {
        return HttpResponse::MethodNotAllowed().finish();
    }
    let found = match percent_decode(file) {
        Some(file) => read(folder, &file).await,
        None => None,
    };
    let Some((kind, bytes)) = found else {
        let is_screen = file == dashboard::SCREEN_PAGE;
        return if is_screen { dashboard::screen(request) } else { HttpResponse::NotFound().finish() };
    };
    HttpResponse::Ok().content_type(kind).insert_header(("X-Content-Type-Options", "nosniff")).body(bytes)
}

async fn read(folder: &Path, file: &str) -> Option<(&'static str, Vec<u8>)> {
    let file = Path::new(file);
    // Neither `..` nor hidden files are served.
    let plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.to_string_lossy().starts_with('.'),
        _ => false,
    };
    let kind = kind(file)?;
    let path = file.components().all(plain).then(|| folder.join(file))?;
    let found = tokio::fs::metadata(&path).await.ok()?;
    if !found.is_file() || found.len() > LARGEST {
        return None;
    }
    Some((kind, tokio::fs::read(&path).await.ok()?))
}

/// The types of the viewers' files; others are not served.
fn kind(file: &Path) -> Option<&'static str> {
    Some(match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "gif" => "image/gif",
        "jpg" | "jpeg" => "image/jpeg",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "mp3" => "audio/mpeg",
        "oga" | "ogg" => "audio/ogg",
        "wasm" => "application/wasm",
        "txt" => "text/plain; charset=utf-8",
        _ => return None,
    })
}
