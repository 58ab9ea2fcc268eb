//! libvirt's errors as the driver's.

use virt::error::{Error, ErrorDomain, ErrorNumber};

use crate::driver::{DriverError, DriverResult};

/// The error's number, where this version of the bindings knows it.
pub(super) fn number(error: &Error) -> Option<ErrorNumber> {
    match error.code() {
        virt::enumutil::Enum::Known(number) => Some(number),
        virt::enumutil::Enum::Unknown(_) => None,
    }
}

pub(super) fn is(error: &Error, wanted: ErrorNumber) -> bool {
    number(error) == Some(wanted)
}

/// `Some` for what is there, `None` for libvirt's "no such ...".
pub(super) fn found<T>(call: &'static str, result: Result<T, Error>) -> DriverResult<Option<T>> {
    use ErrorNumber::{NoDomain, NoNetwork, NoNwfilter, NoStoragePool, NoStorageVolume};
    match result {
        Ok(thing) => Ok(Some(thing)),
        Err(error) => match number(&error) {
            Some(NoDomain | NoNetwork | NoNwfilter | NoStoragePool | NoStorageVolume) => Ok(None),
            _ => Err(translate(call, &error)),
        },
    }
}

/// Names the call in a libvirt error.
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
        // Errors of the client's side when the socket breaks during a call.
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
    // Under a call on an open connection this is libvirtd missing a daemon of its own (virtlogd), not us missing libvirtd.
    if message.starts_with("Failed to connect socket") {
        return false;
    }
    matches!(error.domain(), virt::enumutil::Enum::Known(ErrorDomain::Rpc | ErrorDomain::Remote))
        || message.contains("client socket is closed")
        || message.contains("connection closed")
}

/// The wording comes from QEMU, qemu-img and strerror; libvirt passes it on as text only.
fn no_room(message: &str) -> bool {
    ["No space left on device", "Cannot allocate memory", "cannot set up guest memory", "Disk quota exceeded"]
        .iter()
        .any(|text| message.contains(text))
}
