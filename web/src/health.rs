//! `/healthz`: whether the process is healthy, by checks of its parts.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::reply::Reply;

/// Checks a part of the process; `Err` says what is wrong.
pub type HealthCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A part's report about itself, healthy or not.
pub type HealthReport = Arc<dyn Fn() -> Value + Send + Sync>;

/// The checks that the process has registered.
#[derive(Clone, Default)]
pub struct Health {
    checks: Vec<(&'static str, HealthCheck)>,
    tales: Vec<(&'static str, HealthReport)>,
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.checks.iter().map(|(name, _)| name)).finish()
    }
}

impl Health {
    /// Adds a check; it must not block.
    #[must_use]
    pub fn with(mut self, name: &'static str, check: HealthCheck) -> Self {
        self.checks.push((name, check));
        self
    }

    /// Adds a report that `/healthz` shows besides the checks. The report function must not block.
    #[must_use]
    pub fn telling(mut self, name: &'static str, tale: HealthReport) -> Self {
        self.tales.push((name, tale));
        self
    }

    /// 200 when everything works, 503 otherwise.
    pub fn report(&self) -> Reply {
        let mut well = true;
        let mut parts = Map::new();
        for (name, check) in &self.checks {
            let state = check();
            well &= state.is_ok();
            parts.insert((*name).to_owned(), state.map_or_else(Value::String, |()| json!("ok")));
        }
        let status = if well { 200 } else { 503 };
        let mut report = json!({"status": if well { "ok" } else { "failing" }, "checks": parts});
        for (name, tale) in &self.tales {
            report[*name] = tale();
        }
        Reply::json(status, report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::ReplyBody;

    #[test]
    fn one_failing_part_fails_the_whole() {
        let good = Health::default().with("log", Arc::new(|| Ok(())));
        assert_eq!(good.report().status, 200);
        let telling = good.clone().telling("work", Arc::new(|| json!(["replay"])));
        assert!(matches!(telling.report().body, ReplyBody::Json(report) if report["work"] == json!(["replay"])));
        assert_eq!(good.with("views", Arc::new(|| Err("behind".to_owned()))).report().status, 503);
    }
}
