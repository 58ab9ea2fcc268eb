//! Real hosts through their libvirtd: any URI, nothing of ours on the host.
//!
//! | file | what |
//! |---|---|
//! | `connection` | open, keepalive, reconnect with backoff; one thread per host |
//! | `lane`, `gates` | the bounded threads on which a host's calls block; what must not overlap |
//! | `events`, `node`, `counters`, `snapshot`, `volumes`, `blockcopy`, `sparse` | the only unsafe code: what the bindings lack |
//! | `watch` | lifecycle events -> host signals |
//! | `capabilities` | what the host is, has and uses |
//! | `pool`, `images`, `cached` | volumes, the image cache, what nobody uses of it |
//! | `storage`, `sparse` | where guests' disks are kept; streams with holes |
//! | `network`, `nwfilter` | virtual networks, packet filters |
//! | `domain` | the guest's life |
//! | `favours` | what a guest is asked for, and given time for |
//! | `volumes`, `snapshot` | the volume service's volumes; copies of a guest's disk |
//! | `moves` | disks read and written, domains defined over disks that exist |
//! | `leftovers` | what nobody may want any more |
//! | `live`, `journey`, `migration` | running guests to other hosts: the course of it, how they travel, libvirt's calls |
//! | `console` | screens and serial lines |
//! | `saved`, `nics` | a guest that stands still; interfaces of a guest that exists already |
//! | `devices` | where a guest finds its interfaces and disks |
//! | `disks`, `blockcopy` | volumes plugged in, pulled out, exchanged under a running guest |
//!
//! Invariants: no call touches the host's file system except as a volume of our pool; every call has a deadline; a
//! domain without our metadata element is never touched.

mod agent;
mod blockcopy;
mod cached;
mod capabilities;
mod cells;
mod connection;
mod console;
mod counters;
mod devices;
mod disks;
mod domain;
mod error;
mod events;
mod favours;
mod gates;
mod images;
mod journey;
mod lane;
mod leftovers;
mod live;
mod migration;
mod moves;
mod network;
mod nics;
mod node;
mod nwfilter;
mod pool;
mod saved;
mod snapshot;
mod sparse;
mod storage;
#[cfg(test)]
mod tests;
mod volumes;
mod watch;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::{ImageId, InstanceId, NetworkId};
use tokio::time::{Instant, sleep};
use virt::connect::Connect;

use self::capabilities::Known;
use self::connection::{Keeper, Link, without_credentials};
use self::error::Context as _;
use self::gates::Gates;
use self::images::Images;
use self::lane::Lane;
use crate::device::GuestDevice;
use crate::domain_xml::{self, HostFacts};
use crate::driver::{ByteStream, Driver, DriverError, DriverResult, ImageSource, SignalStream, StopMode};
use crate::guest::{
    Diagnostics, DiskCopy, FilterSpec, GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef, NetworkSpec, Nic,
    PowerState, Quiesce, Renew, VolumeDisk,
};
use crate::options::{ForwardMode, LibvirtOptions};

/// How often a guest that was asked to let go of a device is looked at.
const DETACH_POLL: Duration = Duration::from_millis(250);

/// How much longer than other calls the saving and reading of a guest's memory may take.
const SAVE_FACTOR: u32 = 5;

/// How often a guest that was asked to let go of a disk is looked at, and a disk that is being copied.
const DISK_POLL: Duration = Duration::from_millis(250);
/// How often a copy of a disk that the host makes is looked at.
const COPY_POLL: Duration = Duration::from_millis(250);
/// How long the beginning of a copy may take: a disk that nobody writes is copied whole in that one call.
const COPY_LIMIT: Duration = Duration::from_hours(1);
/// Chunks of a copy between the host and its reader.
const COPY_DEPTH: usize = 8;

/// Threads for questions, beside the configured ones.
const QUESTIONERS: usize = 2;

/// One libvirt host.
pub struct LibvirtDriver {
    uri: String,
    options: Arc<LibvirtOptions>,
    link: Arc<Link>,
    /// For what takes its time.
    lane: Lane,
    /// For questions, so that they are answered while many guests are being made.
    questions: Lane,
    images: Images,
    /// One change at a time per volume of the volume service.
    volumes: Gates<String>,
    /// What was learnt of the host, with the connection it was learnt on.
    known: Mutex<Option<(Arc<Connect>, Arc<Known>)>>,
    /// Whether the pool's files can be opened past the page cache; learnt from the first refusal.
    direct_io: Arc<AtomicBool>,
    /// The forward mode found to work; also keeps network changes of one host in order.
    forward: tokio::sync::Mutex<ForwardMode>,
    /// Guests on their way to other hosts.
    journeys: live::Journeys,
    /// One change at a time per guest.
    guests: Gates<InstanceId>,
    _keeper: Keeper,
}

