//! Images brought to hosts before anybody asks for servers from them.
//!
//! A convenience: what is fetched is a cache entry that a build would fetch by itself. So nothing of it is recorded, and
//! a crash in between leaves only a slower first build.

use std::sync::Arc;

use chronova_events::ids::{HostId, ProcessId};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::driver::ImageSource;
use futures::StreamExt;

use crate::hosts::context::HostContext;
use crate::process::guest::{Source, image_ref};

/// Has each of `hosts` fetch `images`, not all hosts at the same time: a big image would take the image service's whole line.
pub async fn cache(context: Arc<HostContext>, hosts: Vec<HostId>, images: Vec<ImageSnapshot>) {
    let at_once = context.image_cache.precache_concurrency.max(1);
    futures::stream::iter(hosts).for_each_concurrent(at_once, |host| bring(&context, host, &images)).await;
}

async fn bring(context: &HostContext, host: HostId, images: &[ImageSnapshot]) {
    let Some(member) = context.fleet.member(host) else {
        tracing::warn!(%host, "no images are brought to a host that does not answer");
        return;
    };
    // As long as it is on its way nobody removes it.
    let process = ProcessId::random();
    let _held = context.image_holds.of(process);
    for image in images {
        context.image_holds.hold(process, host, &image.checksum).await;
        let source: Arc<dyn ImageSource> = Arc::new(Source(Arc::clone(&context.images)));
        match member.driver.ensure_image(&image_ref(image), source).await {
            Ok(()) => tracing::info!(host = %member.hostname, image = %image.id, "the image is on the host"),
            Err(error) => {
                tracing::warn!(host = %member.hostname, image = %image.id, %error, "an image cannot be brought to a host");
            }
        }
    }
}
