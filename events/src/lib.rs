//! The facts: what can have happened, what it means, and the log that keeps it.

pub mod ids;
