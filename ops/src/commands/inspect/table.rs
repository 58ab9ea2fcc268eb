//! A history as plain text.

use std::io::{self, Write};

use super::story::{Chapter, Story, StoryLine};

pub(super) fn write(story: &Story, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", story.title)?;
    let widest = story.facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in &story.facts {
        writeln!(out, "  {name:widest$}  {value}")?;
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
    writeln!(out, "{}{request}  by {}", chapter.title, chapter.by)?;
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
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}
