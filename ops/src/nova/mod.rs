//! Reads the databases of Nova and Placement.
//!
//! A [`NovaDatabase`] gives the rows of one database; [`dump`] reads them from an SQL dump. A live connection would be
//! another implementation. [`rows`] gives typed values of rows, and [`objects`] the serialized objects in them. This
//! module decides nothing about a row. A value that it cannot read is an error that names table, column and value.

pub mod database;
pub mod dump;
pub mod objects;
pub mod rows;
