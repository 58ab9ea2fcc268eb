//! Turns libvirt's lifecycle events into host signals.

use chronova_events::ids::InstanceId;
use futures::stream;
use tokio::sync::broadcast::error::RecvError;
use virt::connect::Connect;

use super::connection::{ConnectionState, Link};
use super::domain;
use crate::driver::{HostSignal, SignalStream};
use crate::guest::PowerState;

/// The signal for an event. `None` if the event concerns no guest of ours, or changes nothing.
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

/// The power state after an event. If QEMU crashes, libvirt reports `shut off (crashed)` and Nova SHUTDOWN. Only a
/// guest that is kept in the crashed state is CRASHED. `STOPPED` follows `SHUTDOWN`; `DEFINED` changes nothing.
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
