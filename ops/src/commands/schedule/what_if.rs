//! `--dry-run`: the hosts that one or more servers would get now, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::ControlFlow;

use chronova_actors::scheduler::{RequestSpec, SchedulingDecision};
use chronova_actors::services::embedded::image::embedded::snapshot;
use chronova_events::envelope::{Position, Timestamp};
use chronova_events::ids::{InstanceId, ProjectId, UserId};
use chronova_events::instance::{CheckRecord, FlavorSnapshot, ImageSnapshot};
use chronova_events::store::EventStore;
use chronova_projections::views::Views;
use serde_json::{Value, json};

use super::super::log_pages::walk;
use super::super::{CommandFailure, Exit};
use super::alternative::AlternativeHistory;
use super::{Rules, ScheduleArgs};

pub(super) async fn run(
    args: &ScheduleArgs,
    rules: &Rules,
    store: &dyn EventStore,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let mut world = AlternativeHistory::new();
    walk(store, Position::START, Position(u64::MAX), |recorded| world.take(recorded).map(ControlFlow::Continue))
        .await?;
    let mut request = request(args, rules, world.views()?)?;
    let user = UserId::new("what-if");
    let mut all_placed = true;
    let mut answers = Vec::new();
    for number in 0..args.count {
        let server = InstanceId::random();
        request.server = Some(server);
        let decision = world.decide(&request, &rules.scheduler)?;
        all_placed &= !decision.ranked.is_empty();
        if let Some(best) = decision.ranked.first() {
            world.claim(server, &request.project, &user, best, now).await?;
        }
        match args.json {
            true => answers.push(as_json(&decision)),
            false => tell(&request, &decision, (number, args.count), out)?,
        }
        if decision.ranked.is_empty() {
            break;
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&json!({"decisions": answers})).map_err(std::io::Error::from)?;
        writeln!(out, "{text}")?;
    }
    Ok(if all_placed { Exit::Yes } else { Exit::No })
}

fn request(args: &ScheduleArgs, rules: &Rules, views: &Views) -> Result<RequestSpec, CommandFailure> {
    let mut flavor = flavor(views, args.flavor.as_deref().unwrap_or_default())?;
    let mut extra: BTreeMap<String, String> = flavor.extra_specs.into_iter().collect();
    extra.extend(pairs("--extra-spec", &args.extra_spec)?);
    flavor.extra_specs = extra.into_iter().collect();
    let image = args.image.as_deref().map(|wanted| image(views, wanted)).transpose()?;
    let mut hints: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in pairs("--hint", &args.hint)? {
        hints.entry(key).or_default().push(value);
    }
    let (zone, forced_host) = match args.availability_zone.as_deref().map(|zone| zone.split_once(':')) {
        Some(Some((zone, host))) => (Some(zone), Some(host)),
        Some(None) => (args.availability_zone.as_deref(), None),
        None => (None, None),
    };
    Ok(RequestSpec {
        server: None,
        project: ProjectId::new(args.project.as_deref().unwrap_or("what-if")),
        flavor: flavor.into(),
        image: image.map(Into::into),
        volume_backed: false,
        hints,
        zone: zone.filter(|zone| !zone.is_empty()).map(str::to_owned),
        forced_host: forced_host.map(str::to_owned),
        requested_host: None,
        page_kib: None,
        device_ports: Vec::new(),
        near_networks: Vec::new(),
        excluded: BTreeSet::new(),
        default_zone: rules.default_zone().to_owned(),
        port_requests: Vec::new(),
        dice: 0,
        hook: None,
    })
}

