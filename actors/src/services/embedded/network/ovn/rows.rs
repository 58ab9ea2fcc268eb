//! The rows that OVN's northbound database should have.
//!
//! Each row of Chronova has a mark in `external_ids` with the row's key, for example `port/ID`. The key names what the
//! row stands for, so it is the same in each run. A reference names the key of the row that it leads to.

use std::collections::{BTreeMap, BTreeSet};

use crate::services::external::ovsdb::{OvsdbAtom, OvsdbValue, storable};

/// The key in `external_ids` that marks the rows of Chronova.
pub(super) const MARK: &str = "chronova:row";

/// The tables, in the order in which rows are inserted. Groups and their rules come first, so that no port is ever
/// without the rules of its groups. A row comes after the row that contains it, for example a port after its switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NorthboundTable {
    PortGroup,
    Acl,
    DhcpOptions,
    Switch,
    SwitchPort,
    Router,
    RouterPort,
    GatewayChassis,
    StaticRoute,
    Nat,
}

impl NorthboundTable {
    pub(super) const ALL: [Self; 10] = [
        Self::PortGroup,
        Self::Acl,
        Self::DhcpOptions,
        Self::Switch,
        Self::SwitchPort,
        Self::Router,
        Self::RouterPort,
        Self::GatewayChassis,
        Self::StaticRoute,
        Self::Nat,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::PortGroup => "Port_Group",
            Self::Acl => "ACL",
            Self::DhcpOptions => "DHCP_Options",
            Self::Switch => "Logical_Switch",
            Self::SwitchPort => "Logical_Switch_Port",
            Self::Router => "Logical_Router",
            Self::RouterPort => "Logical_Router_Port",
            Self::GatewayChassis => "Gateway_Chassis",
            Self::StaticRoute => "Logical_Router_Static_Route",
            Self::Nat => "NAT",
        }
    }

    /// Whether a row stays without a reference. The database itself removes the other rows when no row refers to them.
    pub(super) const fn is_root(self) -> bool {
        matches!(self, Self::PortGroup | Self::DhcpOptions | Self::Switch | Self::Router)
    }
}

/// The key in `external_ids` of `NB_Global` that says which log writes the database.
pub(super) const OWNER: &str = "chronova-log";

/// The part of the database to copy: the columns that Chronova writes, and `up`.
pub(super) const MONITORED: &[(&str, &[&str])] = &[
    ("NB_Global", &["external_ids"]),
    ("Port_Group", &["name", "ports", "acls", "external_ids"]),
    ("ACL", &["direction", "priority", "match", "action", "external_ids"]),
    ("DHCP_Options", &["cidr", "options", "external_ids"]),
    ("Logical_Switch", &["name", "ports", "external_ids"]),
    (
        "Logical_Switch_Port",
        &[
            "name",
            "type",
            "addresses",
            "port_security",
            "enabled",
            "options",
            "tag",
            "dhcpv4_options",
            "dhcpv6_options",
            "up",
            "external_ids",
        ],
    ),
    ("Logical_Router", &["name", "ports", "static_routes", "nat", "enabled", "options", "external_ids"]),
    (
        "Logical_Router_Port",
        &["name", "mac", "networks", "enabled", "gateway_chassis", "ipv6_ra_configs", "options", "external_ids"],
    ),
    ("Gateway_Chassis", &["name", "chassis_name", "priority", "external_ids"]),
    ("Logical_Router_Static_Route", &["ip_prefix", "nexthop", "output_port", "external_ids"]),
    ("NAT", &["type", "external_ip", "logical_ip", "external_ids"]),
];

/// A row by table and mark.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NorthboundKey {
    pub(super) table: NorthboundTable,
    pub(super) mark: String,
}

/// The wanted value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WantedCell {
    Value(OvsdbValue),
    /// These rows. Rows of others that the column refers to stay there.
    Rows(BTreeSet<NorthboundKey>),
    /// This row, or none.
    Row(Option<NorthboundKey>),
}

/// The wanted columns of a row. Columns that are not named belong to others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct WantedRow {
    pub(super) cells: BTreeMap<&'static str, WantedCell>,
    /// The name of the resource, for people who read the database.
    pub(super) title: Option<String>,
}

pub(super) type WantedRows = BTreeMap<NorthboundKey, WantedRow>;

impl WantedRow {
    pub(super) fn value(mut self, column: &'static str, value: OvsdbValue) -> Self {
        self.cells.insert(column, WantedCell::Value(value));
        self
    }

    pub(super) fn text(self, column: &'static str, text: impl Into<String>) -> Self {
        self.value(column, OvsdbValue::text(text))
    }

    pub(super) fn number(self, column: &'static str, number: i64) -> Self {
        self.value(column, OvsdbValue::one(OvsdbAtom::Integer(number)))
    }

    pub(super) fn enabled(self, is: bool) -> Self {
        self.value("enabled", OvsdbValue::one(OvsdbAtom::Boolean(is)))
    }

    /// A set of texts.
    pub(super) fn texts(self, column: &'static str, texts: impl IntoIterator<Item = String>) -> Self {
        self.value(column, OvsdbValue::Set(texts.into_iter().map(OvsdbAtom::text).collect()))
    }

    /// A map of texts.
    pub(super) fn map<'a>(self, column: &'static str, pairs: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let pairs = pairs.into_iter().map(|(key, value)| (key.to_owned(), value));
        self.value(column, OvsdbValue::texts(pairs))
    }

    pub(super) fn rows(mut self, column: &'static str, rows: impl IntoIterator<Item = NorthboundKey>) -> Self {
        self.cells.insert(column, WantedCell::Rows(rows.into_iter().collect()));
        self
    }

    pub(super) fn row(mut self, column: &'static str, row: Option<NorthboundKey>) -> Self {
        self.cells.insert(column, WantedCell::Row(row));
        self
    }

    pub(super) fn titled(mut self, title: &str) -> Self {
        self.title = Some(storable(title.to_owned())).filter(|title| !title.is_empty());
        self
    }
}

pub(super) fn key(table: NorthboundTable, mark: impl Into<String>) -> NorthboundKey {
    NorthboundKey { table, mark: mark.into() }
}
