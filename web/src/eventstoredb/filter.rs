//! The filter of a client's read of the whole log.

use chronova_events::envelope::Recorded;
use chronova_events::store::eventstoredb::form::event_type;
use fancy_regex::{Regex, RegexBuilder};
use tonic::Status;

use super::wire::{FilterExpression, FilterOptions, FilterSubject, FilterWindow};

/// The longest pattern, in bytes. The next constants bound the number of prefixes and the search steps. The steps need
/// a bound, because a hostile client can make the search for a pattern with look-ahead slow. Such patterns must be
/// supported: the Python client excludes system events with one.
const MAX_PATTERN: usize = 1_024;
const MAX_PREFIXES: usize = 128;
const MAX_STEPS: usize = 20_000;
/// The default number of events after which a checkpoint is due.
const DEFAULT_WINDOW: u32 = 32;

/// The filter for events, from a client's read.
pub(super) struct EventMatchFilter {
    of_stream: bool,
    matcher: Matcher,
    /// The client gets a checkpoint after this many events, whether they match or not.
    pub(super) checkpoint_every: u64,
}

enum Matcher {
    Prefixes(Vec<String>),
    Pattern(Box<Regex>),
}

impl EventMatchFilter {
    pub(super) fn parse(options: FilterOptions) -> Result<Self, Status> {
        let (of_stream, expression) = match options.subject {
            Some(FilterSubject::Stream(expression)) => (true, expression),
            Some(FilterSubject::EventType(expression)) => (false, expression),
            None => return Err(Status::invalid_argument("a filter must be for stream names or event types")),
        };
        let window = match options.window {
            Some(FilterWindow::Max(0) | FilterWindow::Count(_)) | None => DEFAULT_WINDOW,
            Some(FilterWindow::Max(max)) => max,
        };
        let checkpoint_every = u64::from(window) * u64::from(options.checkpoint_interval_multiplier.max(1));
        Ok(Self { of_stream, matcher: Matcher::parse(expression)?, checkpoint_every })
    }

    pub(super) fn admits(&self, event: &Recorded) -> bool {
        if self.of_stream {
            self.matcher.matches(event.stream.as_str())
        } else {
            self.matcher.matches(&event_type(event))
        }
    }
}

impl Matcher {
    fn parse(expression: FilterExpression) -> Result<Self, Status> {
        if expression.regex.is_empty() {
            let long = expression.prefix.iter().any(|prefix| prefix.len() > MAX_PATTERN);
            if long || expression.prefix.len() > MAX_PREFIXES {
                return Err(Status::invalid_argument(format!(
                    "a filter may have at most {MAX_PREFIXES} prefixes of {MAX_PATTERN} bytes"
                )));
            }
            return Ok(Self::Prefixes(expression.prefix));
        }
        if expression.regex.len() > MAX_PATTERN {
            return Err(Status::invalid_argument(format!("a pattern may have at most {MAX_PATTERN} bytes")));
        }
        RegexBuilder::new(&expression.regex)
            .backtrack_limit(MAX_STEPS)
            .delegate_size_limit(1 << 20)
            .build()
            .map(|regex| Self::Pattern(Box::new(regex)))
            .map_err(|error| Status::invalid_argument(format!("the pattern cannot be used: {error}")))
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Prefixes(prefixes) => prefixes.iter().any(|prefix| text.starts_with(prefix.as_str())),
            // A pattern that reaches its search limit does not match.
            Self::Pattern(regex) => regex.is_match(text).unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn matcher(regex: &str, prefix: &[&str]) -> Result<Matcher, Status> {
        let prefix = prefix.iter().map(|prefix| (*prefix).to_owned()).collect();
        Matcher::parse(FilterExpression { regex: regex.to_owned(), prefix })
    }

    #[test]
    fn prefixes_and_the_patterns_of_the_clients() {
        let instances = matcher("", &["instance-", "host-"]).unwrap();
        assert!(instances.matches("host-7") && instances.matches("instance-1") && !instances.matches("process-1"));
        let not_system = matcher(r"^(?!(\$.+$|PersistentConfig\d+$|Result$))", &[]).unwrap();
        assert!(not_system.matches("instance.renamed") && !not_system.matches("$metadata"));
    }

    #[test]
    fn long_patterns_and_lists_are_refused() {
        assert!(matcher(&"a".repeat(MAX_PATTERN + 1), &[]).is_err());
        assert!(matcher("(", &[]).is_err());
        assert!(matcher("", &vec!["a"; MAX_PREFIXES + 1]).is_err());
        // A search without a limit would take exponential time with this pattern.
        assert!(!matcher(r"^(a|aa)+(?!b)$(?<=c)", &[]).unwrap().matches(&"a".repeat(64)));
    }
}
