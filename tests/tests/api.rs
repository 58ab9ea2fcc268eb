//! Tests of the Compute and Placement APIs on a control plane in memory, and of the documents about the APIs.

mod bad_input;
mod compute_around;
mod compute_groups;
mod compute_operations;
mod compute_proxies;
mod compute_resources;
mod compute_samples;
mod compute_servers;
mod compute_services;
mod conformance;
mod entity;
mod features;
mod filters;
mod fuzz;
mod notifications;
mod server_states;
mod server_work;
mod volume_attachments;
mod volumes;
