//! Read models across restarts, and the proof that they equal a rebuild.
//!
//! A checkpoint is one JSON file with every read model, its version and the position up to which it is folded. It is
//! written whole (temporary file, fsync, rename, fsync of the folder); one that is missing, damaged or of another version
//! is not used, and the log is folded instead: the log is the truth.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chronova_events::envelope::Position;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::views::Views;

#[derive(Debug, Serialize, Deserialize)]
struct Checkpoint {
    position: Position,
    views: Vec<Saved>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    name: String,
    version: u32,
    state: Value,
}

fn path_in(folder: &Path) -> PathBuf {
    folder.join("views.checkpoint.json")
}

fn capture(views: &Views) -> Checkpoint {
    let mut saved = Vec::new();
    views.export(|name, version, state| saved.push(Saved { name: name.to_owned(), version, state }));
    Checkpoint { position: views.position(), views: saved }
}

/// Writes a checkpoint of `views`, which must be standing still.
pub fn save(views: &Views, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let target = path_in(folder);
    let temporary = target.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec(&capture(views))?)?;
    file.sync_all()?;
    fs::rename(&temporary, &target)?;
    File::open(folder)?.sync_all()
}

/// What became of the checkpoint at start-up.
#[derive(Debug, PartialEq, Eq)]
pub enum Loaded {
    /// Used: the views are at this position.
    At(Position),
    /// There was none.
    Missing,
    /// There was one that cannot be used; the log is folded from the start.
    Unusable(String),
}

/// The read models of the checkpoint in `folder`, or empty ones.
pub fn load(folder: &Path) -> (Views, Loaded) {
    match try_load(folder) {
        Ok(Some(views)) => {
            let position = views.position();
            (views, Loaded::At(position))
        }
        Ok(None) => (Views::new(), Loaded::Missing),
        Err(reason) => (Views::new(), Loaded::Unusable(reason)),
    }
}

fn try_load(folder: &Path) -> Result<Option<Views>, String> {
    let bytes = match fs::read(path_in(folder)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let checkpoint: Checkpoint = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if checkpoint.views.len() != Views::COUNT {
        return Err(format!("it holds {} read models, not {}", checkpoint.views.len(), Views::COUNT));
    }
    let views = Views::new();
    for saved in checkpoint.views {
        if !views.import(&saved.name, saved.version, saved.state) {
            return Err(format!("read model {} has another shape now", saved.name));
        }
    }
    views.set_position(checkpoint.position);
    Ok(Some(views))
}

/// How many read models a checkpoint holds.
pub fn count() -> usize {
    Views::COUNT
}

/// Where two sets of read models differ: at most `limit` lines of `name/path: left | right`.
pub fn differences(left: &Views, right: &Views, limit: usize) -> Vec<String> {
    let (left, right) = (capture(left), capture(right));
    let mut found = Vec::new();
    for (a, b) in left.views.iter().zip(&right.views) {
        if a.state.is_null() || b.state.is_null() {
            // Two of them would look equal.
            found.push(format!("{}: cannot be written as JSON", a.name));
            continue;
        }
        compare(&a.name, Some(&a.state), Some(&b.state), limit, &mut found);
    }
    found.truncate(limit);
    found
}

fn compare(path: &str, left: Option<&Value>, right: Option<&Value>, limit: usize, found: &mut Vec<String>) {
    if left == right || found.len() >= limit {
        return;
    }
    match (left, right) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                compare(&format!("{path}/{key}"), a.get(key), b.get(key), limit, found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare(&format!("{path}/{index}"), a.get(index), b.get(index), limit, found);
            }
        }
        _ => found.push(format!("{path}: {} | {}", brief(left), brief(right))),
    }
}

/// A value in one line that a person can take in.
fn brief(value: Option<&Value>) -> String {
    const LONGEST: usize = 160;
    let Some(value) = value else { return "(absent)".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn compared(left: &Value, right: &Value, limit: usize) -> Vec<String> {
        let mut found = Vec::new();
        compare("v", Some(left), Some(right), limit, &mut found);
        found
    }

    #[test]
    fn differences_are_precise() {
        let (left, right) = (json!({"a": {"b": [1, 2]}, "c": 1}), json!({"a": {"b": [1, 3, 4]}, "d": null}));
        let expected = ["v/a/b/1: 2 | 3", "v/a/b/2: (absent) | 4", "v/c: 1 | (absent)", "v/d: (absent) | null"];
        assert_eq!(compared(&left, &right, 10), expected);
        assert_eq!(compared(&left, &right, 1).len(), 1);
        assert!(compared(&left, &left.clone(), 10).is_empty());
    }

    #[test]
    fn a_checkpoint_that_was_cut_short_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(load(folder.path()).1, Loaded::Missing);
        save(&Views::new(), folder.path()).unwrap();
        assert_eq!(load(folder.path()).1, Loaded::At(Position::START));
        let whole = fs::read(path_in(folder.path())).unwrap();
        fs::write(path_in(folder.path()), &whole[..whole.len() - 2]).unwrap();
        assert!(matches!(load(folder.path()).1, Loaded::Unusable(_)));
    }
}
