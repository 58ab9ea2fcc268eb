//! The metrics in the format of OpenMetrics 1.0, which can name a request for a bucket (an exemplar).
//!
//! The text is made from that of Prometheus. The formats differ in three ways: the name of a counter's family is without
//! `_total`, a bucket may have an exemplar, and the last line is `# EOF`.

use std::collections::{HashMap, HashSet};

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether a client accepts OpenMetrics. Prometheus does, and lists the format first.
pub(super) fn is_accepted(accept: &str) -> bool {
    accept.contains("application/openmetrics-text")
}

/// `text` in Prometheus' format becomes OpenMetrics. The keys of `exemplars` are series with their labels, as the text
/// writes them.
pub(super) fn render(text: &str, exemplars: &HashMap<String, String>) -> String {
    let counters: HashSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut open = String::with_capacity(text.len() + 64 * exemplars.len());
    for line in text.lines() {
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|mark| Some((mark, line.strip_prefix(mark)?)));
        if let Some((mark, rest)) = described {
            let (name, told) = rest.split_once(' ').unwrap_or((rest, ""));
            let family = if counters.contains(name) { name.strip_suffix("_total").unwrap_or(name) } else { name };
            open.push_str(&[mark, family, " ", &told.replace('"', "\\\"")].concat());
        } else {
            open.push_str(line);
            let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
            if let Some(exemplar) = exemplars.get(series) {
                open.push_str(&[" # ", exemplar].concat());
            }
        }
        open.push('\n');
    }
    open.push_str("# EOF\n");
    open
}
