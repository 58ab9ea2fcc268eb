//! The images that exist, as the Image API lists them.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::ids::{ImageId, ProjectId};
use chronova_events::image::{Image, ImageEvent, ImageRecord, MemberStatus, Visibility};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct ImagesView {
    by_id: BTreeMap<ImageId, Arc<ImageRecord>>,
}

impl Projection for ImagesView {
    const NAME: &'static str = "images";
    const VERSION: u32 = 1;
    const NOUNS: &'static [&'static str] = &["image"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let Some(event) = ImageEvent::of(event) else { return };
        let Ok(id) = recorded.stream.key().parse::<ImageId>() else { return };
        let mut image = self.by_id.remove(&id).map_or(Image::Unknown, |record| {
            Image::Here(Box::new(Arc::try_unwrap(record).unwrap_or_else(|shared| ImageRecord::clone(&shared))))
        });
        image.evolve(event, recorded.recorded_at);
        if let Image::Here(record) = image {
            self.by_id.insert(id, Arc::from(record));
        }
    }

    fn weight(&self) -> u64 {
        self.by_id.len() as u64 * 1_024
    }
}

impl ImagesView {
    pub fn get(&self, id: ImageId) -> Option<Arc<ImageRecord>> {
        self.by_id.get(&id).cloned()
    }

    /// The number of images that a project owns.
    pub fn count_of(&self, owner: &ProjectId) -> usize {
        self.by_id.values().filter(|image| image.attributes.owner.as_ref() == Some(owner)).count()
    }

    /// Every image, in the order of the ids.
    pub fn all(&self) -> Vec<Arc<ImageRecord>> {
        self.by_id.values().cloned().collect()
    }
}

/// Whether `project` may see an image by its id. A project may see an image that is offered to it, even before the
/// project answers the offer.
pub fn is_visible(image: &ImageRecord, project: Option<&ProjectId>, is_admin: bool) -> bool {
    let own = image.attributes.owner.is_none() || (project.is_some() && image.attributes.owner.as_ref() == project);
    is_admin
        || own
        || match image.attributes.visibility {
            Visibility::Public | Visibility::Community => true,
            Visibility::Shared => project.is_some_and(|project| image.members.contains_key(project)),
            Visibility::Private => false,
        }
}

/// The status of the offer to share `image` with `project`, if there is such an offer.
pub fn membership(image: &ImageRecord, project: Option<&ProjectId>) -> Option<MemberStatus> {
    if image.attributes.visibility != Visibility::Shared {
        return None;
    }
    image.members.get(project?).map(|member| member.status)
}
