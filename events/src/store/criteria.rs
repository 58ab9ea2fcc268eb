//! The criteria of an audit query.
//!
//! If a criterion has several values, one of them must match. Different criteria must all match. [`Criteria::admits`]
//! is the definition. A back end calls it for the criteria that its storage cannot evaluate.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use super::{EventStore, StoreError};
use crate::access::AccessEvent;
use crate::envelope::{Cause, Position, Recorded, Revision, StreamId, Timestamp};
use crate::ids::{HostId, InstanceId, ProjectId, RequestId};
use crate::registry::NounEvent as _;
use crate::sealed;

/// The number of events per scan in back ends that cannot search.
pub(super) const PAGE: usize = 4_096;

/// The criteria of a query; the default matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Criteria {
    /// Patterns of stream names, see [`matches`].
    pub streams: Vec<String>,
    /// Patterns of kinds.
    pub kinds: Vec<String>,
    /// Ids of users who made the request.
    pub users: Vec<String>,
    /// Ids of the projects of the request's token.
    pub projects: Vec<String>,
    /// Ids of the requests that caused the event, with or without `req-`.
    pub request_ids: Vec<String>,
    /// Addresses of the clients that sent the requests. A sealed address is found while its key exists.
    pub addresses: Vec<String>,
    /// The earliest time of recording.
    pub since: Option<Timestamp>,
    /// The time of recording must be before this.
    pub until: Option<Timestamp>,
    /// Ids of servers that the event concerns, in any stream.
    pub servers: Vec<Uuid>,
    /// Ids of hosts that the event concerns, in any stream.
    pub hosts: Vec<Uuid>,
    /// The requests that caused events of `servers`. [`Criteria::learn`] fills this in.
    pub correlations: BTreeSet<Uuid>,
}

/// Matching events, and the end of the searched part.
#[derive(Debug, Clone)]
pub struct EventSearchResult {
    pub events: Vec<Arc<Recorded>>,
    /// All matching events up to this position were found. If the log ends where the search began, `until` is that
    /// position.
    pub until: Position,
}

impl Criteria {
    pub fn server(mut self, server: InstanceId) -> Self {
        self.servers.push(server.0);
        self
    }

    pub fn host(mut self, host: HostId) -> Self {
        self.hosts.push(host.0);
        self
    }

    /// Looks up the requests that concern the given servers. So events of other streams (quota, claims, ports,
    /// processes) are found, even if they do not name the server.
    pub async fn learn(&mut self, store: &dyn EventStore) -> Result<(), StoreError> {
        const PAGE: usize = 1_024;
        for server in self.servers.clone() {
            let stream = StreamId::new("instance", server);
            let mut at = Revision::NONE;
            loop {
                let page = store.read_stream(&stream, at, PAGE).await?;
                self.correlations.extend(page.iter().map(|recorded| recorded.meta.correlation));
                match page.last() {
                    Some(last) if page.len() >= PAGE => at = last.revision,
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// Does the same as [`Criteria::learn`] for one event of a live subscription.
    pub fn learn_from(&mut self, recorded: &Recorded) {
        let known = || is_stream_of(&self.servers, recorded);
        if !self.servers.is_empty() && recorded.stream.category() == "instance" && known() {
            self.correlations.insert(recorded.meta.correlation);
        }
    }

    pub fn admits(&self, recorded: &Recorded) -> bool {
        let meta = &recorded.meta;
        let (user, project) = match &meta.cause {
            Cause::User { user, project, .. } => (Some(user.as_str()), project.as_ref().map(ProjectId::as_str)),
            Cause::Process { .. } | Cause::System { .. } => (None, None),
        };
        let request = meta.request_id.as_ref().map(RequestId::as_str);
        any(&self.streams, |pattern| matches(pattern, recorded.stream.as_str()))
            && any(&self.kinds, |pattern| matches(pattern, &recorded.kind))
            && any(&self.users, |wanted| user == Some(wanted))
            && any(&self.projects, |wanted| project == Some(wanted))
            && any(&self.request_ids, |wanted| {
                request.is_some_and(|id| id == wanted || id.strip_prefix("req-") == Some(wanted))
            })
            && any(&self.addresses, |wanted| address(recorded).as_deref() == Some(wanted))
            && self.since.is_none_or(|since| recorded.recorded_at >= since)
            && self.until.is_none_or(|until| recorded.recorded_at < until)
            && (self.servers.is_empty()
                || self.correlations.contains(&meta.correlation)
                || concerns(&self.servers, recorded))
            && (self.hosts.is_empty() || concerns(&self.hosts, recorded))
    }

    /// The matching events of `page`, which has the next events of the log after `after`.
    pub fn select(&self, after: Position, limit: usize, page: Vec<Arc<Recorded>>) -> EventSearchResult {
        let mut until = page.last().map_or(after, |last| last.position);
        let mut events: Vec<_> = page.into_iter().filter(|recorded| self.admits(recorded)).collect();
        if events.len() > limit {
            events.truncate(limit);
            until = events.last().map_or(after, |last| last.position);
        }
        EventSearchResult { events, until }
    }
}

/// Whether the event is in a stream of one of `things`, or names one of `things`.
fn concerns(things: &[Uuid], recorded: &Recorded) -> bool {
    is_stream_of(things, recorded) || things.iter().any(|thing| mentions(recorded, *thing))
}

fn is_stream_of(things: &[Uuid], recorded: &Recorded) -> bool {
    recorded.stream.key().parse::<Uuid>().is_ok_and(|key| things.contains(&key))
}

/// The address of the client: in the envelope, or in the payload of a record of access.
fn address(recorded: &Recorded) -> Option<String> {
    if let Cause::User { source: Some(source), .. } = &recorded.meta.cause {
        return source.address.clone();
    }
    if recorded.stream.category() != AccessEvent::NOUN {
        return None;
    }
    AccessEvent::of(recorded.event().ok()?)?.client()?.address.clone()
}

fn any(wanted: &[String], test: impl Fn(&str) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(|one| test(one))
}

/// Whether the payload contains `id` in any form. The payload is not decoded, and sealed fields are not searched.
pub fn mentions(recorded: &Recorded, id: Uuid) -> bool {
    let data = sealed::clear_part(recorded.codec, &recorded.data);
    let contains = |needle: &[u8]| data.windows(needle.len()).any(|window| window == needle);
    contains(id.as_bytes()) || contains(id.to_string().as_bytes()) || contains(id.simple().to_string().as_bytes())
}

/// Matches a pattern: `*` matches any text, `?` one character. A pattern with neither matches the beginning of `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return text.starts_with(pattern);
    }
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // The position of the last `*`, and the length of the text that it has consumed.
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    (p, t) = (at + 1, eaten + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text) in
            [("instance", "instance-1"), ("*_failed", "process.step_failed"), ("i*1?3", "instance-123"), ("*", "")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        assert!(!matches("quota", "a-quota") && !matches("*_failed", "a_failed_b") && !matches("a?", "a"));
    }
}
