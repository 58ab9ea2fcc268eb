//! Options of the reconcilers.

use std::time::Duration;

/// The periods and time limits of reconcilers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconcileOptions {
    /// The period of reconcilers without their own option.
    pub period: Duration,
    /// `[DEFAULT] resize_confirm_window`: the time after which a move is confirmed automatically; zero means never.
    pub resize_confirm_window: Duration,
    /// `[DEFAULT] reboot_timeout`: the time after which a soft reboot becomes a hard one; zero means never.
    pub reboot_timeout: Duration,
    /// `[DEFAULT] rescue_timeout`: the time after which a rescue ends; zero means never.
    pub rescue_timeout: Duration,
    /// How long changes of security groups are gathered before running guests get new filters.
    pub filter_pause: Duration,
}

impl Default for ReconcileOptions {
    fn default() -> Self {
        Self {
            period: Duration::from_mins(1),
            resize_confirm_window: Duration::ZERO,
            reboot_timeout: Duration::ZERO,
            rescue_timeout: Duration::ZERO,
            filter_pause: Duration::from_secs(1),
        }
    }
}

/// The options of `[image_cache]`. The reference of `nova.conf` options explains each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageCacheOptions {
    /// The period of checks of the caches; `None` means never.
    pub interval: Option<Duration>,
    pub remove_unused: bool,
    /// How long an image must be unused before it is removed.
    pub minimum_age: Duration,
    /// `[workarounds] reserve_disk_resource_for_image_cache`: whether the cache's bytes reduce the hosts' inventory.
    pub reserve_disk: bool,
    /// The number of hosts that fetch images in advance at the same time.
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
