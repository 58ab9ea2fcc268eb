//! The networks of all hosts by OVN: Chronova writes OVN's northbound database.
//!
//! The log is the truth. [`wanted`] derives all rows from the read models, and [`difference`] compares them with the
//! copy of the database that [`crate::services::external::ovsdb`] keeps. The reconciler
//! [`super::reconcile::northbound`] sends the difference, at each event of a network and whenever the database has
//! changed. Invariants:
//!  - only the leader writes. Every member reads which ports are up;
//!  - rows without the mark of Chronova are never changed;
//!  - no request waits for the database. A server's port counts as plugged when OVN says so.
//!
//! OVN itself does the rest: ovn-northd translates the rows, and ovn-controller on each host programs Open vSwitch.

mod difference;
mod groups;
mod routers;
mod rows;
#[cfg(test)]
mod tests;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::ids::PortId;
use chronova_events::network::Port;
use chronova_projections::views::Views;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use self::rows::{MONITORED, OWNER};
use self::wanted::NorthboundSources;
pub(super) use self::wanted::mtu;
use crate::ports::{NetworkPlane, PlaneOwner, PlaneRemovals, PortError, is_carried_by_plane};
use crate::services::external::http::{TlsTrust, TrustError};
use crate::services::external::ovsdb::{
    OvsdbAtom, OvsdbClient, OvsdbConnection, OvsdbCopy, OvsdbFailure, OvsdbOptions, OvsdbRemote, OvsdbRow, OvsdbValue,
};

/// The most rows that one transaction inserts, or updates. OVN's programs handle a transaction as a whole, and meanwhile
/// nothing else.
const MOST_CHANGES: usize = 2_000;
/// The first copy of a database is one message, with about a kilobyte for each port.
const LONGEST_MESSAGE: usize = 512 * 1024 * 1024;
const ANSWER: Duration = Duration::from_mins(1);

/// How OVN carries the networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OvnOptions {
    /// Open vSwitch's bridge on the hosts that guests are plugged into.
    pub bridge: String,
    /// The chassis (`external_ids:system-id`) that carry traffic to external networks; the first one that is alive does.
    pub gateway_chassis: Vec<String>,
    /// The MTU of guests whose traffic is encapsulated between hosts.
    pub tunnel_mtu: u32,
}

/// Where the northbound database is.
#[derive(Debug, Clone)]
pub struct OvnPlace {
    pub remotes: Vec<OvsdbRemote>,
    pub trust: TlsTrust,
    pub connect_timeout: Duration,
    pub probe_interval: Duration,
}

/// OVN's northbound database.
#[derive(Debug)]
pub struct OvnPlane {
    client: OvsdbClient,
    options: OvnOptions,
}

impl OvnPlane {
    /// Begins to connect. Needs a tokio runtime.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn start(options: OvnOptions, place: OvnPlace) -> Result<Arc<Self>, TrustError> {
        let client = OvsdbClient::start(OvsdbOptions {
            remotes: place.remotes,
            trust: place.trust,
            database: "OVN_Northbound",
            monitored: MONITORED,
            connect_timeout: place.connect_timeout,
            answer_timeout: ANSWER,
            probe_interval: place.probe_interval,
            longest_message: LONGEST_MESSAGE,
        })?;
        Ok(Arc::new(Self { client, options }))
    }

    pub fn options(&self) -> &OvnOptions {
        &self.options
    }

    /// Why there is no connection; `None` if there is one.
    pub fn trouble(&self) -> Option<String> {
        match self.client.copy().connection {
            OvsdbConnection::Connected(_) => None,
            OvsdbConnection::Lost(reason) => Some(reason),
        }
    }

    /// Waits until the condition holds for the row of each of these ports, at most for `patience`. Returns true if it
    /// holds in time. A port without a row does not meet the condition.
    pub(super) async fn wait_for(
        &self,
        ports: &[PortId],
        patience: Duration,
        holds: impl Fn(&OvsdbRow) -> bool,
    ) -> bool {
        let end = Instant::now() + patience;
        let mut changes = self.client.changes();
        loop {
            changes.mark_unchanged();
            if self.all(ports, &holds) {
                return true;
            }
            match timeout_at(end, changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return false,
            }
        }
    }

    /// The row that stands for the whole database, and the log that the row names as the writer.
    fn owner(&self) -> Option<(Uuid, Option<String>)> {
        let tables = self.client.tables();
        let (uuid, row) = tables.table("NB_Global")?.rows.first_key_value()?;
        let known = row.get("external_ids").and_then(|ids| ids.text_at(OWNER)).map(str::to_owned);
        Some((*uuid, known))
    }

    async fn send(&self, operations: Vec<Value>) -> Result<(), PortError> {
        self.client.transact(operations).await.map_err(|failure| match failure {
            OvsdbFailure::Unavailable(reason) => PortError::Unavailable(reason),
            refused @ OvsdbFailure::Refused(_) => PortError::Conflict(refused.to_string()),
        })
    }

    fn all(&self, ports: &[PortId], holds: &impl Fn(&OvsdbRow) -> bool) -> bool {
        let tables = self.client.tables();
        let table = tables.table("Logical_Switch_Port");
        ports.iter().all(|port| {
            let row: Option<&OvsdbRow> = table.and_then(|table| table.named(&port.to_string())).map(AsRef::as_ref);
            row.is_some_and(holds)
        })
    }
}

