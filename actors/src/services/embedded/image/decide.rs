//! The decisions of an image. The rules are Glance's.

use chronova_events::ids::UploadId;
use chronova_events::image::{
    ContentStored, Image, ImageAttributes, ImageContent, ImageCreated, ImageDeactivated, ImageDeleted, ImageDescribed,
    ImageEvent, ImageReactivated, ImageRecord, MemberAnswered, MemberInvited, MemberRemoved, UploadAbandoned,
    UploadStarted, Visibility,
};

use super::{ImageChange, ImageCommand, ImageReject, MAX_MEMBERS, MAX_PROPERTY_BYTES, MAX_TAGS, PropertyLimit};

type ImageDecision = Result<Vec<ImageEvent>, ImageReject>;

pub fn decide(state: &Image, command: ImageCommand) -> ImageDecision {
    let reject = match (state, command) {
        (Image::Unknown, ImageCommand::Create(created, most)) => return create(created, most),
        (_, ImageCommand::Create(created, _)) => return Err(ImageReject::IdTaken(created.image)),
        (Image::Here(record), command) => return on_image(record, command),
        (Image::Unknown | Image::Deleted, _) => ImageReject::NotFound,
    };
    Err(reject)
}

fn create(mut created: ImageCreated, most: PropertyLimit) -> ImageDecision {
    sort(&mut created.attributes);
    check_count(0, &created.attributes, most)?;
    check(&created.attributes)?;
    check_size(0, &created.attributes)?;
    Ok(vec![created.into()])
}

fn sort(attributes: &mut ImageAttributes) {
    attributes.tags.sort();
    attributes.tags.dedup();
    attributes.properties.sort();
}

