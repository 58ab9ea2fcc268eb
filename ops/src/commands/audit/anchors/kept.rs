//! The anchors that are kept elsewhere: the lines of a file, or objects of an object store.
//!
//! An object holds one anchor, and the object's name has the anchor's position. An object is created only if none of
//! that name exists, and it is never changed. So the bucket may refuse changes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronova_events::chain::Anchor;
use chronova_events::place::{self, FilePlace, PlaceAddress};

use super::super::super::CommandFailure;
use super::super::super::locks::taken;
use super::SignedAnchor;

const PREFIX: &str = "anchor-";
const SUFFIX: &str = ".json";

/// The anchors, open for one more.
pub(super) struct KeptAnchors {
    to: AnchorPlace,
    pub(super) last: Option<SignedAnchor>,
}

enum AnchorPlace {
    Lines { path: PathBuf, file: File },
    Objects(Arc<dyn FilePlace>),
}

fn at(path: &Path) -> impl Fn(io::Error) -> CommandFailure + '_ {
    move |error| CommandFailure::File { path: path.to_owned(), error }
}

impl KeptAnchors {
    /// Opens the place. `beside` is a file in the data directory: an object store gets its folder of drafts beside it.
    pub(super) fn open(address: &PlaceAddress, beside: &Path) -> Result<Self, CommandFailure> {
        match address.folder() {
            Some(path) => Self::open_lines(path),
            None => Self::open_objects(address, beside),
        }
    }

    /// Opens a file. If a crash has left a part of a line at its end, the part is removed.
    fn open_lines(path: &Path) -> Result<Self, CommandFailure> {
        let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file = opened.map_err(at(path))?;
        taken(file.try_lock(), path, "appends to this file")?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(at(path))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(at(path))?;
        }
        let last = text.get(..whole).and_then(|text| text.lines().last()).map(SignedAnchor::read).transpose();
        let wrong = |problem| CommandFailure::Usage(format!("the last line of {}: {problem}", path.display()));
        Ok(Self { to: AnchorPlace::Lines { path: path.to_owned(), file }, last: last.map_err(wrong)? })
    }

    fn open_objects(address: &PlaceAddress, beside: &Path) -> Result<Self, CommandFailure> {
        let place = open(address, beside)?;
        let last = match names(&*place)?.last() {
            Some(name) => {
                let wrong = |problem| CommandFailure::Usage(format!("{}: {problem}", place.path_of(name).display()));
                Some(SignedAnchor::read(read(&*place, name)?.trim_end()).map_err(wrong)?)
            }
            None => None,
        };
        Ok(Self { to: AnchorPlace::Objects(place), last })
    }

    pub(super) fn append(&mut self, anchor: &SignedAnchor, chain: Anchor) -> Result<(), CommandFailure> {
        let line = serde_json::to_string(anchor).map_err(io::Error::from)? + "\n";
        match &mut self.to {
            AnchorPlace::Lines { path, file } => {
                let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_all());
                // The folder's entry of a new file must be durable, too.
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let is_new = self.last.is_none();
                let kept = || if is_new { File::open(folder).and_then(|folder| folder.sync_all()) } else { Ok(()) };
                written.and_then(|()| kept()).map_err(at(path))
            }
            AnchorPlace::Objects(place) => {
                let name = format!("{PREFIX}{:020}{SUFFIX}", chain.position.0);
                place.create(&name, line.as_bytes()).map_err(at(&place.path_of(&name)))
            }
        }
    }
}

/// All anchors, one a line.
pub(super) fn all(address: &PlaceAddress, beside: &Path) -> Result<String, CommandFailure> {
    if let Some(path) = address.folder() {
        return std::fs::read_to_string(path).map_err(at(path));
    }
    let (place, mut text) = (open(address, beside)?, String::new());
    for name in names(&*place)? {
        text.push_str(read(&*place, &name)?.trim_end());
        text.push('\n');
    }
    Ok(text)
}

fn open(address: &PlaceAddress, beside: &Path) -> Result<Arc<dyn FilePlace>, CommandFailure> {
    let opened = place::open(address, &beside.with_file_name(place::LOCAL));
    opened.map_err(|error| CommandFailure::Usage(format!("{address}: {error}")))
}

/// The names of the anchors' objects, in the order of their positions.
fn names(place: &dyn FilePlace) -> Result<Vec<String>, CommandFailure> {
    let mut names = place.names().map_err(at(Path::new(&place.address().to_string())))?;
    names.retain(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
    names.sort();
    Ok(names)
}

fn read(place: &dyn FilePlace, name: &str) -> Result<String, CommandFailure> {
    let path = place.path_of(name);
    let bytes = place.get(name).map_err(at(&path))?;
    String::from_utf8(bytes).map_err(|error| CommandFailure::Usage(format!("{}: {error}", path.display())))
}
