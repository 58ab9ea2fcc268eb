//! Finds handlers that are so long that they probably decide something.
//!
//! `handlers.txt` lists the handlers that are too long today, `PATH NAME`. The list may only shrink. So a listed
//! handler that is now short enough, or gone, is a finding, too.

use std::collections::BTreeSet;

use super::source::Source;
use super::tree::Finding;

pub(crate) const NAME: &str = "handlers";
pub(crate) const WHY: &str = "a handler translates: it parses, calls and renders; above about 15 lines it has begun to \
                              decide. handlers.txt lists the exceptions, and may only shrink";

pub(crate) const LIST: &str = "ops/xtask/src/layers/handlers.txt";

const LIMIT: usize = 15;

/// A handler that is too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LongHandler {
    path: String,
    name: String,
    line: usize,
    lines: usize,
}

impl LongHandler {
    fn entry(&self) -> String {
        format!("{} {}", self.path, self.name)
    }
}

/// Compares the long handlers with the list.
pub(crate) fn check(handlers: &[LongHandler], list: &str) -> Vec<Finding> {
    let allowed: BTreeSet<&str> = list.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut findings = Vec::new();
    for long in handlers.iter().filter(|long| !allowed.contains(long.entry().as_str())) {
        let message = format!("handler `{}` has {} lines (at most {LIMIT})", long.name, long.lines);
        findings.push(Finding { path: long.path.clone(), line: long.line, rule: NAME, message });
    }
    for entry in allowed.into_iter().filter(|entry| !handlers.iter().any(|long| long.entry() == *entry)) {
        let message = format!("the list has `{entry}`, which is short enough or gone; run `layers --lower`");
        findings.push(Finding { path: LIST.to_owned(), line: 0, rule: NAME, message });
    }
    findings
}

/// The present content of the list.
pub(crate) fn list(handlers: &[LongHandler]) -> String {
    handlers.iter().map(|long| long.entry() + "\n").collect::<Vec<_>>().concat()
}

/// The handlers of the web layer (`async fn name(ctx: Ctx) -> ...`) with too many lines in their bodies.
pub(crate) fn long(sources: &[Source]) -> Vec<LongHandler> {
    sources.iter().filter(|source| source.is_under("web/src")).flat_map(long_in).collect()
}

fn long_in(source: &Source) -> Vec<LongHandler> {
    let mut found = Vec::new();
    for at in 0..source.tokens.len() {
        let function = source.ident(at) == Some("async") && source.ident(at + 1) == Some("fn");
        let Some(name) = source.ident(at + 2).filter(|_| function && source.is_punct(at + 3, '(')) else { continue };
        let after_parameters = source.after_group(at + 3);
        // A handler owns its request. A function that borrows the request is a part of a handler.
        let takes_request = (at..after_parameters)
            .any(|inside| source.ident(inside) == Some("Ctx") && source.is_punct(inside - 1, ':'));
        let Some(open) = (after_parameters..source.tokens.len()).find(|inside| source.is_punct(*inside, '{')) else {
            continue;
        };
        let close = source.after_group(open) - 1;
        let lines = (source.line(close) - source.line(open)).saturating_sub(1);
        if takes_request && lines > LIMIT {
            found.push(LongHandler { path: source.path.clone(), name: name.to_owned(), line: source.line(at), lines });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handlers(lines: usize) -> Vec<LongHandler> {
        let text =
            format!("async fn create(ctx: Ctx) -> R {{\n{}}}\nasync fn part(ctx: &Ctx) {{}}", "a;\n".repeat(lines));
        long(&[Source::new("web/src/compute/servers.rs", &text)])
    }

    #[test]
    fn long_handlers_are_found_unless_listed() {
        assert_eq!(handlers(15), []);
        assert_eq!(check(&handlers(16), "").len(), 1);
        assert_eq!(check(&handlers(16), "web/src/compute/servers.rs create\n"), []);
    }

    #[test]
    fn the_list_only_shrinks() {
        assert_eq!(check(&handlers(15), "web/src/compute/servers.rs create\n").len(), 1);
        assert_eq!(list(&handlers(16)), "web/src/compute/servers.rs create\n");
    }
}
