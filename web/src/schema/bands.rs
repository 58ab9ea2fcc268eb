//! A band is a span of versions in which a description does not change. A description has one validator per band. Each
//! validator is compiled at its first use.

use std::sync::OnceLock;

use super::{CompileError, Dialect, Schema, Validator};
use crate::microversion::Microversion;

/// A description and its compiled bands.
#[derive(Debug)]
pub struct SchemaBands {
    schema: Schema,
    dialect: Dialect,
    validators: Vec<(Microversion, OnceLock<Result<Validator, CompileError>>)>,
}

impl SchemaBands {
    pub fn new(schema: Schema, dialect: Dialect) -> Self {
        let mut starts = schema.breakpoints();
        starts.insert(Microversion::NONE);
        Self { schema, dialect, validators: starts.into_iter().map(|start| (start, OnceLock::new())).collect() }
    }

    /// The validator of a version.
    pub fn at(&self, version: Microversion) -> Result<&Validator, CompileError> {
        let index = self.validators.partition_point(|(start, _)| version.at_least(*start)).saturating_sub(1);
        let (start, cell) = &self.validators[index];
        cell.get_or_init(|| Validator::compile(self.schema.render(*start), self.dialect)).as_ref().map_err(Clone::clone)
    }

    /// Compiles every band. Fails if the description is invalid.
    pub fn compile_all(&self) -> Result<(), CompileError> {
        self.validators.iter().try_for_each(|(start, _)| self.at(*start).map(|_| ()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use serde_json::json;

    use super::super::{object, opt, string};
    use super::*;
    use crate::microversion::v;

    #[test]
    fn picks_the_band() {
        let bands = SchemaBands::new(object([opt("a", string()).since(2, 10)]), Dialect::Nova);
        let body = json!({"a": "x"});
        assert!(bands.at(v(2, 9)).unwrap().check(&body).is_err());
        assert!(bands.at(v(2, 10)).unwrap().check(&body).is_ok());
        assert!(bands.at(v(2, 104)).unwrap().check(&body).is_ok());
    }
}