/// The size of the properties in bytes.
fn property_bytes(attributes: &ImageAttributes) -> usize {
    attributes.properties.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// Checks the size of the properties. An older image may exceed the limit, but then its properties must not grow.
fn check_size(before: usize, attributes: &ImageAttributes) -> Result<(), ImageReject> {
    match property_bytes(attributes) {
        now if now > MAX_PROPERTY_BYTES && now > before => Err(ImageReject::TooLarge { limit: MAX_PROPERTY_BYTES }),
        _ => Ok(()),
    }
}

/// Checks the number of properties. As in Glance, an image with too many properties may be changed, but their number
/// must not grow.
fn check_count(before: usize, attributes: &ImageAttributes, most: PropertyLimit) -> Result<(), ImageReject> {
    let now = attributes.properties.len();
    match most.0.filter(|limit| now > *limit && now > before) {
        Some(limit) => Err(ImageReject::TooMany { what: "properties", limit }),
        None => Ok(()),
    }
}

fn check(attributes: &ImageAttributes) -> Result<(), ImageReject> {
    if attributes.tags.len() > MAX_TAGS {
        return Err(ImageReject::TooMany { what: "tags", limit: MAX_TAGS });
    }
    // Each of Amazon's container formats needs the disk format of the same name.
    if let (Some(container), Some(disk)) = (&attributes.container_format, &attributes.disk_format) {
        let amazon = |format: &str| matches!(format, "aki" | "ari" | "ami");
        if (amazon(container) || amazon(disk)) && container != disk {
            return Err(ImageReject::FormatsDisagree { container: container.clone(), disk: disk.clone() });
        }
    }
    Ok(())
}

fn on_image(record: &ImageRecord, command: ImageCommand) -> ImageDecision {
    let image = record.id;
    match command {
        ImageCommand::Create(created, _) => Err(ImageReject::IdTaken(created.image)),
        ImageCommand::Change(changes, most) => change(record, changes, most),
        ImageCommand::StartUpload(upload) => start_upload(record, upload),
        ImageCommand::AbandonUpload { upload, reason } if is_saving(record, upload) => {
            Ok(vec![UploadAbandoned { image, upload, reason }.into()])
        }
        // The upload has already ended, so there is nothing to abandon.
        ImageCommand::AbandonUpload { .. } => Ok(vec![]),
        ImageCommand::Store(stored) => store(record, stored),
        ImageCommand::Deactivate => match record.content {
            ImageContent::Active(_) => Ok(vec![ImageDeactivated { image }.into()]),
            ImageContent::Deactivated(_) => Ok(vec![]),
            _ => Err(not_in_state(record, "deactivated")),
        },
        ImageCommand::Reactivate => match record.content {
            ImageContent::Deactivated(_) => Ok(vec![ImageReactivated { image }.into()]),
            ImageContent::Active(_) => Ok(vec![]),
            _ => Err(not_in_state(record, "active")),
        },
        ImageCommand::Invite(member) => {
            if record.attributes.visibility != Visibility::Shared {
                return Err(ImageReject::NotShared);
            }
            if record.members.contains_key(&member) {
                return Err(ImageReject::MemberExists(member));
            }
            if record.members.len() >= MAX_MEMBERS {
                return Err(ImageReject::TooMany { what: "members", limit: MAX_MEMBERS });
            }
            Ok(vec![MemberInvited { image, member }.into()])
        }
        ImageCommand::Answer { member, status } => match record.members.get(&member) {
            None => Err(ImageReject::NoMember(member)),
            Some(known) if known.status == status => Ok(vec![]),
            Some(_) => Ok(vec![MemberAnswered { image, member, status }.into()]),
        },
        ImageCommand::RemoveMember(member) => {
            if !record.members.contains_key(&member) {
                return Err(ImageReject::NoMember(member));
            }
            Ok(vec![MemberRemoved { image, member }.into()])
        }
        ImageCommand::Delete if record.attributes.protected => Err(ImageReject::Protected),
        ImageCommand::Delete => Ok(vec![ImageDeleted { image }.into()]),
    }
}

fn not_in_state(record: &ImageRecord, to: &'static str) -> ImageReject {
    ImageReject::NotInState { from: record.content.status(), to }
}

fn is_saving(record: &ImageRecord, upload: UploadId) -> bool {
    record.content == ImageContent::Saving { upload }
}

fn start_upload(record: &ImageRecord, upload: UploadId) -> ImageDecision {
    match record.content {
        ImageContent::Queued
            if record.attributes.disk_format.is_none() || record.attributes.container_format.is_none() =>
        {
            Err(ImageReject::FormatMissing)
        }
        ImageContent::Queued => Ok(vec![UploadStarted { image: record.id, upload }.into()]),
        ImageContent::Saving { upload: running } if running == upload => Ok(vec![]),
        _ => Err(not_in_state(record, "saving")),
    }
}

fn store(record: &ImageRecord, stored: ContentStored) -> ImageDecision {
    match &record.content {
        ImageContent::Saving { upload } if *upload == stored.upload => Ok(vec![stored.into()]),
        ImageContent::Active(known) if *known == stored => Ok(vec![]),
        _ => Err(not_in_state(record, "active")),
    }
}

fn change(record: &ImageRecord, changes: Vec<ImageChange>, most: PropertyLimit) -> ImageDecision {
    let mut attributes = record.attributes.clone();
    for change in changes {
        apply(record, &mut attributes, change)?;
    }
    sort(&mut attributes);
    check_count(record.attributes.properties.len(), &attributes, most)?;
    check(&attributes)?;
    check_size(property_bytes(&record.attributes), &attributes)?;
    if attributes == record.attributes {
        return Ok(vec![]);
    }
    Ok(vec![ImageDescribed { image: record.id, attributes }.into()])
}

fn apply(record: &ImageRecord, attributes: &mut ImageAttributes, change: ImageChange) -> Result<(), ImageReject> {
    let queued = |what| match record.content {
        ImageContent::Queued => Ok(()),
        _ => Err(ImageReject::OnlyWhileQueued(what)),
    };
    match change {
        ImageChange::Name(name) => attributes.name = name,
        ImageChange::Owner(owner) => attributes.owner = owner,
        ImageChange::Visibility(visibility) => attributes.visibility = visibility,
        ImageChange::DiskFormat(format) if format == attributes.disk_format => {}
        ImageChange::DiskFormat(format) => {
            queued("disk_format")?;
            attributes.disk_format = format;
        }
        ImageChange::ContainerFormat(format) if format == attributes.container_format => {}
        ImageChange::ContainerFormat(format) => {
            queued("container_format")?;
            attributes.container_format = format;
        }
        ImageChange::MinDisk(gib) => attributes.min_disk_gib = gib,
        ImageChange::MinRam(mib) => attributes.min_ram_mib = mib,
        ImageChange::Protected(protected) => attributes.protected = protected,
        ImageChange::Hidden(hidden) => attributes.hidden = hidden,
        ImageChange::Tags(tags) => attributes.tags = tags,
        ImageChange::AddTag(tag) => attributes.tags.push(tag),
        ImageChange::RemoveTag(tag) => {
            let before = attributes.tags.len();
            attributes.tags.retain(|known| *known != tag);
            if attributes.tags.len() == before {
                return Err(ImageReject::NoTag(tag));
            }
        }
        ImageChange::SetProperty { name, value } => set(attributes, name, value),
        ImageChange::ReplaceProperty { name, value } => {
            if !has(attributes, &name) {
                return Err(ImageReject::NoProperty(name));
            }
            set(attributes, name, value);
        }
        ImageChange::RemoveProperty { name } => {
            if !has(attributes, &name) {
                return Err(ImageReject::NoProperty(name));
            }
            attributes.properties.retain(|(known, _)| *known != name);
        }
    }
    Ok(())
}

fn has(attributes: &ImageAttributes, name: &str) -> bool {
    attributes.properties.iter().any(|(known, _)| known == name)
}

fn set(attributes: &mut ImageAttributes, name: String, value: String) {
    attributes.properties.retain(|(known, _)| *known != name);
    attributes.properties.push((name, value));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ids::ImageId;
    use chronova_events::image::MemberStatus;
    use uuid::Uuid;

    use super::*;

    const ID: ImageId = ImageId(Uuid::from_u128(1));

    fn changed(changes: Vec<ImageChange>) -> ImageCommand {
        ImageCommand::Change(changes, PropertyLimit::default())
    }

    const UPLOAD: UploadId = UploadId(Uuid::from_u128(2));

    fn attributes() -> ImageAttributes {
        ImageAttributes {
            name: Some("i".into()),
            owner: Some("p".into()),
            visibility: Visibility::Shared,
            disk_format: Some("raw".into()),
            container_format: Some("bare".into()),
            min_disk_gib: 0,
            min_ram_mib: 0,
            protected: false,
            hidden: false,
            tags: vec![],
            properties: vec![("a".into(), "1".into())],
        }
    }

    fn stored() -> ContentStored {
        ContentStored {
            image: ID,
            upload: UPLOAD,
            size: 3,
            virtual_size: Some(3),
            checksum: "c".into(),
            sha512: "s".into(),
        }
    }

    fn given(commands: impl IntoIterator<Item = ImageCommand>) -> Image {
        let mut state = Image::default();
        let create =
            ImageCommand::Create(ImageCreated { image: ID, attributes: attributes() }, PropertyLimit::default());
        for command in [create].into_iter().chain(commands) {
            for event in decide(&state, command).expect("given") {
                state.evolve(&event, Timestamp(1));
            }
        }
        state
    }

    fn active() -> Image {
        given([ImageCommand::StartUpload(UPLOAD), ImageCommand::Store(stored())])
    }

    #[test]
    fn data_is_stored_once() {
        let state = active();
        assert_eq!(state.here().unwrap().content.status(), "active");
        assert_eq!(decide(&state, ImageCommand::Store(stored())), Ok(vec![]));
        assert_eq!(
            decide(&state, ImageCommand::StartUpload(UploadId(Uuid::nil()))),
            Err(ImageReject::NotInState { from: "active", to: "saving" })
        );
    }

    #[test]
    fn an_abandoned_upload_leaves_the_image_unchanged() {
        let abandon = |upload| ImageCommand::AbandonUpload { upload, reason: "gone".into() };
        let state = given([ImageCommand::StartUpload(UPLOAD)]);
        assert_eq!(decide(&state, abandon(UploadId(Uuid::nil()))), Ok(vec![]));
        let state = given([ImageCommand::StartUpload(UPLOAD), abandon(UPLOAD)]);
        assert_eq!(state.here().unwrap().content, ImageContent::Queued);
        assert!(matches!(decide(&state, ImageCommand::Store(stored())), Err(ImageReject::NotInState { .. })));
        assert!(decide(&state, ImageCommand::StartUpload(UploadId(Uuid::nil()))).is_ok());
    }

    #[test]
    fn formats_are_fixed_once_there_is_data() {
        let other = changed(vec![ImageChange::DiskFormat(Some("qcow2".into()))]);
        assert_eq!(decide(&active(), other.clone()), Err(ImageReject::OnlyWhileQueued("disk_format")));
        assert!(decide(&given([]), other).is_ok());
        let none = given([changed(vec![ImageChange::DiskFormat(None)])]);
        assert_eq!(decide(&none, ImageCommand::StartUpload(UPLOAD)), Err(ImageReject::FormatMissing));
        let mixed = changed(vec![ImageChange::DiskFormat(Some("ami".into()))]);
        assert!(matches!(decide(&given([]), mixed), Err(ImageReject::FormatsDisagree { .. })));
    }

    #[test]
    fn all_changes_of_a_request_apply_or_none() {
        let state = given([]);
        let mixed = changed(vec![
            ImageChange::Name(Some("new".into())),
            ImageChange::ReplaceProperty { name: "nope".into(), value: "x".into() },
        ]);
        assert_eq!(decide(&state, mixed), Err(ImageReject::NoProperty("nope".into())));
        let good = changed(vec![
            ImageChange::SetProperty { name: "b".into(), value: "2".into() },
            ImageChange::RemoveProperty { name: "a".into() },
            ImageChange::Tags(vec!["y".into(), "x".into(), "y".into()]),
        ]);
        let after = given([good.clone()]);
        let now = &after.here().unwrap().attributes;
        assert_eq!(now.properties, [("b".to_owned(), "2".to_owned())]);
        assert_eq!(now.tags, ["x", "y"]);
        let nothing = changed(vec![ImageChange::AddTag("x".into())]);
        assert_eq!(decide(&after, nothing), Ok(vec![]));
    }

    #[test]
    fn the_number_of_properties_is_limited_unless_the_operator_lifts_the_limit() {
        let set = |name: &str| ImageChange::SetProperty { name: name.to_owned(), value: "1".to_owned() };
        let state = given([]);
        let more = || vec![set("b"), set("c")];
        let refused = |limit| Err(ImageReject::TooMany { what: "properties", limit });
        let ask = |changes, most| decide(&state, ImageCommand::Change(changes, PropertyLimit(most)));
        assert_eq!(ask(more(), Some(2)), refused(2));
        assert!(ask(more(), Some(3)).is_ok() && ask(more(), None).is_ok());
        assert!(ask(vec![set("a")], Some(0)).is_ok(), "an image with too many properties can be changed");
        let create = |most| {
            let create = ImageCreated { image: ID, attributes: attributes() };
            decide(&Image::Unknown, ImageCommand::Create(create, PropertyLimit(most)))
        };
        assert_eq!(create(Some(0)), refused(0));
        assert!(create(Some(1)).is_ok());
    }

    #[test]
    fn the_total_size_of_properties_is_limited() {
        let set = |name: &str, bytes: usize| ImageChange::SetProperty { name: name.into(), value: "x".repeat(bytes) };
        let half = MAX_PROPERTY_BYTES / 2;
        let state = given([changed(vec![set("b", half)])]);
        let refused = Err(ImageReject::TooLarge { limit: MAX_PROPERTY_BYTES });
        assert_eq!(decide(&state, changed(vec![set("c", half)])), refused);
        assert!(decide(&state, changed(vec![set("b", half + 1)])).is_ok());
        // This image is from before the limit and exceeds it.
        let Image::Here(mut record) = state else { unreachable!() };
        record.attributes.properties.push(("d".into(), "x".repeat(MAX_PROPERTY_BYTES)));
        let state = Image::Here(record);
        assert!(decide(&state, changed(vec![set("b", 1)])).is_ok());
        assert_eq!(decide(&state, changed(vec![set("e", 1)])), refused);
    }

    #[test]
    fn a_protected_image_is_not_deleted_and_a_deleted_id_stays_taken() {
        let shielded = given([changed(vec![ImageChange::Protected(true)])]);
        assert_eq!(decide(&shielded, ImageCommand::Delete), Err(ImageReject::Protected));
        let gone = given([ImageCommand::StartUpload(UPLOAD), ImageCommand::Delete]);
        assert_eq!(gone, Image::Deleted);
        assert_eq!(decide(&gone, ImageCommand::Store(stored())), Err(ImageReject::NotFound));
        let again =
            ImageCommand::Create(ImageCreated { image: ID, attributes: attributes() }, PropertyLimit::default());
        assert_eq!(decide(&gone, again), Err(ImageReject::IdTaken(ID)));
    }

    #[test]
    fn only_shared_images_have_members() {
        let invite = ImageCommand::Invite("q".into());
        let private = given([changed(vec![ImageChange::Visibility(Visibility::Private)])]);
        assert_eq!(decide(&private, invite.clone()), Err(ImageReject::NotShared));
        let state = given([invite.clone()]);
        assert_eq!(decide(&state, invite), Err(ImageReject::MemberExists("q".into())));
        let answer = ImageCommand::Answer { member: "q".into(), status: MemberStatus::Accepted };
        assert_eq!(decide(&state, answer).unwrap().len(), 1);
        assert!(matches!(decide(&state, ImageCommand::RemoveMember("z".into())), Err(ImageReject::NoMember(_))));
        let full = given((0..MAX_MEMBERS).map(|n| ImageCommand::Invite(format!("p{n}").as_str().into())));
        let refused = Err(ImageReject::TooMany { what: "members", limit: MAX_MEMBERS });
        assert_eq!(decide(&full, ImageCommand::Invite("q".into())), refused);
    }

    #[test]
    fn deactivation_hides_the_data_until_reactivation() {
        let off = given([ImageCommand::StartUpload(UPLOAD), ImageCommand::Store(stored()), ImageCommand::Deactivate]);
        assert_eq!(off.here().unwrap().content.status(), "deactivated");
        assert_eq!(decide(&off, ImageCommand::Deactivate), Ok(vec![]));
        assert_eq!(decide(&off, ImageCommand::Reactivate).unwrap().len(), 1);
        assert!(matches!(decide(&given([]), ImageCommand::Deactivate), Err(ImageReject::NotInState { .. })));
    }
}
