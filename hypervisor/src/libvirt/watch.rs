//! Turns libvirt's lifecycle events into host signals.

use chronova_events::ids::InstanceId;
use futures::stream;
use tokio::sync::broadcast::error::RecvError;
use virt::connect::Connect;

use super::connection::{ConnectionState, Link};
use super::domain;
use crate::driver::{HostSignal, SignalStream};
use crate::guest::PowerState;

/// The signal for an event. `None` if the event neither changes a power state nor undefines a guest, or if its guest is
/// not ours. Also `None` if the driver is destroying the guest, or if libvirt cannot look up a guest that the driver
/// did not know.
pub(super) fn signal(link: &Link, connect: &Connect, instance: InstanceId, event: u32) -> Option<HostSignal> {
    if event == virt_sys::VIR_DOMAIN_EVENT_UNDEFINED {
        return undefined(link, connect, instance);
    }
    let power = power_after(event)?;
    let (ours, leaving) = {
        let guests_known = link.guests_known();
        (guests_known.ours.contains(&instance), guests_known.leaving.contains(&instance))
    };
    if leaving {
        return None;
    }
    if !ours {
        domain::lookup(connect, instance).ok().flatten()?;
        link.guests_known().ours.insert(instance);
    }
    Some(HostSignal::Guest { instance, power })
}

fn undefined(link: &Link, connect: &Connect, instance: InstanceId) -> Option<HostSignal> {
    let mut guests_known = link.guests_known();
    if guests_known.leaving.remove(&instance) || !guests_known.ours.contains(&instance) {
        return None;
    }
    drop(guests_known);
    // The guest may have been defined again after this event.
    if let Ok(Some(_)) = domain::lookup(connect, instance) {
        return None;
    }
    link.guests_known().forget(instance);
    Some(HostSignal::GuestGone { instance })
}

/// The power state after a lifecycle event of libvirt; `None` if the event does not change it. If QEMU crashes,
/// libvirt's event is `STOPPED` and libvirt's state is `shut off (crashed)`. Nova's power state is then SHUTDOWN. It is
/// CRASHED only for a guest that libvirt keeps in its state `crashed`. libvirt's event `SHUTDOWN` is ignored, because
/// `STOPPED` follows. `DEFINED` changes no power state.
fn power_after(event: u32) -> Option<PowerState> {
    match event {
        virt_sys::VIR_DOMAIN_EVENT_STARTED | virt_sys::VIR_DOMAIN_EVENT_RESUMED => Some(PowerState::Running),
        virt_sys::VIR_DOMAIN_EVENT_SUSPENDED => Some(PowerState::Paused),
        virt_sys::VIR_DOMAIN_EVENT_STOPPED => Some(PowerState::Shutdown),
        virt_sys::VIR_DOMAIN_EVENT_PMSUSPENDED => Some(PowerState::Suspended),
        virt_sys::VIR_DOMAIN_EVENT_CRASHED => Some(PowerState::Crashed),
        _ => None,
    }
}

/// The stream of [`crate::driver::Driver::watch`]. A listener that missed signals gets `Connected` and must then read
/// the host's state again.
pub(super) fn stream(link: &Link) -> SignalStream {
    let receiver = link.subscribe();
    let first = match link.state() {
        ConnectionState::Up(_) => Some(HostSignal::Connected),
        ConnectionState::Down(reason) => Some(HostSignal::Disconnected { reason }),
        ConnectionState::Connecting => None,
    };
    Box::pin(stream::unfold((first, receiver), |(first, mut receiver)| async move {
        if let Some(signal) = first {
            return Some((signal, (None, receiver)));
        }
        match receiver.recv().await {
            Ok(signal) => Some((signal, (None, receiver))),
            Err(RecvError::Lagged(_)) => Some((HostSignal::Connected, (None, receiver))),
            Err(RecvError::Closed) => None,
        }
    }))
}
