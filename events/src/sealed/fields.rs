//! Lists the personal fields, by one function for each payload that has some. A test compares the list with
//! `events/personal.txt`, which says why each other text field is not personal.
//!
//! The name of a field is stored with its sealed value. A renamed field would make older values unreadable. So names
//! never change, not even between versions of a payload. Text about users and their servers is personal. Ids, texts
//! about the resources of a project (networks, volumes, images), and names that operators choose (hosts, flavors,
//! projects) are not personal.

use serde::{Deserialize, Serialize};

use super::{DataSubject, ERASED};
use crate::access::AccessEvent;
use crate::envelope::StreamId;
use crate::identity::{IdentityEvent, UserAttributes};
use crate::ids::InstanceId;
use crate::instance::{BuildRequested, InstanceEvent, RebuildRequested};
use crate::keypair::{KeypairCreated, KeypairEvent};
use crate::network::{NetworkEvent, PortSettings};
use crate::registry::Event;

/// All personal fields, as `kind: field, ...`, for the documentation and its test.
pub const PERSONAL: &[(&str, &[&str])] = &[
    (
        "instance.build_requested",
        &["name", "hostname", "description", "key.name", "key.public_key", "user_data", "metadata", "tags"],
    ),
    ("instance.renamed", &["name"]),
    ("instance.description_changed", &["description"]),
    ("instance.hostname_changed", &["hostname"]),
    ("instance.metadata_replaced", &["metadata"]),
    ("instance.tags_replaced", &["tags"]),
    ("instance.locked", &["reason"]),
    (
        "instance.rebuild_requested",
        &["name", "hostname", "description", "key.name", "key.public_key", "user_data", "metadata"],
    ),
    ("instance.files_given", &["files"]),
    ("instance.guest_password_posted", &["password"]),
    ("keypair.created", &["name", "public_key", "fingerprint"]),
    ("keypair.deleted", &["name"]),
    ("identity.user_created", &["attributes.name", "attributes.extra"]),
    ("identity.user_described", &["attributes.name", "attributes.extra"]),
    ("identity.application_credential_created", &["name", "description"]),
    ("identity.access_rule_created", &["service", "path"]),
    ("access.request_refused", &["client.address", "client.agent", "reason"]),
    ("access.logged_in", CLIENT),
    ("access.login_failed", CLIENT),
    ("access.token_issued", CLIENT),
    ("access.console_opened", CLIENT),
    ("access.secret_read", CLIENT),
    ("access.logged_in_with_credential", CLIENT),
    ("access.credential_login_failed", CLIENT),
    // If a port was created for a server, its `dns_name` is the server's host name.
    ("network.port_created", &["settings.dns_name"]),
    ("network.port_settings_replaced", &["settings.dns_name"]),
];

/// The client of a record of access, if the record has a user.
const CLIENT: &[&str] = &["client.address", "client.agent"];

