#![allow(clippy::unwrap_used, clippy::print_stdout)]
use super::*;
use proptest::prelude::*;
use std::process::Command;

fn le32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

/// Reads a tree from a descriptor: path and content of each file.
fn read(image: &[u8], descriptor: usize) -> BTreeMap<String, Vec<u8>> {
    let sector = &image[descriptor * SECTOR..];
    assert_eq!(&sector[1..6], b"CD001");
    assert_eq!(le32(&sector[80..]) as usize * SECTOR, image.len());
    let mut files = BTreeMap::new();
    walk(image, &sector[156..190], "", sector[0] == 2, &mut files);
    files
}

fn walk(image: &[u8], record: &[u8], path: &str, joliet: bool, files: &mut BTreeMap<String, Vec<u8>>) {
    let (start, size) = (le32(&record[2..]) as usize * SECTOR, le32(&record[10..]) as usize);
    assert_eq!(record[2..6].iter().rev().collect::<Vec<_>>(), record[6..10].iter().collect::<Vec<_>>());
    let content = &image[start..start + size];
    if record[25] & 2 == 0 {
        assert!(files.insert(path.to_owned(), content.to_vec()).is_none());
        return;
    }
    let mut at = 0;
    let mut seen = 0;
    let mut last = Vec::new();
    while at < content.len() {
        let length = content[at] as usize;
        if length == 0 {
            at = (at / SECTOR + 1) * SECTOR;
            continue;
        }
        assert!(at % SECTOR + length <= SECTOR);
        let entry = &content[at..at + length];
        let identifier = &entry[33..33 + entry[32] as usize];
        if seen >= 2 {
            assert!(last.as_slice() < identifier, "an identifier must be greater than the one before it");
            last = identifier.to_vec();
            let name = if joliet {
                let units: Vec<u16> = identifier.chunks(2).map(|c| u16::from_be_bytes([c[0], c[1]])).collect();
                String::from_utf16(&units).unwrap()
            } else {
                String::from_utf8(identifier.to_vec()).unwrap()
            };
            let name = name.trim_end_matches(";1");
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            walk(image, entry, &path, joliet, files);
        }
        seen += 1;
        at += length;
    }
}

fn config_drive() -> Vec<(String, Vec<u8>)> {
    let file = |path: &str, content: &[u8]| (path.to_owned(), content.to_vec());
    vec![
        file("openstack/latest/meta_data.json", b"{\"hostname\": \"vm\"}"),
        file("openstack/latest/meta_data.yaml", b""),
        file("openstack/latest/user_data", &[7; 5000]),
        file("openstack/content/0000", b"x"),
        file("ec2/latest/meta-data.json", b"{}"),
        file("README", b"hi"),
    ]
}

#[test]
fn a_config_drive_reads_back_under_its_real_names() {
    let files = config_drive();
    let image = write("config-2", &files).unwrap();
    assert_eq!(image, write("config-2", &files).unwrap());
    assert_eq!(read(&image, 17), files.into_iter().collect());
    let short: Vec<_> = read(&image, 16).into_keys().collect();
    assert!(short.contains(&"OPENSTAC/LATEST/META_DAT.JSO".to_owned()), "{short:?}");
    assert_eq!(image[16 * SECTOR + 40..16 * SECTOR + 48], *b"config-2");
}

#[test]
fn other_programs_read_the_image() {
    if Command::new("xorriso").arg("--version").output().is_err() {
        println!("skipped: xorriso is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (iso, out) = (directory.path().join("drive.iso"), directory.path().join("out"));
    let files = config_drive();
    std::fs::write(&iso, write("config-2", &files).unwrap()).unwrap();
    let run = Command::new("xorriso")
        .args(["-abort_on", "WARNING", "-osirrox", "on", "-indev"])
        .arg(&iso)
        .args(["-pvd_info", "-extract", "/"])
        .arg(&out)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(String::from_utf8_lossy(&run.stdout).contains("config-2"));
    for (path, content) in files {
        assert_eq!(std::fs::read(out.join(&path)).unwrap(), content, "{path}");
    }
}

#[test]
fn invalid_labels_and_paths_are_refused() {
    let one = |path: &str| write("l", &[(path.to_owned(), Vec::new())]);
    for bad in ["", "/a", "a//b", "a/", "..", "a/./b", "a:b", "1/2/3/4/5/6/7/8/9", &"x".repeat(65)] {
        assert!(matches!(one(bad), Err(IsoError::Path(_))), "{bad}");
    }
    assert!(matches!(write("", &[]), Err(IsoError::Label(_))));
    assert!(matches!(write("seventeen letters", &[]), Err(IsoError::Label(_))));
    let twice = |a: &str, b: &str| write("l", &[(a.to_owned(), Vec::new()), (b.to_owned(), Vec::new())]);
    for (a, b) in [("a", "a"), ("a", "a/b"), ("a/b", "a")] {
        assert!(matches!(twice(a, b), Err(IsoError::Duplicate(_))), "{a} {b}");
    }
}

proptest! {
    #[test]
    fn every_written_image_reads_back(
        files in prop::collection::btree_map("[a-c]{1,2}/([a-zé_.-]{1,40}x/)?[a-z]{1,64}", prop::collection::vec(any::<u8>(), 0..5000), 0..60)
    ) {
        let list: Vec<_> = files.clone().into_iter().collect();
        if let Ok(image) = write("config-2", &list) {
            prop_assert_eq!(read(&image, 17), files.clone());
            prop_assert_eq!(read(&image, 16).len(), files.len());
        }
    }
}
