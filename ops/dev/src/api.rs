//! `chronova-dev api`: measures reads over HTTP, from the client's side.
//!
//! Each line has a reference: an actix handler that returns the same bytes to the same number of clients.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::live::cloud::{Furniture, LoadedCloud};
use super::live::load::{self, LoadLimit};
use super::live::reference;
use super::report::{Aim, BenchLine, BenchReport, thousands};
use super::settings::Common;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ApiBenchArgs {
    /// Numbers of servers in the project; each is one measurement of the project's list
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [100, 1_000])]
    servers: Vec<u32>,
    /// Numbers of servers in the whole cloud; each is one measurement of a page of a small project's list
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    cloud: Vec<u32>,
    /// Resource providers to find allocation candidates among
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    providers: u32,
    /// Seconds per measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    seconds: u64,
}

/// The simulated hosts of the measured cloud.
const FLEET: &str = "sim://4?vcpus=10000&memory_mib=100000000&disk_gib=10000000";

pub(super) fn run(common: &Common, args: &ApiBenchArgs) -> Result<BenchReport> {
    let time = if common.short { Duration::from_millis(100) } else { Duration::from_secs(args.seconds) };
    let mut report =
        BenchReport::new("api").setting("seconds per measurement", &time.as_secs_f64()).setting("hosts", &FLEET);
    let mut cloud = LoadedCloud::new(common.scratch()?, FLEET)?;
    cloud.start()?;
    cloud.wait_for_hosts(4)?;
    let furniture = cloud.furnish()?;
    let reads = Reads { common, cloud: &cloud, time };
    report.lines.extend(reads.small()?);
    let mut made = 0;
    for servers in if common.short { vec![20] } else { args.servers.clone() } {
        cloud.fill(&furniture, made, servers as usize)?;
        made = servers as usize;
        report.lines.extend(reads.servers(servers)?);
    }
    report.lines.extend(reads.candidates(if common.short { 20 } else { args.providers })?);
    cloud.stop()?;
    for servers in if common.short { vec![50] } else { args.cloud.clone() } {
        report.lines.extend(whole_cloud(common, servers, time)?);
    }
    report.notes.push(
        "CPU and memory are those of the server's process; of raw: an actix handler with the same bytes".to_owned(),
    );
    Ok(report)
}

/// Measures GET requests and collects their lines.
pub(super) struct Reads<'a> {
    pub(super) common: &'a Common,
    pub(super) cloud: &'a LoadedCloud,
    pub(super) time: Duration,
}

