//! libvirt's event loop and event registrations, which the safe bindings lack.
//!
//! This file has all unsafe code of events. It relies on these rules:
//! - `virEventRegisterDefaultImpl` must be called before the first connection is opened; [`start_loop`] does it once.
//! - A successful registration owns its opaque pointer until libvirt calls the free callback. libvirt calls it once.
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

/// An event from libvirt, or a request to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raw {
    /// A lifecycle event; `event` is a `virDomainEventType`.
    Lifecycle { instance: InstanceId, event: u32 },
    /// The connection broke; `reason` is a `virConnectCloseReason`.
    Closed { reason: c_int },
    /// The driver itself sends this, not libvirt. The waiting thread must check whether it has to end.
    End,
}

/// The number of events that may wait for the connection's thread.
const BACKLOG: usize = 4096;

/// The queue into which callbacks put events. It never blocks the event loop. Events that do not fit are lost, and a
/// flag records the loss.
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

    /// Whether events were lost since the last call.
    pub(super) fn has_overflown(&self) -> bool {
        self.overflown.swap(false, Ordering::Relaxed)
    }

    /// Wakes the thread that waits for events.
    pub(super) fn end(&self) {
        self.put(Raw::End);
    }

    fn put(&self, news: Raw) {
        if self.sender.try_send(news).is_err() {
            self.overflown.store(true, Ordering::Relaxed);
        }
    }
}

/// Starts the event loop for all connections of this process. Must be called before the first connection.
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
                tracing::error!(%error, "cannot start the thread of the libvirt event loop: no host can report events");
            }
            Ok(())
        })
        .clone()
}

#[expect(clippy::disallowed_methods, reason = "the event loop's own thread, not one of the runtime")]
fn pause() {
    thread::sleep(Duration::from_millis(200));
}

/// The registrations of a connection. They end when this value is dropped.
pub(super) struct CallbackRegistrations {
    connect: Arc<Connect>,
    lifecycle: c_int,
    close_registered: bool,
}

impl CallbackRegistrations {
    pub(super) fn new(connect: &Arc<Connect>, sink: &EventSink) -> Result<Self, Error> {
        let opaque = opaque(sink);
        // SAFETY: `virConnectDomainEventRegisterAny` takes the generic callback type. For the lifecycle event id,
        // libvirt calls the callback with the arguments of `virConnectDomainEventCallback`, which is the type of
        // `on_lifecycle`. Function pointers have the same size whatever their signature.
        let callback = unsafe {
            std::mem::transmute::<
                LifecycleCallback,
                unsafe extern "C" fn(sys::virConnectPtr, sys::virDomainPtr, *mut c_void),
            >(on_lifecycle)
        };
        // SAFETY: the connection is alive (we hold a reference). A null domain means all domains. `opaque()` made
        // `opaque`, and `free` is its inverse.
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

/// Registers for the end of the connection. Returns whether libvirt accepts the registration. Local drivers
/// (`test:///`) refuse it, because their connections cannot break.
fn register_close(connect: &Arc<Connect>, sink: &EventSink) -> bool {
    let opaque = opaque(sink);
    // SAFETY: as for the lifecycle registration; `on_close` has exactly the type `virConnectCloseFunc`.
    let result = unsafe { sys::virConnectRegisterCloseCallback(connect.as_ptr(), Some(on_close), opaque, Some(free)) };
    if result < 0 {
        // SAFETY: libvirt did not take `opaque` over, as above.
        unsafe { free(opaque) };
    }
    result >= 0
}

impl Drop for CallbackRegistrations {
    fn drop(&mut self) {
        // SAFETY: the connection is alive, and exactly these callbacks are registered on it. On a broken connection
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
/// `opaque` must come from [`opaque`], and nobody may use it afterwards.
unsafe extern "C" fn free(opaque: *mut c_void) {
    // SAFETY: by this contract, this is the only owner of the box.
    drop(unsafe { Box::from_raw(opaque.cast::<EventSink>()) });
}

/// # Safety
/// Only libvirt may call this, with a live domain and the registered pointer.
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
/// Only libvirt may call this, with the registered pointer.
unsafe extern "C" fn on_close(_: sys::virConnectPtr, reason: c_int, opaque: *mut c_void) {
    // SAFETY: `opaque` is the boxed sender, which lives until `free`.
    let sink = unsafe { &*opaque.cast::<EventSink>() };
    sink.put(Raw::Closed { reason });
}

use virt_sys as sys;
