//! Repairs of the embedded volume service.
//!
//! | file | contents |
//! |---|---|
//! | [`quota`] | releases quota that no volume or snapshot uses |
//! | [`hosts`] | removes leftovers of volumes from a host |

pub mod hosts;
pub mod quota;
