//! `/os-instance_usage_audit_log`: the progress of the hosts' usage reports for the last month.
//!
//! Nova's compute hosts send such reports to a metering service if `[DEFAULT] instance_usage_audit` is on. Here usage
//! is read from the log (`os-simple-tenant-usage`), and no host sends reports. The answer is the one that Nova gives
//! while that option is off, which is the option's default.
//!
//! Source: nova `api/openstack/compute/instance_usage_audit_log.py`, `utils.last_completed_audit_period`.

use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, NaiveTime};
use serde_json::{Value, json};

use super::bodies::no_query;
use crate::compute::answers::hosts as answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("instance_usage_audit_log.index", "/os-instance_usage_audit_log", handler!(index))
        .policy("os_compute_api:os-instance-usage-audit-log:list")
        .query(no_query)
        .answers(answers::audit_logs),
    get("instance_usage_audit_log.show", "/os-instance_usage_audit_log/{id}", handler!(show))
        .policy("os_compute_api:os-instance-usage-audit-log:show")
        .query(no_query)
        .answers(answers::audit_log),
];

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let now = ctx.queries()?.clock.now().to_utc().naive_utc();
    Ok(Reply::ok(json!({"instance_usage_audit_logs": audit(&ctx, now)?})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let text = ctx.param("id");
    let form = if text.contains('.') { "%Y-%m-%d %H:%M:%S%.f" } else { "%Y-%m-%d %H:%M:%S" };
    let before = NaiveDateTime::parse_from_str(text, form)
        .map_err(|_| Fault::bad_request(format!("Invalid timestamp for date {text}")))?;
    Ok(Reply::ok(json!({"instance_usage_audit_log": audit(&ctx, before)?})))
}

/// The last month that ended before `before`. As in Nova, the month must not end exactly at `before`.
fn period(before: NaiveDateTime) -> Option<(NaiveDateTime, NaiveDateTime)> {
    let first = NaiveDate::from_ymd_opt(before.year(), before.month(), 1)?.and_time(NaiveTime::MIN);
    let end = if first >= before { first.checked_sub_months(Months::new(1))? } else { first };
    Some((end.checked_sub_months(Months::new(1))?, end))
}

fn audit(ctx: &Ctx, before: NaiveDateTime) -> Result<Value, Fault> {
    let far = || Fault::bad_request(format!("Invalid timestamp for date {before}"));
    let (begin, end) = period(before).ok_or_else(far)?;
    let text = |at: NaiveDateTime| at.format("%Y-%m-%d %H:%M:%S").to_string();
    let mut hosts: Vec<String> =
        ctx.queries()?.views.hosts.read(|hosts| hosts.all().map(|host| host.hostname.clone()).collect());
    hosts.sort();
    let done = if hosts.is_empty() { "ALL".to_owned() } else { format!("0 of {}", hosts.len()) };
    Ok(json!({
        "period_beginning": text(begin),
        "period_ending": text(end),
        "num_hosts": hosts.len(),
        "num_hosts_done": 0,
        "num_hosts_running": 0,
        "num_hosts_not_run": hosts.len(),
        "hosts_not_run": hosts,
        "total_instances": 0,
        "total_errors": 0,
        "overall_status": format!("{done} hosts done. 0 errors."),
        "log": {},
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_period_is_the_last_whole_month() {
        let at = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap();
        for (before, begin, end) in [
            ("2012-07-05 10:00:00", "2012-06-01 00:00:00", "2012-07-01 00:00:00"),
            ("2012-07-01 00:00:00", "2012-05-01 00:00:00", "2012-06-01 00:00:00"),
            ("2012-01-15 00:00:00", "2011-12-01 00:00:00", "2012-01-01 00:00:00"),
        ] {
            assert_eq!(period(at(before)), Some((at(begin), at(end))), "{before}");
        }
    }
}
