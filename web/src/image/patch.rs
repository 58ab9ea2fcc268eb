//! Reads the attributes of an image from a body: the known attributes, and free properties with any string.
//!
//! The body of `PATCH` is a list of operations in one of two media types. `v2.1` is RFC 6902 with `add`, `replace` and
//! `remove`.

use chronova_actors::services::embedded::image::ImageChange;
use chronova_events::ids::ProjectId;
use chronova_events::image::{ImageAttributes, Visibility};
use serde_json::Value;

use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::policy::PolicyTarget;

const V2_0: &str = "application/openstack-images-v2.0-json-patch";
const V2_1: &str = "application/openstack-images-v2.1-json-patch";
/// Attributes that only the service sets.
const READ_ONLY: [&str; 12] = [
    "status",
    "created_at",
    "updated_at",
    "size",
    "virtual_size",
    "checksum",
    "os_hash_algo",
    "os_hash_value",
    "direct_url",
    "self",
    "file",
    "schema",
];
/// Attributes of Glance features that this service does not have.
const RESERVED: [&str; 4] = ["locations", "stores", "os_glance_importing_to_stores", "os_glance_failed_import"];
const DISK_FORMATS: [&str; 12] =
    ["ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop", "luks"];
const CONTAINER_FORMATS: [&str; 7] = ["ami", "ari", "aki", "bare", "ovf", "ova", "docker"];
const MAX_TEXT: usize = 255;

/// A change that was read from a body.
pub(super) struct ParsedImagePatch(ImageChange);

impl ParsedImagePatch {
    /// Applies the change to the attributes of a new image.
    pub(super) fn put_into(self, attributes: &mut ImageAttributes) {
        match self.0 {
            ImageChange::Name(name) => attributes.name = name,
            ImageChange::Owner(owner) => attributes.owner = owner,
            ImageChange::Visibility(visibility) => attributes.visibility = visibility,
            ImageChange::DiskFormat(format) => attributes.disk_format = format,
            ImageChange::ContainerFormat(format) => attributes.container_format = format,
            ImageChange::MinDisk(gib) => attributes.min_disk_gib = gib,
            ImageChange::MinRam(mib) => attributes.min_ram_mib = mib,
            ImageChange::Protected(protected) => attributes.protected = protected,
            ImageChange::Hidden(hidden) => attributes.hidden = hidden,
            ImageChange::Tags(tags) => attributes.tags = tags,
            ImageChange::SetProperty { name, value } | ImageChange::ReplaceProperty { name, value } => {
                attributes.properties.push((name, value));
            }
            ImageChange::AddTag(_) | ImageChange::RemoveTag(_) | ImageChange::RemoveProperty { .. } => {}
        }
    }
}

pub(super) fn schema_fault(key: &str, reason: &str) -> Fault {
    Fault::bad_request(format!("Provided object does not match schema 'image': {key}: {reason}"))
}

/// The change for `key: value`. `None` as the value removes the attribute.
pub(super) fn parse(ctx: &Ctx, key: &str, value: Option<&Value>) -> Result<ParsedImagePatch, Fault> {
    if READ_ONLY.contains(&key) {
        return Err(Fault::forbidden(format!("Attribute '{key}' is read-only.")));
    }
    if RESERVED.contains(&key) || key.starts_with("os_glance_") {
        return Err(Fault::forbidden(format!("Attribute '{key}' is reserved.")));
    }
    let change = match key {
        "id" => return Err(Fault::forbidden("Attribute 'id' is read-only.")),
        "name" => ImageChange::Name(optional_text(key, value)?),
        "owner" => owner(ctx, value)?,
        "visibility" => ImageChange::Visibility(
            present(key, value)?
                .as_str()
                .and_then(Visibility::parse)
                .ok_or_else(|| schema_fault(key, "it is none of community, public, private, shared"))?,
        ),
        "disk_format" => ImageChange::DiskFormat(one_of(key, value, &DISK_FORMATS)?),
        "container_format" => ImageChange::ContainerFormat(one_of(key, value, &CONTAINER_FORMATS)?),
        "min_disk" => ImageChange::MinDisk(number(key, value)?),
        "min_ram" => ImageChange::MinRam(number(key, value)?),
        "protected" => ImageChange::Protected(boolean(key, value)?),
        "os_hidden" => ImageChange::Hidden(boolean(key, value)?),
        "tags" => ImageChange::Tags(tags(value)?),
        _ => property(key, value)?,
    };
    Ok(ParsedImagePatch(change))
}

