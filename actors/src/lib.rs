//! The crate that decides.
//!
//! An aggregate is a noun's pure `decide` over the state that its events fold into. [`shell`] turns it into an actor.
//! The rest of the crate reaches it through [`gateway::CommandGateway`]. [`operations`] is what an API may ask for.
//! [`process`] holds the multi-step operations, [`scheduler`] chooses hosts, [`hosts`] watches them, [`reconcile`]
//! mends what crashes may have left between two appends. [`ports`] says what compute asks of the services beside it,
//! and [`services`] holds the services that answer.

pub mod aggregate;
pub mod gateway;
pub mod ports;
pub mod shell;

pub mod console;
pub mod coordination;
pub mod erasure;
pub mod flavor;
pub mod guest_name;
pub mod host;
pub mod host_aggregate;
pub mod hosts;
pub mod instance;
pub mod keypair;
pub mod ledger;
pub mod metadata;
pub mod operations;
pub mod process;
pub mod quota;
pub mod quota_class;
pub mod reconcile;
pub mod runtime;
pub mod scheduler;
pub mod server_group;
pub mod server_options;
pub mod services;
pub mod topology;
