//! The comparison language of extra specs: `>= 4`, `s== x86_64`, `<or> a <or> b`.

use std::fmt::Display;

/// Whether `value` meets the condition `wanted`. Nova: `nova.scheduler.filters.extra_specs_ops.match`; a condition
/// without an operator must equal the whole value.
pub(super) fn matches(value: &str, wanted: &str) -> bool {
    let mut words = wanted.split_whitespace();
    let Some(operator) = words.next() else { return value == wanted };
    let rest: Vec<&str> = words.collect();
    let first = rest.first().copied();
    let number = |text: &str| text.parse::<f64>().ok();
    let numbers = |compare: fn(f64, f64) -> bool| match (number(value), first.and_then(number)) {
        (Some(left), Some(right)) => compare(left, right),
        // In Nova, the request fails with a ValueError. In Chronova, the host does not pass.
        _ => false,
    };
    let texts = |compare: fn(&str, &str) -> bool| first.is_some_and(|right| compare(value, right));
    match operator {
        // `=` means "at least", as it always has in Nova.
        "=" | ">=" => numbers(|left, right| left >= right),
        "==" => numbers(|left, right| (left - right).abs() < f64::EPSILON),
        "!=" => numbers(|left, right| (left - right).abs() >= f64::EPSILON),
        "<=" => numbers(|left, right| left <= right),
        "s==" => texts(|left, right| left == right),
        "s!=" => texts(|left, right| left != right),
        "s<" => texts(|left, right| left < right),
        "s<=" => texts(|left, right| left <= right),
        "s>" => texts(|left, right| left > right),
        "s>=" => texts(|left, right| left >= right),
        "<in>" => texts(|left, right| left.contains(right)),
        "<all-in>" => !rest.is_empty() && rest.iter().all(|word| value.contains(word)),
        "<or>" => rest.iter().step_by(2).any(|word| *word == value),
        _ => value == wanted,
    }
}

/// Lists at most `limit` items, and says how many more there are.
pub(super) fn some<T: Display>(items: impl IntoIterator<Item = T>, limit: usize) -> String {
    let all: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    let shown = all.iter().take(limit).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().checked_sub(limit) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ if all.is_empty() => "none".to_owned(),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_compare_as_in_nova() {
        let yes = [
            ("12311321", "= 11"),
            ("12311321", "= 12311321"),
            ("124", "== 124"),
            ("124", "!= 125"),
            ("123", "<= 124"),
            ("124", ">= 124"),
            ("abc", "s== abc"),
            ("abc", "s!= abd"),
            ("b", "s> a"),
            ("b", "s>= a"),
            ("a", "s>= a"),
            ("9", "s>= 10"),
            ("a", "s<= a"),
            ("a", "s< b"),
            ("12311321", "<in> 11"),
            ("['aes', 'mmx', 'aux']", "<all-in> aes mmx"),
            ("12", "<or> 11 <or> 12"),
            ("plain text", "plain text"),
            ("", ""),
        ];
        for (value, wanted) in yes {
            assert!(matches(value, wanted), "{value} {wanted}");
        }
        let no = [
            ("12", "= 13"),
            ("abc", "== 124"),
            ("123", "== 124"),
            ("124", "!= 124"),
            ("125", "<= 124"),
            ("124", ">= 125"),
            ("abc", "s== abd"),
            ("abc", "s!= abc"),
            ("a", "s> a"),
            ("a", "s>= b"),
            ("a", "s< a"),
            ("b", "s<= a"),
            ("12310321", "<in> 11"),
            ("['aes', 'mmx', 'aux']", "<all-in> txt 3dnow"),
            ("['aes', 'mmx', 'aux']", "<all-in> aes 3dnow"),
            ("13", "<or> 11 <or> 12"),
            ("x86", ">="),
            ("a", "b"),
        ];
        for (value, wanted) in no {
            assert!(!matches(value, wanted), "{value} {wanted}");
        }
    }

    #[test]
    fn lists_are_cut() {
        assert_eq!(some(["a", "b"], 2), "a, b");
        assert_eq!(some(["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(some(Vec::<String>::new(), 2), "none");
    }
}
