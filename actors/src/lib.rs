//! This crate decides on commands, and executes what was decided.
//!
//! An aggregate has a pure function `decide` on the state that its events fold into. [`shell`] turns it into an actor.
//! The rest of the crate sends it commands through [`gateway::CommandGateway`]. [`operations`] holds the operations
//! that an API may call. [`process`] holds the multi-step operations, [`scheduler`] chooses hosts, [`hosts`] watches
//! them, [`reconcile`] repairs differences between the present and the intended state. [`ports`] has the traits through
//! which compute calls other services, and [`services`] holds the embedded services and the clients of real ones.
//!
//! [`runtime`] starts these parts in a member of a cluster. [`coordination`] holds state that only the leader may have.
//! [`topology`] computes NUMA cells and dedicated processors. [`pci`] and [`mdev`] give guests PCI devices and mediated
//! devices. [`port_resources`] finds the providers of the resources that ports request. [`provider_config`] holds custom
//! inventories and traits of hosts, [`metadata`] builds a guest's metadata, and [`erasure`] erases personal data.

pub mod aggregate;
pub mod gateway;
pub mod ports;
pub mod shell;

pub mod console;
pub mod coordination;
pub mod erasure;
pub mod flavor;
pub mod fleet;
pub mod guest_name;
pub mod hardware;
pub mod host;
pub mod host_aggregate;
pub mod hosts;
pub mod image_signatures;
pub mod instance;
pub mod keypair;
pub mod ledger;
pub mod mdev;
pub mod metadata;
pub mod notifications;
pub mod operations;
pub mod pci;
pub mod port_resources;
pub mod process;
pub mod provider_config;
pub mod quota;
pub mod quota_class;
pub mod reconcile;
pub mod runtime;
pub mod scheduler;
pub mod server_group;
pub mod server_options;
pub mod services;
pub mod topology;
