//! The rows of other tables that belong to servers, by server.

use std::collections::BTreeMap;

use crate::nova::database::{NovaDatabase, rows, rows_by};
use crate::nova::rows::NovaRow;

use super::super::migrations;

type RowsByText<'a> = BTreeMap<&'a str, Vec<NovaRow<'a>>>;

/// The rows about servers in the API's database.
pub(super) struct SharedParts<'a> {
    pub(super) requests: RowsByText<'a>,
    pub(super) mappings: RowsByText<'a>,
}

impl<'a> SharedParts<'a> {
    pub(super) fn of(api: &'a dyn NovaDatabase) -> Self {
        Self {
            requests: rows_by(api, "request_specs", "instance_uuid"),
            mappings: rows_by(api, "instance_mappings", "instance_uuid"),
        }
    }
}

/// The rows of a cell about its servers.
pub(super) struct CellParts<'a> {
    pub(super) extra: RowsByText<'a>,
    pub(super) caches: RowsByText<'a>,
    pub(super) disks: RowsByText<'a>,
    pub(super) metadata: RowsByText<'a>,
    pub(super) system_metadata: RowsByText<'a>,
    pub(super) tags: RowsByText<'a>,
    pub(super) faults: RowsByText<'a>,
    pub(super) actions: RowsByText<'a>,
    /// The events of actions, by the number of the action.
    pub(super) action_events: RowsByText<'a>,
    pub(super) migrations: RowsByText<'a>,
    /// The tags of ports, by the port's id.
    pub(super) port_tags: BTreeMap<&'a str, &'a str>,
}

impl<'a> CellParts<'a> {
    pub(super) fn of(cell: &'a dyn NovaDatabase) -> Self {
        let by_server = |table: &'a str| rows_by(cell, table, "instance_uuid");
        Self {
            extra: by_server("instance_extra"),
            caches: by_server("instance_info_caches"),
            disks: by_server("block_device_mapping"),
            metadata: by_server("instance_metadata"),
            system_metadata: by_server("instance_system_metadata"),
            tags: rows_by(cell, "tags", "resource_id"),
            faults: by_server("instance_faults"),
            actions: by_server("instance_actions"),
            action_events: rows_by(cell, "instance_actions_events", "action_id"),
            migrations: migrations::by_server(rows(cell, "migrations")),
            port_tags: rows(cell, "virtual_interfaces")
                .filter_map(|row| Some((row.text("uuid")?, row.words("tag")?)))
                .collect(),
        }
    }
}
