//! Tests of rows of docs/requirements, by theme.

mod rows_hosts;
mod rows_resources;
mod rows_servers;
mod rows_versions;
