//! Reads the filters of query strings: resources, traits, aggregates.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ledger::Ledger;
use chronova_projections::placement::candidates::{AggregateFilter, TraitFilter};
use uuid::Uuid;

use super::versions;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::schema::uuid_of;

/// Reads amounts of resources: `VCPU:2,MEMORY_MB:1024`.
pub(super) fn resources(text: &str) -> Result<BTreeMap<String, u64>, Fault> {
    let malformed = |got: &str| {
        Fault::bad_request(format!(
            "Badly formed resources parameter. Expected resources query string parameter in form: \
             ?resources=VCPU:2,MEMORY_MB:1024. Got: {got}."
        ))
    };
    if text.trim().is_empty() {
        return Err(malformed("empty string"));
    }
    let mut wanted = BTreeMap::new();
    for pair in text.split(',') {
        let (class, amount) = pair.split_once(':').ok_or_else(|| malformed(pair))?;
        if amount.contains(':') {
            return Err(malformed(pair));
        }
        let number: i64 = amount.trim().parse().map_err(|_| {
            Fault::bad_request(format!("Requested resource {class} expected positive integer amount. Got: {amount}."))
        })?;
        let number = u64::try_from(number).ok().filter(|number| *number >= 1).ok_or_else(|| {
            Fault::bad_request(format!("Requested resource {class} requires amount >= 1. Got: {number}."))
        })?;
        wanted.insert(class.to_owned(), number);
    }
    Ok(wanted)
}

/// Reads `required{suffix}`. From 1.39 on the parameter may be repeated.
pub(super) fn traits(ctx: &Ctx, suffix: &str) -> Result<TraitFilter, Fault> {
    let key = format!("required{suffix}");
    let mut values: Vec<&str> = ctx.query.all(&key).collect();
    let any = versions::can_ask_for_any_trait(ctx.version);
    if !any && values.len() > 1 {
        // Before 1.39 only the last value is used.
        values.drain(..values.len() - 1);
    }
    let mut filter = TraitFilter::default();
    for value in values {
        add_traits(&mut filter, value, versions::can_forbid_traits(ctx.version), any)?;
    }
    Ok(filter)
}

/// Adds one value of `required`: names, `!NAME` for a forbidden trait, or `in:` and the names of alternative traits.
pub(super) fn add_traits(filter: &mut TraitFilter, value: &str, forbid: bool, any: bool) -> Result<(), Fault> {
    let bad = |message: String| Err(Fault::bad_request(format!("Invalid query string parameters: {message}")));
    if let Some(names) = value.strip_prefix("in:") {
        if !any {
            return bad(format!(
                "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39. Got: {value}"
            ));
        }
        let names: BTreeSet<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
        if names.contains("") {
            return bad(format!(
                "Expected 'required' parameter value of the form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: \
                 {value}"
            ));
        }
        if names.iter().any(|name| name.starts_with('!')) {
            return bad(format!(
                "The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' does not support forbidden traits. Got: {value}"
            ));
        }
        filter.required.push(names);
        return Ok(());
    }
    let form = if forbid { "HW_CPU_X86_VMX,!CUSTOM_MAGIC" } else { "HW_CPU_X86_VMX,CUSTOM_MAGIC" };
    for name in value.split(',').map(str::trim) {
        let bare = name.trim_start_matches('!');
        if bare.is_empty() {
            return bad(format!(
                "Expected 'required' parameter value of the form: {form}. Got an empty trait in: {value}"
            ));
        }
        if !name.starts_with('!') {
            filter.required.push(BTreeSet::from([name.to_owned()]));
        } else if forbid {
            filter.forbidden.insert(bare.to_owned());
        } else {
            return bad(format!("Expected 'required' parameter value of the form: {form}. Got: {value}"));
        }
    }
    Ok(())
}