fn present<'a>(key: &str, value: Option<&'a Value>) -> Result<&'a Value, Fault> {
    value.ok_or_else(|| Fault::forbidden(format!("Property {key} may not be removed.")))
}

fn optional_text(key: &str, value: Option<&Value>) -> Result<Option<String>, Fault> {
    match value {
        None => Err(Fault::forbidden(format!("Property {key} may not be removed."))),
        Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.chars().count() <= MAX_TEXT => Ok(Some(text.clone())),
        Some(_) => Err(schema_fault(key, "it is no text of at most 255 characters")),
    }
}

/// Only an administrator may give an image to another project.
fn owner(ctx: &Ctx, value: Option<&Value>) -> Result<ImageChange, Fault> {
    let owner = optional_text("owner", value)?.map(ProjectId::from);
    if !ctx.caller().is_admin && owner != ctx.caller().project {
        return Err(Fault::forbidden("You are not permitted to set the owner of an image to another project."));
    }
    Ok(ImageChange::Owner(owner))
}

fn one_of(key: &str, value: Option<&Value>, choices: &[&str]) -> Result<Option<String>, Fault> {
    match present(key, value)? {
        Value::Null => Ok(None),
        Value::String(text) if choices.contains(&text.as_str()) => Ok(Some(text.clone())),
        _ => Err(schema_fault(key, &format!("it is none of {}", choices.join(", ")))),
    }
}

fn number(key: &str, value: Option<&Value>) -> Result<u32, Fault> {
    present(key, value)?
        .as_u64()
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| i32::try_from(*number).is_ok())
        .ok_or_else(|| schema_fault(key, "it is no number from 0 to 2147483647"))
}

fn boolean(key: &str, value: Option<&Value>) -> Result<bool, Fault> {
    present(key, value)?.as_bool().ok_or_else(|| schema_fault(key, "it is neither true nor false"))
}

fn tags(value: Option<&Value>) -> Result<Vec<String>, Fault> {
    let tags = present("tags", value)?.as_array().ok_or_else(|| schema_fault("tags", "they are no list"))?;
    tags.iter().map(|tag| text_of(tag).ok_or_else(|| schema_fault("tags", "one is no text"))).collect()
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().filter(|text| text.chars().count() <= MAX_TEXT).map(str::to_owned)
}

fn property(key: &str, value: Option<&Value>) -> Result<ImageChange, Fault> {
    let name = key.to_owned();
    if key.is_empty() || key.chars().count() > MAX_TEXT {
        return Err(schema_fault(key, "a property's name has 1 to 255 characters"));
    }
    match value {
        None => Ok(ImageChange::RemoveProperty { name }),
        // As in Glance, the length of a property is limited only by the size of the body.
        Some(Value::String(value)) => Ok(ImageChange::SetProperty { name, value: value.clone() }),
        Some(_) => Err(schema_fault(key, "it is not of type 'string'")),
    }
}

/// Reads the changes of a `PATCH`. To make an image public, to make it a community image, and to give it to another
/// owner, the caller needs a separate right each time.
pub(super) fn changes(ctx: &Ctx, target: &PolicyTarget) -> Result<Vec<ImageChange>, Fault> {
    let media = ctx.header("Content-Type").unwrap_or_default().split(';').next().unwrap_or_default().trim().to_owned();
    let Value::Array(operations) = &ctx.body else {
        return Err(Fault::bad_request("Request body must be a JSON array of operation objects."));
    };
    operations
        .iter()
        .map(|operation| {
            let (verb, path, value) = match media.as_str() {
                V2_1 => rfc6902(operation)?,
                V2_0 => early(operation)?,
                _ => {
                    return Err(Fault::unsupported_media_type(format!(
                        "Unsupported Content-Type: {media}. Expected one of {V2_1}, {V2_0}"
                    ))
                    .header("Accept-Patch", format!("{V2_1}, {V2_0}")));
                }
            };
            let change = parse(ctx, &key(path)?, value)?.0;
            if let ImageChange::Visibility(visibility) = &change {
                check_visibility(ctx, *visibility, target)?;
            }
            Ok(match (verb, change) {
                ("replace", ImageChange::SetProperty { name, value }) => ImageChange::ReplaceProperty { name, value },
                (_, change) => change,
            })
        })
        .collect()
}

