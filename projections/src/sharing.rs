//! Interns the values that many servers share: the flavors and images of their requests, and the names of their
//! actions' steps. A million servers of ten flavors then hold ten flavors in memory.
//!
//! Flavor and image are interned when a server is requested or resized, and when its row comes from a checkpoint. Names
//! of steps are interned when they are recorded, and when they come from a checkpoint. A value that is not interned
//! costs only memory.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use chronova_events::ids::InstanceId;
use chronova_events::instance::{FlavorSnapshot, ImageSnapshot, Instance};
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::servers::ServerRow;

/// The limit of interned values of a kind. Flavors and images come and go, so the pool must not grow without end.
const MOST: usize = 4_096;

#[derive(Debug)]
struct InternPool<T: ?Sized + Eq + Hash>(HashSet<Arc<T>>);

/// This implementation is written by hand, because a derived one would require the same trait of `T`.
impl<T: ?Sized + Eq + Hash> Default for InternPool<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: ?Sized + Eq + Hash> Clone for InternPool<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized + Eq + Hash> InternPool<T> {
    /// Returns the pooled value that equals `one`; adds `one` if there is none.
    fn same(&mut self, one: &Arc<T>) -> Arc<T> {
        if let Some(known) = self.0.get(one) {
            return Arc::clone(known);
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(Arc::clone(one));
        Arc::clone(one)
    }
}

/// The shared values. Losing them costs memory and nothing else.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedValues {
    flavors: InternPool<FlavorSnapshot>,
    images: InternPool<ImageSnapshot>,
    names: InternPool<str>,
}

impl SharedValues {
    /// Lets the server share its flavor and image with other servers.
    pub(crate) fn share(&mut self, instance: &mut Instance) {
        let (Instance::Alive(server) | Instance::Deleted(server)) = instance else { return };
        server.request.flavor = self.flavors.same(&server.request.flavor);
        server.request.image = server.request.image.as_ref().map(|image| self.images.same(image));
    }

    pub(crate) fn name(&mut self, name: &str) -> Arc<str> {
        match self.names.0.get(name) {
            Some(known) => Arc::clone(known),
            None => self.names.same(&name.into()),
        }
    }

    fn share_row(&mut self, row: &mut ServerRow) {
        self.share(&mut row.instance);
        for action in &mut row.actions {
            for step in &mut Arc::make_mut(action).steps {
                step.step = self.names.same(&step.step);
            }
        }
    }
}

/// Reads rows and interns them one by one. All rows together might not fit into memory before they are interned.
pub(crate) fn rows<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<InstanceId, Arc<ServerRow>>, D::Error> {
    struct SharedServerRows;

    impl<'de> Visitor<'de> for SharedServerRows {
        type Value = BTreeMap<InstanceId, Arc<ServerRow>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("servers by id")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut shared, mut rows) = (SharedValues::default(), BTreeMap::new());
            while let Some((id, mut row)) = map.next_entry::<InstanceId, ServerRow>()? {
                shared.share_row(&mut row);
                rows.insert(id, Arc::new(row));
            }
            Ok(rows)
        }
    }

    from.deserialize_map(SharedServerRows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::codec;
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold as _;
    use chronova_events::instance::{Alive, InstanceEvent, samples};
    use serde::Deserialize;

    use super::*;

    fn row(number: u128) -> ServerRow {
        let asked = samples().into_iter().find(|event| matches!(event, InstanceEvent::BuildRequested(_))).unwrap();
        let mut instance = Instance::default();
        instance.evolve(&asked, Timestamp(1));
        ServerRow { id: InstanceId(uuid::Uuid::from_u128(number)), instance, actions: Vec::new() }
    }

    fn server(row: &ServerRow) -> &Alive {
        row.server().unwrap()
    }

    #[test]
    fn equal_values_are_shared_and_different_ones_are_not() {
        let mut shared = SharedValues::default();
        let mut rows = [row(1), row(2), row(3)];
        if let Instance::Alive(other) = &mut rows[2].instance {
            Arc::make_mut(&mut other.request.flavor).vcpus = 77;
        }
        let before = rows.clone();
        for row in &mut rows {
            shared.share(&mut row.instance);
        }
        assert_eq!(rows, before);
        let flavor = |at: usize| &server(&rows[at]).request.flavor;
        assert!(Arc::ptr_eq(flavor(0), flavor(1)) && !Arc::ptr_eq(flavor(0), flavor(2)));
        assert!(Arc::ptr_eq(&shared.name("claim"), &shared.name("claim")));
    }

    #[test]
    fn rows_share_when_they_are_read() {
        #[derive(Deserialize)]
        struct Read(#[serde(deserialize_with = "rows")] BTreeMap<InstanceId, Arc<ServerRow>>);
        let kept: BTreeMap<_, _> = [row(1), row(2)].into_iter().map(|row| (row.id, Arc::new(row))).collect();
        let bytes = codec::encode_snapshot(&kept).unwrap();
        let Read(read) = codec::decode_snapshot(&bytes).unwrap();
        assert_eq!(read, kept);
        let images: Vec<_> = read.values().filter_map(|row| server(row).request.image.as_ref()).collect();
        assert!(images.len() == 2 && Arc::ptr_eq(images[0], images[1]));
    }
}
