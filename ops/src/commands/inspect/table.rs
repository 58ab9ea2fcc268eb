//! A history as plain text.

use std::io::{self, Write};

use chronova_web::audit::line::printable;

use super::story::{Chapter, Story, StoryLine};

pub(super) fn write(story: &Story, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", printable(&story.title))?;
    let widest = story.facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in &story.facts {
        writeln!(out, "  {name:widest$}  {}", printable(value))?;
    }
    for chapter in &story.chapters {
        write_chapter(chapter, out)?;
    }
    if story.chapters.is_empty() {
        writeln!(out, "  nothing in the log")?;
    }
    Ok(())
}

fn write_chapter(chapter: &Chapter, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    let request = chapter.request_id.as_ref().map(|id| format!("  {id}")).unwrap_or_default();
    writeln!(out, "{}", printable(&format!("{}{request}  by {}", chapter.title, chapter.by)))?;
    match chapter.outcome {
        Some(outcome) => writeln!(out, "{}  {outcome}, {:.3} s", chapter.began, chapter.took_seconds)?,
        None => writeln!(out, "{}", chapter.began)?,
    }
    let width = |text: fn(&StoryLine) -> &str| chapter.lines.iter().map(|line| text(line).len()).max().unwrap_or(0);
    let (by, kind) = (width(|line| &line.by), width(|line| &line.kind));
    for line in &chapter.lines {
        let mark = if line.trouble { '!' } else { ' ' };
        let took = line.took_seconds.map(|took| format!("{took:.3} s")).unwrap_or_default();
        let text = format!(
            "{mark} {:>9}  {took:>9}  {:by$}  {:kind$}  {}",
            format!("+{:.3}", line.after_seconds),
            line.by,
            line.kind,
            line.text
        );
        writeln!(out, "{}", printable(text.trim_end()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn texts_do_not_control_the_terminal() {
        let evil = "a\u{1b}[2J\nb\u{9b}".to_owned();
        let line = StoryLine {
            position: 1,
            at: String::new(),
            after_seconds: 0.0,
            took_seconds: None,
            by: evil.clone(),
            stream: String::new(),
            kind: "renamed".to_owned(),
            text: evil.clone(),
            trouble: false,
        };
        let chapter = Chapter {
            title: evil.clone(),
            request_id: Some(evil.clone()),
            correlation: String::new(),
            by: evil.clone(),
            began: "now".to_owned(),
            took_seconds: 0.0,
            outcome: None,
            lines: vec![line],
        };
        let story = Story { title: evil.clone(), facts: vec![("name".to_owned(), evil)], chapters: vec![chapter] };
        let mut out = Vec::new();
        write(&story, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!((text.lines().count(), text.matches("a?[2J?b?").count()), (6, 7), "{text}");
    }
}
