//! Caches images on hosts before servers are built from them.
//!
//! A build would fetch the image anyway. So caching records no event, and a crash only makes the first build slower.

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, ProcessId};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::driver::ImageSource;
use futures::StreamExt;

use crate::hosts::context::HostContext;
use crate::image_signatures::ImageToPlace;
use crate::process::guest::{PortImageSource, image_ref};

/// Caches `images` on each of `hosts`, at most `precache_concurrency` hosts at a time. More simultaneous downloads of a
/// large image would take all of the image service's bandwidth.
pub async fn cache(context: Arc<HostContext>, hosts: Vec<HostId>, images: Vec<ImageSnapshot>, work: Arc<Meta>) {
    let at_once = context.image_cache.precache_concurrency.max(1);
    futures::stream::iter(hosts).for_each_concurrent(at_once, |host| bring(&context, host, &images, &work)).await;
}

async fn bring(context: &HostContext, host: HostId, images: &[ImageSnapshot], work: &Arc<Meta>) {
    let Some(member) = context.fleet.member(host) else {
        tracing::warn!(%host, "the host does not answer; not caching images on it");
        return;
    };
    // The hold keeps the image while it is being fetched.
    let process = ProcessId::random();
    let _held = context.image_holds.of(process);
    for image in images {
        context.image_holds.hold(process, host, &image.checksum).await;
        let source: Arc<dyn ImageSource> = Arc::new(PortImageSource::new(&context.images, work));
        let (found, properties) = (image_ref(image), image.properties.as_slice());
        let wanted = ImageToPlace { image: &found, properties, trusted: &[], work };
        match context.signatures.place(member.driver.as_ref(), source, wanted).await {
            Ok(()) => tracing::info!(host = %member.hostname, image = %image.id, "the image is on the host"),
            Err(error) => {
                tracing::warn!(host = %member.hostname, image = %image.id, %error, "caching an image on a host failed");
            }
        }
    }
}