/// Whether the port becomes an interface of Open vSwitch.
pub(super) fn plugs(port: &Port) -> bool {
    is_carried_by_plane(&port.settings().vnic_type)
}

/// Whether OVN carries the traffic of the port.
pub(super) fn is_up(row: &OvsdbRow) -> bool {
    row.get("up").and_then(|up| up.single()) == Some(&OvsdbAtom::Boolean(true))
}

/// Whether the host may bind the port.
pub(super) fn admits(row: &OvsdbRow, host: &str) -> bool {
    let chassis = row.get("options").and_then(|options| options.text_at("requested-chassis"));
    chassis.is_some_and(|chassis| chassis.split(',').any(|name| name == host))
}

#[async_trait]
impl NetworkPlane for OvnPlane {
    async fn claim(&self, owner: PlaneOwner) -> Result<(), PortError> {
        let own = format!("{}/{}", owner.installation, owner.generation);
        // OVN's programs make the row.
        let Some((row, known)) = self.owner() else { return Ok(()) };
        if known.as_deref() == Some(own.as_str()) {
            return Ok(());
        }
        if let Some(known) = &known {
            let is_copy = known.starts_with(&format!("{}/", owner.installation));
            if !(is_copy && owner.is_admitted) {
                return Err(PortError::Conflict(format!(
                    "the log {known} writes OVN's northbound database, and this log is {own}: if the other log will \
                     never run again, run: ovn-nbctl remove NB_Global . external_ids {OWNER}"
                )));
            }
        }
        // Insertion keeps a present value, and deletion needs the known one. So only one of two logs succeeds.
        let pair = |log: &str| OvsdbValue::texts([(OWNER.to_owned(), log.to_owned())]).to_json();
        let former = known.as_deref().map(|known| json!(["external_ids", "delete", pair(known)]));
        let mutations: Vec<Value> = former.into_iter().chain([json!(["external_ids", "insert", pair(&own)])]).collect();
        let chosen = json!([["_uuid", "==", ["uuid", row.to_string()]]]);
        self.send(vec![json!({"op": "mutate", "table": "NB_Global", "where": chosen, "mutations": mutations})]).await?;
        match self.owner() {
            Some((_, Some(now))) if now == own => Ok(()),
            _ => Err(PortError::Conflict("another log has just taken OVN's northbound database".to_owned())),
        }
    }

    async fn conform(&self, views: &Views, removals: &mut PlaneRemovals) -> Result<bool, PortError> {
        let OvsdbCopy { connection, tables } = self.client.copy();
        if let OvsdbConnection::Lost(reason) = connection {
            return Err(PortError::Unavailable(reason));
        }
        let (sources, options) = (NorthboundSources::of(views), self.options.clone());
        let mut allowed = removals.clone();
        // With 100,000 ports, this occupies a processor for about a second.
        let comparing = tokio::task::spawn_blocking(move || {
            let wanted = wanted::wanted(&sources, &options);
            let operations = difference::difference(&wanted, &tables, &|mark| allowed.allows(mark), MOST_CHANGES);
            // The client changes its tables in place only while nobody else holds them.
            drop(tables);
            allowed.note(wanted.keys().map(|key| key.mark.as_str()));
            (operations, allowed)
        });
        let compared = comparing.await.map_err(|error| PortError::Unavailable(format!("the comparison: {error}")))?;
        let operations = compared.0;
        *removals = compared.1;
        if operations.is_empty() {
            return Ok(true);
        }
        self.send(operations).await?;
        Ok(false)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.client.changes()
    }

    fn carries(&self, port: PortId) -> bool {
        self.all(&[port], &is_up)
    }

    fn routes_floating_addresses(&self) -> bool {
        !self.options.gateway_chassis.is_empty()
    }

    fn tunnel_mtu(&self) -> u32 {
        self.options.tunnel_mtu
    }
}
