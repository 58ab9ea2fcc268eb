//! Reads the attributes of a resource from a body as Neutron does. Each attribute is taken by name and type. Attributes
//! that remain are refused with Neutron's message.

use std::net::IpAddr;
use std::str::FromStr;

use chronova_events::ids::ProjectId;
use serde_json::{Map, Value};

use crate::ctx::Ctx;
use crate::fault::Fault;

/// The attributes that a client sent about one resource. A handler takes each attribute out; the remaining attributes
/// are unknown.
#[derive(Debug)]
pub(super) struct Attributes {
    map: Map<String, Value>,
}

fn invalid(name: &str, reason: impl std::fmt::Display) -> Fault {
    Fault::bad_request(format!("Invalid input for {name}. Reason: {reason}.")).key("HTTPBadRequest")
}

/// Formats a value as Neutron's messages quote it.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{text}'"),
        Value::Null => "'None'".to_owned(),
        other => format!("'{other}'"),
    }
}

impl Attributes {
    /// The object under `resource` in the body.
    pub(super) fn of(ctx: &Ctx, resource: &str) -> Result<Self, Fault> {
        match &ctx.body {
            Value::Object(body) => match body.get(resource) {
                Some(Value::Object(map)) => Ok(Self { map: map.clone() }),
                Some(_) => Err(Fault::bad_request("Resource body required")),
                None => Err(Fault::bad_request(format!("Unable to find '{resource}' in request body"))),
            },
            _ => Err(Fault::bad_request("Resource body required")),
        }
    }

    /// Reads a body without an envelope, whose attributes are in the body itself.
    pub(super) fn whole(ctx: &Ctx) -> Result<Self, Fault> {
        match &ctx.body {
            Value::Object(map) => Ok(Self { map: map.clone() }),
            _ => Err(Fault::bad_request("Resource body required")),
        }
    }

