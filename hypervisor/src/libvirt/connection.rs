//! The connection to one host. A separate thread opens the connection, watches it, and reopens it with backoff.
//!
//! States: connecting -> up <-> down. A session is the time from one opening of the connection to its end. While the
//! host is down, calls fail at once with `Unreachable`. The keepalive closes a connection to a libvirtd that no longer
//! answers. This ends the connection's hanging calls. A query that hangs for another reason ends with its session
//! ([`Link::lost`]).
//!
//! Only the thread uses its connection, which receives the events. Calls use connections of their own
//! ([`HeldConnection`]), each in one thread at a time. The reason is a bug in libvirt's client before 10.4
//! (CVE-2024-4418; Debian 12 has 9.0). If another thread's call wakes the waiting thread, the waiting thread forgets to
//! remove a source from the connection's event loop. The next thread that waits then writes to a stack that no longer
//! exists.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chronova_events::ids::InstanceId;
use tokio::sync::{broadcast, watch};
use virt::connect::Connect;

use super::events::{CallbackRegistrations, EventSink, Raw, start_loop};
use super::{domain, watch as signals};
use crate::driver::{DriverError, DriverResult, HostSignal};
use crate::options::LibvirtOptions;

/// The pause before the first attempt to reconnect. It doubles up to `reconnect_max`.
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
/// How often the connection thread checks that the connection still lives.
const TICK: Duration = Duration::from_secs(1);
/// The number of signals that may wait for a slow listener. If more would wait, it misses some and must resynchronise.
const SIGNALS: usize = 4096;

const LOST: &str = "the connection was lost";

#[derive(Clone)]
pub(super) enum ConnectionState {
    Connecting,
    Up(Arc<Connect>),
    Down(String),
}

impl ConnectionState {
    fn is(&self, session: &Arc<Connect>) -> bool {
        matches!(self, Self::Up(now) if Arc::ptr_eq(now, session))
    }
}

/// The guests that the driver knows. A guest in neither set is looked up at its first event.
#[derive(Debug, Default)]
pub(super) struct GuestRegister {
    /// Guests that are known to be ours.
    pub(super) ours: BTreeSet<InstanceId>,
    /// Guests that we are destroying. No signal reports their end.
    pub(super) leaving: BTreeSet<InstanceId>,
}

impl GuestRegister {
    pub(super) fn leave(&mut self, instance: InstanceId) {
        self.ours.remove(&instance);
        self.leaving.insert(instance);
    }

    pub(super) fn forget(&mut self, instance: InstanceId) {
        self.ours.remove(&instance);
        self.leaving.remove(&instance);
    }
}

pub(super) struct Link {
    /// The URI with credentials.
    uri: String,
    options: LibvirtOptions,
    state: watch::Sender<ConnectionState>,
    signals: broadcast::Sender<HostSignal>,
    guests_known: Mutex<GuestRegister>,
    idle: Mutex<Vec<IdleConnection>>,
    end: ThreadStop,
}

/// An idle connection, and the session that it belongs to.
struct IdleConnection {
    session: Arc<Connect>,
    connect: Arc<Connect>,
}

/// A connection that its holder uses alone until it is dropped.
pub(super) struct HeldConnection {
    link: Arc<Link>,
    session: Arc<Connect>,
    connect: Arc<Connect>,
}

impl Deref for HeldConnection {
    type Target = Connect;

    fn deref(&self) -> &Connect {
        &self.connect
    }
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        if self.link.is_current(&self.session) && self.connect.is_alive().unwrap_or(false) {
            let idle = IdleConnection { session: Arc::clone(&self.session), connect: Arc::clone(&self.connect) };
            self.link.idle().push(idle);
        }
    }
}

/// A request to the connection's thread to end.
#[derive(Default)]
struct ThreadStop {
    requested: Mutex<bool>,
    wake: Condvar,
    /// The event queue of the open session, on which the thread waits.
    session: Mutex<Option<EventSink>>,
}

impl ThreadStop {
    fn request(&self) {
        *self.requested.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
        if let Some(sink) = &*self.session.lock().unwrap_or_else(PoisonError::into_inner) {
            sink.end();
        }
    }

