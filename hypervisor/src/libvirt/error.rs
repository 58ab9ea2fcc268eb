//! Translates libvirt's errors into errors of the driver.

use virt::error::{Error, ErrorDomain, ErrorNumber};

use crate::driver::{DriverError, DriverResult};

/// The error's number, if this version of the bindings knows it.
pub(super) fn number(error: &Error) -> Option<ErrorNumber> {
    match error.code() {
        virt::enumutil::Enum::Known(number) => Some(number),
        virt::enumutil::Enum::Unknown(_) => None,
    }
}

pub(super) fn is(error: &Error, wanted: ErrorNumber) -> bool {
    number(error) == Some(wanted)
}

/// Turns libvirt's "no such ..." into `None`.
pub(super) fn found<T>(call: &'static str, result: Result<T, Error>) -> DriverResult<Option<T>> {
    use ErrorNumber::{NoDomain, NoNetwork, NoNwfilter, NoSecret, NoStoragePool, NoStorageVolume};
    match result {
        Ok(thing) => Ok(Some(thing)),
        Err(error) => match number(&error) {
            Some(NoDomain | NoNetwork | NoNwfilter | NoSecret | NoStoragePool | NoStorageVolume) => Ok(None),
            _ => Err(translate(call, &error)),
        },
    }
}

/// Adds the name of the call to a libvirt error.
pub(super) trait Context<T> {
    fn during(self, call: &'static str) -> DriverResult<T>;
}

impl<T> Context<T> for Result<T, Error> {
    fn during(self, call: &'static str) -> DriverResult<T> {
        self.map_err(|error| translate(call, &error))
    }
}

pub(super) fn translate(call: &'static str, error: &Error) -> DriverError {
    let message = error.message().to_owned();
    if no_room(&message) {
        return DriverError::NoRoom(message);
    }
    match number(error) {
        Some(
            ErrorNumber::Rpc
            | ErrorNumber::NoConnect
            | ErrorNumber::InvalidConn
            | ErrorNumber::AuthFailed
            | ErrorNumber::GnutlsError
            | ErrorNumber::Ssh
            | ErrorNumber::Libssh,
        ) => DriverError::Unreachable(message),
        // The client has these errors when its socket breaks during a call.
        Some(ErrorNumber::InternalError | ErrorNumber::SystemError) if from_transport(error) => {
            DriverError::Unreachable(message)
        }
        Some(ErrorNumber::NoSupport | ErrorNumber::ConfigUnsupported | ErrorNumber::OperationUnsupported) => {
            DriverError::Unsupported(message)
        }
        Some(ErrorNumber::NoMemory) => DriverError::NoRoom(message),
        _ => DriverError::Failed { call, message },
    }
}

fn from_transport(error: &Error) -> bool {
    let message = error.message();
    // On an open connection, this means that libvirtd cannot reach a daemon of its own (virtlogd). The host is
    // reachable.
    if message.starts_with("Failed to connect socket") {
        return false;
    }
    matches!(error.domain(), virt::enumutil::Enum::Known(ErrorDomain::Rpc | ErrorDomain::Remote))
        || message.contains("client socket is closed")
        || message.contains("connection closed")
}

/// Whether the host has no space. The texts come from QEMU, qemu-img and strerror; libvirt passes them on only as text.
fn no_room(message: &str) -> bool {
    ["No space left on device", "Cannot allocate memory", "cannot set up guest memory", "Disk quota exceeded"]
        .iter()
        .any(|text| message.contains(text))
}
