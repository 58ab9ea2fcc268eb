//! Archives in an object store.

#[allow(unreachable_pub, dead_code, reason = "shared with the tests of the program")]
mod server;

use std::io::{ErrorKind, Read as _, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::archive::{self, manifests, segment};
use chronova_events::envelope::{Position, Timestamp};
use chronova_events::place::{FilePlace, FolderPlace, LOCAL, PlaceAddress, S3Access, S3Address, S3Limits, S3Place};
use chronova_events::store::conformance::equals_model;
use server::ObjectTrouble::{CutsAnswer, Hangs, LosesAnswer, Serves, Status};
use server::{BUCKET, ObjectServer};

use super::{assert_whole, extend, fill, log, look, open, reads_are_equal};

/// Short pauses, so that a test does not wait.
const LIMITS: S3Limits = S3Limits {
    connect: Duration::from_secs(5),
    silence: Duration::from_secs(20),
    tries: 4,
    pause: Duration::from_millis(1),
    total: Duration::from_mins(1),
    part: 1 << 20,
};

fn address(server: &ObjectServer, folder: &Path) -> S3Address {
    let access = S3Access {
        endpoint: Some(server.endpoint()),
        region: None,
        key_file: Some(ObjectServer::key_file(folder)),
        ca_file: None,
    };
    S3Address { bucket: BUCKET.to_owned(), prefix: "logs/one".to_owned(), access }
}

fn place_with(server: &ObjectServer, folder: &Path, limits: S3Limits) -> S3Place {
    S3Place::with_limits(&address(server, folder), &folder.join(LOCAL), limits).unwrap()
}

fn place(server: &ObjectServer, folder: &Path) -> Arc<S3Place> {
    Arc::new(place_with(server, folder, LIMITS))
}

/// The requests for the content of segments.
fn reads_of_segments(server: &ObjectServer) -> usize {
    server.requests().iter().filter(|request| request.starts_with("GET ") && request.ends_with("jsonl.zst")).count()
}

#[tokio::test]
async fn a_log_reads_its_first_events_from_an_object_store() {
    let (folder, path, _, model) = log(60).await;
    let (server, store) = (ObjectServer::start(), open(&path));
    let archive = place(&server, folder.path());
    extend(&store, &*archive, 50).await;
    store.move_to_archive(Position(50), archive, |_| ControlFlow::Continue(())).await.unwrap();
    let noted = PlaceAddress::S3(address(&server, folder.path()));
    assert_eq!(store.archived().await.unwrap().archive, Some(noted));
    fill(&*store, &*model, 5).await;
    reads_are_equal(&*store, &*model).await;
    store.close().await;
    assert_whole(&path, 65);
    // No draft is left. The cache answers for the only frame, also to another process.
    let mut kept = std::fs::read_dir(folder.path().join(LOCAL)).unwrap().map(|entry| entry.unwrap().path());
    assert!(kept.all(|path| path.extension().unwrap() == "part"));
    server.requests();
    let store = open(&path);
    equals_model(&*store, &*model).await;
    assert_eq!(reads_of_segments(&server), 0);
    store.close().await;
    // The cache may be lost at any time.
    std::fs::remove_dir_all(folder.path().join(LOCAL)).unwrap();
    let store = open(&path);
    equals_model(&*store, &*model).await;
    assert_eq!(reads_of_segments(&server), 1);
    store.close().await;
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_repeated_and_the_manifest_comes_last() {
    let (folder, path, _, _) = log(40).await;
    let (server, store) = (ObjectServer::start(), open(&path));
    let archive = place(&server, folder.path());
    archive.prepare().unwrap();
    server.next(&[Status(500, "InternalError"), CutsAnswer, Status(503, "SlowDown")]);
    assert!(archive.names().unwrap().is_empty());
    server.next(&[LosesAnswer, Status(503, "SlowDown"), Status(500, "InternalError")]);
    let first = segment::write(&*store, &*archive, (1, 20), Timestamp(1), None, |_| ()).await.unwrap();
    server.next(&[Status(502, ""), LosesAnswer]);
    archive.create("log-x.json", b"{}").unwrap();
    assert_eq!(server.left(), 0);
    assert_eq!(server.object("logs/one/log-x.json").as_deref(), Some(&b"{}"[..]));
    // The answer to the first request was lost. The second request found the file there, with the same content.
    assert_eq!(archive.create("log-x.json", b"{}").map_err(|error| error.kind()), Ok(()));
    assert_eq!(archive.create("log-x.json", b"{1}").map_err(|error| error.kind()), Err(ErrorKind::AlreadyExists));
    let segments = |server: &ObjectServer| {
        let all = server.keys().into_iter().filter(|key| !key.contains("log-x"));
        all.map(|key| key.rsplit('.').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(segments(&server), ["json", "zst"]);
    // The store fails for a long time. The segment may be there, but it has no manifest.
    server.next(&[&[LosesAnswer, Status(200, "")][..], &[Status(503, "SlowDown"); 4][..]].concat());
    let failed = segment::write(&*store, &*archive, (21, 40), Timestamp(1), None, |_| ()).await.unwrap_err();
    assert!(failed.to_string().contains("it answers 503 SlowDown of a test (asked 4 times)"), "{failed}");
    assert_eq!(segments(&server), ["json", "zst", "zst"]);
    // `log-x.json` has a name like our manifests, and is none.
    assert!(manifests(&*archive).is_err());
    let other = tempfile::tempdir().unwrap();
    let clean = ObjectServer::start();
    for key in server.keys().into_iter().filter(|key| !key.contains("log-x")) {
        clean.put(&key, &server.object(&key).unwrap());
    }
    let archive = place(&clean, other.path());
    assert_eq!(manifests(&*archive).unwrap(), [first]);
    extend(&store, &*archive, 40).await;
    assert_eq!(manifests(&*archive).unwrap().last().map(|newest| newest.last), Some(40));
    store.close().await;
}

#[tokio::test]
async fn damage_in_an_object_store_is_found() {
    let (folder, path, _, _) = log(60).await;
    let (server, store) = (ObjectServer::start(), open(&path));
    let archive = place(&server, folder.path());
    extend(&store, &*archive, 50).await;
    store.move_to_archive(Position(50), archive, |_| ControlFlow::Continue(())).await.unwrap();
    store.close().await;
    let key = server.keys().into_iter().find(|key| key.ends_with("jsonl.zst")).unwrap();
    let mut bytes = server.object(&key).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    server.put(&key, &bytes);
    // The cache has the undamaged frame. The check of the file does not use the cache.
    let found = look(&path);
    let changed = format!("s3://{BUCKET}/{key}: the file is not as it was written");
    assert!(found.damages.iter().any(|damage| damage.what == changed), "{found:?}");
    std::fs::remove_dir_all(folder.path().join(LOCAL)).unwrap();
    let found = look(&path);
    assert!(found.damages.iter().any(|damage| damage.position.is_some()), "{found:?}");
    // The cache does not keep the damage: the log is whole again when the object is.
    bytes[middle] ^= 1;
    server.put(&key, &bytes);
    assert_whole(&path, 60);
}

/// Checks that a place keeps its files. Both kinds of places must pass this.
fn keeps_files(place: &dyn FilePlace) {
    place.prepare().unwrap();
    assert!(place.sizes().unwrap().is_empty());
    let write = |name: &str, content: &[u8]| {
        let mut draft = place.draft(name).unwrap();
        draft.file.write_all(content).unwrap();
        let sha256 = archive::sha256(&draft.path).unwrap();
        place.finish(draft, &sha256).unwrap();
    };
    write("one", b"0123456789");
    write("one", b"abcdefghij");
    write("empty", b"");
    // An abandoned draft does not become a file, and the next draft of the same name starts empty.
    let mut given_up = place.draft("two").unwrap();
    given_up.file.write_all(b"given up").unwrap();
    let path = given_up.path.clone();
    assert!(path.exists());
    drop(given_up);
    assert!(!path.exists(), "a draft that is given up takes space");
    write("two", b"2");
    place.create("manifest", b"{}").unwrap();
    place.create("manifest", b"{}").unwrap();
    assert_eq!(place.create("manifest", b"{1}").unwrap_err().kind(), ErrorKind::AlreadyExists);
    let mut sizes = place.sizes().unwrap();
    sizes.sort();
    let expected = [("empty", 0), ("manifest", 2), ("one", 10), ("two", 1)].map(|(name, size)| (name.to_owned(), size));
    assert_eq!(sizes, expected);
    let names: Vec<String> = sizes.into_iter().map(|(name, _)| name).collect();
    place.make_durable(&names).unwrap();
    assert_eq!(place.make_durable(&["three".to_owned()]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(place.get("one").unwrap(), b"abcdefghij");
    assert_eq!(place.range("one", 8, 7).unwrap(), b"ij");
    assert_eq!(place.range("one", 10, 7).unwrap(), b"");
    for (name, content) in [("one", "abcdefghij"), ("empty", "")] {
        let mut read = String::new();
        place.reader(name).unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, content);
        assert_eq!(archive::sha256_in(place, name).unwrap().len(), 64);
    }
    place.remove("one").unwrap();
    place.remove("one").unwrap();
    assert_eq!(place.get("one").unwrap_err().kind(), ErrorKind::NotFound);
    assert!(place.path_of("two").to_str().unwrap().ends_with("/two"));
}

#[test]
fn a_folder_and_an_object_store_keep_files_in_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    keeps_files(&FolderPlace::new(folder.path().join("new/place")));
    keeps_files(&*place(&ObjectServer::start(), folder.path()));
}

#[test]
fn files_are_listed_in_parts_and_read_in_ranges() {
    let (folder, server) = (tempfile::tempdir().unwrap(), ObjectServer::start());
    let place = place(&server, folder.path());
    let large: Vec<u8> = (0..(4_u32 << 20) + 3).map(|n| n.to_le_bytes()[1]).collect();
    for n in 0..7 {
        server.put(&format!("logs/one/file {n}"), b"0123456789");
    }
    server.put("logs/one/large", &large);
    server.put("logs/one/below/file", b"");
    server.put("logs/other", b"");
    let mut names = place.names().unwrap();
    names.sort();
    let expected: Vec<String> = (0..7).map(|n| format!("file {n}")).chain(["large".to_owned()]).collect();
    assert_eq!(names, expected);
    place.make_durable(&names).unwrap();
    assert_eq!(place.make_durable(&["file 8".to_owned()]).unwrap_err().kind(), ErrorKind::NotFound);
    let parts = [(0, 3, "012"), (8, 9, "89"), (4, u64::MAX, "456789"), (10, 2, ""), (0, 0, "")];
    for (from, length, expected) in parts {
        let expected = expected.as_bytes();
        assert_eq!(place.range("file 1", from, length).unwrap(), expected, "{from} {length}");
        assert_eq!(place.range("file 1", from, length).unwrap(), expected, "{from} {length} from the cache");
    }
    assert_eq!(place.get("none").unwrap_err().kind(), ErrorKind::NotFound);
    let mut read = Vec::new();
    server.next(&[CutsAnswer]);
    place.reader("large").unwrap().read_to_end(&mut read).unwrap();
    assert!(read == large, "{} bytes were read", read.len());
}

#[test]
fn a_large_file_is_uploaded_in_parts() {
    let (folder, server) = (tempfile::tempdir().unwrap(), ObjectServer::start());
    let place = place_with(&server, folder.path(), S3Limits { part: 1_000, ..LIMITS });
    place.prepare().unwrap();
    let content: Vec<u8> = (0..2_500_u32).map(|n| n.to_le_bytes()[0]).collect();
    let upload = |troubles: &[server::ObjectTrouble]| {
        let mut draft = place.draft("large").unwrap();
        draft.file.write_all(&content).unwrap();
        server.next(troubles);
        place.finish(draft, "the hash of the file is not sent")
    };
    // The requests are the beginning, three parts and the end.
    upload(&[LosesAnswer]).unwrap();
    assert!(server.object("logs/one/large").unwrap() == content);
    place.remove("large").unwrap();
    place.remove("large").unwrap();
    assert_eq!(server.object("logs/one/large"), None);
    upload(&[Status(500, "InternalError"), CutsAnswer, Serves, LosesAnswer]).unwrap();
    upload(&[Serves, Serves, Serves, Serves, LosesAnswer]).unwrap();
    assert!(server.object("logs/one/large").unwrap() == content);
    assert_eq!(place.sizes().unwrap(), [("large".to_owned(), 2_500)]);
    // The store goes on failing: the upload is ended, and the object is the earlier one.
    let begun = server.uploads();
    let failed = upload(&[&[Serves; 2][..], &[Status(503, "SlowDown"); 4][..]].concat()).unwrap_err();
    assert!(failed.to_string().contains("503"), "{failed}");
    assert!(server.object("logs/one/large").unwrap() == content);
    assert_eq!(server.uploads(), begun);
}

#[test]
fn a_store_that_does_not_answer_is_asked_again_and_then_given_up() {
    let (folder, server) = (tempfile::tempdir().unwrap(), ObjectServer::start());
    let limits = S3Limits { silence: Duration::from_millis(400), tries: 2, ..LIMITS };
    let place = place_with(&server, folder.path(), limits);
    server.put("logs/one/a", b"one");
    server.next(&[Hangs, Hangs]);
    let told = place.get("a").unwrap_err();
    assert_eq!(told.kind(), ErrorKind::TimedOut);
    assert!(told.to_string().contains("(asked 2 times): check that the object store runs"), "{told}");
    assert_eq!(server.left(), 0);
}

#[test]
fn a_refusal_tells_what_to_change() {
    let (folder, server) = (tempfile::tempdir().unwrap(), ObjectServer::start());
    let there = address(&server, folder.path());
    let told = |address: &S3Address| {
        let place = S3Place::with_limits(address, &folder.path().join(LOCAL), LIMITS);
        place.and_then(|place| place.names()).unwrap_err().to_string()
    };
    let other = S3Address { bucket: "warm".to_owned(), ..there.clone() };
    assert!(told(&other).contains("create the bucket warm"), "{}", told(&other));
    let elsewhere = S3Access { region: Some("mars".to_owned()), ..there.access.clone() };
    let elsewhere = S3Address { access: elsewhere, ..there.clone() };
    assert!(told(&elsewhere).contains("check the access key in "), "{}", told(&elsewhere));
    server.next(&[Status(403, "RequestTimeTooSkewed")]);
    assert!(told(&there).contains("set the clock of this machine"));
    server.next(&[Status(403, "AccessDenied")]);
    assert!(told(&there).contains("needs the right to list, read, write and delete in cold"));
    server.next(&[Status(301, "PermanentRedirect")]);
    assert!(told(&there).contains("[chronova] s3_region"));
    let key = ObjectServer::key_file(folder.path());
    std::fs::write(&key, "nothing").unwrap();
    assert!(told(&there).contains("aws_access_key_id"));
    std::fs::remove_file(&key).unwrap();
    assert!(told(&there).contains("s3.key: No such file"), "{}", told(&there));
    let none = S3Address { access: S3Access { key_file: None, ..there.access.clone() }, ..there };
    assert!(told(&none).contains("set [chronova] s3_key_file"));
    // The key can be exchanged while the server runs.
    ObjectServer::key_file(folder.path());
    assert!(place(&server, folder.path()).names().unwrap().is_empty());
}
