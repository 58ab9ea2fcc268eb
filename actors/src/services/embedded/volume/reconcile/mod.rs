//! Repairs of the embedded volume service.
//!
//! | file | what |
//! |---|---|
//! | [`quota`] | gives back quota that nothing holds |
//! | [`hosts`] | removes from a host what is left of volumes |

pub mod hosts;
pub mod quota;
