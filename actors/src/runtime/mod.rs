//! Starts the parts of a member of a cluster, and stops them.
//!
//! | file | contents |
//! |---|---|
//! | [`member`] | the parts that every member of a cluster runs |
//! | [`checkpoints`] | how a member keeps its read models on disk |
//! | [`leadership`] | the right to send commands, which only a member that leads has |
//! | [`follower`] | the parts of the APIs of a member that does not lead |
//! | [`leader`] | the parts that only the leader runs |
//! | [`contexts`] | builds all contexts |
//! | [`options`] | the options of this crate, grouped by owner |
//!
//! [`Member::start`] comes first. A member that follows answers queries as a [`Follower`]. A member that leads takes
//! its [`Leadership`], makes the ports from it, and then starts the [`Leader`]. The leader stops before its member.

pub mod checkpoints;
pub mod contexts;
pub mod follower;
pub mod leader;
pub mod leadership;
pub mod member;
pub mod options;

pub use self::checkpoints::KeptCheckpoints;
pub use self::contexts::{Contexts, Ports};
pub use self::follower::Follower;
pub use self::leader::Leader;
pub use self::leadership::{Leadership, NotLeading};
pub use self::member::Member;
pub use self::options::RuntimeOptions;
