//! Tests the port on a Glance that gives wrong answers, or none.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chronova_events::clock::SystemClock;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, ProjectId, RequestId};
use chronova_hypervisor::capability::snapshots::PlacedCopy;
use chronova_hypervisor::driver::{ByteStream, DriverError, ImageSource as _};
use chronova_hypervisor::guest::{ImageFormat, ImageRef};
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::super::http::{CallOptions, ServiceClient, TlsTrust};
use super::super::keystone::{
    CalledService, CallingAccounts, KeptUserToken, KeptUserTokens, KeystoneSession, ServicePlace,
};
use super::super::stub::{LOGIN, StubAnswer, StubCall, StubService};
use super::*;
use crate::ports::{ImageDraft, ImageService as _, PortError, UserToken};

fn glance(stub: &StubService, timeout: Duration) -> Arc<GlanceImages> {
    let calls = |name| CallOptions { name, timeout, retries: 1, tls: TlsTrust::default() };
    let client = ServiceClient::new(calls("keystone")).unwrap();
    let accounts =
        CallingAccounts { own: KeystoneSession::new(stub.account(), client, Arc::new(SystemClock)), vouching: None };
    let place = ServicePlace { endpoints: vec![stub.url.clone()], version: "v2", ..ServicePlace::default() };
    let service = CalledService::new(calls("glance"), place, accounts).unwrap();
    let users = KeptUserTokens::default();
    let user = KeptUserToken { token: UserToken::new("user"), project: None };
    users.keep(&RequestId::new("req-1"), user, std::time::Instant::now());
    GlanceImages::new(service, Arc::new(users), None)
}

const LONG: Duration = Duration::from_mins(1);

fn shown(status: &str) -> Value {
    json!({
        "id": ImageId(uuid::Uuid::from_u128(7)), "name": "disk", "status": status, "visibility": "private", "owner": "p1",
        "size": 7, "os_hash_algo": "sha512", "os_hash_value": "a".repeat(128), "disk_format": "raw",
        "container_format": "bare", "min_disk": 0, "min_ram": 0,
        "created_at": "2030-01-02T03:04:05Z", "updated_at": "2030-01-02T03:04:05Z",
    })
}

fn says(status: u16, body: &Value) -> StubAnswer {
    StubAnswer::Says(status, body.to_string())
}

fn image() -> ImageId {
    ImageId(uuid::Uuid::from_u128(7))
}

fn work() -> Arc<Meta> {
    Arc::new(Meta { request_id: Some(RequestId::new("req-1")), ..(*Meta::system("test")).clone() })
}

fn wanted(checksum: &str) -> ImageRef {
    let checksum = checksum.to_owned();
    ImageRef { id: image(), checksum, format: ImageFormat::Raw, size: 7, virtual_size: 7 }
}

fn content() -> ByteStream {
    Box::pin(futures::stream::iter([Ok(Bytes::from_static(b"content"))]))
}

#[tokio::test]
async fn nonsense_of_glance_s_is_no_image() {
    let project = ProjectId::new("p1");
    for (status, body) in [(200, "{}"), (200, ""), (200, "[]"), (500, "{}"), (204, ""), (301, ""), (429, "")] {
        let stub = StubService::beside_keystone(move |_| StubAnswer::Says(status, body.to_owned())).await;
        let found = glance(&stub, LONG).find(image(), &project, true).await;
        assert!(matches!(found, Err(PortError::Unavailable(_))), "{status} {body}: {found:?}");
    }
}

#[tokio::test]
async fn an_image_of_another_project_is_not_found_unless_it_is_shared() {
    for (shares, found) in [(404, false), (403, false), (200, true)] {
        let stub = StubService::beside_keystone(move |call| match call.line.contains("/members/") {
            true => says(shares, &json!({})),
            false => says(200, &shown("active")),
        })
        .await;
        let other = glance(&stub, LONG).find(image(), &ProjectId::new("p2"), false).await;
        assert_eq!(other.is_ok(), found, "{shares}: {other:?}");
    }
}