    fn is_requested(&self) -> bool {
        *self.requested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `pause`, or less if the end is requested. Returns whether the end is requested.
    fn rest(&self, pause: Duration) -> bool {
        let requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = self.wake.wait_timeout_while(requested, pause, |requested| !*requested);
        *rested.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Owns the connection's thread. Dropping this value asks the thread to end. If the thread cannot hang for minutes, the
/// drop also waits for its end. Without the wait, the thread could still be inside libvirt when `main` returns, and
/// would crash.
pub(super) struct ConnectionThread {
    link: Arc<Link>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ConnectionThread {
    fn drop(&mut self) {
        self.link.end.request();
        // A local libvirtd answers or refuses at once. Opening a connection to a remote libvirtd may hang for minutes.
        let may_hang = is_remote(&self.link.uri) && !matches!(self.link.state(), ConnectionState::Up(_));
        if let (Some(thread), false) = (self.thread.take(), may_hang) {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

/// Whether the URI names a transport (`qemu+tls`) or a remote machine.
fn is_remote(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, rest)| scheme.contains('+') || !rest.starts_with('/'))
}

impl Link {
    /// Creates the link and starts to connect.
    pub(super) fn open(uri: &str, options: &LibvirtOptions) -> (Arc<Self>, ConnectionThread) {
        let link = Arc::new(Self {
            uri: uri.to_owned(),
            options: options.clone(),
            state: watch::Sender::new(ConnectionState::Connecting),
            signals: broadcast::Sender::new(SIGNALS),
            guests_known: Mutex::default(),
            idle: Mutex::default(),
            end: ThreadStop::default(),
        });
        let kept = Arc::clone(&link);
        let thread = thread::Builder::new().name("libvirt-link".to_owned()).spawn(move || keep(&kept));
        let thread = thread.inspect_err(|error| {
            link.state
                .send_replace(ConnectionState::Down(format!("cannot start a thread for the connection: {error}")));
        });
        (Arc::clone(&link), ConnectionThread { link, thread: thread.ok() })
    }

    /// The connection. Waits for the first attempt to connect, but not for later ones.
    pub(super) async fn connect(&self) -> DriverResult<Arc<Connect>> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, ConnectionState::Connecting));
        let settled = tokio::time::timeout(self.options.call_deadline, settled).await;
        match settled.map(|state| state.map(|state| state.clone())) {
            Ok(Ok(ConnectionState::Up(connect))) => Ok(connect),
            Ok(Ok(ConnectionState::Down(reason))) => Err(DriverError::Unreachable(reason)),
            Ok(Ok(ConnectionState::Connecting) | Err(_)) => Err(DriverError::Unreachable("shutting down".to_owned())),
            Err(_) => Err(DriverError::Timeout { call: "connect", seconds: self.options.call_deadline.as_secs() }),
        }
    }

    fn is_current(&self, session: &Arc<Connect>) -> bool {
        self.state.borrow().is(session)
    }

    /// Waits until the session has ended.
    ///
    /// Opening another connection to a disconnected host takes minutes, until the kernel gives up. A caller that only
    /// reads need not wait so long.
    pub(super) async fn lost(&self, session: &Arc<Connect>) -> DriverError {
        let mut state = self.state.subscribe();
        let now = state.wait_for(|state| !state.is(session)).await;
        DriverError::Unreachable(match now.as_deref() {
            Ok(ConnectionState::Down(reason)) => reason.clone(),
            _ => LOST.to_owned(),
        })
    }

    /// Each change is complete under the lock, so a poisoned lock is harmless.
    fn idle(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection for calls in the caller's session: an idle connection, or a new one. Blocks. Fails if the session
    /// has ended, because the intended call may be outdated.
    pub(super) fn line(self: &Arc<Self>, session: &Arc<Connect>) -> DriverResult<HeldConnection> {
        let lost = || DriverError::Unreachable(LOST.to_owned());
        if !self.is_current(session) {
            return Err(lost());
        }
        let idle = {
            let mut idle = self.idle();
            let at = idle.iter().position(|idle| Arc::ptr_eq(&idle.session, session));
            at.map(|at| idle.swap_remove(at).connect)
        };
        let connect = match idle.filter(|idle| idle.is_alive().unwrap_or(false)) {
            Some(idle) => idle,
            None => {
                let opened = dial(&self.uri, self.options.keepalive);
                let opened = opened.map_err(|error| DriverError::Unreachable(error.message().to_owned()))?;
                if !self.is_current(session) {
                    return Err(lost());
                }
                Arc::new(opened)
            }
        };
        Ok(HeldConnection { link: Arc::clone(self), session: Arc::clone(session), connect })
    }

    pub(super) fn state(&self) -> ConnectionState {
        self.state.borrow().clone()
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<HostSignal> {
        self.signals.subscribe()
    }

    pub(super) fn guests_known(&self) -> MutexGuard<'_, GuestRegister> {
        self.guests_known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, signal: HostSignal) {
        // A failure means that there is no listener. The next listener gets the present state first.
        let _ = self.signals.send(signal);
    }

    pub(super) fn up(&self, connect: &Arc<Connect>) {
        tracing::info!(uri = %self.uri, "host connected");
        self.state.send_replace(ConnectionState::Up(Arc::clone(connect)));
        self.tell(HostSignal::Connected);
    }

    pub(super) fn down(&self, reason: String) {
        let news = !matches!(self.state(), ConnectionState::Down(_));
        if news {
            tracing::warn!(uri = %self.uri, reason, "host disconnected");
        }
        self.state.send_replace(ConnectionState::Down(reason.clone()));
        // The idle connections are closed outside the lock.
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
        if news {
            self.tell(HostSignal::Disconnected { reason });
        }
    }
}

/// The connection thread. It ends with the driver.
fn keep(link: &Link) {
    let mut pause = BACKOFF_FIRST;
    while !link.end.is_requested() {
        match establish(link) {
            Ok(session) => {
                pause = BACKOFF_FIRST;
                let reason = session.serve(link);
                link.down(reason);
            }
            Err(error) => link.down(error.message().to_owned()),
        }
        if link.end.rest(pause) {
            return;
        }
        pause = (pause * 2).min(link.options.reconnect_max);
    }
}

struct LibvirtSession {
    connect: Arc<Connect>,
    news: Receiver<Raw>,
    sink: EventSink,
    _subscription: CallbackRegistrations,
}

/// Opens a connection with a keepalive, so that libvirt's client notices when libvirtd stops answering.
fn dial(uri: &str, (interval, count): (u16, u16)) -> Result<Connect, virt::error::Error> {
    let connect = Connect::open(Some(uri))?;
    // Local drivers do not support keepalive.
    let _ = connect.set_keep_alive(i32::from(interval), u32::from(count));
    Ok(connect)
}

fn establish(link: &Link) -> Result<LibvirtSession, virt::error::Error> {
    start_loop()?;
    let connect = Arc::new(dial(&link.uri, link.options.keepalive)?);
    let (sink, news) = EventSink::new();
    let subscription = CallbackRegistrations::new(&connect, &sink)?;
    // The events are registered before the guests are listed, so that no guest is missed in between.
    *link.guests_known() = GuestRegister { ours: domain::ours(&connect)?, leaving: BTreeSet::new() };
    *link.end.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink.clone());
    link.up(&connect);
    Ok(LibvirtSession { connect, news, sink, _subscription: subscription })
}

impl LibvirtSession {
    /// Sends signals until the connection ends. Returns the reason.
    fn serve(self, link: &Link) -> String {
        loop {
            let news = self.news.recv_timeout(TICK);
            if link.end.is_requested() {
                return "shutting down".to_owned();
            }
            if self.sink.has_overflown() {
                // Events were lost, so every listener must read the host's state again.
                link.tell(HostSignal::Connected);
            }
            match news {
                // The message only wakes the thread. The loop has just checked whether the thread must end.
                Ok(Raw::End) => {}
                Ok(Raw::Closed { reason }) => return close_reason(reason).to_owned(),
                Ok(Raw::Lifecycle { instance, event }) => {
                    if let Some(signal) = signals::signal(link, &self.connect, instance, event) {
                        link.tell(signal);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !self.connect.is_alive().unwrap_or(false) {
                        return "the connection is no longer alive".to_owned();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return "the event registration ended".to_owned(),
            }
        }
    }
}

/// The URI without its credentials: `qemu+ssh://user:secret@host/system` becomes `qemu+ssh://host/system`.
pub(crate) fn without_credentials(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else { return uri.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => uri.to_owned(),
    }
}

/// Describes a `virConnectCloseReason`.
fn close_reason(reason: i32) -> &'static str {
    match u32::try_from(reason) {
        Ok(virt_sys::VIR_CONNECT_CLOSE_REASON_EOF) => "libvirtd closed the connection",
        Ok(virt_sys::VIR_CONNECT_CLOSE_REASON_KEEPALIVE) => "libvirtd did not answer the keepalive",
        Ok(virt_sys::VIR_CONNECT_CLOSE_REASON_CLIENT) => "Chronova closed the connection",
        _ => "the connection broke",
    }
}
