//! Screens and serial lines of simulated guests. The screens show nothing; the serial line echoes the input.

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;
use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;

use super::SimHost;
use super::faults::DriverCall;
use super::machine::{SimMachine, not_running};
use crate::capability::consoles::{ConsoleAddress, Consoles, Screen, SerialLine};
use crate::driver::DriverResult;

/// The number of chunks of input that may wait.
const DEPTH: usize = 16;

#[async_trait]
impl Consoles for SimHost {
    async fn screen(&self, instance: InstanceId, screen: Screen) -> DriverResult<ConsoleAddress> {
        self.perform(DriverCall::Screen, |machine| machine.screen(instance, screen)).await
    }

    async fn serial_line(&self, instance: InstanceId) -> DriverResult<SerialLine> {
        let greeting = self.perform(DriverCall::SerialLine, |machine| machine.greeting(instance)).await?;
        let (input, typed) = mpsc::channel::<Bytes>(DEPTH);
        let echo = stream::unfold(typed, |mut typed| async move { typed.recv().await.map(|said| (Ok(said), typed)) });
        Ok(SerialLine { input, output: Box::pin(stream::once(async move { Ok(greeting) }).chain(echo)) })
    }

    async fn console_log(&self, instance: InstanceId, max_bytes: usize) -> DriverResult<Bytes> {
        self.perform(DriverCall::ConsoleLog, |machine| machine.console(instance, max_bytes)).await
    }

    fn remote_address(&self) -> Option<String> {
        None
    }
}

impl SimMachine {
    /// Numbers the displays of running guests from port 5900 on, like libvirt, but in the order of the guests' ids.
    fn screen(&self, instance: InstanceId, screen: Screen) -> DriverResult<ConsoleAddress> {
        if !self.guest(instance)?.is_on() {
            return Err(not_running("console address"));
        }
        let running = self.guests.iter().filter(|(_, guest)| guest.is_on());
        let display = running.take_while(|(id, _)| **id != instance).count();
        let port = u16::try_from(display).unwrap_or_default().saturating_add(5_900);
        let tls_port = (screen == Screen::Spice).then(|| port.saturating_add(100));
        Ok(ConsoleAddress { host: "127.0.0.1".to_owned(), port, tls_port })
    }

    fn greeting(&self, instance: InstanceId) -> DriverResult<Bytes> {
        let guest = self.guest(instance)?;
        match guest.is_on() {
            true => Ok(Bytes::from(format!("{} ttyS0\r\n", guest.domain_name))),
            false => Err(not_running("serial console")),
        }
    }
}
