//! The trait of the scheduler hook: the operator's own program, which judges hosts beside the filters and weighers.
//!
//! Nova loads such filters and weighers as Python classes. Chronova asks a program outside its own process, so a fault
//! of that program cannot stop the scheduler. `docs/scheduling.md` documents question and answer.

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;

/// The operator's program.
#[async_trait]
pub trait SchedulerHook: fmt::Debug + Send + Sync {
    /// Asks about all hosts of one request, in one call. The call ends within the deadline of the options.
    ///
    /// # Errors
    /// The reason why there is no answer, in a few words.
    async fn ask(&self, question: &Value) -> Result<Value, String>;
}