/// Visits the personal fields of an event.
pub(crate) trait FieldVisitor {
    /// `erased` is the field's value after an erasure.
    fn text(&mut self, name: &'static str, field: &mut String, erased: &str);
    fn optional(&mut self, name: &'static str, field: &mut Option<String>);
    fn list(&mut self, name: &'static str, field: &mut Vec<String>);
    fn pairs(&mut self, name: &'static str, field: &mut Vec<(String, String)>);
}

/// The subject of the personal fields of `event`, if it has any.
pub fn subject(stream: &StreamId, event: &Event) -> Option<DataSubject> {
    match event {
        Event::InstanceEvent(
            InstanceEvent::BuildRequested(_)
            | InstanceEvent::Renamed(_)
            | InstanceEvent::DescriptionChanged(_)
            | InstanceEvent::HostnameChanged(_)
            | InstanceEvent::MetadataReplaced(_)
            | InstanceEvent::TagsReplaced(_)
            | InstanceEvent::Locked(_)
            | InstanceEvent::RebuildRequested(_)
            | InstanceEvent::FilesGiven(_)
            | InstanceEvent::GuestPasswordPosted(_),
        ) => stream.key().parse().ok().map(DataSubject::Server),
        Event::KeypairEvent(event) => match event {
            KeypairEvent::KeypairCreated(created) => Some(DataSubject::User(created.user.clone())),
            KeypairEvent::KeypairDeleted(deleted) => Some(DataSubject::User(deleted.user.clone())),
            KeypairEvent::KeypairsErased(_) => None,
        },
        Event::IdentityEvent(event) => match event {
            IdentityEvent::UserCreated(created) => Some(DataSubject::User(created.user.clone())),
            IdentityEvent::UserDescribed(described) => Some(DataSubject::User(described.user.clone())),
            IdentityEvent::ApplicationCredentialCreated(created) => Some(DataSubject::User(created.user.clone())),
            IdentityEvent::AccessRuleCreated(created) => Some(DataSubject::User(created.user.clone())),
            _ => None,
        },
        Event::AccessEvent(event) => event.user().cloned().map(DataSubject::User),
        Event::NetworkEvent(NetworkEvent::PortCreated(created)) => host_of(created.made_for, &created.settings),
        Event::NetworkEvent(NetworkEvent::PortSettingsReplaced(new)) => host_of(new.made_for, &new.settings),
        _ => None,
    }
}

/// The subject of a port's DNS name: the server that the port was created for. `None` for other ports, because their
/// names belong to a resource of a project.
fn host_of(made_for: Option<InstanceId>, settings: &PortSettings) -> Option<DataSubject> {
    made_for.filter(|_| !settings.dns_name.is_empty()).map(DataSubject::Server)
}

/// Calls `visitor` with each personal field of `event`, always in the same order.
pub(crate) fn visit(event: &mut Event, visitor: &mut dyn FieldVisitor) {
    match event {
        Event::InstanceEvent(event) => instance(event, visitor),
        Event::KeypairEvent(KeypairEvent::KeypairCreated(created)) => keypair_created(created, visitor),
        Event::KeypairEvent(KeypairEvent::KeypairDeleted(deleted)) => visitor.text("name", &mut deleted.name, ERASED),
        Event::IdentityEvent(IdentityEvent::UserCreated(created)) => {
            let erased = erased_user(created.user.as_str());
            user_attributes(&mut created.attributes, &erased, visitor);
        }
        Event::IdentityEvent(IdentityEvent::UserDescribed(described)) => {
            let erased = erased_user(described.user.as_str());
            user_attributes(&mut described.attributes, &erased, visitor);
        }
        Event::IdentityEvent(IdentityEvent::ApplicationCredentialCreated(created)) => {
            visitor.text("name", &mut created.name, ERASED);
            visitor.optional("description", &mut created.description);
        }
        Event::IdentityEvent(IdentityEvent::AccessRuleCreated(created)) => {
            visitor.text("service", &mut created.service, ERASED);
            visitor.text("path", &mut created.path, ERASED);
        }
        Event::AccessEvent(event) => access(event, visitor),
        Event::NetworkEvent(NetworkEvent::PortCreated(created)) => {
            port_settings(created.made_for, &mut created.settings, visitor);
        }
        Event::NetworkEvent(NetworkEvent::PortSettingsReplaced(new)) => {
            port_settings(new.made_for, &mut new.settings, visitor);
        }
        _ => {}
    }
}

/// The name of an erased user. It contains the user's id, because names are unique within a domain.
pub fn erased_user(id: &str) -> String {
    format!("[erased {id}]")
}

fn instance(event: &mut InstanceEvent, visitor: &mut dyn FieldVisitor) {
    match event {
        InstanceEvent::BuildRequested(request) => build_requested(request, visitor),
        InstanceEvent::Renamed(renamed) => visitor.text("name", &mut renamed.name, ERASED),
        InstanceEvent::DescriptionChanged(changed) => visitor.optional("description", &mut changed.description),
        InstanceEvent::HostnameChanged(changed) => visitor.text("hostname", &mut changed.hostname, ERASED),
        InstanceEvent::MetadataReplaced(replaced) => visitor.pairs("metadata", &mut replaced.metadata),
        InstanceEvent::TagsReplaced(replaced) => visitor.list("tags", &mut replaced.tags),
        InstanceEvent::Locked(locked) => visitor.optional("reason", &mut locked.reason),
        InstanceEvent::RebuildRequested(request) => rebuild_requested(request, visitor),
        InstanceEvent::FilesGiven(given) => visitor.pairs("files", &mut given.files),
        InstanceEvent::GuestPasswordPosted(posted) => visitor.text("password", &mut posted.password, ERASED),
        _ => {}
    }
}

pub(super) fn build_requested(request: &mut BuildRequested, visitor: &mut dyn FieldVisitor) {
    visitor.text("name", &mut request.name, ERASED);
    visitor.text("hostname", &mut request.hostname, ERASED);
    visitor.optional("description", &mut request.description);
    if let Some(key) = &mut request.key {
        visitor.text("key.name", &mut key.name, ERASED);
        visitor.text("key.public_key", &mut key.public_key, ERASED);
    }
    visitor.optional("user_data", &mut request.user_data);
    visitor.pairs("metadata", &mut request.metadata);
    visitor.list("tags", &mut request.tags);
}

fn rebuild_requested(request: &mut RebuildRequested, visitor: &mut dyn FieldVisitor) {
    visitor.text("name", &mut request.name, ERASED);
    visitor.text("hostname", &mut request.hostname, ERASED);
    visitor.optional("description", &mut request.description);
    if let Some(key) = &mut request.key {
        visitor.text("key.name", &mut key.name, ERASED);
        visitor.text("key.public_key", &mut key.public_key, ERASED);
    }
    visitor.optional("user_data", &mut request.user_data);
    visitor.pairs("metadata", &mut request.metadata);
}

fn port_settings(made_for: Option<InstanceId>, settings: &mut PortSettings, visitor: &mut dyn FieldVisitor) {
    if host_of(made_for, settings).is_some() {
        visitor.text("settings.dns_name", &mut settings.dns_name, ERASED);
    }
}

fn access(event: &mut AccessEvent, visitor: &mut dyn FieldVisitor) {
    if let Some(client) = event.sealed_client() {
        visitor.optional("client.address", &mut client.address);
        visitor.optional("client.agent", &mut client.agent);
    }
    if let AccessEvent::RequestRefused(refused) = event {
        visitor.text("reason", &mut refused.reason, ERASED);
    }
}

fn keypair_created(created: &mut KeypairCreated, visitor: &mut dyn FieldVisitor) {
    visitor.text("name", &mut created.name, ERASED);
    visitor.text("public_key", &mut created.public_key, ERASED);
    visitor.text("fingerprint", &mut created.fingerprint, ERASED);
}

fn user_attributes(attributes: &mut UserAttributes, erased: &str, visitor: &mut dyn FieldVisitor) {
    visitor.text("attributes.name", &mut attributes.name, erased);
    visitor.pairs("attributes.extra", &mut attributes.extra);
}

/// The value of one field. The encoding is positional, as for payloads, so add variants only at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum FieldValue {
    Text(String),
    Optional(Option<String>),
    List(Vec<String>),
    Pairs(Vec<(String, String)>),
}

/// Field names and values.
pub(super) type ExtractedFields = Vec<(String, FieldValue)>;

/// Takes the values of the personal fields out of an event and leaves the erased forms.
#[derive(Default)]
pub(super) struct TakeFields {
    pub(super) taken: ExtractedFields,
}

impl TakeFields {
    /// Whether there was nothing to seal.
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    fn keep(&mut self, name: &'static str, value: FieldValue) {
        self.taken.push((name.to_owned(), value));
    }
}

impl FieldVisitor for TakeFields {
    fn text(&mut self, name: &'static str, field: &mut String, erased: &str) {
        let value = std::mem::replace(field, erased.to_owned());
        self.keep(name, FieldValue::Text(value));
    }

    fn optional(&mut self, name: &'static str, field: &mut Option<String>) {
        if let Some(value) = field.take() {
            self.keep(name, FieldValue::Optional(Some(value)));
        }
    }

    fn list(&mut self, name: &'static str, field: &mut Vec<String>) {
        if !field.is_empty() {
            self.keep(name, FieldValue::List(std::mem::take(field)));
        }
    }

    fn pairs(&mut self, name: &'static str, field: &mut Vec<(String, String)>) {
        if !field.is_empty() {
            self.keep(name, FieldValue::Pairs(std::mem::take(field)));
        }
    }
}

/// Puts values back into their fields. A value without a field in the newest version is dropped. A field without a
/// sealed value does not change.
pub(super) struct PutFields(pub(super) ExtractedFields);

impl PutFields {
    fn find(&mut self, name: &str) -> Option<FieldValue> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

impl FieldVisitor for PutFields {
    fn text(&mut self, name: &'static str, field: &mut String, _: &str) {
        if let Some(FieldValue::Text(value)) = self.find(name) {
            *field = value;
        }
    }

    fn optional(&mut self, name: &'static str, field: &mut Option<String>) {
        if let Some(FieldValue::Optional(value)) = self.find(name) {
            *field = value;
        }
    }

    fn list(&mut self, name: &'static str, field: &mut Vec<String>) {
        if let Some(FieldValue::List(value)) = self.find(name) {
            *field = value;
        }
    }

    fn pairs(&mut self, name: &'static str, field: &mut Vec<(String, String)>) {
        if let Some(FieldValue::Pairs(value)) = self.find(name) {
            *field = value;
        }
    }
}

/// Replaces the personal fields by their erased forms.
pub(super) struct EraseFields;

impl FieldVisitor for EraseFields {
    fn text(&mut self, _: &'static str, field: &mut String, erased: &str) {
        erased.clone_into(field);
    }

    fn optional(&mut self, _: &'static str, field: &mut Option<String>) {
        *field = None;
    }

    fn list(&mut self, _: &'static str, field: &mut Vec<String>) {
        field.clear();
    }

    fn pairs(&mut self, _: &'static str, field: &mut Vec<(String, String)>) {
        field.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::samples;

    /// Records the names of the visited fields.
    struct FieldNames(Vec<&'static str>);

    impl FieldVisitor for FieldNames {
        fn text(&mut self, name: &'static str, _: &mut String, _: &str) {
            self.0.push(name);
        }
        fn optional(&mut self, name: &'static str, _: &mut Option<String>) {
            self.0.push(name);
        }
        fn list(&mut self, name: &'static str, _: &mut Vec<String>) {
            self.0.push(name);
        }
        fn pairs(&mut self, name: &'static str, _: &mut Vec<(String, String)>) {
            self.0.push(name);
        }
    }

    /// The list for the documentation must equal the fields that the code seals.
    #[test]
    fn the_documented_list_equals_the_sealed_fields() {
        for mut event in samples() {
            let kind = event.kind();
            let listed = PERSONAL.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, fields)| fields);
            let mut names = FieldNames(Vec::new());
            visit(&mut event, &mut names);
            assert_eq!(names.0, listed, "{kind}");
        }
    }
}
