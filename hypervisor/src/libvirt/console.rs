//! The screens and serial lines of guests.
//!
//! Each serial line is a libvirt stream with its own connection and its own thread. The thread moves data in both
//! directions without blocking, and pauses briefly when neither has data. A new holder takes the line from the previous
//! one, so that a forgotten window does not block everybody else. The host writes the console log in any case.

use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf as _, Bytes};
use chronova_events::ids::InstanceId;
use futures::stream;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::{TryRecvError, TrySendError};
use virt::connect::Connect;
use virt::domain::Domain;
use virt::stream::Stream;
use virt_sys as sys;

use super::connection::HeldConnection;
use super::error::Context;
use super::host::LibvirtDriver;
use super::{domain, migration_plan, pool};
use crate::capability::consoles::{ConsoleAddress, Consoles, Screen, SerialLine};
use crate::driver::{Driver as _, DriverError, DriverResult};
use crate::options::LibvirtOptions;
use crate::volumes;

const SCREEN: &str = "console address";
const SERIAL: &str = "serial console";

/// The size of one read from a guest, and the number of reads that may wait for the holder of the line.
const CHUNK: usize = 16 << 10;
const DEPTH: usize = 16;
/// The pause between two reads of an idle line. It doubles from the first value up to the second value.
const IDLE_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(25));
/// libvirt's result on a non-blocking stream: no data to read now, or no space to write.
const WOULD_BLOCK: isize = -2;

/// The last `max` bytes of the serial console's log. If the log is shorter, the newest rotated log supplies the rest.
fn log(connect: &Connect, options: &LibvirtOptions, instance: InstanceId, max: usize) -> DriverResult<Vec<u8>> {
    let pool = pool::open(connect, options)?;
    let name = volumes::console_log(instance);
    let mut known = pool::lookup(&pool, &name)?;
    if known.is_none() {
        pool::refresh(&pool);
        known = pool::lookup(&pool, &name)?;
    }
    let Some(volume) = known else {
        // The guest has no log file (or somebody deleted it), so its log is empty.
        return domain::require(connect, instance).map(|_| Vec::new());
    };
    let newest = pool::tail(connect, &volume, max)?;
    let missing = max.saturating_sub(newest.len());
    let rotated = if missing > 0 { pool::lookup(&pool, &format!("{name}.0"))? } else { None };
    match rotated {
        Some(rotated) => {
            let mut content = pool::tail(connect, &rotated, missing)?;
            content.extend(newest);
            Ok(content)
        }
        None => Ok(newest),
    }
}

#[async_trait]
impl Consoles for LibvirtDriver {
    async fn screen(&self, instance: InstanceId, screen: Screen) -> DriverResult<ConsoleAddress> {
        let known = self.capabilities().await?;
        let chosen = self.options.console_address(screen, &known.hostname);
        self.ask(SCREEN, move |connect, _| {
            let found = address(&domain::require(connect, instance)?, screen, known.host_ip)?;
            Ok(ConsoleAddress { host: chosen.unwrap_or(found.host), ..found })
        })
        .await
    }

    async fn serial_line(&self, instance: InstanceId) -> DriverResult<SerialLine> {
        let (link, session) = (std::sync::Arc::clone(&self.link), self.link.connect().await?);
        self.questions.run(SERIAL, self.options.call_deadline, move || take(link.line(&session)?, instance)).await
    }

    async fn console_log(&self, instance: InstanceId, max_bytes: usize) -> DriverResult<Bytes> {
        self.ask("console log", move |connect, options| log(connect, options, instance, max_bytes).map(Bytes::from))
            .await
    }

    fn remote_address(&self) -> Option<String> {
        migration_plan::host_of(&self.uri)
    }
}

