//! Removes unused images from the caches of hosts: Nova's image cache manager.
//!
//! The host reports an image as used if a disk is based on it or a guest has it open. An image is also used if,
//! according to the log, a server was built from the image or is in rescue with it. A note beside the image says since
//! when the image is unused. So the time while the control plane is down is included. Hosts with shared storage have
//! one cache, so an image is in use if one of them uses it.
//!
//! Before an image is removed, these checks ensure that no disk needs it. They are made in this order:
//!
//! 1. no unfinished process has fetched the image in a completed step. A process from before the start-up has no hold,
//!    because it continues with its next step;
//! 2. no process holds the image ([`ImageHolds`](crate::coordination::image_holds::ImageHolds)), and no process can
//!    hold it until the image is gone;
//! 3. the driver reads every disk and the note once more, because a request for the image removes the note.
//!
//! The reconciler records no events: after a crash, the next run finds the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chronova_events::envelope::Timestamp;
use chronova_events::host::KnownHost;
use chronova_events::ids::HostId;
use chronova_events::instance::Alive;
use chronova_events::process::{Process, StepOutput};
use chronova_hypervisor::capability::image_cache::CachedImage;
use chronova_hypervisor::capability::{Needed as _, SharedStorage};
use chronova_projections::views::Views;
use futures::StreamExt as _;

use crate::hosts::capacity;
use crate::hosts::fleet::ConnectedHost;
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// Caches that are checked at the same time.
const AT_ONCE: usize = 8;

/// The action on an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachedImageFate {
    /// Leave it.
    Stays,
    /// Remove the idle note, because the image is used.
    IsUsed,
    /// Write the idle note, because the image is unused.
    IsIdle,
    /// Remove the image if it has been idle since `idle_by` or longer.
    Goes { idle_by: Timestamp },
}

pub fn judge(image: &CachedImage, wanted: bool, now: Timestamp, minimum_age: Duration) -> CachedImageFate {
    let used = wanted || image.is_used;
    let age = i64::try_from(minimum_age.as_micros()).unwrap_or(i64::MAX);
    let idle_by = Timestamp(now.0.saturating_sub(age));
    match image.idle_since {
        Some(_) if used => CachedImageFate::IsUsed,
        None if used => CachedImageFate::Stays,
        None => CachedImageFate::IsIdle,
        // The note's time is in the future, because the clock was set back.
        Some(since) if since > now => CachedImageFate::IsIdle,
        Some(since) if since > idle_by => CachedImageFate::Stays,
        Some(_) => CachedImageFate::Goes { idle_by },
    }
}

/// The images that servers and processes need, by checksum.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NeededImages {
    by_host: BTreeMap<HostId, BTreeSet<String>>,
    /// The images that unfinished processes need, on any host.
    under_way: BTreeSet<String>,
}

impl NeededImages {
    pub fn of(views: &Views) -> Self {
        let mut needs = Self::default();
        views.servers.read(|servers| {
            for server in servers.all().filter_map(|row| row.instance.alive()) {
                for host in hosts_of(server) {
                    needs.by_host.entry(host).or_default().extend(images_of(server));
                }
            }
        });
        views.processes.read(|processes| {
            for pending in processes.pending() {
                let Process::Running(running) = &pending.state else { continue };
                let images = running.done.iter().filter_map(|record| match &record.output {
                    StepOutput::Image(image) => Some(image.checksum.clone()),
                    _ => None,
                });
                needs.under_way.extend(images);
            }
        });
        needs
    }

    fn on(&self, hosts: &BTreeSet<HostId>, checksum: &str) -> bool {
        hosts.iter().filter_map(|host| self.by_host.get(host)).any(|wanted| wanted.contains(checksum))
    }
}

fn hosts_of(server: &Alive) -> impl Iterator<Item = HostId> {
    let moving = server.moving.as_ref();
    let places = [
        server.placement.as_ref(),
        moving.map(|moving| &moving.source),
        moving.and_then(|moving| moving.target.as_ref()),
    ];
    places.into_iter().flatten().map(|placed| placed.host).collect::<BTreeSet<_>>().into_iter()
}

fn images_of(server: &Alive) -> impl Iterator<Item = String> {
    let images = [server.root_image(), server.request.image.as_deref(), server.rescue.as_deref()];
    images.into_iter().flatten().map(|image| image.checksum.clone())
}

