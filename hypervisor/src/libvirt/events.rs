//! libvirt's event loop and event registrations: what the safe bindings lack.
//!
//! All unsafe code of events is in this file. The rules it rests on:
//! - `virEventRegisterDefaultImpl` must be called before the first connection is opened; [`start_loop`] does it once.
//! - A registration owns its opaque pointer from a successful registration until libvirt calls the free callback, once.
//! - Callbacks run on the one event loop thread; they only put a message into a channel.

#![allow(unsafe_code)]

use std::os::raw::{c_int, c_uchar, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use chronova_events::ids::InstanceId;
use uuid::Uuid;
use virt::connect::Connect;
use virt::error::Error;

/// Something that came from libvirt by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raw {
    /// `virDomainEventType`.
    Lifecycle { instance: InstanceId, event: u32 },
    /// The connection broke; `virConnectCloseReason`.
    Closed { reason: c_int },
    /// Not from libvirt: whoever waits for news shall look whether it is to end.
    End,
}

/// News that may wait for the connection's thread.
const BACKLOG: usize = 4096;

/// Where callbacks put their news. It never blocks the event loop: what does not fit is lost, and known to be.
#[derive(Clone)]
pub(super) struct EventSink {
    sender: SyncSender<Raw>,
    overflown: Arc<AtomicBool>,
}

impl EventSink {
    pub(super) fn new() -> (Self, Receiver<Raw>) {
        let (sender, receiver) = sync_channel(BACKLOG);
        (Self { sender, overflown: Arc::default() }, receiver)
    }

    /// Whether news were lost since the last question.
    pub(super) fn has_overflown(&self) -> bool {
        self.overflown.swap(false, Ordering::Relaxed)
    }

    /// Wakes who waits for news.
    pub(super) fn end(&self) {
        self.put(Raw::End);
    }

    fn put(&self, news: Raw) {
        if self.sender.try_send(news).is_err() {
            self.overflown.store(true, Ordering::Relaxed);
        }
    }
}

/// Starts the event loop that serves every connection of this process; must precede the first connection.
pub(super) fn start_loop() -> Result<(), Error> {
    static STARTED: OnceLock<Result<(), Error>> = OnceLock::new();
    STARTED
        .get_or_init(|| {
            virt::error::clear_error_callback();
            virt::event::event_register_default_impl()?;
            let run = || loop {
                if let Err(error) = virt::event::event_run_default_impl() {
                    tracing::error!(%error, "the libvirt event loop failed; trying again");
                    pause();
                }
            };
            if let Err(error) = thread::Builder::new().name("libvirt-events".to_owned()).spawn(run) {
                tracing::error!(%error, "no thread for the libvirt event loop: no host will tell its news");
            }
            Ok(())
        })
        .clone()
}

#[expect(clippy::disallowed_methods, reason = "the event loop's own thread, not one of the runtime")]
fn pause() {
    thread::sleep(Duration::from_millis(200));
}

/// A connection's registrations; dropped, they end.
pub(super) struct CallbackRegistrations {
    connect: Arc<Connect>,
    lifecycle: c_int,
    close_registered: bool,
}

impl CallbackRegistrations {
    pub(super) fn new(connect: &Arc<Connect>, sink: &EventSink) -> Result<Self, Error> {
        let opaque = opaque(sink);
        // SAFETY: `virConnectDomainEventRegisterAny` wants the generic callback type and calls it, for the lifecycle
        // event id, with the arguments of `virConnectDomainEventCallback`, which is what `on_lifecycle` is. Function
        // pointers have the same size whatever their signature.
        let callback = unsafe {
            std::mem::transmute::<
                LifecycleCallback,
                unsafe extern "C" fn(sys::virConnectPtr, sys::virDomainPtr, *mut c_void),
            >(on_lifecycle)
        };
        // SAFETY: the connection is alive (we hold a reference); a null domain means all domains; `opaque` was made by
        // `opaque()` and `free` is its inverse.
        let lifecycle = unsafe {
            sys::virConnectDomainEventRegisterAny(
                connect.as_ptr(),
                std::ptr::null_mut(),
                sys::VIR_DOMAIN_EVENT_ID_LIFECYCLE.cast_signed(),
                Some(callback),
                opaque,
                Some(free),
            )
        };
        if lifecycle < 0 {
            let error = Error::last_error();
            // SAFETY: the registration failed, so libvirt did not take `opaque` over and will not free it.
            unsafe { free(opaque) };
            return Err(error);
        }
        let close_registered = register_close(connect, sink);
        Ok(Self { connect: Arc::clone(connect), lifecycle, close_registered })
    }
}

type LifecycleCallback =
    unsafe extern "C" fn(sys::virConnectPtr, sys::virDomainPtr, c_int, c_int, *mut c_void) -> c_int;

/// Drivers without a wire (`test:///`) cannot break and refuse this: not an error.
fn register_close(connect: &Arc<Connect>, sink: &EventSink) -> bool {
    let opaque = opaque(sink);
    // SAFETY: as for the lifecycle registration; `on_close` has exactly the type `virConnectCloseFunc`.
    let result = unsafe { sys::virConnectRegisterCloseCallback(connect.as_ptr(), Some(on_close), opaque, Some(free)) };
    if result < 0 {
        // SAFETY: not taken over, see above.
        unsafe { free(opaque) };
    }
    result >= 0
}

impl Drop for CallbackRegistrations {
    fn drop(&mut self) {
        // SAFETY: the connection is alive and the callbacks are the ones registered on it. On a broken connection
        // libvirt may keep the registration until the connection is freed; the opaque pointer stays valid until then.
        unsafe {
            sys::virConnectDomainEventDeregisterAny(self.connect.as_ptr(), self.lifecycle);
            if self.close_registered {
                sys::virConnectUnregisterCloseCallback(self.connect.as_ptr(), Some(on_close));
            }
        }
    }
}

fn opaque(sink: &EventSink) -> *mut c_void {
    Box::into_raw(Box::new(sink.clone())).cast()
}

/// # Safety
/// `opaque` came from [`opaque`] and is not used afterwards.
unsafe extern "C" fn free(opaque: *mut c_void) {
    // SAFETY: by the contract above this is the only owner of the box.
    drop(unsafe { Box::from_raw(opaque.cast::<EventSink>()) });
}

/// # Safety
/// Called by libvirt with a live domain and with the pointer that was registered.
unsafe extern "C" fn on_lifecycle(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    event: c_int,
    _detail: c_int,
    opaque: *mut c_void,
) -> c_int {
    let mut bytes = [0_u8; sys::VIR_UUID_BUFLEN as usize];
    // SAFETY: `domain` is valid during the callback, the buffer has the documented length, and `opaque` is the boxed
    // sender, which lives until `free`. Reading the UUID does not leave the process.
    let (known, sink) = unsafe {
        let known = sys::virDomainGetUUID(domain, bytes.as_mut_ptr().cast::<c_uchar>()) == 0;
        (known, &*opaque.cast::<EventSink>())
    };
    if let (true, Ok(event)) = (known, u32::try_from(event)) {
        sink.put(Raw::Lifecycle { instance: InstanceId(Uuid::from_bytes(bytes)), event });
    }
    0
}

/// # Safety
/// Called by libvirt with the pointer that was registered.
unsafe extern "C" fn on_close(_: sys::virConnectPtr, reason: c_int, opaque: *mut c_void) {
    // SAFETY: `opaque` is the boxed sender, which lives until `free`.
    let sink = unsafe { &*opaque.cast::<EventSink>() };
    sink.put(Raw::Closed { reason });
}

use virt_sys as sys;
