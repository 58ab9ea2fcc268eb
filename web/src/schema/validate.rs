//! The validator: finds the first violation of a compiled schema.

use std::collections::BTreeMap;

use fancy_regex::Regex;
use serde_json::{Map, Value};

use super::{formats, words};

/// The dialect of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Compute and Volume: number limits apply to numbers in strings too, and a refused name gets an explanation.
    Nova,
    /// The other services: plain JSON Schema.
    Plain,
}

/// One step of a path: a key of an object, or an index of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    Key(String),
    Index(usize),
}

/// The reason why a schema refuses a value.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaViolation {
    /// The message in python-jsonschema's words.
    pub message: String,
    /// The path of the value.
    pub path: Vec<PathStep>,
    pub instance: Value,
    /// The keyword that failed; the next fields hold its path and its schema.
    pub keyword: String,
    pub schema_path: Vec<String>,
    pub schema: Value,
    /// The explanation of a Nova name format; it replaces the rest of the message.
    pub explanation: Option<String>,
}

/// An invalid schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("unknown keyword {0:?}")]
    Keyword(String),
    #[error("unknown format {0:?}")]
    Format(String),
    #[error("pattern {0:?} is not a regular expression")]
    Pattern(String),
    #[error("{0:?} has an invalid value")]
    Value(String),
}

/// A schema whose patterns are compiled and whose keywords are all known.
#[derive(Debug)]
pub struct Validator {
    schema: Value,
    patterns: BTreeMap<String, Regex>,
    dialect: Dialect,
}

type ValidationResult = Result<(), Box<SchemaViolation>>;

impl Validator {
    pub fn compile(schema: Value, dialect: Dialect) -> Result<Self, CompileError> {
        let mut patterns = BTreeMap::new();
        prepare(&schema, &mut patterns)?;
        Ok(Self { schema, patterns, dialect })
    }

    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Finds the first violation, in the order in which the schema names its keywords.
    pub fn check(&self, instance: &Value) -> Result<(), Box<SchemaViolation>> {
        self.descend(&self.schema, instance).map_err(|mut violation| {
            violation.path.reverse();
            violation.schema_path.reverse();
            violation
        })
    }

    /// Whether the schema of an object names `key` (in `properties` or by a pattern).
    pub fn names(&self, key: &str) -> bool {
        let named = |keyword: &str| self.schema.get(keyword).and_then(Value::as_object);
        named("properties").is_some_and(|properties| properties.contains_key(key))
            || named("patternProperties").is_some_and(|patterns| patterns.keys().any(|regex| self.matches(regex, key)))
    }

    /// Whether keys that the schema does not name are allowed.
    pub fn is_open(&self) -> bool {
        self.schema.get("additionalProperties").is_none_or(|open| *open == Value::Bool(true))
    }

    fn matches(&self, pattern: &str, text: &str) -> bool {
        // If a match needs too much backtracking, the engine gives up, and the text counts as not matching.
        self.patterns.get(pattern).is_some_and(|regex| regex.is_match(text).unwrap_or(false))
    }

