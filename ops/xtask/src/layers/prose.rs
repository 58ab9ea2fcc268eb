//! Finds sentences that must be read twice. The rule recognises them by their first word or by a phrase.
//!
//! `prose.txt` lists their number in each top-level folder, `COUNT FOLDER`. The list may only shrink. So fewer
//! sentences than listed are a finding, too.

use std::collections::BTreeMap;

use super::tree::{Finding, Text, has_extension};

pub(crate) const NAME: &str = "prose";
pub(crate) const WHY: &str = "a sentence names its actor first: none opens with \"What\", \"Who\" or \"Of\" as its \
                              subject, none says \"anew\" or \"is not to be\". prose.txt lists how many sentences \
                              still do so, and may only shrink";

pub(crate) const LIST: &str = "ops/xtask/src/layers/prose.txt";

const OPENINGS: [&str; 6] = ["What", "Whatever", "Who", "Whoever", "Whose", "Of"];
const PHRASES: [&str; 4] = ["anew", "is not to be", "are not to be", "was not to be"];

/// Pages that are generated, or that quote texts of others.
const EXEMPT: [&str; 3] = ["docs/requirements/", "docs/events.md", "docs/configuration.md"];

/// A sentence that a reader must read twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HardSentence {
    folder: String,
    path: String,
    line: usize,
    text: String,
}

/// Compares the sentences with the list.
pub(crate) fn check(sentences: &[HardSentence], list: &str) -> Vec<Finding> {
    let allowed: BTreeMap<&str, usize> = list
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(count, folder)| Some((folder.trim(), count.parse().ok()?)))
        .collect();
    let now = counts(sentences);
    let mut findings = Vec::new();
    for (folder, count) in &now {
        let allowed = allowed.get(folder).copied().unwrap_or_default();
        if *count > allowed {
            findings.push(Finding {
                path: (*folder).to_owned(),
                line: 0,
                rule: NAME,
                message: format!(
                    "{count} sentences must be read twice ({allowed} listed); `layers --prose` prints them"
                ),
            });
        }
    }
    for (folder, allowed) in allowed {
        let count = now.get(folder).copied().unwrap_or_default();
        if count < allowed {
            let message = format!(
                "the list allows {allowed} hard sentences in `{folder}`, but there are {count}; run `layers --lower`"
            );
            findings.push(Finding { path: LIST.to_owned(), line: 0, rule: NAME, message });
        }
    }
    findings
}

/// The list's content for these sentences.
pub(crate) fn list(sentences: &[HardSentence]) -> String {
    counts(sentences).into_iter().map(|(folder, count)| format!("{count} {folder}\n")).collect::<Vec<_>>().concat()
}

/// Prints every sentence that must be read twice.
pub(crate) fn print(sentences: &[HardSentence]) {
    for sentence in sentences {
        println!("{}:{}: {}", sentence.path, sentence.line, sentence.text);
    }
}

fn counts(sentences: &[HardSentence]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for sentence in sentences {
        *counts.entry(sentence.folder.as_str()).or_default() += 1;
    }
    counts
}

/// The sentences of comments and pages that must be read twice.
pub(crate) fn hard(files: &[Text]) -> Vec<HardSentence> {
    files.iter().filter(|file| !EXEMPT.iter().any(|place| file.path.starts_with(place))).flat_map(hard_in).collect()
}

fn hard_in(file: &Text) -> Vec<HardSentence> {
    let folder = file.path.split_once('/').map_or(".", |(folder, _)| folder);
    paragraphs(file)
        .into_iter()
        .flat_map(|(line, text)| sentences(&text).map(move |sentence| (line, sentence.to_owned())).collect::<Vec<_>>())
        .filter(|(_, sentence)| is_hard(sentence))
        .map(|(line, text)| HardSentence { folder: folder.to_owned(), path: file.path.clone(), line, text })
        .collect()
}