/// Checks the cache of every host that answers. A shared cache is checked once, and left alone if another control
/// plane's host shares it.
async fn sweep(context: &ReconcileContext) -> usize {
    // Views that have caught up show the processes from before the start-up.
    if !context.views.wait_for(context.log.head(), context.host_options.resync).await {
        return 1;
    }
    let needs = NeededImages::of(&context.views);
    let mut seen = BTreeSet::new();
    let mut caches = Vec::new();
    let storages = context.fleet.storages();
    for member in context.fleet.members() {
        let up = context.views.hosts.read(|hosts| hosts.get(member.host).is_some_and(KnownHost::answers));
        let Some(sharers) = storages.get(&member.host).filter(|_| up && !seen.contains(&member.host)) else {
            continue;
        };
        let whole = member.driver.shared_storage().is_none_or(SharedStorage::shares_files);
        let sharers = if whole { BTreeSet::clone(sharers) } else { BTreeSet::from([member.host]) };
        // A host of another control plane may be about to use the image.
        let is_ours = |host: &KnownHost| !context.fleet.is_refused(&host.uri);
        if !context.views.hosts.read(|hosts| sharers.iter().all(|host| hosts.get(*host).is_some_and(is_ours))) {
            tracing::debug!(host = %member.hostname, "another control plane's host shares the image cache; not cleaning it");
            continue;
        }
        seen.extend(sharers.iter().copied());
        caches.push((member, sharers));
    }
    let caches = futures::stream::iter(caches);
    let (failures, needs) = (AtomicUsize::new(0), &needs);
    caches
        .for_each_concurrent(AT_ONCE, |(member, sharers)| {
            let failures = &failures;
            async move {
                if !tidy(context, member, sharers, needs).await {
                    failures.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
        .await;
    failures.into_inner()
}

/// Cleans one cache. Returns whether everything was done.
async fn tidy(
    context: &ReconcileContext,
    member: Arc<ConnectedHost>,
    sharers: BTreeSet<HostId>,
    needs: &NeededImages,
) -> bool {
    let host = &member.hostname;
    let Some(cache) = member.driver.image_cache() else { return true };
    let found = match cache.cached_images().await {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%host, %error, "listing the cached images failed");
            return false;
        }
    };
    let bytes = found.iter().map(|image| image.size).sum();
    let mut is_tidy = true;
    for image in found.iter().filter(|_| context.image_cache.remove_unused) {
        if let Err(error) = attend(context, &member, &sharers, needs, image).await {
            is_tidy = false;
            tracing::warn!(%host, image = image.checksum, %error, "checking a cached image failed, retrying");
        }
    }
    // As in Nova, the bytes of an image that was just removed are reserved until the next run.
    if context.image_cache.reserve_disk
        && member.note_cached(bytes)
        && let Err(error) = capacity::report(&context.gateway, &context.host_options, &member).await
    {
        is_tidy = false;
        tracing::warn!(%host, error, "reserving space for cached images failed, retrying");
    }
    is_tidy
}

async fn attend(
    context: &ReconcileContext,
    member: &ConnectedHost,
    sharers: &BTreeSet<HostId>,
    needs: &NeededImages,
    image: &CachedImage,
) -> chronova_hypervisor::driver::DriverResult<()> {
    let (now, sum) = (context.clock.now(), image.checksum.as_str());
    match judge(image, needs.on(sharers, sum), now, context.image_cache.minimum_age) {
        CachedImageFate::Stays => Ok(()),
        CachedImageFate::IsUsed => member.driver.image_cache().needed()?.note_idle(sum, None).await,
        CachedImageFate::IsIdle => member.driver.image_cache().needed()?.note_idle(sum, Some(now)).await,
        CachedImageFate::Goes { .. } if needs.under_way.contains(sum) => Ok(()),
        CachedImageFate::Goes { idle_by } => {
            let Some(_closed) = context.image_holds.close(sharers, sum) else { return Ok(()) };
            if member.driver.image_cache().needed()?.remove_image(sum, idle_by).await? {
                let (host, bytes) = (&member.hostname, image.size);
                tracing::info!(%host, image = sum, bytes, "removed an unused image from the cache");
            }
            Ok(())
        }
    }
}

/// Unused images in caches. A plan must ask the hosts, so the action plans host by host.
#[derive(Debug)]
pub struct UnusedImages;

impl Reconciler for UnusedImages {
    type Finding = ();

    const NAME: &'static str = "image-cache";
    const REPAIRS: &'static str = "cached images on hosts that nobody has used for long";
    const ON_A_COPY: CopyConduct<Self::Finding> =
        CopyConduct::IsHarmless("a host tells which images its disks use, whoever made the disks");
    const FROM_LOG_ALONE: bool = false;

    fn period(context: &ReconcileContext) -> Option<Duration> {
        let options = &context.image_cache;
        options.interval.filter(|_| options.remove_unused || options.reserve_disk)
    }

    fn plan(_: Situation<'_>) -> BTreeSet<Self::Finding> {
        BTreeSet::from([()])
    }

    fn describe((): &Self::Finding) -> String {
        "the caches of all hosts".to_owned()
    }

    async fn act(context: &ReconcileContext, _: BTreeSet<Self::Finding>) -> usize {
        sweep(context).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);
    const NOW: Timestamp = Timestamp(200_000_000_000);

    fn image(is_used: bool, idle_since: Option<i64>) -> CachedImage {
        CachedImage { checksum: "a".to_owned(), size: 1, is_used, idle_since: idle_since.map(Timestamp) }
    }

    #[test]
    fn an_image_is_removed_after_it_was_unused_long_enough() {
        let idle_by = Timestamp(NOW.0 - 86_400_000_000);
        let cases = [
            (image(true, None), false, CachedImageFate::Stays),
            (image(false, None), true, CachedImageFate::Stays),
            (image(true, Some(1)), false, CachedImageFate::IsUsed),
            (image(false, Some(1)), true, CachedImageFate::IsUsed),
            (image(false, None), false, CachedImageFate::IsIdle),
            (image(false, Some(NOW.0 + 1)), false, CachedImageFate::IsIdle),
            (image(false, Some(NOW.0)), false, CachedImageFate::Stays),
            (image(false, Some(idle_by.0 + 1)), false, CachedImageFate::Stays),
            (image(false, Some(idle_by.0)), false, CachedImageFate::Goes { idle_by }),
            (image(false, Some(1)), false, CachedImageFate::Goes { idle_by }),
        ];
        for (image, wanted, fate) in cases {
            assert_eq!(judge(&image, wanted, NOW, DAY), fate, "{image:?}, wanted by a server: {wanted}");
        }
        assert_eq!(
            judge(&image(false, None), false, NOW, Duration::ZERO),
            CachedImageFate::IsIdle,
            "an image is removed only after it has a note"
        );
        assert_eq!(
            judge(&image(false, Some(NOW.0)), false, NOW, Duration::ZERO),
            CachedImageFate::Goes { idle_by: NOW }
        );
    }
}
