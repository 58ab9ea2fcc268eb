//! "Did you mean": the nearest of some names, by edit distance.

/// The longest name, in bytes, that gets a suggestion.
const LONGEST: usize = 100;

/// The candidate nearest to `name`, if they differ in at most a third of the letters, as after a typing error.
pub(super) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // No option has so long a name, and a comparison costs the product of both lengths.
    if name.len() > LONGEST {
        return None;
    }
    candidates
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= name.len().div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}

/// The number of edits (insert, remove, replace, swap neighbours) that turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_ascii_lowercase().chars().collect();
    let b: Vec<char> = b.to_ascii_lowercase().chars().collect();
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, right) in b.iter().enumerate() {
            let replace = above[j] + usize::from(left != right);
            let mut best = replace.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *left == b[j - 1] && a[i - 1] == *right {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("debug", "debug"), 0);
        assert_eq!(distance("debgu", "debug"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("shutdown_timout", "shutdown_timeout"), 1);
    }

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["max_limit", "max_attempts", "debug"];
        assert_eq!(nearest("max_limits", names.into_iter()), Some("max_limit"));
        assert_eq!(nearest("something_else", names.into_iter()), None);
    }
}
