//! Options of the reconcilers.

use std::time::Duration;

/// How often reconcilers run, and how long what they mend may last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconcileOptions {
    /// How often the reconcilers run that have no period of their own.
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
    /// How often caches are looked through; `None` for never.
    pub interval: Option<Duration>,
    pub remove_unused: bool,
    /// How long an image must have been unused.
    pub minimum_age: Duration,
    /// `[workarounds] reserve_disk_resource_for_image_cache`: whether the cache's bytes are taken off what hosts offer.
    pub reserve_disk: bool,
    /// Hosts that fetch at the same time what they are to have beforehand.
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
