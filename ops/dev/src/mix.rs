//! `chronova-dev mix`: measures a typical load of a cloud. Seven of ten requests read, two act on servers, one creates
//! or deletes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::boot;
use super::live::client::LoadClient;
use super::live::cloud::{Furniture, LoadedCloud};
use super::live::load::{self, LoadLimit};
use super::report::{BenchLine, BenchReport};
use super::settings::Common;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct MixBenchArgs {
    /// Servers that exist at the start
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    servers: u32,
    /// Clients
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    clients: u16,
    /// Seconds per run
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
}

pub(super) fn run(common: &Common, args: &MixBenchArgs) -> Result<BenchReport> {
    let servers = common.sized(args.servers as usize, 20);
    let clients = usize::from(args.clients);
    let time = if common.short { Duration::from_millis(500) } else { Duration::from_secs(args.seconds) };
    let fleet = boot::fleet(4);
    let mut report = BenchReport::new("mix")
        .setting("servers", &servers)
        .setting("clients", &clients)
        .setting("mix", &"70 % reads, 20 % actions, 10 % creations and deletions")
        .setting("hosts", &fleet);
    let mut cloud = LoadedCloud::new(common.scratch()?, &fleet)?;
    cloud.start()?;
    cloud.wait_for_hosts(4)?;
    let furniture = cloud.furnish()?;
    let (_, ids) = boot::build(&cloud, &furniture, clients, servers)?;
    let mix = Mix::new(ids);
    let runs = common.repeat("mix", || mix.run(&cloud, &furniture, clients, time))?;
    let refused = mix.refused.load(Ordering::Relaxed);
    let line = BenchLine::new(format!("mix, {servers} servers, {clients} clients"), runs);
    report.lines.push(line.figure("refused because of the server's state", f64::from(u32::try_from(refused)?)));
    report.notes.push("CPU and memory are those of the server's process".to_owned());
    cloud.stop()?;
    Ok(report)
}

/// The servers for the actions.
pub(super) struct Mix {
    servers: Mutex<Vec<String>>,
    /// Actions refused with 409 (another action was under way) or 404 (the server was deleted), as in practice.
    pub(super) refused: AtomicUsize,
}

impl Mix {
    pub(super) fn new(servers: Vec<String>) -> Self {
        Self { servers: Mutex::new(servers), refused: AtomicUsize::new(0) }
    }

    fn servers<R>(&self, with: impl FnOnce(&mut Vec<String>) -> R) -> R {
        with(&mut self.servers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn run(
        &self,
        cloud: &LoadedCloud,
        furniture: &Furniture,
        clients: usize,
        time: Duration,
    ) -> Result<super::meter::Run> {
        load::clients(cloud, clients, LoadLimit::Time(time), |client, number| self.one(client, furniture, number))
    }

    /// Sends request `number`. The last two digits of `number` decide the kind of request, so that every run has the
    /// same mix.
    fn one(&self, client: &mut LoadClient, furniture: &Furniture, number: usize) -> Result<()> {
        let any = self.servers(|servers| servers.get(number.wrapping_mul(7_919) % servers.len().max(1)).cloned());
        let id = any.unwrap_or_default();
        match number % 10 {
            0 => client.get("/compute/v2.1/servers/detail?limit=20")?.expect(200).map(drop),
            1 => client.get("/compute/v2.1/servers?limit=100")?.expect(200).map(drop),
            2 => client.get("/compute/v2.1/flavors/detail")?.expect(200).map(drop),
            3 => client.get(&format!("/compute/v2.1/servers/{id}/os-instance-actions")).map(drop),
            4..=6 => client.get(&format!("/compute/v2.1/servers/{id}")).map(drop),
            7 => self.act(client, &id, &json!({"reboot": {"type": "SOFT"}})),
            8 => {
                let path = format!("/compute/v2.1/servers/{id}/metadata");
                let set = client.post(&path, &json!({"metadata": {"number": number.to_string()}}))?;
                self.settled(set.status, &id)
            }
            _ if number % 20 == 9 => {
                let asked = client.post("/compute/v2.1/servers", &furniture.server(&format!("mix-{number}")))?;
                let id = asked.expect(202)?.text("/server/id")?;
                self.servers(|servers| servers.push(id));
                Ok(())
            }
            _ => {
                let Some(id) =
                    self.servers(|servers| (!servers.is_empty()).then(|| servers.swap_remove(number % servers.len())))
                else {
                    return Ok(());
                };
                client.delete(&format!("/compute/v2.1/servers/{id}"))?.expect(204).map(drop)
            }
        }
    }

    fn act(&self, client: &mut LoadClient, id: &str, body: &serde_json::Value) -> Result<()> {
        let answer = client.post(&format!("/compute/v2.1/servers/{id}/action"), body)?;
        self.settled(answer.status, id)
    }

    fn settled(&self, status: u16, id: &str) -> Result<()> {
        match status {
            200..=299 => Ok(()),
            404 | 409 => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            other => anyhow::bail!("server {id}: {other}"),
        }
    }
}
