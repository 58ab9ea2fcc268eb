//! Moves options that stand before the command behind the words of the command, as in `chronova --data-dir DIR inspect
//! web`. These options say where the configuration and the data are, and each command declares them itself.

use std::ffi::{OsStr, OsString};

use clap::Command;

const DATA: &str = "--data-dir";
const PLACES: [&str; 3] = ["--config-file", "--config-dir", DATA];

/// The words of the command line, with these options moved behind the words of the command. If `--data-dir` stands
/// before and behind the command, the later one is kept.
pub(super) fn behind(command: &Command, words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let mut early: Vec<Vec<OsString>> = Vec::new();
    while let Some(length) = words.get(1).and_then(|word| PLACES.iter().find_map(|name| length(word, name))) {
        let end = words.len().min(1 + length);
        early.push(words.drain(1..end).collect());
    }
    if words.iter().any(|word| length(word, DATA).is_some()) {
        early.retain(|option| option.first().is_none_or(|word| length(word, DATA).is_none()));
    }
    let (mut here, mut place) = (command, 1);
    while let Some(below) = words.get(place).and_then(|word| here.find_subcommand(word)) {
        (here, place) = (below, place + 1);
    }
    let place = place.min(words.len());
    words.splice(place..place, early.into_iter().flatten());
    words
}

/// The number of words of the option `name` that begins with `word`; `None` if `word` begins no such option.
fn length(word: &OsStr, name: &str) -> Option<usize> {
    let rest = word.to_str()?.strip_prefix(name)?;
    match rest.as_bytes().first() {
        None => Some(2),
        Some(b'=') => Some(1),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_before_the_command_are_moved_behind_its_words() {
        let command = crate::cli::command();
        let moved = |line: &str| -> String {
            let words = behind(&command, line.split(' ').map(OsString::from));
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        for (line, expected) in [
            ("chronova --data-dir /a inspect web", "chronova inspect --data-dir /a web"),
            ("chronova --data-dir=/a audit verify", "chronova audit verify --data-dir=/a"),
            (
                "chronova --config-file x --data-dir /a inspect web --config-file y",
                "chronova inspect --config-file x --data-dir /a web --config-file y",
            ),
            ("chronova --data-dir /a inspect web --data-dir /b", "chronova inspect web --data-dir /b"),
            ("chronova inspect --data-dir /a web", "chronova inspect --data-dir /a web"),
            ("chronova --data-directory /a inspect", "chronova --data-directory /a inspect"),
            ("chronova --data-dir", "chronova --data-dir"),
            ("chronova", "chronova"),
        ] {
            assert_eq!(moved(line), expected);
        }
    }
}
