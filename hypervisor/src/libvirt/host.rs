//! One libvirt host: its connection, its threads, and what was learnt of it. The calls on it are in the other files.

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

/// How long the beginning of a copy may take: a disk that nobody writes is copied whole in that one call.
pub(super) const COPY_LIMIT: Duration = Duration::from_hours(1);

/// Threads for questions, beside the configured ones.
pub(super) const QUESTIONERS: usize = 2;

/// One libvirt host.
pub struct LibvirtDriver {
    pub(super) uri: String,
    pub(super) options: Arc<LibvirtOptions>,
    pub(super) link: Arc<Link>,
    /// For what takes its time.
    pub(super) threads: CallThreads,
    /// For questions, so that they are answered while many guests are being made.
    pub(super) questions: CallThreads,
    pub(super) images: ImageFetcher,
    /// One change at a time per volume of the volume service.
    pub(super) volumes: Gates<String>,
    /// Facts about the host, with the connection that they were learnt on.
    pub(super) known: Mutex<Option<(Arc<Connect>, Arc<ProbedHost>)>>,
    /// Whether the pool's files can be opened past the page cache; learnt from the first refusal.
    pub(super) direct_io: Arc<AtomicBool>,
    /// The forward mode found to work; also keeps network changes of one host in order.
    pub(super) forward: tokio::sync::Mutex<ForwardMode>,
    /// Live migrations that this process started.
    pub(super) migrations: RunningMigrations,
    /// One change at a time per guest.
    pub(super) guests: Gates<InstanceId>,
    _keeper: ConnectionThread,
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
            threads: CallThreads::new(uri, options.workers),
            questions: CallThreads::new(uri, QUESTIONERS),
            images: ImageFetcher::new(),
            volumes: Gates::new(),
            known: Mutex::default(),
            direct_io: Arc::new(AtomicBool::new(true)),
            forward: tokio::sync::Mutex::new(options.forward),
            migrations: RunningMigrations::default(),
            guests: Gates::new(),
            _keeper: keeper,
        }
    }

    /// Runs blocking work on this host's threads.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Connect, &LibvirtOptions) -> DriverResult<T> + Send + 'static,
    ) -> DriverResult<T> {
        self.call_within(call, self.options.call_deadline, work).await
    }

    /// As `call`, for what only looks; ends with the connection, too.
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

    /// How long the making and unmaking of disks may take: each call a while on a busy host, and what is copied or cleared as
    /// a whole as long as that takes.
    pub(super) fn making(&self) -> Duration {
        if storage::copies_whole(&self.options) { COPY_LIMIT } else { self.options.call_deadline * 3 }
    }

    fn known_lock(&self) -> MutexGuard<'_, Option<(Arc<Connect>, Arc<ProbedHost>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The properties of the host; asked once per connection.
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

    /// As `call`, alone with the guest.
    pub(super) async fn change(
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