impl fmt::Debug for LibvirtDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LibvirtDriver").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl LibvirtDriver {
    /// Starts to connect to `uri` in the background; never fails, an absent host is `Unreachable` until it appears.
    pub fn new(uri: &str, options: &LibvirtOptions) -> Self {
        let (link, keeper) = Link::open(uri, options);
        Self {
            uri: without_credentials(uri),
            options: Arc::new(options.clone()),
            link,
            lane: Lane::new(uri, options.workers),
            questions: Lane::new(uri, QUESTIONERS),
            images: Images::new(),
            volumes: Gates::new(),
            known: Mutex::default(),
            direct_io: Arc::new(AtomicBool::new(true)),
            forward: tokio::sync::Mutex::new(options.forward),
            journeys: live::Journeys::default(),
            guests: Gates::new(),
            _keeper: keeper,
        }
    }

    /// Runs blocking work on this host's threads.
    async fn call<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Connect, &LibvirtOptions) -> DriverResult<T> + Send + 'static,
    ) -> DriverResult<T> {
        self.call_within(call, self.options.call_deadline, work).await
    }

    /// As `call`, for what only looks; ends with the connection, too.
    async fn ask<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Connect, &LibvirtOptions) -> DriverResult<T> + Send + 'static,
    ) -> DriverResult<T> {
        let (link, session) = (Arc::clone(&self.link), self.link.connect().await?);
        let (options, asked_of) = (Arc::clone(&self.options), Arc::clone(&session));
        self.questions.serve(Arc::as_ptr(&session).addr());
        let answer =
            self.questions.run(call, self.options.call_deadline, move || work(&*link.line(&session)?, &options));
        tokio::select! {
            biased;
            answer = answer => answer,
            lost = self.link.lost(&asked_of) => Err(lost),
        }
    }

    async fn call_within<T: Send + 'static>(
        &self,
        call: &'static str,
        deadline: Duration,
        work: impl FnOnce(&Connect, &LibvirtOptions) -> DriverResult<T> + Send + 'static,
    ) -> DriverResult<T> {
        let (link, session) = (Arc::clone(&self.link), self.link.connect().await?);
        let options = Arc::clone(&self.options);
        self.lane.serve(Arc::as_ptr(&session).addr());
        self.lane.run(call, deadline, move || work(&*link.line(&session)?, &options)).await
    }

    /// How long the making and unmaking of disks may take: each call a while on a busy host, and what is copied or cleared as
    /// a whole as long as that takes.
    fn making(&self) -> Duration {
        if storage::copies_whole(&self.options) { COPY_LIMIT } else { self.options.call_deadline * 3 }
    }

    fn known_lock(&self) -> MutexGuard<'_, Option<(Arc<Connect>, Arc<Known>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the host is; asked once per connection.
    async fn known(&self) -> DriverResult<Arc<Known>> {
        let connect = self.link.connect().await?;
        if let Some((on, known)) = &*self.known_lock()
            && Arc::ptr_eq(on, &connect)
        {
            return Ok(Arc::clone(known));
        }
        let known = Arc::new(self.ask("capabilities", capabilities::learn).await?);
        *self.known_lock() = Some((connect, Arc::clone(&known)));
        Ok(known)
    }

    async fn power(&self, instance: InstanceId) -> DriverResult<PowerState> {
        self.guest(instance).await.map(|guest| guest.power)
    }

    /// As `call`, alone with the guest.
    async fn change(
        &self,
        call: &'static str,
        instance: InstanceId,
        deadline: Duration,
        work: impl FnOnce(&Connect, &LibvirtOptions) -> DriverResult<()> + Send + 'static,
    ) -> DriverResult<()> {
        let pass = self.guests.enter(&instance, call, deadline).await?;
        self.call_within(call, deadline, move |connect, options| {
            let _until_done = pass;
            work(connect, options)
        })
        .await
    }
}

#[async_trait]
impl Driver for LibvirtDriver {
    fn uri(&self) -> &str {
        &self.uri
    }

