//! Lists the dashboard's files for the compiler, so that a new page or library needs no change in Rust code.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("dashboard");
    let mut files = Vec::new();
    walk(&root, &root, &mut files)?;
    files.sort();
    let lines: Vec<String> = files
        .iter()
        .map(|(name, path)| format!("    ({name:?}, include_bytes!({:?})),\n", path.to_string_lossy()))
        .collect();
    let table = format!("&[\n{}]\n", lines.concat());
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("dashboard.rs"), table)
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(root, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            files.push((name.to_string_lossy().into_owned(), path.clone()));
        }
    }
    Ok(())
}
