//! The schemas of requests.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::microversion::{Microversion, v};
use crate::schema::typed::{self, SentField};
use crate::schema::{Schema, any, choice, object, opt, req, string};

/// A name or a description: up to 255 characters, or none.
fn text() -> Schema {
    any().types(["string", "null"]).max_length(255)
}

fn uuid_or_none() -> Schema {
    any().types(["string", "null"]).format("uuid")
}

/// A size as a number or as its digits, or `null`.
fn size() -> Schema {
    any()
        .types(["integer", "string", "null"])
        .pattern("^[0-9]+$")
        .with("minimum", json!(1))
        .with("maximum", json!(i32::MAX))
}

/// Names and values of metadata, or `null`.
pub(super) fn pairs() -> Schema {
    any()
        .types(["object", "null"])
        .pattern_property("^[a-zA-Z0-9-_:. /]{1,255}$", string().max_length(255))
        .with("additionalProperties", json!(false))
}

fn flag() -> Schema {
    any().types(["boolean", "string", "null"])
}

pub(super) fn create_volume() -> Schema {
    object([
        req(
            "volume",
            object([
                opt("name", text()),
                opt("display_name", text()),
                opt("description", text()),
                opt("display_description", text()),
                opt("size", size()),
                opt("source_volid", uuid_or_none()),
                opt("snapshot_id", uuid_or_none()),
                opt("volume_type", text()),
                opt("metadata", pairs()),
                opt("consistencygroup_id", text()),
                opt("group_id", text()),
                opt("backup_id", text()),
                opt("availability_zone", text()),
                opt("imageRef", any().types(["string", "null"]).max_length(255)),
                opt("image_id", any().types(["string", "null"]).max_length(255)),
                opt("multiattach", flag()),
                opt("project_id", any()),
                opt("user_id", any()),
                opt("source_replica", any()),
                opt("status", any()),
                opt("attach_status", any()),
            ]),
        ),
        opt("OS-SCH-HNT:scheduler_hints", any().types(["object", "null"])),
    ])
}

pub(super) fn update_volume() -> Schema {
    object([req(
        "volume",
        object([
            opt("name", text()),
            opt("display_name", text()),
            opt("description", text()),
            opt("display_description", text()),
            opt("metadata", pairs()),
        ])
        .min_properties(1),
    )])
}

pub(super) fn metadata() -> Schema {
    object([req("metadata", pairs())])
}

pub(super) fn meta_item() -> Schema {
    object([req("meta", pairs())]).open()
}

pub(super) fn create_snapshot() -> Schema {
    object([req(
        "snapshot",
        object([
            opt("name", text()),
            opt("display_name", text()),
            opt("description", text()),
            opt("display_description", text()),
            req("volume_id", string().format("uuid")),
            opt("force", flag()),
            opt("metadata", pairs()),
        ]),
    )])
}

pub(super) fn update_snapshot() -> Schema {
    object([req(
        "snapshot",
        object([
            opt("name", text()),
            opt("display_name", text()),
            opt("description", text()),
            opt("display_description", text()),
        ])
        .min_properties(1),
    )])
}

pub(super) fn create_attachment() -> Schema {
    object([req(
        "attachment",
        object([
            opt("instance_uuid", uuid_or_none()),
            opt("connector", any().types(["object", "null"])),
            req("volume_uuid", string().format("uuid")),
            opt("mode", choice(["rw", "ro"])).since(3, 54),
        ]),
    )])
}

pub(super) fn update_attachment() -> Schema {
    object([req("attachment", object([req("connector", any().types(["object"]).min_properties(1))]))])
}

pub(super) fn create_type() -> Schema {
    object([req(
        "volume_type",
        object([
            req("name", string().min_length(1).max_length(255)),
            opt("description", text()),
            opt("extra_specs", specs_object()),
            opt("os-volume-type-access:is_public", flag()),
        ]),
    )])
}

pub(super) fn update_type() -> Schema {
    object([req(
        "volume_type",
        object([opt("name", text()), opt("description", text()), opt("is_public", flag())]).min_properties(1),
    )])
}

fn specs_object() -> Schema {
    any()
        .types(["object", "null"])
        .pattern_property("^[a-zA-Z0-9-_:. ]{1,255}$", any().types(["string", "null"]).max_length(255))
        .with("additionalProperties", json!(false))
}

pub(super) fn create_specs() -> Schema {
    object([req("extra_specs", specs_object())])
}

pub(super) fn update_spec() -> Schema {
    object([])
        .pattern_property("^[a-zA-Z0-9-_:. ]{1,255}$", any().types(["string", "null"]).max_length(255))
        .min_properties(1)
        .max_properties(1)
}

pub(super) fn update_quota() -> Schema {
    object([req("quota_set", object([]).open())])
}

/// Whether a snapshot of a volume in use needs no `force` (from 3.66 on).
pub(super) fn snapshots_of_used_volumes(version: Microversion) -> bool {
    version.at_least(v(3, 66))
}

