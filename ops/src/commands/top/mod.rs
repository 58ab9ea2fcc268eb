//! `chronova top`: the fleet, the processes and the rates of a running server, on the terminal.
//!
//! The command polls the public APIs: `/metrics`, the list of hosts, and the running migrations. On a terminal each view
//! replaces the one before, with colours unless `NO_COLOR` is set. Otherwise the views follow each other as plain text.

mod metrics;
mod screen;

use std::io::{self, IsTerminal as _, Write};
use std::time::{Duration, Instant};

use clap::Args;

use self::metrics::TopSample;
use self::screen::{Paint, TopView};
use super::host::{CloudAccess, pause};
use super::operator_client::OperatorClient;
use super::{CommandFailure, Exit};
use crate::config::Config;

/// Moves to the top left corner, and empties the screen below.
const CLEAR: &str = "\x1b[H\x1b[J";

#[derive(Debug, Args)]
pub struct TopArgs {
    /// Seconds between two views
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub every: u16,
    /// End after this many views; the first one has no rates [default: go on until Ctrl-C]
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,
    /// The largest number of hosts in a view: hosts that are down first, then those with the most servers
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub hosts: usize,
    #[command(flatten)]
    pub access: CloudAccess,
}

pub fn run(args: &TopArgs, config: &Config, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let client = OperatorClient::open(config, &args.access)?;
    let terminal = io::stdout().is_terminal();
    let paint = Paint { colours: terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
    let (mut before, mut views) = (None::<(Instant, TopSample)>, 0_u32);
    loop {
        let hosts = client.get_patiently("/chronova/v1/hosts")?;
        let migrations = client.get_patiently("/compute/v2.1/os-migrations?status=running")?;
        let (at, sample) = (Instant::now(), TopSample::of(&client.text_patiently("/metrics")?));
        let rates = before.as_ref().map(|(then, earlier)| sample.since(earlier, at - *then));
        let view = TopView { sample: &sample, rates, hosts: &hosts["hosts"], migrations: &migrations["migrations"] };
        let text = view.text(args.hosts, paint);
        match terminal {
            true => write!(out, "{CLEAR}{text}")?,
            false => write!(out, "{text}")?,
        }
        out.flush()?;
        before = Some((at, sample));
        views += 1;
        if args.count.is_some_and(|count| views >= count) {
            return Ok(Exit::Yes);
        }
        if !terminal {
            writeln!(out)?;
        }
        pause(Duration::from_secs(args.every.into()));
    }
}
