//! The tests of the HTTP APIs: dispatch, the contract, and the embedded services.

#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub)]

#[path = "../../tests/src/answers.rs"]
#[allow(missing_debug_implementations, reason = "the crate of the integration tests allows it")]
mod answers;
mod contract;
mod dispatch;
mod embedded;
mod network;