/// The address of the guest's screen. If the VNC or SPICE server listens on all addresses or on loopback, the address
/// is the host's.
fn address(domain: &Domain, screen: Screen, host: String) -> DriverResult<ConsoleAddress> {
    let failed = |message: String| DriverError::Failed { call: SCREEN, message };
    let xml = domain.xml_desc(0).during(SCREEN)?;
    let document = roxmltree::Document::parse(&xml).map_err(|error| failed(error.to_string()))?;
    let name = screen.name();
    let graphics = document
        .descendants()
        .find(|node| node.has_tag_name("graphics") && node.attribute("type") == Some(name))
        .ok_or_else(|| failed(format!("the guest has no {name} console")))?;
    // The port is -1 while the guest is off, and for a protocol that is not served.
    let port = |attribute: &str| graphics.attribute(attribute).and_then(|port| port.parse::<u16>().ok());
    let tls_port = port("tlsPort");
    // A screen that is served only with TLS has no other port.
    let port = port("port").or(tls_port.map(|_| 0));
    let port = port.ok_or_else(|| failed(format!("the guest's {name} console does not listen")))?;
    let listen = graphics.attribute("listen").unwrap_or_default();
    let local = ["", "0.0.0.0", "::", "127.0.0.1", "::1"].contains(&listen);
    Ok(ConsoleAddress { host: if local { host } else { listen.to_owned() }, port, tls_port })
}

/// Takes the guest's serial line on this connection.
fn take(line: HeldConnection, instance: InstanceId) -> DriverResult<SerialLine> {
    let guest = domain::require(&line, instance)?;
    let stream = Stream::new(&line, sys::VIR_STREAM_NONBLOCK).during(SERIAL)?;
    guest.open_console(None, &stream, sys::VIR_DOMAIN_CONSOLE_FORCE).during(SERIAL)?;
    let (input, typed) = mpsc::channel(DEPTH);
    let (written, output) = mpsc::channel(DEPTH);
    let session = SerialSession { stream, typed, written, idle_pause: IDLE_PAUSE.0 };
    let spawned = thread::Builder::new().name("libvirt-serial".to_owned()).spawn(move || {
        session.run();
        // The connection is released only now, because the stream used it until here.
        drop(line);
    });
    spawned.map_err(|error| DriverError::Failed {
        call: SERIAL,
        message: format!("cannot start a thread for the serial line: {error}"),
    })?;
    let output = stream::unfold(output, |mut output: mpsc::Receiver<Bytes>| async move {
        let chunk = output.recv().await?;
        Some((Ok(chunk), output))
    });
    Ok(SerialLine { input, output: Box::pin(output) })
}

/// One holder's use of a serial line.
struct SerialSession {
    stream: Stream,
    typed: mpsc::Receiver<Bytes>,
    written: mpsc::Sender<Bytes>,
    idle_pause: Duration,
}

impl SerialSession {
    /// Moves data until the guest is off or the holder has dropped the line.
    fn run(mut self) {
        let mut buffer = vec![0; CHUNK];
        let mut typed = Bytes::new();
        while let (Some(read), Some(sent)) = (self.read(&mut buffer), self.write(&mut typed)) {
            match read || sent {
                true => self.idle_pause = IDLE_PAUSE.0,
                false => self.pause(),
            }
        }
        if let Err(error) = self.stream.abort() {
            tracing::debug!(%error, "the stream of a serial line had already ended");
        }
    }

    /// Whether data came from the guest; `None` at the end.
    fn read(&self, buffer: &mut [u8]) -> Option<bool> {
        let place = match self.written.try_reserve() {
            Ok(place) => place,
            Err(TrySendError::Full(())) => return Some(false),
            Err(TrySendError::Closed(())) => return None,
        };
        match self.stream.recv(buffer) {
            Ok(WOULD_BLOCK) => Some(false),
            Ok(read) => {
                let read = usize::try_from(read).ok().filter(|read| *read > 0)?;
                place.send(Bytes::copy_from_slice(buffer.get(..read)?));
                Some(true)
            }
            Err(error) => {
                tracing::debug!(%error, "a serial line ended");
                None
            }
        }
    }

    /// Whether data went to the guest; `None` at the end.
    fn write(&mut self, typed: &mut Bytes) -> Option<bool> {
        if typed.is_empty() {
            match self.typed.try_recv() {
                Ok(more) => *typed = more,
                Err(TryRecvError::Empty) => return Some(false),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        if typed.is_empty() {
            return Some(true);
        }
        match self.stream.send(typed) {
            Ok(WOULD_BLOCK) => Some(false),
            Ok(sent) => {
                typed.advance(usize::try_from(sent).ok()?.min(typed.len()));
                Some(true)
            }
            Err(error) => {
                tracing::debug!(%error, "a serial line ended");
                None
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a line's own thread, not one of the runtime")]
    fn pause(&mut self) {
        thread::sleep(self.idle_pause);
        self.idle_pause = (self.idle_pause * 2).min(IDLE_PAUSE.1);
    }
}
