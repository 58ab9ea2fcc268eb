//! Streams of links: `$ce-CATEGORY` has all events of a category, `$et-TYPE` all events of a type.
//!
//! No link is stored. A link stream is the log itself, read with a filter. The revision of a link is the position of
//! its event in the log. So a revision never changes and is found without counting, but revisions have gaps. The
//! store's search finds the events, with the index for audit queries if the log has one. One call of the search
//! examines only a part of the log.

use std::collections::VecDeque;
use std::sync::Arc;

use chronova_events::envelope::{Position, Recorded};
use chronova_events::store::criteria::{Criteria, EventSearchResult};
use chronova_events::store::eventstoredb::form::{OUTSIDE, event_type};
use tonic::Status;

use super::served::{PAGE, ServedLog};
use super::status;
use super::wire::RevisionOption;

/// The largest number of positions that a backward read examines for one page.
const WINDOW: u64 = 65_536;

/// A stream of links.
#[derive(Debug, Clone)]
pub(super) struct LinkStream {
    name: String,
    subject: LinkSubject,
    /// Matches all events of the stream, and perhaps others. [`LinkStream::has`] is exact.
    criteria: Criteria,
}

#[derive(Debug, Clone)]
enum LinkSubject {
    Category(String),
    Type(String),
}

impl LinkStream {
    /// `None` if this name is not that of a link stream. As in EventStoreDB, a category ends at the first `-`.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let wild = |text: &str| text.contains(['*', '?']);
        let (subject, criteria) = if let Some(category) = name.strip_prefix("$ce-") {
            if category.is_empty() || category.contains('-') {
                return None;
            }
            // The search reads `*` and `?` as wildcards. A wildcard matches its own sign, too, so the search still
            // finds every event of this category.
            let pattern = if wild(category) { format!("{category}-*") } else { format!("{category}-") };
            let criteria = Criteria { streams: vec![pattern], ..Criteria::default() };
            (LinkSubject::Category(category.to_owned()), criteria)
        } else {
            let wanted = name.strip_prefix("$et-").filter(|wanted| !wanted.is_empty())?;
            // An event of any program may have this type. No kind of Chronova's events has a wildcard.
            let kinds = [wanted, OUTSIDE].into_iter().filter(|kind| !wild(kind)).map(str::to_owned).collect();
            (LinkSubject::Type(wanted.to_owned()), Criteria { kinds, ..Criteria::default() })
        };
        Some(Self { name: name.to_owned(), subject, criteria })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the stream has a link to this event.
    pub(super) fn has(&self, event: &Recorded) -> bool {
        match &self.subject {
            LinkSubject::Category(wanted) => {
                event.stream.as_str().split_once('-').is_some_and(|(category, _)| category == wanted)
            }
            LinkSubject::Type(wanted) => event_type(event) == *wanted,
        }
    }

    /// The next events after `after`, at most a page, and the position up to which there are no others. At the end of
    /// the log, this position is `after`.
    pub(super) async fn page(&self, log: &ServedLog, after: Position) -> Result<EventSearchResult, Status> {
        let found = log.store.search(after, PAGE, &self.criteria).await;
        let mut found = found.map_err(|error| status::of_store(&error))?;
        found.events.retain(|event| self.has(event));
        Ok(found)
    }

    /// The position of the first event; `None` if there is none, so that the stream does not exist.
    pub(super) async fn first(&self, log: &ServedLog) -> Result<Option<Position>, Status> {
        let mut at = Position::START;
        loop {
            let page = self.page(log, at).await?;
            if let Some(first) = page.events.first() {
                return Ok(Some(first.position));
            }
            if page.until <= at {
                return Ok(None);
            }
            at = page.until;
            tokio::task::yield_now().await;
        }
    }
}

/// A read of a link stream.
pub(super) struct LinkReader {
    pub(super) links: LinkStream,
    /// A forward read continues after this position. A backward read continues with the last link at or before this
    /// position.
    at: Position,
    backwards: bool,
    left: u64,
    found: bool,
    /// The number of positions that the next backward page examines. It grows while there are no links.
    window: u64,
}

impl LinkReader {
    pub(super) async fn new(
        log: &ServedLog,
        links: LinkStream,
        at: &RevisionOption,
        backwards: bool,
        left: u64,
    ) -> Result<Self, Status> {
        let (first, head) = (links.first(log).await?, log.store.head());
        let at = match (at, backwards) {
            (RevisionOption::Revision(revision), false) => Position(revision.saturating_sub(1)),
            (RevisionOption::Revision(revision), true) => head.min(Position(*revision)),
            (RevisionOption::Start(_), false) => Position::START,
            (RevisionOption::Start(_), true) => first.unwrap_or(Position::START),
            (RevisionOption::End(_), _) => head,
        };
        Ok(Self { links, at, backwards, left, found: first.is_some(), window: PAGE as u64 })
    }

    /// Whether the stream does not exist. After this answer, the read is at its end.
    pub(super) fn ends_as_missing(&mut self) -> bool {
        let missing = !self.found;
        if missing {
            (self.found, self.left) = (true, 0);
        }
        missing
    }

    /// The events of the next links, possibly none; `None` at the end.
    pub(super) async fn next(&mut self, log: &ServedLog) -> Result<Option<Vec<Arc<Recorded>>>, Status> {
        if self.left == 0 || self.backwards && self.at == Position::START {
            return Ok(None);
        }
        let mut events = if self.backwards {
            self.before(log).await?
        } else {
            let page = self.links.page(log, self.at).await?;
            if page.until <= self.at {
                return Ok(None);
            }
            self.at = page.until;
            page.events
        };
        events.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= events.len() as u64;
        // There may be no link in many pages, so other tasks get a turn after each page.
        tokio::task::yield_now().await;
        Ok(Some(events))
    }

    /// The newest links of the window before [`Self::at`], newest first.
    async fn before(&mut self, log: &ServedLog) -> Result<Vec<Arc<Recorded>>, Status> {
        let (last, mut from) = (self.at, Position(self.at.0.saturating_sub(self.window)));
        let mut after = from;
        let mut newest: VecDeque<Arc<Recorded>> = VecDeque::new();
        while after < last {
            let page = self.links.page(log, after).await?;
            if page.until <= after {
                break;
            }
            after = page.until;
            for event in page.events.into_iter().filter(|event| event.position <= last) {
                newest.push_back(event);
                if newest.len() > PAGE
                    && let Some(earlier) = newest.pop_front()
                {
                    from = earlier.position;
                }
            }
            tokio::task::yield_now().await;
        }
        self.window = if newest.is_empty() { (self.window * 2).min(WINDOW) } else { PAGE as u64 };
        self.at = from;
        Ok(newest.into_iter().rev().collect())
    }
}