#[tokio::test]
async fn a_glance_that_does_not_answer_is_no_bad_image() {
    let stub = StubService::beside_keystone(|call| match call.line.ends_with("/file") {
        true => says(503, &json!({})),
        false => says(200, &shown("active")),
    })
    .await;
    let opened = glance(&stub, LONG).open(&wanted(&"a".repeat(128))).await.err();
    assert!(matches!(opened, Some(DriverError::ImageUnread { .. })), "{opened:?}");
    assert_eq!(
        stub.calls().iter().filter(|call| call.line.ends_with("/file")).count(),
        2,
        "the download is tried again"
    );
    let other = glance(&stub, LONG).open(&wanted(&"b".repeat(128))).await.err();
    assert!(matches!(other, Some(DriverError::BadImage { .. })), "{other:?}");
}

/// Nova recorded the MD5 of an image, so that is what the server's record has.
#[tokio::test]
async fn an_image_of_novas_is_found_by_its_md5_and_read_by_its_sha2() {
    let md5 = "d".repeat(32);
    let content = |sha2: String| {
        let document = shown("active");
        move |call: &StubCall| match call.line.ends_with("/file") {
            true => StubAnswer::Says(200, "content".to_owned()),
            false => {
                let mut document = document.clone();
                document["checksum"] = json!("d".repeat(32));
                document["os_hash_value"] = json!(sha2);
                says(200, &document)
            }
        }
    };
    // The SHA-512 of `content`.
    let right = "b2d1d285b5199c85f988d03649c37e44fd3dde01e5d69c50fef90651962f48110e9340b60d49a479c4c0b53f5f07d690686dd87d2481937a512e8b85ee7c617f";
    for (sha2, is_right) in [(right.to_owned(), true), ("a".repeat(128), false)] {
        let stub = StubService::beside_keystone(content(sha2)).await;
        // The beginning of the bytes is inspected before the stream is returned, and this content is short.
        match glance(&stub, LONG).open(&wanted(&md5)).await {
            Ok(opened) => {
                let read: Vec<_> = opened.collect().await;
                assert_eq!(read.iter().all(Result::is_ok), is_right, "{read:?}");
            }
            Err(refused) => assert!(!is_right && refused.to_string().contains("os_hash_value"), "{refused}"),
        }
    }
    let stub = StubService::beside_keystone(content(right.to_owned())).await;
    let other = glance(&stub, LONG).open(&wanted(&"e".repeat(32))).await.err().unwrap().to_string();
    assert!(other.contains(&md5) && other.contains(&"e".repeat(32)), "{other}");
}

/// The right to the bytes was checked when the request was accepted.
#[tokio::test]
async fn a_download_outlives_the_user_s_token() {
    let stub = StubService::beside_keystone(|call| match (call.header("x-auth-token"), call.line.ends_with("/file")) {
        (Some("user"), _) => says(401, &json!({})),
        (_, true) => StubAnswer::Says(200, "content".to_owned()),
        (_, false) => says(200, &shown("active")),
    })
    .await;
    let glance = glance(&stub, LONG);
    assert!(glance.open_as(&wanted(&"a".repeat(128)), &work()).await.is_ok());
    let calls = stub.calls();
    let users = calls.iter().filter(|call| call.header("x-auth-token") == Some("user")).count();
    assert_eq!(users, 2, "the calls try the user's token first");
    let asked = calls.iter().filter(|call| !call.line.starts_with(LOGIN));
    assert!(asked.clone().all(|call| call.header("x-openstack-request-id") == Some("req-1")), "{calls:?}");
}