/// Reads `member_of{suffix}`: a UUID, or `in:` and the UUIDs of alternative aggregates. From 1.32 on, a leading `!`
/// forbids these aggregates.
pub(super) fn aggregates(ctx: &Ctx, suffix: &str) -> Result<AggregateFilter, Fault> {
    let key = format!("member_of{suffix}");
    let values: Vec<&str> = ctx.query.all(&key).collect();
    if values.len() > 1 && !versions::can_repeat_member_of(ctx.version) {
        return Err(Fault::bad_request(format!("Multiple member_of{suffix} parameters are not supported")));
    }
    let mut filter = AggregateFilter::default();
    for value in values {
        let list = value.starts_with("in:") || value.starts_with("!in:");
        if value.contains(',') && !list {
            return Err(Fault::bad_request(format!(
                "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using the valid \
                 microversion. Got: {value}"
            )));
        }
        let (forbidden, rest) = value.strip_prefix('!').map_or((false, value), |rest| (true, rest));
        let names = rest.strip_prefix("in:").unwrap_or(rest);
        let ids = names.split(',').map(aggregate).collect::<Result<BTreeSet<Uuid>, Fault>>()?;
        if !forbidden {
            filter.member_of.push(ids);
        } else if versions::can_forbid_aggregates(ctx.version) {
            filter.forbidden.extend(ids);
        } else {
            return Err(Fault::bad_request(format!(
                "Forbidden member_of{suffix} parameters are not supported in the specified microversion"
            )));
        }
    }
    Ok(filter)
}

fn aggregate(text: &str) -> Result<Uuid, Fault> {
    uuid_of(text).ok_or_else(|| {
        Fault::bad_request(format!(
            "Invalid query string parameters: Expected 'member_of' parameter to contain valid UUID(s). Got: {text}"
        ))
    })
}

/// Refuses unknown resource classes.
pub(super) fn check_classes<'a>(ledger: &Ledger, classes: impl IntoIterator<Item = &'a String>) -> Result<(), Fault> {
    match classes.into_iter().find(|class| !ledger.knows_class(class)) {
        Some(unknown) => Err(Fault::bad_request(format!(
            "Invalid resource class in resources parameter: No such resource class {unknown}."
        ))),
        None => Ok(()),
    }
}

/// Refuses unknown traits. `before` is the beginning of the message.
pub(super) fn check_traits(ledger: &Ledger, filter: &TraitFilter, before: &str) -> Result<(), Fault> {
    let named = filter.required.iter().flatten().chain(&filter.forbidden);
    let unknown: BTreeSet<&str> = named.filter(|name| !ledger.knows_trait(name)).map(String::as_str).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = unknown.into_iter().collect();
    Err(Fault::bad_request(format!("{before}No such trait(s): {}.", names.join(", "))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn resources_are_classes_with_amounts() {
        assert_eq!(
            resources("VCPU:2,DISK_GB:10").unwrap(),
            BTreeMap::from([("VCPU".into(), 2), ("DISK_GB".into(), 10)])
        );
        for bad in ["", "VCPU", "VCPU:1:2", "VCPU:many", "VCPU:0", "VCPU:-1", "VCPU:1,"] {
            assert_eq!(resources(bad).unwrap_err().status, 400, "{bad}");
        }
    }

    #[test]
    fn traits_can_be_forbidden_or_alternatives_where_the_version_says_so() {
        let read = |value, forbid, any| {
            let mut filter = TraitFilter::default();
            add_traits(&mut filter, value, forbid, any).map(|()| filter)
        };
        let filter = read("A,!B", true, false).unwrap();
        assert_eq!((filter.required.len(), filter.forbidden.len()), (1, 1));
        assert_eq!(read("in:A,B", true, true).unwrap().required, [BTreeSet::from(["A".into(), "B".into()])]);
        for (bad, forbid, any) in
            [("A,!B", false, false), ("A,,B", true, true), ("in:A", true, false), ("in:!A", true, true)]
        {
            assert!(read(bad, forbid, any).is_err(), "{bad}");
        }
    }
}
