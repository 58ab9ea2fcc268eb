//! Dates of the command line, in the forms that Nova's `--before` accepts.

use chrono::{NaiveDate, NaiveDateTime};

/// The forms: `YYYY-MM-DD`, with a time or without, and the output of `date`.
const WITH_TIME: [&str; 4] = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"];

/// Reads a date. Words that depend on today, such as `yesterday`, are refused, as in Nova.
///
/// # Errors
/// The text is in none of the forms.
pub(super) fn parse(text: &str) -> Result<NaiveDateTime, String> {
    let text = text.trim().trim_end_matches('Z');
    let of_date = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
    let with_time = || WITH_TIME.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    let found = of_date().or_else(with_time).or_else(|| of_date_command(text));
    found.ok_or_else(|| format!("Unknown string format: {text}: write YYYY-MM-DD or \"YYYY-MM-DD HH:mm:ss\""))
}

/// Reads the output of `date`: `Thu 26 Nov 2026 03:12:07 PM UTC`, `Thu Nov 26 15:12:07 UTC 2026`. The order of its
/// words depends on the locale.
fn of_date_command(text: &str) -> Option<NaiveDateTime> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let time = words.iter().position(|word| word.contains(':'))?;
    let half = words.get(time + 1).filter(|word| matches!(**word, "AM" | "PM"));
    let month = words.iter().find(|word| MONTHS.iter().any(|month| word.starts_with(month)))?;
    let mut numbers = words.iter().filter(|word| word.chars().all(|sign| sign.is_ascii_digit()));
    let (day, year) = (numbers.next()?, numbers.next()?);
    let (clock, form) = match half {
        Some(half) => (format!("{} {half}", words[time]), "%d %b %Y %I:%M:%S %p"),
        None => (words[time].to_owned(), "%d %b %Y %H:%M:%S"),
    };
    NaiveDateTime::parse_from_str(&format!("{day} {} {year} {clock}", month.get(..3)?), form).ok()
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn dates_are_read_as_novas_before_reads_them() {
        let at = |text: &str| parse(text).unwrap().to_string();
        assert_eq!(at("2026-11-26"), "2026-11-26 00:00:00");
        assert_eq!(at("2026-11-26 15:12:07"), "2026-11-26 15:12:07");
        assert_eq!(at("2026-11-26 15:12"), "2026-11-26 15:12:00");
        assert_eq!(at("Thu Nov 26 15:12:07 UTC 2026"), "2026-11-26 15:12:07");
        assert_eq!(at("Thu 26 Nov 2026 03:12:07 PM CET"), "2026-11-26 15:12:07");
        for wrong in ["yesterday", "", "26.11.2026", "2026-13-01", "Thu Nov 26 2026"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