#[tokio::test]
async fn nothing_is_written_with_a_token_that_counts_no_more() {
    let stub = StubService::beside_keystone(|call| {
        says(if call.header("x-auth-token") == Some("user") { 401 } else { 204 }, &json!({}))
    })
    .await;
    let glance = glance(&stub, LONG);
    let draft = ImageDraft {
        image: image(),
        name: "disk".to_owned(),
        owner: ProjectId::new("p1"),
        format: "raw".to_owned(),
        min_disk_gib: 0,
        min_memory_mib: 0,
        properties: Vec::new(),
    };
    for refused in [glance.create(draft, work()).await, glance.upload(image(), content(), work()).await] {
        assert!(matches!(&refused, Err(PortError::Forbidden(text)) if text.contains("token")), "{refused:?}");
    }
    assert_eq!(stub.count(LOGIN), 0, "Chronova's own account writes nothing");
    assert_eq!(glance.delete(image(), work()).await, Ok(()), "Chronova's own account deletes the image");
}

/// Behind a proxy, Glance cannot distinguish an interrupted upload from a complete one.
#[tokio::test]
async fn an_interrupted_upload_fails() {
    let stub = StubService::beside_keystone(|call| match call.line.split(' ').next() {
        Some("GET") => says(200, &shown("queued")),
        _ => says(204, &json!({})),
    })
    .await;
    let gone = std::io::Error::other("the sender went away");
    let half: ByteStream = Box::pin(futures::stream::iter([Ok(Bytes::from_static(b"half")), Err(gone)]));
    let sent = glance(&stub, LONG).upload(image(), half, work()).await;
    assert!(matches!(sent, Err(PortError::Unavailable(_))), "{sent:?}");
}

/// Glance has stored other bytes than were sent, or a part of the bytes, and its answer is lost.
#[tokio::test]
async fn an_upload_without_an_answer_leaves_no_wrong_image() {
    let half = || -> ByteStream {
        let gone = std::io::Error::other("the sender went away");
        Box::pin(futures::stream::iter([Ok(Bytes::from_static(b"half")), Err(gone)]))
    };
    for (sent, is_whole) in [(content(), true), (half(), false)] {
        let looks = std::sync::atomic::AtomicUsize::new(0);
        let stub = StubService::beside_keystone(move |call| match call.line.split(' ').next() {
            Some("GET") if looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => says(200, &shown("queued")),
            Some("GET") => says(200, &shown("active")),
            Some("DELETE") => says(204, &json!({})),
            _ => says(504, &json!({})),
        })
        .await;
        let sent = glance(&stub, LONG).upload(image(), sent, work()).await;
        match is_whole {
            true => assert!(matches!(sent, Err(PortError::Invalid(_))), "{sent:?}"),
            false => assert!(matches!(sent, Err(PortError::Unavailable(_))), "{sent:?}"),
        }
        assert_eq!(stub.count("DELETE"), 1, "all bytes were sent: {is_whole}");
    }
}

/// The first deletion finds no image, because Glance creates it a moment later.
#[tokio::test]
async fn an_image_that_is_created_late_is_deleted() {
    let deletions = std::sync::atomic::AtomicUsize::new(0);
    let stub = StubService::beside_keystone(move |call| match call.line.split(' ').next() {
        Some("DELETE") => {
            let before = deletions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            says(if before == 0 { 404 } else { 204 }, &json!({}))
        }
        _ => says(504, &json!({})),
    })
    .await;
    let glance = glance(&stub, Duration::from_secs(1));
    let draft = ImageDraft {
        image: image(),
        name: "disk".to_owned(),
        owner: ProjectId::new("p1"),
        format: "raw".to_owned(),
        min_disk_gib: 0,
        min_memory_mib: 0,
        properties: Vec::new(),
    };
    let made = glance.create(draft, work()).await;
    assert!(matches!(made, Err(PortError::Unavailable(_))), "{made:?}");
    assert_eq!(glance.delete(image(), work()).await, Ok(()));
    assert_eq!(stub.count("DELETE"), 2);
    assert_eq!(glance.delete(image(), work()).await, Ok(()));
    assert_eq!(stub.count("DELETE"), 3, "nothing is late any more, so one deletion is enough");
}

