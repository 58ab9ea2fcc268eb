//! Backups and archives in an object store.

#[allow(dead_code, reason = "shared with the tests of the archive")]
#[path = "../../../events/tests/s3/server.rs"]
mod object_server;

use object_server::ObjectTrouble::{self, LosesAnswer, Serves, Status};
use object_server::{BUCKET, ObjectServer};

use super::{FLEET, at_rest, chronova, count, create, done, head, images_are_whole, restored, run, servers};
use crate::cloud::Cloud;

/// The answer of a store that has no more space.
const FULL: ObjectTrouble = Status(507, "XMinioStorageFull");

/// The files in a local folder of the data directory that a killed or failed command leaves.
fn drafts(cloud: &Cloud, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(cloud.data().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| std::path::Path::new(name).extension().is_some_and(|end| end == "tmp")).collect()
}

/// The first key with this beginning and this end.
fn key(server: &ObjectServer, begin: &str, end: &str) -> String {
    let mut keys = server.keys().into_iter().filter(|key| key.starts_with(begin) && key.ends_with(end));
    keys.next().unwrap_or_else(|| panic!("no object {begin}...{end} in {:?}", server.keys()))
}

#[test]
fn backups_in_an_object_store_are_listed_verified_pruned_and_restored() {
    let server = ObjectServer::start();
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    let place = server.address("backups/here", cloud.folder.path());
    let goods = cloud.furnish();
    let first = create(&cloud.client(), &goods, "first");
    done(cloud.command(&["backup", "create", &place]));
    let middle = head(&cloud);
    at_rest(&mut cloud);
    done(cloud.command(&["backup", "create", &place]));
    assert_eq!(count(&place), 2);
    let whole = done(chronova(&["backup", "verify", &place]));
    assert!(
        whole.contains("the backups are whole") && whole.contains(&format!("s3://{BUCKET}/backups/here")),
        "{whole}"
    );
    // A flipped byte is found, and its object is named.
    let segment = key(&server, "backups/here/log/", ".zst");
    let content = server.object(&segment).unwrap();
    let mut damaged = content.clone();
    let middle_byte = damaged.len() / 2;
    damaged[middle_byte] ^= 1;
    server.put(&segment, &damaged);
    let (code, told) = chronova(&["backup", "verify", &place]);
    assert!(code == 1 && told.contains("DAMAGE  log/") && told.contains("NOT whole"), "{told}");
    server.put(&segment, &content);
    let mut earlier = restored(&place, &["--at", &middle.to_string()]);
    run(&mut earlier, |client| assert!(images_are_whole(client) > 0));
    let told = done(cloud.command(&["backup", "prune", &place, "--keep", "1"]));
    assert!(told.contains("removed 1 backups, 1 are left"), "{told}");
    assert_eq!(count(&place), 1);
    cloud.stop();
    let mut again = restored(&place, &[]);
    run(&mut again, |client| assert!(servers(client).iter().any(|(id, _)| *id == first)));
    // Beside the log, the commands leave only the folder for drafts, with the lock.
    let drafts = std::fs::read_dir(cloud.data().join("backups.s3")).unwrap();
    let names: Vec<String> = drafts.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["lock"]);
}

#[test]
fn a_log_with_its_archive_in_an_object_store_answers_every_command() {
    let server = ObjectServer::start();
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let goods = cloud.furnish();
    let id = create(&cloud.client(), &goods, "one");
    at_rest(&mut cloud);
    cloud.stop();
    let place = server.address("archive", cloud.folder.path());
    let before = done(cloud.command(&["audit", "--without-index"]));
    let told = done(cloud.command(&["log", "prune", "--older-than", "0s", "--archives", &place]));
    assert!(told.contains(&format!("are in s3://{BUCKET}/archive\n")), "{told}");
    assert_eq!(done(cloud.command(&["audit", "--without-index"])), before);
    assert!(done(cloud.command(&["inspect", &id])).contains("instance."));
    let verified = done(cloud.command(&["audit", "verify"]));
    assert!(
        verified.contains("the log is whole") && verified.contains(&format!("s3://{BUCKET}/archive")),
        "{verified}"
    );
    assert!(done(cloud.command(&["audit", "verify-archive", &place])).starts_with("valid: "));
    assert!(!done(cloud.command(&["audit", "--archive", &place, "--server", &id])).is_empty());
    // Each anchor is an object. A second command finds that the last anchor is still up to date.
    let anchors = server.address("anchors", cloud.folder.path());
    let signing = cloud.folder.path().join("signing").display().to_string();
    done(chronova(&["audit", "keygen", "--out", &signing]));
    let anchor = |cloud: &Cloud| done(cloud.command(&["audit", "anchor", "--sign-key", &signing, "--out", &anchors]));
    anchor(&cloud);
    assert!(anchor(&cloud).contains("is the last anchor in s3://"), "the anchor was made twice");
    let public = format!("{signing}.pub");
    let told = done(cloud.command(&["audit", "verify-anchors", &anchors, "--public-key", &public]));
    assert!(told.starts_with("valid: 1 anchors, up to position "), "{told}");
    // The archive moves to a folder, and `log prune --archives` notes the new place in the log.
    let folder = cloud.folder.path().join("here");
    std::fs::create_dir(&folder).unwrap();
    for key in server.keys().into_iter().filter(|key| key.starts_with("archive/")) {
        std::fs::write(folder.join(key.rsplit('/').next().unwrap()), server.object(&key).unwrap()).unwrap();
    }
    let folder = folder.display().to_string();
    let told = done(cloud.command(&["log", "prune", "--older-than", "36500d", "--archives", &folder]));
    assert!(told.contains("the log reads its archive in "), "{told}");
    server.requests();
    assert_eq!(done(cloud.command(&["audit", "--without-index"])), before);
    assert!(server.requests().is_empty());
}

