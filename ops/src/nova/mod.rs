//! Nova's and Placement's databases, read.
//!
//! A [`NovaDatabase`] gives the rows of one database; [`dump`] reads them from an SQL dump. A live connection would be
//! another implementation. [`rows`] gives typed values of rows, and [`objects`] the serialized objects in them. Nothing
//! here decides what is done with a row: a value that cannot be read is an error that names table, column and value.

pub mod database;
pub mod dump;
pub mod objects;
pub mod rows;
