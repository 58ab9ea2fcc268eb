//! Who decides.
//!
//! An aggregate is a noun's pure `decide` over the state that its events add up to; [`shell`] turns it into an actor;
//! [`gateway::Gateway`] is how the rest of the house reaches it. [`process`] holds the multi-step operations,
//! [`scheduler`] chooses hosts, [`hosts`] watches them, [`reconcile`] mends what crashes may have left between two appends.

pub mod aggregate;
pub mod departures;
pub mod gateway;
pub mod ports;
pub mod shell;

pub mod console;
pub mod erasure;
pub mod flavor;
pub mod guest_name;
pub mod host;
pub mod host_aggregate;
pub mod hosts;
pub mod house;
pub mod identity;
pub mod image;
pub mod instance;
pub mod keypair;
pub mod ledger;
pub mod metadata;
pub mod network;
pub mod network_quota;
pub mod passwords;
pub mod process;
pub mod quota;
pub mod quota_class;
pub mod reconcile;
pub mod router;
pub mod runtime;
pub mod scheduler;
pub mod security_group;
pub mod server_group;
pub mod topology;
pub mod volume;
pub mod volume_quota;
pub mod volume_type;
