//! The embedded identity and image services on a log in memory, called through the HTTP application without a listener.
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub)]

mod access;
mod attacks;
mod credentials;
mod identity;
mod image;
mod limits;
mod past;
mod world;
