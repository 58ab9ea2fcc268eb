//! Schemas of bodies and query strings, at each microversion. [`shape`] has the kinds of values in answers.
//!
//! ```ignore
//! fn create_body() -> Schema {
//!     object([
//!         req("keypair", object([
//!             req("name", name()),
//!             opt("type", choice(["ssh", "x509"])).since(2, 2),
//!             opt("public_key", string()).until(2, 91),
//!             req("public_key", string()).since(2, 92),
//!         ])),
//!     ])
//! }
//! fn index_query() -> Schema {
//!     query([many("user_id", string()).since(2, 10), many("limit", non_negative_integer()).since(2, 35)]).strict_since(2, 75)
//! }
//! ```
//!
//! [`Schema::render`] renders a description as plain JSON Schema for one version. Once per version band, the
//! description is compiled to a [`Validator`]. The validator is our own short implementation of JSON Schema. A general
//! validator would report errors in other words and in another order than Nova. The validator reports the *first*
//! violation in the order of the schema, in the words of python-jsonschema with Python's spelling of values. The
//! formats are Nova's. In the dialect of Nova, number limits apply to numbers in strings, too. The keywords are a
//! closed set: a schema with an unknown keyword does not compile. The tests compare the validator with an independent
//! validator.

mod bands;
mod build;
mod formats;
mod parameters;
mod python;
pub mod shape;
pub mod typed;
mod validate;
mod words;

pub use bands::SchemaBands;
pub(crate) use build::object_of;
pub use build::{
    Property, Schema, all_of, any, any_of, array, boolean, choice, integer, many, not, null, null_or, number, object,
    one_of, opt, query, raw, req, single, string,
};
pub(crate) use formats::uuid_of;
pub use parameters::*;
pub use python::repr;
pub use validate::{CompileError, Dialect, PathStep, SchemaViolation, Validator};
