//! The decisions on security groups.

use chronova_events::ids::{ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::security_group::{
    DEFAULT, Direction, Ethertype, GroupCreated, GroupDeleted, GroupSettings, GroupSettingsReplaced, RuleAdded,
    RuleRemoved, RuleTraffic, SecurityGroup, SecurityGroupEvent, SecurityGroups, default_group,
};
use chronova_events::tags::TagsChange;

use super::{GroupPatch, Limit, SecurityGroupCommand, SecurityGroupReject};
use crate::services::embedded::network::RevisionMismatch;

pub fn decide(
    state: &SecurityGroups,
    command: SecurityGroupCommand,
) -> Result<Vec<SecurityGroupEvent>, SecurityGroupReject> {
    match command {
        SecurityGroupCommand::EnsureDefault { project } => Ok(ensure_default(state, &project)),
        SecurityGroupCommand::Create { created, limit } => create(state, created, limit),
        SecurityGroupCommand::Change { group, patch } => change(state, group, patch),
        SecurityGroupCommand::Delete { group, default_too } => delete(state, group, default_too),
        SecurityGroupCommand::AddRules { rules, limit } => add_rules(state, rules, limit),
        SecurityGroupCommand::RemoveRule { rule } => remove_rule(state, rule),
        SecurityGroupCommand::IfRevision { group, revision, command } => {
            RevisionMismatch::check(revision, state.by_id.get(&group).map(|group| group.revision))?;
            decide(state, *command)
        }
    }
}

fn find(state: &SecurityGroups, group: SecurityGroupId) -> Result<&SecurityGroup, SecurityGroupReject> {
    state.by_id.get(&group).map(AsRef::as_ref).ok_or(SecurityGroupReject::NotFound(group))
}

/// A rule that a group has from its creation on. The id is derived from the group's id.
fn implied(group: &GroupCreated, direction: Direction, ethertype: Ethertype) -> SecurityGroupEvent {
    let name = format!("{direction:?}-{ethertype:?}");
    let remote_group = (direction == Direction::Ingress).then_some(group.group);
    RuleAdded {
        rule: SecurityGroupRuleId::derive(group.group.0, &name),
        group: group.group,
        project: group.project.clone(),
        description: String::new(),
        traffic: RuleTraffic {
            direction,
            ethertype,
            protocol: None,
            port_min: None,
            port_max: None,
            remote_prefix: None,
            remote_group,
        },
    }
    .into()
}

/// Creates the project's default group if there is none. Its members may send anywhere and receive from each other.
fn ensure_default(state: &SecurityGroups, project: &ProjectId) -> Vec<SecurityGroupEvent> {
    let group = default_group(project);
    if state.by_id.contains_key(&group) {
        return vec![];
    }
    let created = GroupCreated {
        group,
        project: project.clone(),
        settings: GroupSettings {
            name: DEFAULT.to_owned(),
            description: "Default security group".to_owned(),
            stateful: true,
            tags: vec![],
        },
    };
    let mut events = vec![created.clone().into()];
    for ethertype in [Ethertype::Ipv4, Ethertype::Ipv6] {
        for direction in [Direction::Ingress, Direction::Egress] {
            events.push(implied(&created, direction, ethertype));
        }
    }
    events
}

fn within(limit: Limit, used: usize, more: usize) -> bool {
    usize::try_from(limit).map_or(true, |limit| used + more <= limit)
}

fn create(
    state: &SecurityGroups,
    created: GroupCreated,
    limit: Limit,
) -> Result<Vec<SecurityGroupEvent>, SecurityGroupReject> {
    let mut events = ensure_default(state, &created.project);
    if created.settings.name.eq_ignore_ascii_case(DEFAULT) {
        return Err(SecurityGroupReject::DefaultExists);
    }
    if state.by_id.contains_key(&created.group) {
        return Err(SecurityGroupReject::IdTaken(created.group.to_string()));
    }
    // The default group, which this command may create, counts too.
    let used = state.by_id.len() + usize::from(!events.is_empty());
    if !within(limit, used, 1) {
        return Err(SecurityGroupReject::OverQuota("security_group"));
    }
    let rules = [Ethertype::Ipv4, Ethertype::Ipv6].map(|ethertype| implied(&created, Direction::Egress, ethertype));
    events.push(created.into());
    events.extend(rules);
    Ok(events)
}

fn change(
    state: &SecurityGroups,
    group: SecurityGroupId,
    patch: GroupPatch,
) -> Result<Vec<SecurityGroupEvent>, SecurityGroupReject> {
    let known = find(state, group)?;
    let old = known.settings();
    let settings = GroupSettings {
        name: patch.name.unwrap_or_else(|| old.name.clone()),
        description: patch.description.unwrap_or_else(|| old.description.clone()),
        stateful: patch.stateful.unwrap_or(old.stateful),
        tags: patch.tags.unwrap_or_else(|| old.tags.clone()),
    };
    if settings.name != old.name {
        if old.name == DEFAULT {
            return Err(SecurityGroupReject::CannotChangeDefault);
        }
        if settings.name.eq_ignore_ascii_case(DEFAULT) {
            return Err(SecurityGroupReject::DefaultExists);
        }
    }
    if settings == *old {
        return Ok(vec![]);
    }
    let (settings, tags) = TagsChange::between(&old.tags, settings);
    Ok(vec![GroupSettingsReplaced { group, settings, tags }.into()])
}

fn delete(
    state: &SecurityGroups,
    group: SecurityGroupId,
    default_too: bool,
) -> Result<Vec<SecurityGroupEvent>, SecurityGroupReject> {
    let known = find(state, group)?;
    if known.id() == default_group(known.project()) && !default_too {
        return Err(SecurityGroupReject::CannotRemoveDefault);
    }
    let others = state.by_id.values().filter(|other| other.id() != group);
    let mut events: Vec<SecurityGroupEvent> = others
        .flat_map(|other| other.rules.values())
        .filter(|rule| rule.added.traffic.remote_group == Some(group))
        .map(|rule| RuleRemoved { rule: rule.added.rule, group: rule.added.group }.into())
        .collect();
    events.push(GroupDeleted { group }.into());
    Ok(events)
}

fn add_rules(
    state: &SecurityGroups,
    rules: Vec<RuleAdded>,
    limit: Limit,
) -> Result<Vec<SecurityGroupEvent>, SecurityGroupReject> {
    let mut events: Vec<RuleAdded> = Vec::new();
    for added in rules {
        let group = find(state, added.group)?;
        if group.rules.contains_key(&added.rule) {
            return Err(SecurityGroupReject::IdTaken(added.rule.to_string()));
        }
        check(&added.traffic)?;
        let there = group.rules.values().map(|rule| &rule.added);
        let asked = events.iter().filter(|other| other.group == added.group);
        if let Some(same) = there.chain(asked).find(|other| same_traffic(&other.traffic, &added.traffic)) {
            return Err(SecurityGroupReject::RuleExists(same.rule));
        }
        events.push(added);
    }
    if !within(limit, state.rules, events.len()) {
        return Err(SecurityGroupReject::OverQuota("security_group_rule"));
    }
    Ok(events.into_iter().map(Into::into).collect())
}

/// A rule without a remote prefix equals one with the prefix of all addresses.
fn same_traffic(one: &RuleTraffic, other: &RuleTraffic) -> bool {
    let plain = |traffic: &RuleTraffic| {
        let mut traffic = traffic.clone();
        traffic.remote_prefix = traffic.remote_prefix.filter(|prefix| prefix != "0.0.0.0/0" && prefix != "::/0");
        traffic
    };
    plain(one) == plain(other)
}

fn check(traffic: &RuleTraffic) -> Result<(), SecurityGroupReject> {
    let wrong = |text: &str| Err(SecurityGroupReject::InvalidInput(text.to_owned()));
    if traffic.remote_prefix.is_some() && traffic.remote_group.is_some() {
        return wrong("Only remote_ip_prefix or remote_group_id may be provided");
    }
    let icmp = matches!(traffic.protocol.as_deref(), Some("icmp" | "1" | "icmpv6" | "ipv6-icmp" | "58"));
    match (traffic.port_min, traffic.port_max) {
        (Some(min), Some(max)) if !icmp && min > max => {
            wrong("For TCP/UDP protocols, port_range_min must be <= port_range_max")
        }
        (None, Some(max)) if icmp => {
            wrong(&format!("ICMP code (port-range-max) {max} is provided but ICMP type (port-range-min) is missing"))
        }
        (Some(min), max) if icmp && (min > 255 || max.is_some_and(|max| max > 255)) => {
            wrong("ICMP type and code must be between 0 and 255")
        }
        _ => Ok(()),
    }
}

fn remove_rule(
    state: &SecurityGroups,
    rule: SecurityGroupRuleId,
) -> Result<Vec<SecurityGroupEvent>, SecurityGroupReject> {
    let group = state.by_id.values().find(|group| group.rules.contains_key(&rule));
    let group = group.ok_or(SecurityGroupReject::RuleNotFound(rule))?;
    Ok(vec![RuleRemoved { rule, group: group.id() }.into()])
}
