//! Sets of processors in the notation of operators and libvirt: `4-12,^8,15`.

use std::collections::BTreeSet;

/// The highest number of a processor. No machine has so many processors. The limit is low enough that a typing error
/// (`0-99999999999`) is refused and does not fill the memory.
const HIGHEST: u32 = 16_383;
/// The most numbers that the parts of a set name together, repeated ones included. An image of a user may hold a set of
/// any length (`hw_numa_cpus.0`), and each decision of the scheduler reads the set again.
const MOST_NAMED: u32 = 4 * (HIGHEST + 1);

/// Parses a set.
///
/// # Errors
/// If a part is neither a number nor a range (the error names the part), or if the parts together name more than four
/// times as many numbers as a set can have.
pub fn parse(text: &str) -> Result<BTreeSet<u32>, String> {
    let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
    let mut named = 0;
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (set, range) = match part.strip_prefix('^') {
            // In Nova, `^` excludes only a single processor. Here `^` also excludes a range, so that a list of many
            // processors can be short.
            Some(range) => (&mut without, range),
            None => (&mut with, part),
        };
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number <= HIGHEST);
        match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => {
                named += to - from + 1;
                if named > MOST_NAMED {
                    return Err(format!("the parts of the set name more than {MOST_NAMED} CPUs"));
                }
                set.extend(from..=to);
            }
            _ => return Err(format!("{part:?} is neither the number of a CPU nor a range of such numbers")),
        }
    }
    Ok(with.difference(&without).copied().collect())
}

/// Parses a set of a guest's `count` CPUs. A set that begins with `^` means all other CPUs.
///
/// # Errors
/// As [`parse`].
pub fn parse_mask(mask: &str, count: u32) -> Result<BTreeSet<u32>, String> {
    match mask.trim().starts_with('^') {
        true => parse(&format!("0-{},{mask}", count.saturating_sub(1))),
        false => parse(mask),
    }
}

/// Formats a set, for example as `0-3,8`.
pub fn format(cpus: impl IntoIterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus.into_iter().collect::<BTreeSet<u32>>() {
        match ranges.last_mut() {
            Some((_, to)) if *to + 1 == cpu => *to = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let words = ranges.into_iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sets_are_read_and_written() {
        let read = |text: &str| parse(text).map(format);
        assert_eq!(read("4-12,^8,15").unwrap(), "4-7,9-12,15");
        assert_eq!(read(" 1 , 0,2").unwrap(), "0-2");
        assert_eq!(read("0-7,^2-5").unwrap(), "0-1,6-7");
        assert_eq!(read("").unwrap(), "");
        assert_eq!(parse_mask("^0-1", 4).map(format).unwrap(), "2-3");
        assert_eq!(parse_mask("1,3", 4).map(format).unwrap(), "1,3");
        for wrong in ["a", "3-1", "1-", "-1", "^", "0-99999999999", "1-2-3"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_set_that_repeats_its_numbers_is_refused() {
        assert_eq!(read_back(&["0-3", &"^100-16383,".repeat(3)]), Ok("0-3".to_owned()));
        assert!(read_back(&["0-3", &"^100-16383,".repeat(5)]).unwrap_err().contains("more than 65536 CPUs"));
        assert!(read_back(&[&"0-16383,".repeat(5)]).is_err());
    }

    fn read_back(parts: &[&str]) -> Result<String, String> {
        parse(&parts.join(",")).map(format)
    }
}
