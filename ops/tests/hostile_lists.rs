//! Tests that the cost of a list grows at most in proportion to the request.
//!
//! The test sends hostile forms of each query parameter to each `GET` route that lists things: 1,600 times the
//! parameter, a long pattern, deep nesting. It compares the server's processor time with that for an eighth of the
//! input. A quadratic cost would be 64 times as high. One request may not add more than [`MOST_MEMORY`] to the server's
//! memory.
//!
//! In a normal run, each parameter gets two of the forms; `CHRONOVA_SEED` selects them. With `CHRONOVA_SOAK`, it gets
//! all of them. A request below [`CHEAP`] is not measured again, because it delays no other request, however its cost
//! grows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    unreachable_pub,
    dead_code
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::Duration;

use chronova_web::microversion::Microversion;
use chronova_web::route::{Method, Route};
use serde_json::json;

use crate::cloud::Cloud;
use crate::isolation::probes::{self, Random};
use crate::isolation::resources::{self, TenantResources};
use crate::isolation::tenant_user::{Request, TenantUser};

const FLEET: &str = "sim://2?latency_ms=0&vcpus=4096&memory_mib=8388608&disk_gib=1000000";
const CONFIG: &str = "[volume]\nshared = true\n";
/// Most clients limit a URL to 64 KiB. Such a URL has room for [`MANY`] parts of the longest parameter.
const FEW: usize = 200;
const MANY: usize = 8 * FEW;
const CHEAP: Duration = Duration::from_millis(60);
const MOST_MEMORY: u64 = 48 << 20;

/// A way to make a query string of `count` parts about one parameter.
type Shape = (&'static str, fn(&str, usize) -> String);

const SHAPES: [Shape; 6] = [
    ("many values", |name, count| joined(count, "&", |n| format!("{name}=v{n}"))),
    ("one value over and over", |name, count| joined(count, "&", |_| format!("{name}=name"))),
    ("a list of values", |name, count| format!("{name}={}", joined(count, ",", |n| format!("v{n}")))),
    ("a pattern that repeats", |name, count| format!("{name}={}", "(a*)*".repeat(count / 4))),
    ("a nested pattern", |name, count| format!("{name}={}a{}", "(".repeat(count), ")".repeat(count))),
    ("a long value", |name, count| format!("{name}={}", "a1%20".repeat(count))),
];

fn joined(count: usize, by: &str, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(by)
}

/// Whether the route lists things. A path that ends with a parameter is about one thing, so it is no list.
fn is_list(route: &Route) -> bool {
    route.method == Method::Get && !route.path.ends_with('}')
}

/// Parameters that handlers may read without a schema, and one that no handler reads.
const COMMON: [&str; 9] =
    ["name", "id", "status", "tags", "fields", "sort_key", "marker", "project_id", "nobody-reads-this"];

fn parameters(route: &Route) -> BTreeSet<String> {
    let newest = route.until.unwrap_or(Microversion::new(2, 96));
    let Some(schema) = route.query else { return COMMON.map(str::to_owned).into() };
    let rendered = schema().render(newest);
    let named = rendered["properties"].as_object().into_iter().flat_map(|all| all.keys().cloned());
    named.chain(["nobody-reads-this".to_owned()]).collect()
}

/// Measures the processor time of all threads of a process, and its peak memory since the last `forget_peak`.
struct Meter(u32);

/// Nanoseconds of processor time, by thread.
type Spent = BTreeMap<OsString, u64>;

impl Meter {
    fn spent(&self) -> Spent {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.0)).unwrap();
        let spent = |thread: std::fs::DirEntry| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            Some((thread.file_name(), text.split(' ').next()?.parse().ok()?))
        };
        threads.flatten().filter_map(spent).collect()
    }

    /// The sum of the differences per thread. The difference of the sums would be wrong, because a thread that ended
    /// would lower it.
    fn processor_time_since(&self, before: &Spent) -> Duration {
        let more = |(thread, spent): (OsString, u64)| spent - before.get(&thread).copied().unwrap_or(0).min(spent);
        Duration::from_nanos(self.spent().into_iter().map(more).sum())
    }

    /// `VmRSS` or `VmHWM`, in bytes.
    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// Resets the kernel's peak of the process (proc(5), `clear_refs`).
    fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.0), "5").unwrap();
    }
}