/// Glance died during an earlier upload.
#[tokio::test]
async fn an_image_that_glance_saves_for_ever_gets_no_bytes() {
    let stub = StubService::beside_keystone(|_| says(200, &shown("saving"))).await;
    let sent = glance(&stub, Duration::from_millis(300)).upload(image(), content(), work()).await;
    assert!(matches!(sent, Err(PortError::Conflict(_))), "{sent:?}");
    assert_eq!(stub.count("PUT"), 0, "nothing is uploaded");
}

#[tokio::test]
async fn an_image_with_different_data_is_deleted() {
    let puts = std::sync::atomic::AtomicUsize::new(0);
    let stub = StubService::beside_keystone(move |call| match call.line.split(' ').next() {
        Some("PUT") => {
            puts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            says(204, &json!({}))
        }
        Some("DELETE") => says(204, &json!({})),
        _ if puts.load(std::sync::atomic::Ordering::Relaxed) > 0 => says(200, &shown("active")),
        _ => says(200, &shown("queued")),
    })
    .await;
    let sent = glance(&stub, LONG).upload(image(), content(), work()).await;
    assert!(matches!(&sent, Err(PortError::Invalid(text)) if text.contains("different data")), "{sent:?}");
    assert_eq!(stub.count("DELETE"), 1);
}

#[tokio::test]
async fn calls_to_a_silent_glance_end() {
    let stub = StubService::beside_keystone(|_| StubAnswer::Silence).await;
    let glance = glance(&stub, Duration::from_millis(50));
    let found = glance.find(image(), &ProjectId::new("p1"), true).await;
    assert!(matches!(found, Err(PortError::Unavailable(_))), "{found:?}");
    let opened = glance.open(&wanted(&"a".repeat(128))).await.err();
    assert!(matches!(opened, Some(DriverError::ImageUnread { .. })), "{opened:?}");
    assert!(matches!(glance.delete(image(), work()).await, Err(PortError::Unavailable(_))));
}

#[tokio::test]
async fn the_places_of_an_image_are_those_of_its_present_data() {
    let mut document = shown("active");
    document["direct_url"] = json!("rbd://fsid/images/7/snap");
    let stub = StubService::beside_keystone(move |_| says(200, &document)).await;
    let glance = glance(&stub, LONG);
    let places = glance.places_as(&wanted(&"a".repeat(128)), &work()).await.unwrap();
    assert_eq!(places, ["rbd://fsid/images/7/snap"]);
    let other = glance.places_as(&wanted(&"b".repeat(128)), &work()).await.err();
    assert!(matches!(other, Some(DriverError::BadImage { .. })), "{other:?}");
}

#[tokio::test]
async fn a_copy_in_glances_storage_is_adopted_with_its_hash() {
    let copy = PlacedCopy { url: "rbd://fsid/images/7/snap".to_owned(), sha512: "c".repeat(128) };
    for (state, status, adopted, refused) in [
        ("queued", 200, true, false),
        ("queued", 403, true, true),
        ("queued", 409, true, true),
        // A repeated step finds the image with its data.
        ("active", 500, false, false),
    ] {
        let stub = StubService::beside_keystone(move |call| match call.line.starts_with("PATCH ") {
            true => says(status, &json!({})),
            false => says(200, &shown(state)),
        })
        .await;
        let done = glance(&stub, LONG).adopt(image(), &copy, work()).await;
        assert_eq!(matches!(done, Err(PortError::Forbidden(_))), refused, "{state} {status}: {done:?}");
        assert_eq!(done.is_ok(), !refused, "{state} {status}: {done:?}");
        let calls = stub.calls();
        let sent: Vec<_> = calls.iter().filter(|call| call.line.starts_with("PATCH ")).collect();
        assert_eq!(!sent.is_empty(), adopted, "{state} {status}");
        for call in sent {
            assert!(call.body.contains(&copy.url) && call.body.contains(&copy.sha512), "{}", call.body);
        }
    }
}
