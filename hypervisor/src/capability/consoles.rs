//! Reaches a guest's consoles: the address of its screen, and its serial line.
//!
//! A screen is served on a port of the guest's host, in the protocol that the guest was made with. The serial line needs no
//! port: the hypervisor hands it over on the connection that it is driven by.

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
    /// As libvirt says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vnc => "vnc",
            Self::Spice => "spice",
        }
    }
}

/// Where a screen is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleAddress {
    pub host: String,
    pub port: u16,
    /// For those who want TLS, where there is one.
    pub tls_port: Option<u16>,
}

/// A guest's serial line, taken. A holder before this one has lost it. Dropping it gives the line back.
pub struct SerialLine {
    /// The keys that the user types.
    pub input: mpsc::Sender<Bytes>,
    /// The guest's output from now on. It ends with the guest, or when somebody else takes the line.
    pub output: ByteStream,
}

impl std::fmt::Debug for SerialLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SerialLine").finish_non_exhaustive()
    }
}

/// The part of a driver that reaches consoles.
#[async_trait]
pub trait Consoles: Send + Sync {
    /// Where the screen of a running guest is served; `Failed` for one that has none in this protocol or does not run.
    async fn screen(&self, instance: InstanceId, screen: Screen) -> DriverResult<ConsoleAddress>;
    /// Takes the serial line of a running guest; `Failed` for one that does not run.
    async fn serial_line(&self, instance: InstanceId) -> DriverResult<SerialLine>;
    /// The last `max_bytes` of the serial console's log.
    async fn console_log(&self, instance: InstanceId, max_bytes: usize) -> DriverResult<Bytes>;
    /// Where this host's hypervisor is reached by others, as its own URI tells; `None` for one of this machine.
    fn remote_address(&self) -> Option<String>;
}
