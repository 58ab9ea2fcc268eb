//! The writer's cache of stream revisions, so that it need not query for each append.

use std::collections::HashMap;

use crate::envelope::StreamId;

/// The number of young streams at which the old ones are forgotten. The cache never holds more than twice this number.
const REMEMBERED: usize = 65_536;

/// A stream's number in the file and its revision.
pub(super) type StreamPlace = (i64, u64);

/// Revisions of the streams with the latest appends. If there are too many, the older half is forgotten.
#[derive(Default)]
pub(super) struct StreamPlaces {
    young: HashMap<StreamId, StreamPlace>,
    old: HashMap<StreamId, StreamPlace>,
}

impl StreamPlaces {
    pub(super) fn get(&mut self, stream: &StreamId) -> Option<StreamPlace> {
        if let Some(place) = self.young.get(stream) {
            return Some(*place);
        }
        let place = self.old.remove(stream)?;
        self.put(stream, place);
        Some(place)
    }

    pub(super) fn put(&mut self, stream: &StreamId, place: StreamPlace) {
        if let Some(known) = self.young.get_mut(stream) {
            *known = place;
            return;
        }
        if self.young.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(stream.clone(), place);
    }

    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}
