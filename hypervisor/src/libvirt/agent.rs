//! The QEMU guest agent, through libvirt.
//!
//! A guest's definition says whether it has a channel to an agent. libvirt has an error of its own for a guest without
//! a channel. This file distinguishes three errors: the guest has no channel, its agent does not answer, and its agent
//! refuses.

#![allow(unsafe_code)]

use std::ptr;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;
use virt::domain::Domain;
use virt::error::{Error, ErrorNumber};
use virt_sys as sys;

use super::domain;
use super::error::{number, translate};
use super::host::LibvirtDriver;
use crate::capability::GuestAgent;
use crate::driver::{DriverError, DriverResult};

const FREEZE: &str = "quiesce";
const THAW: &str = "thaw";
const SET_PASSWORD: &str = "set password";

#[async_trait]
impl GuestAgent for LibvirtDriver {
    async fn set_password(&self, instance: InstanceId, user: &str, password: &str) -> DriverResult<()> {
        let (user, password) = (user.to_owned(), password.to_owned());
        self.call(SET_PASSWORD, move |connect, _| {
            let guest = domain::require(connect, instance)?;
            guest.set_user_password(&user, &password, 0).map_err(|error| match number(&error) {
                Some(ErrorNumber::AgentUnresponsive) => {
                    DriverError::Unsupported("no agent answers inside the guest".to_owned())
                }
                _ => refusal(SET_PASSWORD, &error),
            })
        })
        .await
    }

    async fn freeze(&self, instance: InstanceId) -> DriverResult<()> {
        self.call(FREEZE, move |connect, _| freeze(&domain::require(connect, instance)?)).await
    }

    async fn thaw(&self, instance: InstanceId) -> DriverResult<()> {
        self.call(THAW, move |connect, _| match domain::lookup(connect, instance)? {
            Some(guest) if guest.is_active().map_err(|error| translate(THAW, &error))? => thaw(&guest),
            _ => Ok(()),
        })
        .await
    }
}

fn refusal(call: &'static str, error: &Error) -> DriverError {
    match number(error) {
        // libvirt's message: "QEMU guest agent is not configured".
        Some(ErrorNumber::ArgumentUnsupported) => DriverError::NoAgent,
        _ => translate(call, error),
    }
}

/// Freezes the guest's file systems. An agent refuses to freeze file systems that are already frozen. After a refusal,
/// this function thaws them and freezes them again.
pub(super) fn freeze(guest: &Domain) -> DriverResult<()> {
    match freeze_once(guest) {
        Err(error) if number(&error) == Some(ErrorNumber::AgentUnresponsive) => {
            let message = "libvirt cannot connect to the qemu-guest-agent inside the instance".to_owned();
            Err(DriverError::Failed { call: FREEZE, message })
        }
        Err(error) if number(&error) == Some(ErrorNumber::ArgumentUnsupported) => Err(DriverError::NoAgent),
        Err(_) => {
            thaw(guest)?;
            freeze_once(guest).map_err(|error| refusal(FREEZE, &error))
        }
        Ok(()) => Ok(()),
    }
}

fn freeze_once(guest: &Domain) -> Result<(), Error> {
    // SAFETY: the domain is alive. A null list of mount points with length 0 means all of them.
    match unsafe { sys::virDomainFSFreeze(guest.as_ptr(), ptr::null_mut(), 0, 0) } {
        count if count >= 0 => Ok(()),
        _ => Err(Error::last_error()),
    }
}

pub(super) fn thaw(guest: &Domain) -> DriverResult<()> {
    // SAFETY: as in `freeze_once`.
    match unsafe { sys::virDomainFSThaw(guest.as_ptr(), ptr::null_mut(), 0, 0) } {
        count if count >= 0 => Ok(()),
        _ => Err(refusal(THAW, &Error::last_error())),
    }
}
