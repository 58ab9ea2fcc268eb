//! `chronova inspect scheduling SERVER`: every decision of the scheduler about the server, with its reasons.

use std::io::{self, Write};

use chronova_actors::scheduler::history;
use chronova_events::envelope::{Position, Timestamp};
use chronova_events::ids::InstanceId;
use chronova_events::instance::Scheduled;
use chronova_events::store::EventStore;
use chronova_web::audit::line::printable;

use super::super::list_form::ListFormArgs;
use super::super::{CommandFailure, Exit};

pub(super) async fn tell(
    store: &dyn EventStore,
    (server, title): (InstanceId, &str),
    until: Position,
    form: ListFormArgs,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let decisions = history::decisions(store, server, until).await?;
    let all: Vec<&Scheduled> = decisions.iter().map(|(_, decision)| decision).collect();
    if form.write(&all, out)? {
        return Ok(Exit::Yes);
    }
    writeln!(out, "{}", printable(title))?;
    if decisions.is_empty() {
        writeln!(out, "the log has no scheduling decision about it")?;
    }
    for (at, decision) in &decisions {
        writeln!(out)?;
        write_decision(*at, decision, out)?;
    }
    Ok(Exit::Yes)
}

fn write_decision(at: Timestamp, decision: &Scheduled, out: &mut dyn Write) -> io::Result<()> {
    let chosen = decision.weighed.iter().find(|weighed| Some(weighed.host) == decision.chosen);
    let result = chosen.map_or("no suitable host", |weighed| weighed.hostname.as_str());
    writeln!(out, "{at}  attempt {}: {}", decision.attempt, printable(result))?;
    let wanted: Vec<String> = decision.wanted.iter().map(|(class, amount)| format!("{amount} {class}")).collect();
    writeln!(out, "  asked for   {}", wanted.join(", "))?;
    if !decision.required.is_empty() {
        writeln!(out, "  required    {}", decision.required.join(", "))?;
    }
    writeln!(out, "  {:<34} {:>6}", "hosts", decision.hosts)?;
    for check in &decision.checks {
        writeln!(out, "  {:<34} {:>6} left", check.name, check.left)?;
        for refused in &check.refused {
            writeln!(out, "      {}: {}", printable(&refused.hostname), printable(&refused.reason))?;
        }
    }
    for weighed in &decision.weighed {
        let parts: Vec<String> = weighed
            .parts
            .iter()
            .map(|part| format!("{} {:+.3} ({})", part.weigher.trim_end_matches("Weigher"), part.weight, part.value))
            .collect();
        writeln!(out, "  weight {:+.3}  {}  {}", weighed.weight, printable(&weighed.hostname), parts.join(", "))?;
    }
    if !decision.alternates.is_empty() {
        writeln!(out, "  alternates  {}", printable(&decision.alternates.join(", ")))?;
    }
    for lost in &decision.lost {
        writeln!(out, "  lost        {}: {}", printable(&lost.hostname), printable(&lost.reason))?;
    }
    Ok(())
}
