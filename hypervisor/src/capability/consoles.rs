//! The consoles of a guest: the address of its screen, and its serial line.
//!
//! A screen listens on a port of the guest's host, in the protocol that the guest was created with. The serial line
//! needs no port: the hypervisor transfers it over the driver's connection.

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;
use tokio::sync::mpsc;

use crate::driver::{ByteStream, DriverResult};

/// A protocol of screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    Vnc,
    Spice,
}

impl Screen {
    /// libvirt's name of the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vnc => "vnc",
            Self::Spice => "spice",
        }
    }
}

/// The address of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleAddress {
    pub host: String,
    pub port: u16,
    /// The port for clients with TLS, if there is one.
    pub tls_port: Option<u16>,
}

/// The serial line of a guest. A new holder takes the line from the previous one. Dropping this value releases the
/// line.
pub struct SerialLine {
    /// The user's input to the guest.
    pub input: mpsc::Sender<Bytes>,
    /// The guest's output from now on. It ends when the guest is off, or when another holder takes the line.
    pub output: ByteStream,
}

impl std::fmt::Debug for SerialLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SerialLine").finish_non_exhaustive()
    }
}

/// The consoles of one host's guests.
#[async_trait]
pub trait Consoles: Send + Sync {
    /// The address of a running guest's screen. `Failed` if the guest is off or has no screen in this protocol.
    async fn screen(&self, instance: InstanceId, screen: Screen) -> DriverResult<ConsoleAddress>;
    /// Takes the serial line of a running guest. `Failed` if the guest is off.
    async fn serial_line(&self, instance: InstanceId) -> DriverResult<SerialLine>;
    /// The last `max_bytes` of the serial console's log.
    async fn console_log(&self, instance: InstanceId, max_bytes: usize) -> DriverResult<Bytes>;
    /// The address at which other machines reach this host's hypervisor. The address is part of the driver's URI.
    /// `None` for the local machine.
    fn remote_address(&self) -> Option<String>;
}
