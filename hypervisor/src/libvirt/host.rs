//! One libvirt host: its connection, its threads, and the known facts about it. The driver's calls are in the other
//! files.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chronova_events::ids::InstanceId;
use virt::connect::Connect;

use super::call_threads::CallThreads;
use super::capabilities::{self, ProbedHost};
use super::connection::{ConnectionThread, Link, without_credentials};
use super::gates::Gates;
use super::images::ImageFetcher;
use super::migrations::RunningMigrations;
use super::storage;
use crate::driver::DriverResult;
use crate::options::{ForwardMode, LibvirtOptions};

/// The time limit for copying a whole disk.
pub(super) const COPY_LIMIT: Duration = Duration::from_hours(1);

/// The number of threads for queries, in addition to the configured ones.
pub(super) const QUESTIONERS: usize = 2;

/// One libvirt host.
pub struct LibvirtDriver {
    pub(super) uri: String,
    pub(super) options: Arc<LibvirtOptions>,
    pub(super) link: Arc<Link>,
    /// The threads for calls that change the host.
    pub(super) threads: CallThreads,
    /// The threads that read disks. Such a thread blocks until the receiver takes the bytes. If a disk is copied within
    /// this host, the receiver is one of `threads`. Reads on `threads` could occupy all of them and leave no receiver.
    pub(super) readings: CallThreads,
    /// The threads for queries, so that the host answers queries while it creates many guests.
    pub(super) questions: CallThreads,
    pub(super) images: ImageFetcher,
    /// Admits one change at a time per volume of the volume service, and per secret of a volume.
    pub(super) volumes: Arc<Gates<String>>,
    /// The known facts about the host, and the connection on which the driver read them.
    pub(super) known: Mutex<Option<(Arc<Connect>, Arc<ProbedHost>)>>,
    /// Whether the pool's files can be opened with direct I/O. The first refusal clears this flag.
    pub(super) direct_io: Arc<AtomicBool>,
    /// The forward mode that works. Its lock also serialises the network changes of a host.
    pub(super) forward: tokio::sync::Mutex<ForwardMode>,
    /// The live migrations that this process started.
    pub(super) migrations: RunningMigrations,
    /// Admits one change at a time per guest.
    pub(super) guests: Gates<InstanceId>,
    _keeper: ConnectionThread,
}

impl fmt::Debug for LibvirtDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LibvirtDriver").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl LibvirtDriver {
    /// Starts to connect to `uri` in the background. The function never fails: an absent host is `Unreachable` until it
    /// appears.
    pub fn new(uri: &str, options: &LibvirtOptions) -> Self {
        let (link, keeper) = Link::open(uri, options);
        Self {
            uri: without_credentials(uri),
            options: Arc::new(options.clone()),
            link,
            threads: CallThreads::new(uri, options.workers),
            readings: CallThreads::new(uri, options.workers),
            questions: CallThreads::new(uri, QUESTIONERS),
            images: ImageFetcher::new(options.workers),
            volumes: Arc::new(Gates::new()),
            known: Mutex::default(),
            direct_io: Arc::new(AtomicBool::new(true)),
            forward: tokio::sync::Mutex::new(options.forward),
            migrations: RunningMigrations::default(),
            guests: Gates::new(),
            _keeper: keeper,
        }
    }

    /// Runs a blocking call on this host's threads.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Connect, &LibvirtOptions) -> DriverResult<T> + Send + 'static,
    ) -> DriverResult<T> {
        self.call_within(call, self.options.call_deadline, work).await
    }

    /// Like `call`, but on the threads for queries. Fails as soon as the connection is lost.
    pub(super) async fn ask<T: Send + 'static>(
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

    pub(super) async fn call_within<T: Send + 'static>(
        &self,
        call: &'static str,
        deadline: Duration,
        work: impl FnOnce(&Connect, &LibvirtOptions) -> DriverResult<T> + Send + 'static,
    ) -> DriverResult<T> {
        let (link, session) = (Arc::clone(&self.link), self.link.connect().await?);
        let options = Arc::clone(&self.options);
        self.threads.serve(Arc::as_ptr(&session).addr());
        self.threads.run(call, deadline, move || work(&*link.line(&session)?, &options)).await
    }

    /// The time limit for creating and removing disks. Each call may take a while on a busy host. If disks are copied
    /// as a whole, the limit is that of a copy.
    pub(super) fn making(&self) -> Duration {
        if storage::copies_whole(&self.options) { COPY_LIMIT } else { self.options.call_deadline * 3 }
    }

    fn known_lock(&self) -> MutexGuard<'_, Option<(Arc<Connect>, Arc<ProbedHost>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The facts about the host. They are read once per connection.
    pub(super) async fn known(&self) -> DriverResult<Arc<ProbedHost>> {
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

    /// Like `call`, but admits only one change of the guest at a time.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        call: &'static str,
        instance: InstanceId,
        deadline: Duration,
        work: impl FnOnce(&Connect, &LibvirtOptions) -> DriverResult<T> + Send + 'static,
    ) -> DriverResult<T> {
        let permit = self.guests.enter(&instance, call, deadline).await?;
        self.call_within(call, deadline, move |connect, options| {
            let _until_done = permit;
            work(connect, options)
        })
        .await
    }
}
