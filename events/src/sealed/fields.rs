//! Which fields are personal: one function per payload that has some, and nothing anywhere else.
//!
//! A field's name here is stored with its sealed value: renaming one makes older values unreadable, so names are stable
//! for ever, across versions of the payload too. What a person can type as free text about a thing of theirs is personal;
//! ids are not, and neither is what operators name (hosts, flavors, networks, projects).

use serde::{Deserialize, Serialize};

use super::{ERASED, Subject};
use crate::envelope::StreamId;
use crate::identity::{IdentityEvent, UserAttributes};
use crate::ids::InstanceId;
use crate::instance::{BuildRequested, InstanceEvent, RebuildRequested};
use crate::keypair::{KeypairCreated, KeypairEvent};
use crate::network::{NetworkEvent, PortSettings};
use crate::registry::Event;

/// Every personal field there is, as `kind: field, ...`; for the documentation and its test.
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
    // Of a port that was made for a server: its host name.
    ("network.port_created", &["settings.dns_name"]),
    ("network.port_settings_replaced", &["settings.dns_name"]),
];

/// Looks at one personal field after the other.
pub(crate) trait Visitor {
    /// `erased` is what the field is when it was erased.
    fn text(&mut self, name: &'static str, field: &mut String, erased: &str);
    fn optional(&mut self, name: &'static str, field: &mut Option<String>);
    fn list(&mut self, name: &'static str, field: &mut Vec<String>);
    fn pairs(&mut self, name: &'static str, field: &mut Vec<(String, String)>);
}

/// Whom the personal fields of `event` are about, if it has any.
pub fn subject(stream: &StreamId, event: &Event) -> Option<Subject> {
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
        ) => stream.key().parse().ok().map(Subject::Server),
        Event::KeypairEvent(event) => match event {
            KeypairEvent::KeypairCreated(created) => Some(Subject::User(created.user.clone())),
            KeypairEvent::KeypairDeleted(deleted) => Some(Subject::User(deleted.user.clone())),
            KeypairEvent::KeypairsErased(_) => None,
        },
        Event::IdentityEvent(event) => match event {
            IdentityEvent::UserCreated(created) => Some(Subject::User(created.user.clone())),
            IdentityEvent::UserDescribed(described) => Some(Subject::User(described.user.clone())),
            _ => None,
        },
        Event::NetworkEvent(NetworkEvent::PortCreated(created)) => host_of(created.made_for, &created.settings),
        Event::NetworkEvent(NetworkEvent::PortSettingsReplaced(new)) => host_of(new.made_for, &new.settings),
        _ => None,
    }
}

/// A port's name in the DNS is the host name of the server that the port was made for. Any other is a name of a thing of a
/// project.
fn host_of(made_for: Option<InstanceId>, settings: &PortSettings) -> Option<Subject> {
    made_for.filter(|_| !settings.dns_name.is_empty()).map(Subject::Server)
}

/// Shows `visitor` the personal fields of `event`, always in the same order.
pub(crate) fn visit(event: &mut Event, visitor: &mut dyn Visitor) {
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
        Event::NetworkEvent(NetworkEvent::PortCreated(created)) => {
            port_settings(created.made_for, &mut created.settings, visitor);
        }
        Event::NetworkEvent(NetworkEvent::PortSettingsReplaced(new)) => {
            port_settings(new.made_for, &mut new.settings, visitor);
        }
        _ => {}
    }
}

/// What a user is called after having been erased: names are unique within a domain, so it says which user.
pub fn erased_user(id: &str) -> String {
    format!("[erased {id}]")
}

fn instance(event: &mut InstanceEvent, visitor: &mut dyn Visitor) {
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

pub(super) fn build_requested(request: &mut BuildRequested, visitor: &mut dyn Visitor) {
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

fn rebuild_requested(request: &mut RebuildRequested, visitor: &mut dyn Visitor) {
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

fn port_settings(made_for: Option<InstanceId>, settings: &mut PortSettings, visitor: &mut dyn Visitor) {
    if host_of(made_for, settings).is_some() {
        visitor.text("settings.dns_name", &mut settings.dns_name, ERASED);
    }
}

fn keypair_created(created: &mut KeypairCreated, visitor: &mut dyn Visitor) {
    visitor.text("name", &mut created.name, ERASED);
    visitor.text("public_key", &mut created.public_key, ERASED);
    visitor.text("fingerprint", &mut created.fingerprint, ERASED);
}

fn user_attributes(attributes: &mut UserAttributes, erased: &str, visitor: &mut dyn Visitor) {
    visitor.text("attributes.name", &mut attributes.name, erased);
    visitor.pairs("attributes.extra", &mut attributes.extra);
}

/// The value of one field. Positional, like every payload: only ever add variants at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Value {
    Text(String),
    Optional(Option<String>),
    List(Vec<String>),
    Pairs(Vec<(String, String)>),
}

/// Values by the names of their fields.
pub(super) type Taken = Vec<(String, Value)>;

/// Takes the values out and leaves the erased forms.
#[derive(Default)]
pub(super) struct Take {
    pub(super) taken: Taken,
}

impl Take {
    /// Whether nothing was there that would have to be sealed.
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    fn keep(&mut self, name: &'static str, value: Value) {
        self.taken.push((name.to_owned(), value));
    }
}

impl Visitor for Take {
    fn text(&mut self, name: &'static str, field: &mut String, erased: &str) {
        let value = std::mem::replace(field, erased.to_owned());
        self.keep(name, Value::Text(value));
    }

    fn optional(&mut self, name: &'static str, field: &mut Option<String>) {
        if let Some(value) = field.take() {
            self.keep(name, Value::Optional(Some(value)));
        }
    }

    fn list(&mut self, name: &'static str, field: &mut Vec<String>) {
        if !field.is_empty() {
            self.keep(name, Value::List(std::mem::take(field)));
        }
    }

    fn pairs(&mut self, name: &'static str, field: &mut Vec<(String, String)>) {
        if !field.is_empty() {
            self.keep(name, Value::Pairs(std::mem::take(field)));
        }
    }
}

/// Puts values back where their fields are. A field that the newest version no longer has is dropped; one whose value was
/// not sealed stays as it is.
pub(super) struct Put(pub(super) Taken);

impl Put {
    fn find(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

impl Visitor for Put {
    fn text(&mut self, name: &'static str, field: &mut String, _: &str) {
        if let Some(Value::Text(value)) = self.find(name) {
            *field = value;
        }
    }

    fn optional(&mut self, name: &'static str, field: &mut Option<String>) {
        if let Some(Value::Optional(value)) = self.find(name) {
            *field = value;
        }
    }

    fn list(&mut self, name: &'static str, field: &mut Vec<String>) {
        if let Some(Value::List(value)) = self.find(name) {
            *field = value;
        }
    }

    fn pairs(&mut self, name: &'static str, field: &mut Vec<(String, String)>) {
        if let Some(Value::Pairs(value)) = self.find(name) {
            *field = value;
        }
    }
}

/// Leaves the erased forms.
pub(super) struct Erase;

impl Visitor for Erase {
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

    /// Writes down the names it is shown.
    struct Names(Vec<&'static str>);

    impl Visitor for Names {
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

    /// The list that the documentation is made of is what the code seals.
    #[test]
    fn the_list_is_what_is_sealed() {
        for mut event in samples() {
            let kind = event.kind();
            let listed = PERSONAL.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, fields)| fields);
            let mut names = Names(Vec::new());
            visit(&mut event, &mut names);
            assert_eq!(names.0, listed, "{kind}");
        }
    }
}
