#![allow(clippy::unwrap_used, clippy::print_stdout)]
use super::*;
use proptest::prelude::*;
use std::process::Command;

fn le16(bytes: &[u8]) -> usize {
    u16::from_le_bytes(bytes[..2].try_into().unwrap()).into()
}

/// The content of the clusters from `first` on.
fn chain(image: &[u8], first: usize) -> Vec<u8> {
    let (mut content, mut cluster) = (Vec::new(), first);
    while cluster != 0 && cluster != usize::from(LAST) {
        let at = DATA + (cluster - FIRST_CLUSTER) * CLUSTER;
        content.extend_from_slice(&image[at..at + CLUSTER]);
        cluster = le16(&image[FIRST_TABLE + 2 * cluster..]);
    }
    content
}

/// Reads a directory: path and content of each file below it.
fn walk(image: &[u8], entries: &[u8], path: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    let mut long: Vec<u16> = Vec::new();
    for entry in entries.chunks(ENTRY).take_while(|entry| entry[0] != 0) {
        let (attributes, first) = (entry[11], le16(&entry[26..]));
        if attributes == LONG_NAME {
            let places = (1..11).step_by(2).chain((14..26).step_by(2)).chain((28..32).step_by(2));
            let units = places.map(|at| u16::try_from(le16(&entry[at..])).unwrap());
            let part: Vec<u16> = units.take_while(|unit| *unit != 0).filter(|unit| *unit != 0xffff).collect();
            drop(long.splice(0..0, part));
            continue;
        }
        let name = String::from_utf16(&std::mem::take(&mut long)).unwrap();
        let place = if path.is_empty() { name } else { format!("{path}/{name}") };
        match attributes {
            VOLUME_LABEL => assert_eq!(&entry[..11], b"config-2   "),
            DIRECTORY if entry[0] == b'.' => assert!(place.ends_with('/'), "they have no long name: {place}"),
            DIRECTORY => walk(image, &chain(image, first), &place, files),
            _ => {
                let size = u32::from_le_bytes(entry[28..32].try_into().unwrap()) as usize;
                let mut content = chain(image, first);
                content.truncate(size);
                assert_eq!(content.len(), size);
                assert!(files.insert(place, content).is_none());
            }
        }
    }
}

fn read(image: &[u8]) -> BTreeMap<String, Vec<u8>> {
    assert!(is_image(image));
    assert_eq!(image.len(), 64 << 20);
    assert_eq!(image[510..512], [0x55, 0xaa]);
    assert!(image[FIRST_TABLE..FIRST_TABLE + TABLE] == image[FIRST_TABLE + TABLE..ROOT], "the tables are not equal");
    let mut files = BTreeMap::new();
    walk(image, &image[ROOT..DATA], "", &mut files);
    files
}

fn config_drive() -> Vec<(String, Vec<u8>)> {
    let file = |path: &str, content: &[u8]| (path.to_owned(), content.to_vec());
    vec![
        file("openstack/latest/meta_data.json", b"{\"hostname\": \"vm\"}"),
        file("openstack/latest/vendor_data.json", b""),
        file("openstack/latest/user_data", &[7; 5000]),
        file("openstack/2018-08-27/network_data.json", b"{}"),
        file("openstack/content/0000", b"x"),
        file("ec2/latest/meta-data.json", b"{}"),
        file("README", b"hi"),
    ]
}

#[test]
fn a_vfat_config_drive_reads_back_under_its_real_names() {
    let files = config_drive();
    let image = write("config-2", &files).unwrap();
    assert_eq!(image, write("config-2", &files).unwrap());
    assert_eq!(read(&image), files.into_iter().collect());
    assert!(!is_image(&crate::iso9660::write("config-2", &config_drive()).unwrap()));
    assert!(!is_image(&[]));
}

#[test]
fn other_programs_read_the_fat_image() {
    if Command::new("mcopy").arg("-V").output().is_err() {
        println!("skipped: mtools are not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let drive = directory.path().join("drive.img");
    std::fs::write(&drive, write("config-2", &config_drive()).unwrap()).unwrap();
    for (path, content) in config_drive() {
        let run = Command::new("mcopy").arg("-i").arg(&drive).args([&format!("::{path}"), "-"]).output().unwrap();
        assert!(run.status.success(), "{path}: {}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(run.stdout, content, "{path}");
    }
    if let Ok(run) = Command::new("fsck.vfat").arg("-n").arg(&drive).output() {
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    }
}

#[test]
fn what_does_not_fit_a_fat_image_is_refused() {
    let one = |path: &str| write("l", &[(path.to_owned(), Vec::new())]);
    for bad in ["", "/a", "a//b", "a/", "..", "a/./b", "a:b", "a.", &"x".repeat(256)] {
        assert!(matches!(one(bad), Err(FatError::Path(_))), "{bad}");
    }
    assert!(matches!(write("", &[]), Err(FatError::Label(_))));
    assert!(matches!(write("twelve-bytes", &[]), Err(FatError::Label(_))));
    let twice = |a: &str, b: &str| write("l", &[(a.to_owned(), Vec::new()), (b.to_owned(), Vec::new())]);
    for (a, b) in [("a", "A"), ("a", "a/b"), ("a/b", "a")] {
        assert!(matches!(twice(a, b), Err(FatError::Duplicate(_))), "{a} {b}");
    }
    assert!(matches!(write("l", &[("a".to_owned(), vec![1; 64 << 20])]), Err(FatError::TooLarge)));
    let many: Vec<_> = (0..400).map(|number| (format!("{number}"), Vec::new())).collect();
    assert!(matches!(write("l", &many), Err(FatError::TooLarge)), "the root directory is full");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn every_written_fat_image_reads_back(
        files in prop::collection::btree_map("[a-c]{1,2}/([a-zé_-]{1,40}x/)?[a-z]{1,64}", prop::collection::vec(any::<u8>(), 0..5000), 0..60)
    ) {
        let list: Vec<_> = files.clone().into_iter().collect();
        if let Ok(image) = write("config-2", &list) {
            prop_assert_eq!(read(&image), files);
        }
    }
}