struct Measured {
    time: Duration,
    memory: u64,
    status: u16,
}

fn ask(meter: &Meter, person: &TenantUser, path: &str, version: &str) -> Measured {
    meter.forget_peak();
    let (spent, memory) = (meter.spent(), meter.memory("VmRSS"));
    let headers = vec![("OpenStack-API-Version", version.to_owned())];
    let request = Request { method: "GET", path: path.to_owned(), headers, body: None };
    let status = person.send(&request).status;
    Measured { time: meter.processor_time_since(&spent), memory: meter.memory("VmHWM").saturating_sub(memory), status }
}

/// The lowest time of three requests, because other work of the server can only add to a time.
fn lowest_time(meter: &Meter, person: &TenantUser, path: &str, version: &str) -> Duration {
    (0..3).map(|_| ask(meter, person, path, version).time).min().unwrap()
}

#[test]
fn the_cost_of_a_list_grows_at_most_in_proportion_to_the_request() {
    let mut cloud = Cloud::new(FLEET);
    cloud.configure(CONFIG);
    cloud.start();
    let admin = TenantUser::new(&cloud, "admin", "admin");
    let ground = resources::common(&mut cloud, &admin);
    let own = TenantResources::build(&mut cloud, &admin, &admin, &ground, "mine");
    let more = json!({"server": {"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "imageRef": ground.public_image,
        "flavorRef": ground.flavor, "networks": [{"uuid": own.resources["network"]}], "max_count": 20, "min_count": 20}});
    admin.post("/compute/v2.1/servers", &more).expect(&[202]);
    cloud.wait("all servers run", |_| {
        let all = admin.get("/compute/v2.1/servers?status=ACTIVE").json();
        all["servers"].as_array().is_some_and(|servers| servers.len() == 21)
    });
    let meter = Meter(cloud.pid());
    let soak = std::env::var_os("CHRONOVA_SOAK").is_some();
    let mut turn =
        std::env::var("CHRONOVA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0_usize) % SHAPES.len();
    let mut random = Random::new(1);
    let (mut asked, mut answered, mut compared, mut findings) = (0, 0, 0, Vec::new());
    for (service, route) in probes::routes().into_iter().filter(|(_, route)| is_list(route)) {
        let mut path =
            probes::path_of(service, route, &mut random).replace("/evil", "/admin").replace("<project>", "admin");
        for (name, thing) in &own.resources {
            path = path.replace(&format!("<{name}>"), thing);
        }
        // Long polls and streams wait for an event, so their time says nothing.
        if path.contains('<') || route.op.contains("feed") || route.op.contains("stream") {
            continue;
        }
        let newest = route.until.map_or_else(|| "2.96".to_owned(), |version| version.to_string());
        let version = format!("compute {newest}, placement 1.39, volume 3.67");
        for name in parameters(route) {
            turn += 1;
            let shapes = SHAPES.iter().cycle().skip(2 * turn).take(if soak { SHAPES.len() } else { 2 });
            for (shape, make) in shapes {
                let many = format!("{path}?{}", make(&name, MANY));
                let measured = ask(&meter, &admin, &many, &version);
                asked += 1;
                answered += usize::from(measured.status == 200);
                let text = format!("{} {name}, {shape}: {}", route.op, measured.status);
                if measured.memory > MOST_MEMORY {
                    findings.push(format!("{text}: {} MiB", measured.memory >> 20));
                }
                if measured.time < CHEAP {
                    continue;
                }
                compared += 1;
                let few = lowest_time(&meter, &admin, &format!("{path}?{}", make(&name, FEW)), &version);
                let many = lowest_time(&meter, &admin, &many, &version);
                if many > few * 24 {
                    findings.push(format!("{text}: eight times the input cost {many:?} after {few:?}"));
                }
            }
        }
    }
    println!("{asked} hostile requests, {answered} answered 200, {compared} compared");
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    assert!(asked > 1_500 && answered > 500, "too few requests reach the handlers: {asked}, {answered}");
}