    /// Checks a value. Each level adds its step to the path of a violation when it returns. So the path is in reverse
    /// order, and a valid value costs no path.
    fn descend(&self, schema: &Value, instance: &Value) -> ValidationResult {
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => {
                return Err(violation(
                    "",
                    schema,
                    instance,
                    format!("False schema does not allow {}", super::repr(instance)),
                ));
            }
            _ => return Ok(()),
        };
        for (keyword, value) in keywords {
            self.keyword(keyword, value, keywords, schema, instance).map_err(|mut violation| {
                if violation.keyword.is_empty() {
                    violation.keyword.clone_from(keyword);
                }
                violation.schema_path.push(keyword.clone());
                violation
            })?;
        }
        Ok(())
    }

    fn keyword(
        &self,
        keyword: &str,
        value: &Value,
        keywords: &Map<String, Value>,
        schema: &Value,
        instance: &Value,
    ) -> ValidationResult {
        let fail = |message: String| Err(violation(keyword, schema, instance, message));
        match (keyword, instance) {
            ("properties", Value::Object(map)) => self.properties(value, map),
            ("patternProperties", Value::Object(map)) => self.pattern_properties(value, map),
            ("additionalProperties", Value::Object(map)) => self.additional(value, keywords, map, schema, instance),
            ("items", Value::Array(items)) => {
                let skip = keywords.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                self.items(value, items, skip)
            }
            ("prefixItems", Value::Array(items)) => {
                for (index, (schema, item)) in value.as_array().into_iter().flatten().zip(items).enumerate() {
                    self.descend(schema, item)
                        .map_err(|violation| below(violation, PathStep::Index(index), Some(index.to_string())))?;
                }
                Ok(())
            }
            ("allOf", _) => {
                for (index, schema) in value.as_array().into_iter().flatten().enumerate() {
                    self.descend(schema, instance).map_err(|mut violation| {
                        violation.schema_path.push(index.to_string());
                        violation
                    })?;
                }
                Ok(())
            }
            ("anyOf", _) => {
                let any = value.as_array().into_iter().flatten().any(|schema| self.descend(schema, instance).is_ok());
                if any { Ok(()) } else { fail(words::under_none(instance)) }
            }
            ("oneOf", _) => {
                let valid: Vec<&Value> = value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|schema| self.descend(schema, instance).is_ok())
                    .collect();
                match valid.as_slice() {
                    [_] => Ok(()),
                    [] => fail(words::under_none(instance)),
                    [first, others @ ..] => fail(words::under_several(instance, first, others)),
                }
            }
            ("not", _) => {
                if self.descend(value, instance).is_ok() {
                    fail(words::under_not(instance, value))
                } else {
                    Ok(())
                }
            }
            ("pattern", Value::String(text)) => {
                let pattern = value.as_str().unwrap_or_default();
                if self.matches(pattern, text) { Ok(()) } else { fail(words::pattern(instance, value)) }
            }
            ("format", _) => {
                let name = value.as_str().unwrap_or_default();
                formats::check(name, instance).map_err(|refusal| {
                    let mut violation = violation(keyword, schema, instance, words::format(instance, value));
                    if self.dialect == Dialect::Nova {
                        violation.explanation = refusal.explanation;
                    }
                    violation
                })
            }
            ("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum", _) => {
                match words::limit(keyword, value, instance, self.dialect) {
                    Some(message) => fail(message),
                    None => Ok(()),
                }
            }
            _ => match words::simple(keyword, value, instance) {
                Some(message) => fail(message),
                None => Ok(()),
            },
        }
    }

    fn properties(&self, properties: &Value, map: &Map<String, Value>) -> ValidationResult {
        for (name, schema) in properties.as_object().into_iter().flatten() {
            if let Some(value) = map.get(name) {
                self.descend(schema, value)
                    .map_err(|violation| below(violation, PathStep::Key(name.clone()), Some(name.clone())))?;
            }
        }
        Ok(())
    }

    fn pattern_properties(&self, patterns: &Value, map: &Map<String, Value>) -> ValidationResult {
        for (pattern, schema) in patterns.as_object().into_iter().flatten() {
            for (name, value) in map.iter().filter(|(name, _)| self.matches(pattern, name)) {
                self.descend(schema, value)
                    .map_err(|violation| below(violation, PathStep::Key(name.clone()), Some(pattern.clone())))?;
            }
        }
        Ok(())
    }

    fn additional(
        &self,
        value: &Value,
        keywords: &Map<String, Value>,
        map: &Map<String, Value>,
        schema: &Value,
        instance: &Value,
    ) -> ValidationResult {
        let patterns = keywords.get("patternProperties").and_then(Value::as_object);
        let known = keywords.get("properties").and_then(Value::as_object);
        let extras = map.iter().filter(|(name, _)| {
            !known.is_some_and(|known| known.contains_key(*name))
                && !patterns.is_some_and(|patterns| patterns.keys().any(|pattern| self.matches(pattern, name)))
        });
        match value {
            Value::Bool(true) => Ok(()),
            Value::Object(_) => {
                for (name, item) in extras {
                    self.descend(value, item)
                        .map_err(|violation| below(violation, PathStep::Key(name.clone()), None))?;
                }
                Ok(())
            }
            _ => {
                let names: Vec<&str> = extras.map(|(name, _)| name.as_str()).collect();
                if names.is_empty() {
                    return Ok(());
                }
                let patterns = patterns.map(|patterns| patterns.keys().map(String::as_str).collect::<Vec<_>>());
                let message = words::additional(names, patterns.unwrap_or_default());
                Err(violation("additionalProperties", schema, instance, message))
            }
        }
    }

    fn items(&self, schema: &Value, items: &[Value], skip: usize) -> ValidationResult {
        for (index, item) in items.iter().enumerate().skip(skip) {
            self.descend(schema, item).map_err(|violation| below(violation, PathStep::Index(index), None))?;
        }
        Ok(())
    }
}

fn violation(keyword: &str, schema: &Value, instance: &Value, message: String) -> Box<SchemaViolation> {
    Box::new(SchemaViolation {
        message,
        path: Vec::new(),
        instance: instance.clone(),
        keyword: keyword.to_owned(),
        schema_path: Vec::new(),
        schema: schema.clone(),
        explanation: None,
    })
}

fn below(mut violation: Box<SchemaViolation>, step: PathStep, schema_step: Option<String>) -> Box<SchemaViolation> {
    violation.path.push(step);
    violation.schema_path.extend(schema_step);
    violation
}

/// Compiles the patterns and refuses keywords that [`Validator::check`] does not know.
fn prepare(schema: &Value, patterns: &mut BTreeMap<String, Regex>) -> Result<(), CompileError> {
    let Value::Object(keywords) = schema else { return Ok(()) };
    for (keyword, value) in keywords {
        match keyword.as_str() {
            "pattern" => compile(value.as_str().ok_or_else(|| CompileError::Value(keyword.clone()))?, patterns)?,
            "patternProperties" | "properties" => {
                for (name, schema) in value.as_object().ok_or_else(|| CompileError::Value(keyword.clone()))? {
                    if keyword == "patternProperties" {
                        compile(name, patterns)?;
                    }
                    prepare(schema, patterns)?;
                }
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                for schema in value.as_array().ok_or_else(|| CompileError::Value(keyword.clone()))? {
                    prepare(schema, patterns)?;
                }
            }
            "items" | "not" | "additionalProperties" => prepare(value, patterns)?,
            "format" => {
                let name = value.as_str().unwrap_or_default();
                if !formats::known(name) {
                    return Err(CompileError::Format(name.to_owned()));
                }
            }
            // With a single `items` schema, `additionalItems` has no meaning. Since draft 2020-12, the keyword does not
            // exist.
            "title" | "description" | "additionalItems" | "$schema" | "minimum" | "maximum" | "exclusiveMinimum"
            | "exclusiveMaximum" => {}
            other if words::SIMPLE.contains(&other) => {}
            other => return Err(CompileError::Keyword(other.to_owned())),
        }
    }
    Ok(())
}

fn compile(pattern: &str, patterns: &mut BTreeMap<String, Regex>) -> Result<(), CompileError> {
    if !patterns.contains_key(pattern) {
        let regex = Regex::new(pattern).map_err(|_| CompileError::Pattern(pattern.to_owned()))?;
        patterns.insert(pattern.to_owned(), regex);
    }
    Ok(())
}
