//! The files of a guest in its definition: disks, config drive and console log. If the files of a guest that Nova
//! defined move to our directory, [`refile`] writes their new places into the definition.

use std::collections::BTreeMap;
use std::ops::Range;

use roxmltree::{Document, Node};

use super::splice::splice;
use crate::xml::Element;

/// The new places of a guest's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuestFiles {
    /// The new path and format of each disk, by its path in the definition.
    pub disks: BTreeMap<String, (String, &'static str)>,
    /// The new path of the config drive; `None`: it stays.
    pub config_drive: Option<String>,
    /// The new path of the console log; `None`: it stays.
    pub console_log: Option<String>,
}

/// Replaces the places of files in a guest's definition. The guest itself sees no difference.
///
/// # Errors
/// If the definition cannot be parsed.
pub fn refile(xml: &str, files: &GuestFiles) -> Result<String, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let mut cuts = Vec::new();
    for node in document.descendants() {
        if node.has_tag_name("disk") {
            cuts.extend(disk_again(node, files));
        } else if let (true, Some(path)) = (node.has_tag_name("log"), &files.console_log) {
            cuts.extend(attribute_again(node, "file", path));
        }
    }
    Ok(splice(xml, cuts))
}

/// Whether the disk is the config drive that Nova made.
pub(crate) fn is_config_drive(path: &str) -> bool {
    path.ends_with("/disk.config")
}

fn disk_again(disk: Node<'_, '_>, files: &GuestFiles) -> Vec<(Range<usize>, String)> {
    let child = |name: &str| disk.children().find(|node| node.has_tag_name(name));
    let Some((source, old)) = child("source").and_then(|source| Some((source, source.attribute("file")?))) else {
        return vec![];
    };
    let drive = files.config_drive.as_ref().filter(|_| is_config_drive(old)).map(|path| (path, "raw"));
    let Some((path, format)) = drive.or_else(|| files.disks.get(old).map(|(path, format)| (path, *format))) else {
        return vec![];
    };
    let mut cuts = vec![(source.range(), Element::new("source").attr("file", path).render().trim_end().to_owned())];
    // The new file has another base than the old file, or no base. Without this element, libvirt finds the base by
    // itself.
    cuts.extend(child("backingStore").map(|store| (store.range(), String::new())));
    cuts.extend(child("driver").and_then(|driver| attribute_again(driver, "type", format)));
    cuts
}

fn attribute_again(node: Node<'_, '_>, name: &'static str, value: &str) -> Option<(Range<usize>, String)> {
    let attribute = node.attribute_node(name)?;
    let whole = Element::new("x").attr(name, value).render();
    let text = whole.trim_end().trim_start_matches("<x ").trim_end_matches("/>").to_owned();
    Some((attribute.range(), text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const XML: &str = "<domain><devices><disk type='file' device='disk'>\
         <driver name='qemu' type='raw' cache='none'/><source file='/nova/i/disk' index='2'/>\
         <backingStore type='file'><format type='raw'/><source file='/nova/_base/b'/></backingStore>\
         <target dev='vda' bus='virtio'/></disk>\
         <disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='/nova/i/disk.config'/></disk>\
         <disk type='network'><source protocol='rbd' name='volumes/v'/></disk>\
         <serial type='pty'><log file='/nova/i/console.log' append='off'/></serial></devices></domain>";

    #[test]
    fn each_file_gets_its_new_place_and_its_format() {
        let files = GuestFiles {
            disks: [("/nova/i/disk".to_owned(), ("/ours/i_disk".to_owned(), "qcow2"))].into(),
            config_drive: Some("/ours/i_disk.config".to_owned()),
            console_log: Some("/ours/i_console.log".to_owned()),
        };
        let there = refile(XML, &files).unwrap();
        for part in [
            "<driver name='qemu' type='qcow2' cache='none'/><source file='/ours/i_disk'/><target dev='vda'",
            "<driver name='qemu' type='raw'/><source file='/ours/i_disk.config'/>",
            "<log file='/ours/i_console.log' append='off'/>",
            "<source protocol='rbd' name='volumes/v'/>",
        ] {
            assert!(there.contains(part), "{part} is not in {there}");
        }
        assert!(!there.contains("/nova/"), "{there}");
        Document::parse(&there).unwrap();
    }

    #[test]
    fn files_without_a_new_place_stay() {
        assert_eq!(refile(XML, &GuestFiles::default()).unwrap(), XML);
    }
}