    async fn capabilities(&self) -> DriverResult<HostCapabilities> {
        let known = self.known().await?;
        let uri = self.uri.clone();
        self.ask("capabilities", move |connect, options| capabilities::capabilities(connect, options, &known, &uri))
            .await
    }

    async fn usage(&self) -> DriverResult<HostUsage> {
        let ours = self.link.roll().ours.clone();
        self.ask("usage", move |connect, options| capabilities::usage(connect, options, &ours)).await
    }

    async fn ensure_image(&self, image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<()> {
        self.images.ensure(&self.link, &self.lane, &self.options, image, source).await
    }

    async fn ensure_network(&self, network: &NetworkSpec) -> DriverResult<()> {
        let mut forward = self.forward.lock().await;
        let (spec, mode) = (network.clone(), *forward);
        *forward = self.call("network", move |connect, _| network::ensure(connect, &spec, mode)).await?;
        Ok(())
    }

    async fn remove_network(&self, network: NetworkId) -> DriverResult<()> {
        let _in_order = self.forward.lock().await;
        self.call("network removal", move |connect, _| network::remove(connect, network)).await
    }

    async fn ensure_filter(&self, filter: &FilterSpec) -> DriverResult<()> {
        let spec = filter.clone();
        self.call("network filter", move |connect, _| nwfilter::ensure(connect, &spec)).await
    }

    async fn remove_filter(&self, name: &str) -> DriverResult<()> {
        let name = name.to_owned();
        self.call("network filter removal", move |connect, _| nwfilter::remove(connect, &name)).await
    }

    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()> {
        let known = self.known().await?;
        let (spec, link) = (guest.clone(), Arc::clone(&self.link));
        let direct_io = Arc::clone(&self.direct_io);
        let deadline = self.making();
        self.change("spawn", guest.instance, deadline, move |connect, options| {
            // Until it is defined nothing is known of it, and late news of a former life are not about it.
            link.roll().forget(spec.instance);
            let facts = HostFacts { direct_io: direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            if domain::spawn(connect, options, &facts, &spec)? == domain::Lesson::NoDirectIo {
                direct_io.store(false, Ordering::Relaxed);
            }
            link.roll().ours.insert(spec.instance);
            Ok(())
        })
        .await
    }

    async fn reshape(&self, guest: &GuestSpec, renew: Renew) -> DriverResult<()> {
        let known = self.known().await?;
        let (spec, link) = (guest.clone(), Arc::clone(&self.link));
        let direct_io = Arc::clone(&self.direct_io);
        self.change("reshape", guest.instance, self.making(), move |connect, options| {
            let facts = HostFacts { direct_io: direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            if domain::reshape(connect, options, &facts, &spec, renew)? == domain::Lesson::NoDirectIo {
                direct_io.store(false, Ordering::Relaxed);
            }
            link.roll().ours.insert(spec.instance);
            Ok(())
        })
        .await
    }

    async fn destroy(&self, instance: InstanceId) -> DriverResult<()> {
        let link = Arc::clone(&self.link);
        self.change("destroy", instance, self.making(), move |connect, options| {
            if domain::lookup(connect, instance)?.is_some() {
                link.roll().leave(instance);
            }
            domain::destroy(connect, options, instance).inspect_err(|_| link.roll().forget(instance))
        })
        .await
    }

    async fn start(&self, instance: InstanceId) -> DriverResult<()> {
        self.change("start", instance, self.options.call_deadline, move |connect, _| {
            domain::start(&domain::require(connect, instance)?)
        })
        .await
    }

    async fn stop(&self, instance: InstanceId, mode: StopMode) -> DriverResult<()> {
        if let StopMode::Graceful { timeout_seconds } = mode
            && self.shut_down(instance, Duration::from_secs(timeout_seconds.into())).await?
        {
            return Ok(());
        }
        self.change("power off", instance, self.options.call_deadline, move |connect, _| {
            domain::pull(&domain::require(connect, instance)?)
        })
        .await
    }

    /// Nova's soft reboot: a shutdown that the guest agrees to, then a start.
    async fn reboot_soft(&self, instance: InstanceId, timeout_seconds: u32) -> DriverResult<()> {
        if !self.shut_down(instance, Duration::from_secs(timeout_seconds.into())).await? {
            let message = format!("the guest did not react within {timeout_seconds} s");
            return Err(DriverError::Failed { call: "soft reboot", message });
        }
        self.start(instance).await
    }

    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()> {
        self.change("hard reboot", instance, self.options.call_deadline, move |connect, _| {
            let domain = domain::require(connect, instance)?;
            domain::pull(&domain)?;
            saved::forget(&domain)?;
            domain::start(&domain)
        })
        .await
    }

    async fn pause(&self, instance: InstanceId) -> DriverResult<()> {
        self.change("pause", instance, self.options.call_deadline, move |connect, _| {
            saved::pause(&domain::require(connect, instance)?)
        })
        .await
    }

    async fn unpause(&self, instance: InstanceId) -> DriverResult<()> {
        self.change("unpause", instance, self.options.call_deadline, move |connect, _| {
            saved::unpause(&domain::require(connect, instance)?)
        })
        .await
    }

    async fn suspend(&self, instance: InstanceId) -> DriverResult<()> {
        // The guest's whole memory is written to the host's disk.
        let deadline = self.options.call_deadline * SAVE_FACTOR;
        self.change("suspend", instance, deadline, move |connect, _| {
            saved::suspend(&domain::require(connect, instance)?)
        })
        .await
    }

    async fn resume(&self, instance: InstanceId) -> DriverResult<()> {
        let deadline = self.options.call_deadline * SAVE_FACTOR;
        self.change("resume", instance, deadline, move |connect, _| saved::resume(&domain::require(connect, instance)?))
            .await
    }

    async fn attach_nic(&self, instance: InstanceId, nic: &Nic, hardware: &[(String, String)]) -> DriverResult<()> {
        const CALL: &str = "interface attachment";
        let known = self.known().await?;
        let unsupported = |error: domain_xml::HardwareError| DriverError::Unsupported(error.to_string());
        // What cannot be rendered is refused before anything is asked of the host.
        domain_xml::render_interface(nic, hardware, 1, &known.facts).map_err(unsupported)?;
        let (nic, hardware) = (nic.clone(), hardware.to_vec());
        self.change(CALL, instance, self.options.call_deadline, move |connect, _| {
            let domain = domain::require(connect, instance)?;
            let vcpus = domain.info().during(CALL)?.nr_virt_cpu;
            let xml = domain_xml::render_interface(&nic, &hardware, vcpus, &known.facts).map_err(unsupported)?;
            nics::attach(&domain, &nic.mac, &xml)
        })
        .await
    }

    /// As Nova does it: the guest is asked, given time, and asked again.
    async fn detach_nic(&self, instance: InstanceId, mac: &str) -> DriverResult<()> {
        for _ in 0..self.options.device_detach_attempts.max(1) {
            let wanted = mac.to_owned();
            self.change("interface detachment", instance, self.options.call_deadline, move |connect, _| {
                nics::ask_to_let_go(&domain::require(connect, instance)?, &wanted)
            })
            .await?;
            let end = Instant::now() + self.options.device_detach_timeout;
            loop {
                let wanted = mac.to_owned();
                let gone = self.call("interface detachment", move |connect, _| {
                    nics::forget_if_gone(&domain::require(connect, instance)?, &wanted)
                });
                if gone.await? {
                    return Ok(());
                }
                if Instant::now() >= end {
                    break;
                }
                sleep(DETACH_POLL).await;
            }
        }
        let message = "the guest did not let go of the device".to_owned();
        Err(DriverError::Failed { call: "interface detachment", message })
    }

    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        self.ask("guest", move |connect, _| domain::one(connect, instance)).await
    }

    async fn guests(&self) -> DriverResult<Vec<GuestStatus>> {
        let link = Arc::clone(&self.link);
        self.ask("guests", move |connect, _| {
            let known = link.roll().ours.clone();
            let guests = domain::list(connect, &known)?;
            link.roll().ours.extend(guests.iter().map(|guest| guest.instance));
            Ok(guests)
        })
        .await
    }

    async fn orphans(&self) -> DriverResult<Vec<InstanceId>> {
        let mut orphans = self.ask("orphans", domain::orphans).await?;
        orphans.retain(|instance| !self.guests.is_busy(instance));
        Ok(orphans)
    }

    async fn copy_root(&self, instance: InstanceId, copy: ImageId, quiesce: Quiesce) -> DriverResult<DiskCopy> {
        let pass = self.guests.enter(&instance, "disk copy", self.options.call_deadline).await?;
        let mut begun = self
            .call_within("disk copy", COPY_LIMIT, move |connect, options| {
                let _until_begun = pass;
                snapshot::begin(connect, options, instance, copy, quiesce)
            })
            .await?;
        // Others may change the guest meanwhile; one that is destroyed ends the copy.
        let end = Instant::now() + COPY_LIMIT;
        while Instant::now() < end {
            if let snapshot::Begun::Complete(done) = begun {
                return Ok(done);
            }
            sleep(COPY_POLL).await;
            begun = self
                .ask("disk copy", move |connect, options| snapshot::progress(connect, options, instance, copy))
                .await?;
        }
        Err(DriverError::Timeout { call: "disk copy", seconds: COPY_LIMIT.as_secs() })
    }

    async fn read_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<ByteStream> {
        let (link, session) = (Arc::clone(&self.link), self.link.connect().await?);
        let options = Arc::clone(&self.options);
        let (out, chunks) = tokio::sync::mpsc::channel(COPY_DEPTH);
        // Nobody waits for the result: what goes wrong is the last thing that the reader reads.
        let sent = self.lane.start("read copy", move || {
            let sent = link.line(&session).and_then(|line| snapshot::send(&line, &options, instance, copy, &out));
            if let Err(error) = sent {
                let _ = out.blocking_send(Err(std::io::Error::other(error)));
            }
            Ok(())
        })?;
        let state = (chunks, sent);
        Ok(Box::pin(futures::stream::unfold(state, |(mut chunks, sent)| async move {
            chunks.recv().await.map(|chunk| (chunk, (chunks, sent)))
        })))
    }

    async fn remove_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()> {
        self.change("copy removal", instance, self.options.call_deadline, move |connect, options| {
            snapshot::remove(connect, options, instance, copy)
        })
        .await
    }

    async fn interrupt(&self, instance: InstanceId) -> DriverResult<()> {
        self.call("interrupt", move |connect, _| counters::interrupt(&domain::require(connect, instance)?)).await
    }

    async fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics> {
        self.ask("diagnostics", move |connect, _| counters::diagnostics(&domain::require(connect, instance)?)).await
    }

    async fn attach_disk(&self, instance: InstanceId, disk: &VolumeDisk) -> DriverResult<()> {
        let known = self.known().await?;
        let (disk, direct_io) = (disk.clone(), Arc::clone(&self.direct_io));
        self.change("disk attachment", instance, self.options.call_deadline, move |connect, _| {
            let domain = domain::require(connect, instance)?;
            let facts = HostFacts { direct_io: direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            match disks::attach(&domain, &disk, &facts) {
                Err(DriverError::Failed { message, .. }) if facts.direct_io && message.contains("O_DIRECT") => {
                    direct_io.store(false, Ordering::Relaxed);
                    disks::forget(&domain, &disk.serial)?;
                    disks::attach(&domain, &disk, &HostFacts { direct_io: false, ..facts })
                }
                result => result,
            }
        })
        .await
    }

    async fn detach_disk(&self, instance: InstanceId, serial: &str) -> DriverResult<()> {
        let forgotten = serial.to_owned();
        self.change("disk detachment", instance, self.options.call_deadline, move |connect, _| {
            disks::forget(&domain::require(connect, instance)?, &forgotten)
        })
        .await?;
        self.wring(instance, serial).await
    }

    async fn swap_disk(&self, instance: InstanceId, old: &str, new: &VolumeDisk) -> DriverResult<()> {
        let known = self.known().await?;
        loop {
            let (old, new) = (old.to_owned(), new.clone());
            let facts = HostFacts { direct_io: self.direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            let step = self.call("disk exchange", move |connect, _| {
                disks::exchange(connect, &domain::require(connect, instance)?, &old, &new, &facts)
            });
            if step.await? == disks::Exchange::Done {
                return Ok(());
            }
            sleep(DISK_POLL).await;
        }
    }

    async fn disks(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        self.ask("disks", move |connect, _| disks::serials(&domain::require(connect, instance)?)).await
    }

    async fn nics(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        self.ask("interfaces", move |connect, _| nics::macs(&domain::require(connect, instance)?)).await
    }

    async fn devices(&self, instance: InstanceId) -> DriverResult<Vec<GuestDevice>> {
        self.ask("devices", move |connect, _| devices::all(&domain::require(connect, instance)?)).await
    }

    async fn console_log(&self, instance: InstanceId, max_bytes: usize) -> DriverResult<Bytes> {
        self.ask("console log", move |connect, options| {
            domain::console(connect, options, instance, max_bytes).map(Bytes::from)
        })
        .await
    }

    fn watch(&self) -> SignalStream {
        watch::stream(&self.link)
    }
}
