//! Errors with the errors behind them, for a log line or a message to an operator.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// An error that several owners may keep.
pub type SharedError = Arc<dyn Error + Send + Sync>;

/// Displays an error and its sources in one line: `first: second: third`.
#[derive(Debug, Clone, Copy)]
pub struct ErrorChain<'a>(pub &'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
