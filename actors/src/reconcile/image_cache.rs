//! Images that nobody on a host uses any more go from its cache: Nova's image cache manager.
//!
//! An image is used where a disk is based on it or a guest has it open, which the host tells, whoever's they are; and where a
//! server of this log is made of it, or is in rescue with it, whatever form its disks have. Since when nobody has used it is
//! noted beside the image, so that the time runs on while no control plane does. Hosts with one storage have one cache: what
//! is used on one of them is used.
//!
//! What keeps a disk from losing its image, in the order in which it is asked for:
//!
//! 1. no unfinished process has the image from a step that is done: one that an earlier life of the control plane began goes
//!    on with the next step;
//! 2. nobody in this life holds the image ([`ImageHolds`](crate::coordination::image_holds::ImageHolds)), and nobody can until it is gone;
//! 3. the driver looks once more at every disk, and at the note: whoever asked for the image has removed that.
//!
//! Nothing is recorded: what a crash leaves is what the next round finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chronova_events::envelope::Timestamp;
use chronova_events::host::KnownHost;
use chronova_events::ids::HostId;
use chronova_events::instance::Alive;
use chronova_events::process::{Output, Process};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::image_cache::CachedImage;
use chronova_projections::views::Views;
use futures::StreamExt as _;

use crate::hosts::capacity;
use crate::hosts::fleet::Member;
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// Hosts that are looked through at the same time.
const AT_ONCE: usize = 8;

/// What is to be done with an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// As it is.
    Stays,
    /// It is noted to be idle, and used.
    IsUsed,
    /// Nobody uses it, and nobody has noted so.
    IsIdle,
    /// It may go if it has been idle since then or longer.
    Goes { idle_by: Timestamp },
}

pub fn judge(image: &CachedImage, wanted: bool, now: Timestamp, minimum_age: Duration) -> Fate {
    let used = wanted || image.is_used;
    let age = i64::try_from(minimum_age.as_micros()).unwrap_or(i64::MAX);
    let idle_by = Timestamp(now.0.saturating_sub(age));
    match image.idle_since {
        Some(_) if used => Fate::IsUsed,
        None if used => Fate::Stays,
        None => Fate::IsIdle,
        // The clock was set back: it would be years until then.
        Some(since) if since > now => Fate::IsIdle,
        Some(since) if since > idle_by => Fate::Stays,
        Some(_) => Fate::Goes { idle_by },
    }
}

/// What servers and processes need, by checksum.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    by_host: BTreeMap<HostId, BTreeSet<String>>,
    /// By processes under way, on whichever host.
    under_way: BTreeSet<String>,
}

impl Needs {
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
                    Output::Image(image) => Some(image.checksum.clone()),
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

/// Looks through the cache of every host that answers, once where hosts share it.
async fn sweep(context: &ReconcileContext) -> usize {
    // What an earlier life began is in the log, and so in the views.
    if !context.views.wait_for(context.log.head(), context.host_options.resync).await {
        return 1;
    }
    let needs = Needs::of(&context.views);
    let mut seen = BTreeSet::new();
    let mut caches = Vec::new();
    for member in context.fleet.members() {
        let up = context.views.hosts.read(|hosts| hosts.get(member.host).is_some_and(KnownHost::answers));
        let Some(sharers) = context.fleet.sharers(member.host).filter(|_| up && !seen.contains(&member.host)) else {
            continue;
        };
        // Another control plane's hosts may be about to use what is there.
        if !context.views.hosts.read(|hosts| sharers.iter().all(|host| hosts.get(*host).is_some())) {
            tracing::debug!(host = %member.hostname, "a host that is not known shares the image cache; it is not swept");
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

/// Says whether everything was done.
async fn tidy(context: &ReconcileContext, member: Arc<Member>, sharers: BTreeSet<HostId>, needs: &Needs) -> bool {
    let host = &member.hostname;
    let Some(cache) = member.driver.image_cache() else { return true };
    let found = match cache.cached_images().await {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%host, %error, "the cached images cannot be listed");
            return false;
        }
    };
    let bytes = found.iter().map(|image| image.size).sum();
    let mut is_tidy = true;
    for image in found.iter().filter(|_| context.image_cache.remove_unused) {
        if let Err(error) = attend(context, &member, &sharers, needs, image).await {
            is_tidy = false;
            tracing::warn!(%host, image = image.checksum, %error, "a cached image cannot be looked after yet");
        }
    }
    // What has just gone is seen by the next round, as with Nova: the number follows, and is not exact.
    if context.image_cache.reserve_disk
        && member.note_cached(bytes)
        && let Err(error) = capacity::report(&context.gateway, &context.host_options, &member).await
    {
        is_tidy = false;
        tracing::warn!(%host, error, "room for cached images cannot be set aside yet");
    }
    is_tidy
}

async fn attend(
    context: &ReconcileContext,
    member: &Member,
    sharers: &BTreeSet<HostId>,
    needs: &Needs,
    image: &CachedImage,
) -> chronova_hypervisor::driver::DriverResult<()> {
    let (now, sum) = (context.clock.now(), image.checksum.as_str());
    match judge(image, needs.on(sharers, sum), now, context.image_cache.minimum_age) {
        Fate::Stays => Ok(()),
        Fate::IsUsed => member.driver.image_cache().needed()?.note_idle(sum, None).await,
        Fate::IsIdle => member.driver.image_cache().needed()?.note_idle(sum, Some(now)).await,
        Fate::Goes { .. } if needs.under_way.contains(sum) => Ok(()),
        Fate::Goes { idle_by } => {
            let Some(_closed) = context.image_holds.close(sharers, sum) else { return Ok(()) };
            if member.driver.image_cache().needed()?.remove_image(sum, idle_by).await? {
                let (host, bytes) = (&member.hostname, image.size);
                tracing::info!(%host, image = sum, bytes, "removed an image that nobody uses from the cache");
            }
            Ok(())
        }
    }
}

/// Images in caches that nobody uses. Its plan asks the hosts, so it is made host by host while it acts.
#[derive(Debug)]
pub struct UnusedImages;

impl Reconciler for UnusedImages {
    type Finding = ();

    const NAME: &'static str = "image-cache";
    const MENDS: &'static str = "cached images on hosts that nobody has used for long";
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
    fn an_image_goes_when_nobody_has_used_it_for_so_long() {
        let idle_by = Timestamp(NOW.0 - 86_400_000_000);
        let cases = [
            (image(true, None), false, Fate::Stays),
            (image(false, None), true, Fate::Stays),
            (image(true, Some(1)), false, Fate::IsUsed),
            (image(false, Some(1)), true, Fate::IsUsed),
            (image(false, None), false, Fate::IsIdle),
            (image(false, Some(NOW.0 + 1)), false, Fate::IsIdle),
            (image(false, Some(NOW.0)), false, Fate::Stays),
            (image(false, Some(idle_by.0 + 1)), false, Fate::Stays),
            (image(false, Some(idle_by.0)), false, Fate::Goes { idle_by }),
            (image(false, Some(1)), false, Fate::Goes { idle_by }),
        ];
        for (image, wanted, fate) in cases {
            assert_eq!(judge(&image, wanted, NOW, DAY), fate, "{image:?}, wanted by a server: {wanted}");
        }
        assert_eq!(judge(&image(false, None), false, NOW, Duration::ZERO), Fate::IsIdle, "at the next round");
        assert_eq!(judge(&image(false, Some(NOW.0)), false, NOW, Duration::ZERO), Fate::Goes { idle_by: NOW });
    }
}