/// The paragraphs of comments or text, each with the number of its first line. A heading, a table's row or an item
/// of a list is a paragraph of its own.
fn paragraphs(file: &Text) -> Vec<(usize, String)> {
    let (code, page) = (has_extension(&file.path, "rs"), has_extension(&file.path, "md"));
    if !code && !page {
        return Vec::new();
    }
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let (mut open, mut fenced) = (false, false);
    for (number, line) in file.text.lines().enumerate() {
        let text = if code { comment(line) } else { Some(line.trim()) };
        let text = text.unwrap_or_default();
        fenced ^= text.starts_with("```");
        if text.is_empty() || fenced || text.starts_with("```") {
            open = false;
            continue;
        }
        let alone = text.starts_with(['#', '|', '-', '*', '>']);
        match paragraphs.last_mut().filter(|_| open && !alone) {
            Some((_, paragraph)) => {
                paragraph.push(' ');
                paragraph.push_str(text);
            }
            None => paragraphs.push((number + 1, text.trim_start_matches(['#', '|', '-', '*', '>', ' ']).to_owned())),
        }
        open = true;
    }
    paragraphs
}

/// The text of a comment that has the line to itself.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

/// Splits a paragraph. A sentence ends at a punctuation mark before a capital letter, a code word or a link.
fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut ends: Vec<usize> = paragraph
        .match_indices(['.', ':', ';', '!', '?'])
        .map(|(at, _)| at + 1)
        .filter(|end| {
            let rest = &paragraph[*end..];
            rest.starts_with(' ') && rest.trim_start().starts_with(|c: char| c.is_uppercase() || "`[".contains(c))
        })
        .collect();
    ends.push(paragraph.len());
    let mut from = 0;
    ends.into_iter().map(move |end| {
        let sentence = &paragraph[from..end];
        from = end;
        sentence.trim()
    })
}

fn is_hard(sentence: &str) -> bool {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let opening = words.first().copied().unwrap_or_default().trim_end_matches(',');
    let opens = OPENINGS.contains(&opening) && !sentence.ends_with('?');
    // The search is for whole words, so that it does not find a phrase inside a longer word.
    let padded = format!(" {} ", sentence.replace([',', '.', ';', ':', '(', ')'], " ").to_lowercase());
    opens || PHRASES.iter().any(|phrase| padded.contains(&format!(" {phrase} ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hard_of(path: &str, text: &str) -> Vec<String> {
        let file = Text { path: path.to_owned(), text: text.to_owned() };
        hard(&[file]).into_iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn openings_and_phrases_are_found_in_comments_and_pages() {
        let code =
            "/// What an event says.\nlet a = \"What is text.\"; // Nothing.\n// A start. Of those\n// nobody knows.\n";
        assert_eq!(hard_of("web/src/a.rs", code), ["What an event says.", "Of those nobody knows."]);
        assert_eq!(hard_of("docs/a.md", "- Whoever asks gets it.\n- It starts anew.\n").len(), 2);
    }

    #[test]
    fn questions_and_code_do_not_count() {
        assert_eq!(hard_of("web/src/a.rs", "// What is it?\n/// ```\n/// Of\n/// ```\n"), Vec::<String>::new());
        assert_eq!(hard_of("docs/a.md", "The answer to what an event says. The canewood.\n"), Vec::<String>::new());
        assert_eq!(hard_of("docs/requirements/p1.md", "What Nova says.\n"), Vec::<String>::new());
    }

    #[test]
    fn the_list_only_shrinks() {
        let file = Text { path: "web/src/a.rs".to_owned(), text: "// What is one.\n".to_owned() };
        let sentences = hard(&[file]);
        assert_eq!(list(&sentences), "1 web\n");
        assert_eq!(check(&sentences, "1 web\n"), []);
        assert_eq!(check(&sentences, "").len(), 1);
        assert_eq!(check(&sentences, "2 web\n").len(), 1);
        assert_eq!(check(&[], "1 web\n").len(), 1);
    }
}
