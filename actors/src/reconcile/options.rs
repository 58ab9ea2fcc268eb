//! Options of the reconcilers.

use std::time::Duration;

/// The periods and time limits of reconcilers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconcileOptions {
    /// The period of reconcilers without one of their own.
    pub period: Duration,
    /// `[DEFAULT] resize_confirm_window`: how long a move waits to be confirmed; zero waits for ever.
    pub resize_confirm_window: Duration,
    /// How long changes of security groups are gathered before running guests get new filters.
    pub filter_pause: Duration,
}

impl Default for ReconcileOptions {
    fn default() -> Self {
        Self {
            period: Duration::from_mins(1),
            resize_confirm_window: Duration::ZERO,
            filter_pause: Duration::from_secs(1),
        }
    }
}

/// `[image_cache]`; each stands in the reference of `nova.conf` options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageCacheOptions {
    /// The period of checks of the caches; `None` for never.
    pub interval: Option<Duration>,
    pub remove_unused: bool,
    /// How long an image must have been unused.
    pub minimum_age: Duration,
    /// `[workarounds] reserve_disk_resource_for_image_cache`: whether the cache's bytes reduce the hosts' inventory.
    pub reserve_disk: bool,
    /// Hosts that cache images beforehand at the same time.
    pub precache_concurrency: usize,
}

impl Default for ImageCacheOptions {
    fn default() -> Self {
        Self {
            interval: Some(Duration::from_mins(40)),
            remove_unused: true,
            minimum_age: Duration::from_hours(24),
            reserve_disk: false,
            precache_concurrency: 1,
        }
    }
}