fn pairs(option: &str, given: &[String]) -> Result<Vec<(String, String)>, CommandFailure> {
    let pair = |text: &String| {
        let (key, value) =
            text.split_once('=').ok_or_else(|| CommandFailure::Usage(format!("{option} {text}: must be KEY=VALUE")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    given.iter().map(pair).collect()
}

fn flavor(views: &Views, wanted: &str) -> Result<FlavorSnapshot, CommandFailure> {
    views.flavors.read(|view| {
        let mut all = view.flavors.by_id.iter();
        let found = all.find(|(id, flavor)| id.as_str() == wanted || flavor.definition.name == wanted);
        let (id, flavor) = found.ok_or_else(|| CommandFailure::Usage(format!("there is no flavor {wanted}")))?;
        let definition = &flavor.definition;
        Ok(FlavorSnapshot {
            id: id.clone(),
            name: definition.name.clone(),
            vcpus: definition.vcpus,
            memory_mib: definition.memory_mib,
            root_gib: definition.root_gib,
            ephemeral_gib: definition.ephemeral_gib,
            swap_mib: definition.swap_mib,
            extra_specs: flavor.extra_specs.clone(),
        })
    })
}

fn image(views: &Views, wanted: &str) -> Result<ImageSnapshot, CommandFailure> {
    let all = views.images.read(chronova_projections::images::ImagesView::all);
    let named = |name: &Option<String>| name.as_deref() == Some(wanted);
    let found = all.iter().find(|image| image.id.to_string() == wanted || named(&image.attributes.name));
    let image = found.ok_or_else(|| CommandFailure::Usage(format!("there is no image {wanted}")))?;
    snapshot(image).map_err(|error| CommandFailure::Usage(error.to_string()))
}

fn tell(
    request: &RequestSpec,
    decision: &SchedulingDecision,
    place: (u32, u32),
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let (number, count) = place;
    let reasons = &decision.reasons;
    if number == 0 {
        let wanted: Vec<String> = reasons.wanted.iter().map(|(class, amount)| format!("{class} {amount}")).collect();
        writeln!(out, "flavor {} wants {}", request.flavor.name, wanted.join(", "))?;
        if !reasons.required.is_empty() {
            writeln!(out, "required: {}", reasons.required.join(", "))?;
        }
    }
    // The output describes at length only the first server, and a server that gets no host.
    if number == 0 || decision.ranked.is_empty() {
        writeln!(out, "{:5} hosts", reasons.hosts)?;
        for check in &reasons.checks {
            writeln!(out, "{:5} left after {}{}", check.left, check.name, examples(check))?;
        }
        for weighed in &reasons.weighed {
            let parts: Vec<String> = weighed
                .parts
                .iter()
                .map(|part| format!("{} {:+.2} ({})", part.weigher, part.weight, part.value))
                .collect();
            writeln!(out, "      {} weighs {:.2}: {}", weighed.hostname, weighed.weight, parts.join(", "))?;
        }
    }
    let which = if count > 1 { format!("server {}: ", number + 1) } else { String::new() };
    let names: Vec<&str> = decision.ranked.iter().map(|chosen| chosen.hostname.as_str()).collect();
    match names.split_first() {
        None => {
            let lacks = reasons.lacks.as_deref().unwrap_or("no suitable host");
            writeln!(out, "{which}finds no host: {lacks}")?;
        }
        Some((best, [])) => writeln!(out, "{which}goes to {best}")?,
        Some((best, others)) => writeln!(out, "{which}goes to {best}; alternates: {}", others.join(", "))?,
    }
    Ok(())
}

fn examples(check: &CheckRecord) -> String {
    let refused: Vec<String> =
        check.refused.iter().map(|refused| format!("{}: {}", refused.hostname, refused.reason)).collect();
    if refused.is_empty() { String::new() } else { format!(" (refused, for example: {})", refused.join("; ")) }
}

fn as_json(decision: &SchedulingDecision) -> Value {
    let reasons = &decision.reasons;
    json!({
        "hosts": decision.ranked.iter().map(|chosen| &chosen.hostname).collect::<Vec<_>>(),
        "wanted": reasons.wanted.iter().cloned().collect::<BTreeMap<String, u64>>(),
        "required": reasons.required,
        "considered": reasons.hosts,
        "checks": reasons.checks,
        "weighed": reasons.weighed,
        "lacks": reasons.lacks,
    })
}
