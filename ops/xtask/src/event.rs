//! `cargo xtask event new NOUN NAME`: writes the parts that every new event needs.
//!
//! The parts are the line in the noun's list, the payload struct and the sample. The author adds the fields and the
//! meaning (`evolve`); the compiler and the golden test point to both. If one part cannot be made, the command writes
//! no part.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

pub(crate) fn new(root: &Path, noun: &str, name: &str) -> anyhow::Result<bool> {
    ensure!(is_snake(noun), "{noun:?} is no noun: `instance`, `security_group`");
    ensure!(is_camel(name), "{name:?} is no name of an event: `ResizeConfirmed`, in the past tense");
    let source = root.join("events/src");
    let (list, payloads) = files(&source, noun)?;
    let list_text = read(&list)?;
    let kind = format!("{noun}.{}", kind(noun, name));
    if list == payloads {
        fs::write(&list, with_payload(&with_line(&list_text, noun, name)?, name)?)?;
    } else {
        let payloads_text = with_payload(&read(&payloads)?, name)?;
        fs::write(&list, with_line(&list_text, noun, name)?)?;
        fs::write(&payloads, payloads_text)?;
    }
    println!("{kind} version 1 begun. Now:");
    for (at, step) in [
        (&payloads, "fields of the payload, its sample, and the sentence that says what happened"),
        (&list, "the sentence in the list; `evolve` in the same folder: what it means for the state"),
    ] {
        println!("  {}: {step}", at.strip_prefix(root).unwrap_or(at).display());
    }
    println!(
        "  events/src/operations.rs: whether an event of a server, a volume, a host or a quota begins an operation"
    );
    println!("  events/levels.txt: the level of the log from which it is written");
    println!("  projections/src: the views that show it; events/personal.txt: its fields with text");
    println!("  CHRONOVA_BLESS=1 cargo test -p chronova-events --test golden; cargo xtask gen");
    Ok(true)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// The file with the noun's list, and the file with its payloads and samples.
fn files(source: &Path, noun: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (file, folder) = (source.join(format!("{noun}.rs")), source.join(noun));
    if file.exists() {
        return Ok((file.clone(), file));
    }
    let list = folder.join("mod.rs");
    ensure!(list.exists(), "there is no noun {noun}: neither {} nor {}", file.display(), list.display());
    for name in ["payloads.rs", "mod.rs"] {
        let payloads = folder.join(name);
        if payloads.exists() && read(&payloads)?.contains("pub fn samples()") {
            return Ok((list, payloads));
        }
    }
    bail!("no `samples` in {}", folder.display());
}

fn is_snake(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

fn is_camel(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
        && text.chars().any(|c| c.is_ascii_lowercase())
}

/// `ResizeConfirmed` -> `resize_confirmed`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for (at, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && at > 0 {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// The kind without its noun: `server_group`, `ServerGroupRenamed` -> `renamed`.
fn kind(noun: &str, name: &str) -> String {
    let whole = snake(name);
    let rest = whole.strip_prefix(noun).and_then(|rest| rest.strip_prefix('_'));
    rest.map_or_else(|| whole.clone(), str::to_owned)
}

/// The noun's list with one more line at its end.
fn with_line(text: &str, noun: &str, name: &str) -> anyhow::Result<String> {
    ensure!(!text.contains(&format!("        {name} = \"")), "{noun} has {name} already");
    let head = format!(" = \"{noun}\" {{\n");
    let begin = text.find(&head).with_context(|| format!("no `noun!` list of {noun}"))?;
    let end = begin + text[begin..].find("\n    }\n}").context("the list has no end")? + 1;
    let line = format!("        /// The event, in one sentence.\n        {name} = \"{}\" @ 1,\n", kind(noun, name));
    Ok(format!("{}{line}{}", &text[..end], &text[end..]))
}

/// The file's text with the payload added before `samples`, and a sample added at the end of `samples`.
fn with_payload(text: &str, name: &str) -> anyhow::Result<String> {
    ensure!(!text.contains(&format!("pub struct {name} ")), "there is a struct {name} already");
    let samples = text.find("pub fn samples()").context("there is no `samples`")?;
    // The function's result is the list, or the function starts with the list.
    let ends = ["\n    ]\n}", "\n    ];\n"].into_iter().filter_map(|end| text[samples..].find(end));
    let end = samples + ends.min().context("there is no list in `samples`")? + 1;
    // The payload goes before the comment and the attributes of `samples`.
    let begin = text[..samples].trim_end_matches(|c| c != '}').len();
    let payload = format!("\n\n#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]\npub struct {name} {{}}");
    let sample = format!("        {name} {{}}.into(),\n");
    Ok(format!("{}{payload}{}{sample}{}", &text[..begin], &text[begin..end], &text[end..]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const FILE: &str = "noun! {
    /// Events of a thing.
    ThingEvent = \"thing\" {
        /// It was made.
        Made = \"made\" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {}

/// One example of each.
pub fn samples() -> Vec<ThingEvent> {
    vec![
        Made {}.into(),
    ]
}
";

    #[test]
    fn the_parts_of_an_event_are_written() {
        let text = with_payload(&with_line(FILE, "thing", "WornOut").unwrap(), "WornOut").unwrap();
        let expected = "noun! {
    /// Events of a thing.
    ThingEvent = \"thing\" {
        /// It was made.
        Made = \"made\" @ 1,
        /// The event, in one sentence.
        WornOut = \"worn_out\" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WornOut {}

/// One example of each.
pub fn samples() -> Vec<ThingEvent> {
    vec![
        Made {}.into(),
        WornOut {}.into(),
    ]
}
";
        assert_eq!(text, expected);
        assert!(with_line(&text, "thing", "WornOut").is_err(), "an existing event must be refused");
        assert!(with_payload(&text, "WornOut").is_err());
        assert!(with_line(FILE, "other", "WornOut").is_err());
    }

    #[test]
    fn names() {
        assert_eq!(snake("ResizeConfirmed"), "resize_confirmed");
        assert_eq!(kind("instance", "ResizeConfirmed"), "resize_confirmed");
        assert_eq!(kind("server_group", "ServerGroupRenamed"), "renamed");
        assert_eq!(kind("host", "Hosted"), "hosted");
        assert!(is_camel("Locked") && !is_camel("locked") && !is_camel("LOCKED") && !is_camel("A-b"));
        assert!(is_snake("security_group") && !is_snake("Instance") && !is_snake("../x"));
    }

    #[test]
    fn a_new_event_fits_every_noun_of_the_repository() {
        let source = crate::root().unwrap().join("events/src");
        let registry = read(&source.join("registry.rs")).unwrap();
        let nouns =
            registry.lines().filter_map(|line| line.strip_suffix(',')?.split_once("Event in ")).map(|(_, noun)| noun);
        let mut count = 0;
        for noun in nouns {
            let (list, payloads) = files(&source, noun).unwrap();
            with_line(&read(&list).unwrap(), noun, "TriedOut").unwrap();
            with_payload(&read(&payloads).unwrap(), "TriedOut").unwrap();
            count += 1;
        }
        assert!(count > 10, "{count} nouns");
    }
}