#[test]
fn a_start_needs_no_object_store() {
    let server = ObjectServer::start();
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let goods = cloud.furnish();
    let old = cloud.server(&goods, "old", &serde_json::json!({}));
    cloud.stop();
    // The checkpoint before the newest one is of an archived event.
    cloud.start();
    let flavor = serde_json::json!({"flavor": {"name": "later", "vcpus": 1, "ram": 64, "disk": 1}});
    cloud.client().post("/compute/v2.1/flavors", &flavor).unwrap().expect(200);
    cloud.stop();
    assert!(std::fs::read_dir(cloud.data().join("views")).unwrap().count() >= 2);
    let place = server.address("archive", cloud.folder.path());
    let told = done(cloud.command(&["log", "prune", "--older-than", "0s", "--archives", &place]));
    assert!(told.contains(&format!("are in s3://{BUCKET}/archive\n")), "{told}");
    // Without the cache, each read of an archived event asks the store.
    std::fs::remove_dir_all(cloud.data().join("archive.s3")).unwrap();
    server.requests();
    cloud.start();
    cloud.delete_server(&old);
    cloud.server(&goods, "new", &serde_json::json!({}));
    cloud.stop();
    assert_eq!(server.requests(), Vec::<String>::new());
    std::fs::remove_file(cloud.folder.path().join("s3.key")).unwrap();
    let (code, told) = cloud.command(&["audit", "--without-index"]);
    assert!(code == 2 && told.contains(&format!("s3://{BUCKET}/archive")), "{told}");
    // With the store back, the whole log is valid: the actors continued where the archived events end.
    ObjectServer::key_file(cloud.folder.path());
    assert!(done(cloud.command(&["audit", "verify"])).contains("the log is whole"));
}

#[test]
fn a_move_into_an_object_store_that_fails_moves_nothing_and_is_repeated() {
    let server = ObjectServer::start();
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let goods = cloud.furnish();
    create(&cloud.client(), &goods, "one");
    at_rest(&mut cloud);
    cloud.stop();
    let place = server.address("archive", cloud.folder.path());
    let prune: [&str; 6] = ["log", "prune", "--older-than", "0s", "--archives", &place];
    let before = done(cloud.command(&["audit", "--without-index"]));
    let fails = |cloud: &Cloud, told: &str, what: &str| {
        let (code, text) = cloud.command(&prune);
        assert!(code == 2 && text.contains(told), "{what}: {code} {text}");
        assert_eq!((server.left(), drafts(cloud, "archive.s3")), (0, Vec::new()), "{what}");
        let verified = done(cloud.command(&["audit", "verify"]));
        let is_whole = verified.contains("the log is whole") && !verified.contains("are in the archive in");
        assert!(is_whole, "{what}: {verified}");
    };
    match cloud.let_calls_fail("archive.s3") {
        Ok(how) => {
            std::fs::write(&how, "write 28").unwrap();
            fails(&cloud, "No space left on device", "a full local disk");
            std::fs::write(&how, "").unwrap();
            assert_eq!(server.keys(), Vec::<String>::new());
        }
        Err(reason) => println!("skipped: calls cannot be made to fail here: {reason}"),
    }
    let quota = "raise the quota of the bucket";
    for (troubles, what) in [
        (&[FULL][..], "the segment is refused"),
        (&[LosesAnswer, FULL][..], "the segment is there, and nobody knows it"),
        (&[Serves, FULL][..], "the manifest is refused"),
        (&[Serves, LosesAnswer, FULL][..], "the archive is complete, and nobody knows it"),
    ] {
        server.next_uploads(troubles);
        fails(&cloud, quota, what);
    }
    let told = done(cloud.command(&prune));
    assert!(told.contains(&format!("are in s3://{BUCKET}/archive\n")), "{told}");
    assert_eq!(done(cloud.command(&["audit", "--without-index"])), before);
    assert!(done(cloud.command(&["audit", "verify"])).contains("the log is whole"));
}

#[test]
fn a_backup_into_an_object_store_that_fails_spoils_nothing_and_is_repeated() {
    let server = ObjectServer::start();
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    let place = server.address("backups", cloud.folder.path());
    done(cloud.command(&["backup", "create", &place]));
    cloud.furnish();
    let fails = |cloud: &Cloud, what: &str| {
        let (code, text) = cloud.command(&["backup", "create", &place]);
        let is_told = text.contains("the 1 older backups") && text.contains("Free space");
        assert!(code == 2 && is_told, "{what}: {code} {text}");
        assert_eq!((count(&place), drafts(cloud, "backups.s3")), (1, Vec::new()), "{what}");
        done(chronova(&["backup", "verify", &place]));
    };
    server.next_uploads(&[FULL]);
    fails(&cloud, "the first upload is refused");
    server.next_uploads(&[LosesAnswer, FULL]);
    fails(&cloud, "the first upload is there, and nobody knows it");
    match cloud.let_calls_fail("backups.s3") {
        Ok(how) => {
            std::fs::write(&how, "write 28").unwrap();
            fails(&cloud, "a full local disk");
            std::fs::write(&how, "").unwrap();
        }
        Err(reason) => println!("skipped: calls cannot be made to fail here: {reason}"),
    }
    server.next_uploads(&[LosesAnswer, Serves, LosesAnswer]);
    done(cloud.command(&["backup", "create", &place]));
    assert_eq!((count(&place), server.left()), (2, 0));
    done(chronova(&["backup", "verify", &place]));
    cloud.stop();
}
