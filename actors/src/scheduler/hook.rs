//! Asks the scheduler hook, the operator's own program that judges hosts.
//!
//! One question has the hosts that suit one request, best first, at most `[scheduler_hook] max_hosts`. The servers of
//! one request share the question. The answers become a part of the request ([`HookAnswers`]), and the decision follows
//! with the newest read models. So a host that fits only since the question is refused.

use chronova_events::ids::HostId;
use chronova_events::instance::ImageSnapshot;
use chronova_projections::fleet::AggregateRow;
use serde_json::{Map, Value, json};

use super::choice::choose_among;
use super::context::{HostState, SchedulerViews, SchedulingContext};
use super::hook_answers::HookAnswers;
use super::options::{HookOptions, SchedulerOptions};
use super::request::RequestSpec;

/// The version of question and answer.
const VERSION: u32 = 1;

/// A question, and the hosts in it.
#[derive(Debug)]
pub(super) struct HookQuestion {
    hosts: Vec<HostId>,
    document: Value,
}

impl HookQuestion {
    /// The question about `servers` equal servers; `None` if no host suits them.
    pub(super) fn of(
        sources: SchedulerViews<'_>,
        request: &RequestSpec,
        servers: u32,
        options: &SchedulerOptions,
    ) -> Option<Self> {
        let wide = SchedulerOptions {
            max_attempts: options.hook.max_hosts,
            host_subset_size: 1,
            shuffle_best_same_weighed_hosts: false,
            ..options.clone()
        };
        let ranked = choose_among(sources, request, &wide).ranked;
        if ranked.is_empty() {
            return None;
        }
        let context = SchedulingContext::new(sources, request, options);
        let hosts: Vec<Value> = ranked.iter().map(|found| host(&context.host(found.slot))).collect();
        let document = json!({"version": VERSION, "request": about(request, servers), "hosts": hosts});
        Some(Self { hosts: ranked.iter().map(|found| found.host).collect(), document })
    }

    #[cfg(test)]
    pub(super) fn document(&self) -> &Value {
        &self.document
    }

    /// Asks the program. Returns `None` if the options name no program. It does so, too, if the program gives no valid
    /// answer and the options allow a decision without it.
    pub(super) async fn ask(self, options: &HookOptions) -> Option<HookAnswers> {
        let program = options.program.as_ref()?;
        let answer = program.0.ask(&self.document).await;
        match answer.and_then(|answer| HookAnswers::read(answer, &self.hosts)) {
            Ok(answers) => Some(answers),
            Err(reason) => {
                let fails_open = options.fails_open;
                tracing::warn!(reason, fails_open, "the scheduler hook gave no valid answer");
                (!fails_open).then_some(HookAnswers::Missing)
            }
        }
    }
}

fn about(request: &RequestSpec, servers: u32) -> Value {
    let flavor = &request.flavor;
    json!({
        "server": request.server.map(|server| server.to_string()),
        "servers": servers,
        "project": request.project.as_str(),
        "availability_zone": request.zone,
        "hints": request.hints,
        "flavor": {
            "id": flavor.id.as_str(),
            "name": flavor.name,
            "vcpus": flavor.vcpus,
            "ram": flavor.memory_mib,
            "disk": flavor.root_gib,
            "ephemeral": flavor.ephemeral_gib,
            "swap": flavor.swap_mib,
            "extra_specs": texts(&flavor.extra_specs),
        },
        "image": request.image.as_deref().map(image),
    })
}

fn image(image: &ImageSnapshot) -> Value {
    json!({"id": image.id.to_string(), "name": image.name, "properties": texts(&image.properties)})
}

fn texts(pairs: &[(String, String)]) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
}

fn host(host: &HostState<'_>) -> Value {
    let context = host.context;
    let aggregate = |row: &AggregateRow| json!({"name": row.name, "metadata": row.metadata});
    let amount = |class: &str| json!({"total": host.total(class), "used": host.used(class)});
    json!({
        "id": host.row.id.to_string(),
        "name": host.row.name,
        "availability_zone": context.fleet.zone_of(host.slot).unwrap_or(&context.request.default_zone),
        "aggregates": host.aggregates().map(aggregate).collect::<Vec<_>>(),
        "traits": host.row.traits,
        "vcpus": amount("VCPU"),
        "ram": amount("MEMORY_MB"),
        "disk": amount("DISK_GB"),
        "servers": host.num_instances(),
        "io_ops": host.num_io_ops(),
        "failed_builds": host.row.failed_builds,
    })
}
