//! Events, the folds that give them meaning, and the event store.
//!
//! One folder or file per noun (`instance`, `host`, `ledger`, ...) holds its events and the fold over them.
//! [`registry`] lists the nouns, [`operations`] says which operation an event begins, and [`store`] writes and reads
//! the log. Nothing here decides anything, and only [`clock`] reads the time of day that events carry.

#[macro_use]
pub mod registry;

pub mod archive;
pub mod authorities;
pub mod chain;
pub mod clock;
pub mod codec;
pub mod entropy;
pub mod envelope;
pub mod error_chain;
pub mod fold;
pub mod holds;
pub mod ids;
pub mod operations;
pub mod pci;
pub mod place;
pub mod pointer;
pub mod sealed;
pub mod store;
pub mod tags;
pub mod unchecked_certificate;

pub mod access;
pub mod console;
pub mod erasure;
pub mod external;
pub mod flavor;
pub mod fleet;
pub mod host;
pub mod host_aggregate;
pub mod identity;
pub mod image;
pub mod installation;
pub mod instance;
pub mod keypair;
pub mod ledger;
pub mod network;
pub mod network_quota;
pub mod notification;
pub mod process;
pub mod quota;
pub mod quota_class;
pub mod router;
pub mod security_group;
pub mod server_group;
pub mod volume;
pub mod volume_quota;
pub mod volume_type;
