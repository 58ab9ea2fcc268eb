//! Reads the databases of Nova and Placement.
//!
//! A [`NovaDatabase`](database::NovaDatabase) gives the rows of one database. [`dump`] reads them from an SQL dump, and
//! [`live`] from a running MySQL or PostgreSQL. [`address`] and [`connections`] read the addresses of databases.
//! [`rows`] gives typed values of rows, and [`objects`] the serialized objects in them. This module decides nothing
//! about a row. A value that it cannot read is an error that names table, column and value.

pub mod address;
pub mod connections;
pub mod database;
pub mod dump;
pub mod live;
pub mod objects;
pub mod rows;
pub mod schema;
