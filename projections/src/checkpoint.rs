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

/// Where two sets of read models differ: at most `limit` lines of `name/path: left | right`.
pub fn differences(left: &Views, right: &Views, limit: usize) -> Vec<String> {
    let (left, right) = (capture(left), capture(right));
    let mut found = Vec::new();
    for (a, b) in left.views.iter().zip(&right.views) {
        compare(&a.name, &a.state, &b.state, limit, &mut found);
    }
    found
}

fn compare(path: &str, left: &Value, right: &Value, limit: usize, found: &mut Vec<String>) {
    if left == right || found.len() >= limit {
        return;
    }
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let missing = Value::String("(absent)".to_owned());
                let (x, y) = (a.get(key).unwrap_or(&missing), b.get(key).unwrap_or(&missing));
                compare(&format!("{path}/{key}"), x, y, limit, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (x, y)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}/{index}"), x, y, limit, found);
            }
        }
        _ => found.push(format!("{path}: {left} | {right}")),
    }
}