    pub(super) fn from_map(map: Map<String, Value>) -> Self {
        Self { map }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name)
    }

    /// Takes the attribute; `None` if it is absent or null.
    fn take_non_null(&mut self, name: &str) -> Option<Value> {
        self.take(name).filter(|value| !value.is_null())
    }

    /// Whether the attribute is present, and null or false.
    pub(super) fn is_false_or_null(&self, name: &str) -> bool {
        matches!(self.map.get(name), Some(Value::Null | Value::Bool(false)))
    }

    /// Whether the attribute is absent or has a value that means the default: null, an empty value, or `normal` as
    /// `binding:vnic_type`.
    pub(super) fn is_default(&self, name: &str) -> bool {
        match self.map.get(name) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty() || (name == "binding:vnic_type" && text == "normal"),
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            Some(_) => false,
        }
    }

    pub(super) fn peek(&self, name: &str) -> Option<&Value> {
        self.map.get(name)
    }

    pub(super) fn required(&self, name: &str) -> Result<(), Fault> {
        if self.has(name) {
            Ok(())
        } else {
            Err(Fault::bad_request(format!("Failed to parse request. Required attribute '{name}' not specified")))
        }
    }

    pub(super) fn text(&mut self, name: &str, longest: usize) -> Result<Option<String>, Fault> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.chars().count() <= longest => Ok(Some(text)),
            Some(Value::String(text)) => {
                Err(invalid(name, format_args!("'{text}' exceeds maximum length of {longest}")))
            }
            Some(other) => Err(invalid(name, format_args!("{} is not a valid string", quoted(&other)))),
        }
    }

    /// Takes a text. Null counts as an empty text, because clients send null to reset a name.
    pub(super) fn text_or_null(&mut self, name: &str, longest: usize) -> Result<Option<String>, Fault> {
        match self.map.get(name) {
            Some(Value::Null) => {
                self.take(name);
                Ok(Some(String::new()))
            }
            _ => self.text(name, longest),
        }
    }

    /// Takes a boolean. Also accepts the texts `true`, `false`, `0` and `1`, and the numbers 0 and 1.
    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>, Fault> {
        let Some(value) = self.take(name) else { return Ok(None) };
        as_boolean(&value)
            .map(Some)
            .ok_or_else(|| invalid(name, format_args!("{} cannot be converted to boolean", quoted(&value))))
    }

    pub(super) fn integer(&mut self, name: &str) -> Result<Option<i64>, Fault> {
        let Some(value) = self.take_non_null(name) else { return Ok(None) };
        as_integer(&value).map(Some).ok_or_else(|| invalid(name, format_args!("{} is not an integer", quoted(&value))))
    }

    pub(super) fn parsed<T: FromStr>(&mut self, name: &str, what: &str) -> Result<Option<T>, Fault> {
        let Some(value) = self.take_non_null(name) else { return Ok(None) };
        let parsed = value.as_str().and_then(|text| text.parse().ok());
        parsed.map(Some).ok_or_else(|| invalid(name, format_args!("{} is not a valid {what}", quoted(&value))))
    }

    pub(super) fn id<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, Fault> {
        self.parsed(name, "UUID")
    }

    pub(super) fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, Fault> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(vec![])),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(invalid(name, format_args!("{} is not a list", quoted(&other)))),
        }
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, Fault> {
        let Some(items) = self.list(name)? else { return Ok(None) };
        let text = |value: Value| match value {
            Value::String(text) => Ok(text),
            other => Err(invalid(name, format_args!("{} is not a valid string", quoted(&other)))),
        };
        items.into_iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// Takes the list of zones. The list is bounded, because the state of the resource keeps it.
    pub(super) fn zone_hints(&mut self) -> Result<Vec<String>, Fault> {
        const NAME: &str = "availability_zone_hints";
        let hints = self.texts(NAME)?.unwrap_or_default();
        // Neutron's limit applies to the length of the list as JSON text.
        match Value::from(hints.clone()).to_string().chars().count() > LONGEST_HINTS {
            true => Err(invalid(NAME, "Too many availability_zone_hints specified")),
            false => Ok(hints),
        }
    }

    pub(super) fn ids<T: FromStr>(&mut self, name: &str) -> Result<Option<Vec<T>>, Fault> {
        let Some(texts) = self.texts(name)? else { return Ok(None) };
        let id = |text: String| text.parse().map_err(|_| invalid(name, format_args!("'{text}' is not a valid UUID")));
        texts.into_iter().map(id).collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn addresses(&mut self, name: &str) -> Result<Option<Vec<IpAddr>>, Fault> {
        let Some(texts) = self.texts(name)? else { return Ok(None) };
        let address =
            |text: String| text.parse().map_err(|_| invalid(name, format_args!("'{text}' is not a valid nameserver")));
        texts.into_iter().map(address).collect::<Result<_, _>>().map(Some)
    }

    /// Takes a list of objects; `read` takes the known attributes of each.
    pub(super) fn objects<T>(
        &mut self,
        name: &str,
        mut read: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Option<Vec<T>>, Fault> {
        let Some(items) = self.list(name)? else { return Ok(None) };
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            let Value::Object(map) = item else {
                return Err(invalid(name, format_args!("{} is not a dictionary", quoted(&item))));
            };
            let mut inner = Self { map };
            all.push(read(&mut inner)?);
            if let Some(key) = inner.map.keys().next() {
                return Err(invalid(name, format_args!("'{key}' is not expected")));
            }
        }
        Ok(Some(all))
    }

    /// Takes a list of at most `most` objects. The list is bounded, because each event of the resource writes it whole.
    pub(super) fn objects_up_to<T>(
        &mut self,
        most: usize,
        name: &str,
        read: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Option<Vec<T>>, Fault> {
        if self.count(name) > most {
            return Err(invalid(name, format_args!("the number of items exceeds the maximum {most}")));
        }
        self.objects(name, read)
    }

    /// The number of items of a list; 0 if the attribute is not a list.
    pub(super) fn count(&self, name: &str) -> usize {
        self.map.get(name).and_then(Value::as_array).map_or(0, Vec::len)
    }

    /// Takes `project_id`, or its older name `tenant_id`. If both are present, they must be equal.
    pub(super) fn project(&mut self) -> Result<Option<ProjectId>, Fault> {
        let (project, tenant) = (self.text("project_id", 255)?, self.text("tenant_id", 255)?);
        match (project, tenant) {
            (Some(project), Some(tenant)) if project != tenant => {
                Err(Fault::bad_request("'project_id' and 'tenant_id' do not match"))
            }
            (project, tenant) => Ok(project.or(tenant).map(ProjectId::from)),
        }
    }

    /// Refuses the attributes that remain.
    pub(super) fn finish(self) -> Result<(), Fault> {
        if self.map.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.map.keys().map(String::as_str).collect();
        Err(Fault::bad_request(format!("Unrecognized attribute(s) '{}'", names.join(", "))))
    }

    /// Refuses attributes that cannot be changed.
    pub(super) fn refuse(&self, names: &[&str]) -> Result<(), Fault> {
        match names.iter().find(|name| self.has(name)) {
            Some(name) => Err(Fault::bad_request(format!("Cannot update read-only attribute {name}"))),
            None => Ok(()),
        }
    }
}

pub(super) fn as_boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        Value::Number(number) => match number.as_i64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn as_integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// The longest list of zones: Neutron's `AZ_HINTS_DB_LEN`.
const LONGEST_HINTS: usize = 255;

/// The longest description, as in Neutron.
pub(super) const LONG_TEXT: usize = 255;

/// Takes a number from 0 to `u32::MAX`.
pub(super) fn small(body: &mut Attributes, name: &str) -> Result<Option<u32>, Fault> {
    let Some(number) = body.integer(name)? else { return Ok(None) };
    u32::try_from(number)
        .map(Some)
        .map_err(|_| Fault::bad_request(format!("Invalid input for {name}. Reason: '{number}' is out of range.")))
}