/// Whether a volume can be extended while a server has it (from 3.42 on).
pub(super) fn extends_used_volumes(version: Microversion) -> bool {
    version.at_least(v(3, 42))
}

/// The name and the description of a volume or snapshot, in both spellings of Cinder.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DescribedBody {
    name: SentField<String>,
    display_name: SentField<String>,
    description: SentField<String>,
    display_description: SentField<String>,
}

impl DescribedBody {
    /// The name, trimmed. If both spellings are present, the newer one is used.
    pub(super) fn name(&self) -> SentField<String> {
        trimmed(&self.name, &self.display_name)
    }

    pub(super) fn description(&self) -> SentField<String> {
        trimmed(&self.description, &self.display_description)
    }
}

fn trimmed(new: &SentField<String>, old: &SentField<String>) -> SentField<String> {
    match if *new == SentField::Nothing { old } else { new } {
        SentField::Value(text) => SentField::Value(text.trim().to_owned()),
        other => other.clone(),
    }
}

/// A new volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct VolumeCreateBody {
    #[serde(flatten)]
    pub(super) described: DescribedBody,
    #[serde(deserialize_with = "gigabytes")]
    pub(super) size: Option<u32>,
    pub(super) source_volid: Option<String>,
    pub(super) snapshot_id: Option<String>,
    pub(super) volume_type: Option<String>,
    #[serde(deserialize_with = "typed::pairs")]
    pub(super) metadata: Vec<(String, String)>,
    pub(super) backup_id: Option<String>,
    pub(super) availability_zone: Option<String>,
    #[serde(rename = "imageRef")]
    pub(super) image_ref: Option<String>,
    pub(super) image_id: Option<String>,
    /// A boolean, or a word that means true or false.
    pub(super) multiattach: Value,
}

/// A size as a number, as its digits, or `null`; the schema has refused everything else.
fn gigabytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let value = Value::deserialize(from)?;
    let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    Ok(number.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
}

/// Changes of a volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct VolumeUpdateBody {
    #[serde(flatten)]
    pub(super) described: DescribedBody,
    #[serde(deserialize_with = "some_pairs")]
    pub(super) metadata: Option<Vec<(String, String)>>,
}

fn some_pairs<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<(String, String)>>, D::Error> {
    typed::pairs(from).map(Some)
}

/// A new snapshot.
#[derive(Debug, Deserialize)]
pub(super) struct SnapshotCreateBody {
    #[serde(flatten)]
    pub(super) described: DescribedBody,
    pub(super) volume_id: String,
    /// A boolean, or a word that means true or false.
    #[serde(default)]
    pub(super) force: Value,
    #[serde(default, deserialize_with = "typed::pairs")]
    pub(super) metadata: Vec<(String, String)>,
}

/// All metadata of a volume or a snapshot.
#[derive(Debug, Deserialize)]
pub(super) struct VolumeMetadataBody {
    #[serde(deserialize_with = "typed::pairs")]
    pub(super) metadata: Vec<(String, String)>,
}

/// One item of the metadata.
#[derive(Debug, Deserialize)]
pub(super) struct VolumeMetadataItemBody {
    #[serde(deserialize_with = "typed::pairs")]
    pub(super) meta: Vec<(String, String)>,
}

/// A new attachment.
#[derive(Debug, Deserialize)]
pub(super) struct AttachmentCreateBody {
    pub(super) volume_uuid: String,
    pub(super) instance_uuid: Option<String>,
    pub(super) connector: Option<Connector>,
    /// `rw` or `ro`.
    pub(super) mode: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AttachmentUpdateBody {
    pub(super) connector: Connector,
}

/// A host's connector: its properties for access to a volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Connector {
    #[serde(deserialize_with = "typed::text")]
    pub(super) host: Option<String>,
    #[serde(deserialize_with = "typed::text")]
    pub(super) mountpoint: Option<String>,
    #[serde(deserialize_with = "typed::text")]
    pub(super) mode: Option<String>,
}

/// A new volume type.
#[derive(Debug, Deserialize)]
pub(super) struct TypeCreateBody {
    pub(super) name: String,
    pub(super) description: Option<String>,
    #[serde(default, deserialize_with = "typed::pairs")]
    pub(super) extra_specs: Vec<(String, String)>,
    /// A boolean, or a word that means true or false.
    #[serde(default, rename = "os-volume-type-access:is_public", deserialize_with = "typed::present")]
    pub(super) public: Option<Value>,
}

/// Changes of a volume type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TypeUpdateBody {
    pub(super) name: Option<String>,
    pub(super) description: SentField<String>,
    /// A boolean, or a word that means true or false.
    #[serde(deserialize_with = "typed::present")]
    pub(super) is_public: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TypeSpecsBody {
    #[serde(deserialize_with = "typed::pairs")]
    pub(super) extra_specs: Vec<(String, String)>,
}