fn rfc6902(operation: &Value) -> Result<(&str, &str, Option<&Value>), Fault> {
    let verb = operation["op"].as_str().unwrap_or_default();
    let path = operation["path"].as_str();
    let path = path.ok_or_else(|| Fault::bad_request("Unable to find '/path' in JSON Schema change"))?;
    match verb {
        "remove" => Ok((verb, path, None)),
        "add" | "replace" => {
            let value = operation.get("value");
            let value = value.ok_or_else(|| {
                Fault::bad_request(format!("Operation \"{verb}\" requires a member named \"value\"."))
            })?;
            Ok((verb, path, Some(value)))
        }
        _ => Err(Fault::bad_request("Operations must be one of \"add\", \"replace\", \"remove\".")),
    }
}

/// The form before RFC 6902: `{"replace": "/name", "value": "x"}`.
fn early(operation: &Value) -> Result<(&str, &str, Option<&Value>), Fault> {
    for verb in ["add", "replace", "remove"] {
        let Some(path) = operation[verb].as_str() else { continue };
        let value = operation.get("value");
        if verb != "remove" && value.is_none() {
            return Err(Fault::bad_request(format!("Operation \"{verb}\" requires a member named \"value\".")));
        }
        return Ok((verb, path, value.filter(|_| verb != "remove")));
    }
    Err(Fault::bad_request("Operations must be one of \"add\", \"replace\", \"remove\"."))
}

/// The attribute that a JSON pointer names: one level only.
fn key(path: &str) -> Result<String, Fault> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(Fault::bad_request(format!("Pointer `{path}` does not start with \"/\".")));
    };
    if rest.is_empty() || rest.contains('/') {
        return Err(Fault::bad_request(format!("Pointer `{path}` does not name an attribute.")));
    }
    Ok(rest.replace("~1", "/").replace("~0", "~"))
}

/// Checks the policy rule for making an image public, or the rule for making it a community image.
pub(super) fn check_visibility(ctx: &Ctx, visibility: Visibility, target: &PolicyTarget) -> Result<(), Fault> {
    match visibility {
        Visibility::Public => ctx.authorize_rule("publicize_image", target).map(drop),
        Visibility::Community => ctx.authorize_rule("communitize_image", target).map(drop),
        Visibility::Shared | Visibility::Private => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_and_operations() {
        assert_eq!(key("/a~1b~0c").unwrap(), "a/b~c");
        assert!(key("name").is_err() && key("/").is_err() && key("/tags/0").is_err());
        let remove = json!({"op": "remove", "path": "/x", "value": 1});
        assert_eq!(rfc6902(&remove).unwrap(), ("remove", "/x", None));
        assert!(rfc6902(&json!({"op": "add", "path": "/x"})).is_err());
        assert!(rfc6902(&json!({"op": "move", "path": "/x"})).is_err());
        assert!(rfc6902(&json!(["x"])).is_err());
        let old = json!({"replace": "/name", "value": "n"});
        assert_eq!(early(&old).unwrap(), ("replace", "/name", Some(&json!("n"))));
    }

    #[test]
    fn values_have_types() {
        assert!(number("min_ram", Some(&json!(-1))).is_err());
        assert!(number("min_ram", Some(&json!(4_294_967_295_u64))).is_err());
        assert_eq!(number("min_ram", Some(&json!(7))).unwrap(), 7);
        assert!(property("a", Some(&json!(1))).is_err());
        assert!(one_of("disk_format", Some(&json!("exe")), &DISK_FORMATS).is_err());
        assert_eq!(present("name", None).unwrap_err().status, 403);
    }
}
