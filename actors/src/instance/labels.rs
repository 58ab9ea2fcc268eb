//! A server's metadata and tags, as they will be after a change.

use chronova_events::instance::{Alive, SortedPairs};

use super::actions::{ServerAction, check_state};
use super::decision::InstanceReject;
use super::requests::{MetadataChange, TagChange};

/// The metadata after the change, sorted by key, as in events.
pub(super) fn metadata(server: &Alive, change: MetadataChange) -> Result<SortedPairs, InstanceReject> {
    let now = &server.request.metadata;
    let (mut after, limit, action) = match change {
        MetadataChange::Replace { pairs, limit } => (pairs, limit, ServerAction::UpdateMetadata),
        MetadataChange::Set { pairs, limit } => (merged(now, pairs), limit, ServerAction::UpdateMetadata),
        MetadataChange::Remove { key } => (without(now, &key)?, None, ServerAction::DeleteMetadata),
    };
    check_state(server, action)?;
    if let Some(limit) = limit.filter(|limit| after.len() > *limit) {
        return Err(InstanceReject::TooMuchMetadata { limit });
    }
    after.sort();
    Ok(after)
}

fn merged(now: &SortedPairs, pairs: SortedPairs) -> SortedPairs {
    let stays = |(key, _): &&(String, String)| !pairs.iter().any(|(other, _)| other == key);
    let mut merged: SortedPairs = now.iter().filter(stays).cloned().collect();
    merged.extend(pairs);
    merged
}

fn without(now: &SortedPairs, key: &str) -> Result<SortedPairs, InstanceReject> {
    let rest: SortedPairs = now.iter().filter(|(known, _)| known != key).cloned().collect();
    if rest.len() == now.len() { Err(InstanceReject::NoSuchMetadata) } else { Ok(rest) }
}

pub(super) fn tags(server: &Alive, change: TagChange) -> Result<Vec<String>, InstanceReject> {
    let now = &server.request.tags;
    let after = match change {
        TagChange::Replace(tags) => tags,
        TagChange::Add { tag, .. } if now.contains(&tag) => now.clone(),
        TagChange::Add { limit, .. } if now.len() >= limit => return Err(InstanceReject::TooManyTags { limit }),
        TagChange::Add { tag, .. } => now.iter().cloned().chain([tag]).collect(),
        TagChange::Remove(tag) if !now.contains(&tag) => return Err(InstanceReject::NoSuchTag { tag }),
        TagChange::Remove(tag) => now.iter().filter(|known| **known != tag).cloned().collect(),
    };
    check_state(server, ServerAction::UpdateTags)?;
    Ok(after)
}