impl Reads<'_> {
    /// Measures one line: a GET of `path` by `clients` clients at the same time.
    pub(super) fn get(&self, name: &str, path: &str, clients: usize) -> Result<BenchLine> {
        let title =
            format!("{name}, {}", if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") });
        let once = || {
            load::clients(self.cloud, clients, LoadLimit::Time(self.time), |client, _| {
                client.get(path)?.expect(200).map(drop)
            })
        };
        let runs = self.common.repeat_warm(&title, once)?;
        let body = self.cloud.client().get(path)?.expect(200)?.body.to_vec();
        let raw = reference::same_bytes(&body, clients, self.time)?;
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let bytes = body.len() as f64;
        Ok(BenchLine::new(title, runs).raw("an actix handler with the same bytes", raw).figure("bytes", bytes))
    }

    pub(super) fn small(&self) -> Result<Vec<BenchLine>> {
        let within = |micros| Aim::P50Within(Duration::from_micros(micros));
        Ok(vec![
            self.get("GET / (versions)", "/", 1)?,
            self.get("GET flavors/detail", "/compute/v2.1/flavors/detail", 1)?.aim(within(200)),
            self.get("GET auth/projects", "/identity/v3/auth/projects", 1)?.aim(within(200)),
            self.get("GET flavors/detail", "/compute/v2.1/flavors/detail", 8)?,
            self.get("GET auth/projects", "/identity/v3/auth/projects", 8)?,
        ])
    }

    pub(super) fn servers(&self, servers: u32) -> Result<Vec<BenchLine>> {
        let number = thousands(f64::from(servers));
        let detail = format!("GET servers/detail, {number} servers");
        let path = "/compute/v2.1/servers/detail?limit=1000";
        let first = self.get(&detail, path, 1)?;
        let first = match servers {
            100 => first.aim(Aim::P50Within(Duration::from_millis(1))),
            1_000 => first.aim(Aim::P50Within(Duration::from_millis(8))),
            _ => first,
        };
        let brief = self.get(&format!("GET servers, {number} servers"), "/compute/v2.1/servers?limit=1000", 1)?;
        let page = self.get(
            &format!("GET servers/detail?limit=20, {number} servers"),
            "/compute/v2.1/servers/detail?limit=20",
            1,
        )?;
        let eight = self.get(&detail, path, 8)?;
        let eight = if servers == 100 { eight.aim(Aim::OfRaw(0.5)) } else { eight };
        Ok(vec![first, brief, page, eight])
    }

    pub(super) fn candidates(&self, providers: u32) -> Result<Vec<BenchLine>> {
        make_providers(self.cloud, providers)?;
        let number = thousands(f64::from(providers));
        let path = "/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:512,DISK_GB:10&limit=";
        let all = self.get(&format!("allocation_candidates, {number} providers"), &format!("{path}1000"), 1)?;
        let all = if providers == 1_000 { all.aim(Aim::P50Within(Duration::from_millis(3))) } else { all };
        let few = self.get(&format!("allocation_candidates?limit=10, {number} providers"), &format!("{path}10"), 1)?;
        Ok(vec![all, few])
    }
}

/// Creates resource providers over the API, each with the inventory of a compute host.
fn make_providers(cloud: &LoadedCloud, providers: u32) -> Result<()> {
    load::clients(cloud, 4, LoadLimit::Count(providers as usize), |client, number| {
        let id = uuid::Uuid::new_v4();
        let provider = json!({"uuid": id, "name": format!("provider-{number}")});
        client.post("/placement/resource_providers", &provider)?.expect(200)?;
        let line = |total: u64, ratio: f64| json!({"total": total, "max_unit": total, "allocation_ratio": ratio});
        let inventories = json!({"VCPU": line(64, 4.0), "MEMORY_MB": line(262_144, 1.0), "DISK_GB": line(4_000, 1.0)});
        let body = json!({"resource_provider_generation": 0, "inventories": inventories});
        client.put(&format!("/placement/resource_providers/{id}/inventories"), &body)?.expect(200).map(drop)
    })
    .map(drop)
}

/// Measures a page of a project with a hundred servers in a large cloud, and an administrator's page of all projects.
fn whole_cloud(common: &Common, servers: u32, time: Duration) -> Result<Vec<BenchLine>> {
    let scratch = common.scratch()?;
    let mut cloud = LoadedCloud::new(scratch, FLEET)?;
    cloud.start()?;
    cloud.wait_for_hosts(4)?;
    let furniture: Furniture = cloud.furnish()?;
    // The fill copies one server, which is created first.
    cloud.fill(&furniture, 0, 1)?;
    cloud.fill(&furniture, 1, common.sized(100, 5))?;
    cloud.stop()?;
    super::copied_servers::fill(&cloud.data(), servers as usize, 100)?;
    cloud.start()?;
    let number = thousands(f64::from(servers));
    let reads = Reads { common, cloud: &cloud, time };
    let own = reads.get(&format!("own 100 of {number} servers in detail"), "/compute/v2.1/servers/detail", 1)?;
    let page =
        reads.get(&format!("own 20 of {number} servers in detail"), "/compute/v2.1/servers/detail?limit=20", 1)?;
    let path = "/compute/v2.1/servers/detail?all_tenants=1&limit=20";
    let all = reads.get(&format!("20 of {number} servers of all projects"), path, 1)?;
    cloud.stop()?;
    Ok(vec![own, page, all])
}
