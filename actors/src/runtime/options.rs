//! All options of this crate, grouped by owner.

use crate::hosts::options::HostOptions;
use crate::image_signatures::SignatureOptions;
use crate::notifications::NotificationOptions;
use crate::process::options::{LiveOptions, ProcessOptions};
use crate::reconcile::options::{ImageCacheOptions, ReconcileOptions};
use crate::scheduler::SchedulerOptions;
use crate::server_options::ServerOptions;
use crate::services::embedded::volume::service::VolumeOptions;

/// The options of a runtime.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeOptions {
    pub servers: ServerOptions,
    pub hosts: HostOptions,
    pub processes: ProcessOptions,
    /// Live migrations.
    pub live: LiveOptions,
    pub reconcile: ReconcileOptions,
    /// The hosts' image caches.
    pub image_cache: ImageCacheOptions,
    pub scheduler: SchedulerOptions,
    /// Signatures of images.
    pub signatures: SignatureOptions,
    /// The notifications that other services get. Boxed, because futures hold the options by value.
    pub notifications: Box<NotificationOptions>,
    /// `[volume]`: the embedded volume service.
    pub volume: VolumeOptions,
}
