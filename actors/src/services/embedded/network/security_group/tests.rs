#![allow(clippy::unwrap_used, clippy::expect_used)]
//! Tests of the form: given these events, a command leads to these events or this refusal.

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::ids::{ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::security_group::{
    Direction, Ethertype, GroupCreated, GroupSettings, RuleAdded, RuleTraffic, SecurityGroupEvent, SecurityGroups,
    default_group,
};
use uuid::Uuid;

use super::decide::decide;
use super::{GroupPatch, SecurityGroupCommand, SecurityGroupReject};

fn project() -> ProjectId {
    ProjectId::new("p")
}

fn group(n: u128) -> SecurityGroupId {
    SecurityGroupId(Uuid::from_u128(n))
}

fn create(n: u128, name: &str) -> SecurityGroupCommand {
    let settings = GroupSettings { name: name.into(), description: String::new(), stateful: true, tags: vec![] };
    SecurityGroupCommand::Create { created: GroupCreated { group: group(n), project: project(), settings }, limit: 3 }
}

fn rule(n: u128, of: SecurityGroupId) -> RuleAdded {
    RuleAdded {
        rule: SecurityGroupRuleId(Uuid::from_u128(100 + n)),
        group: of,
        project: project(),
        description: String::new(),
        traffic: RuleTraffic {
            direction: Direction::Ingress,
            ethertype: Ethertype::Ipv4,
            protocol: Some("tcp".into()),
            port_min: Some(22),
            port_max: Some(22),
            remote_prefix: None,
            remote_group: None,
        },
    }
}

fn add(rules: Vec<RuleAdded>) -> SecurityGroupCommand {
    SecurityGroupCommand::AddRules { rules, limit: 10 }
}

#[derive(Default)]
struct Given(SecurityGroups);

impl Given {
    fn and(mut self, command: SecurityGroupCommand) -> Self {
        for event in decide(&self.0, command).expect("accepted") {
            self.0.evolve(&event, Timestamp(7));
        }
        self
    }

    fn when(&self, command: SecurityGroupCommand) -> Result<Vec<SecurityGroupEvent>, SecurityGroupReject> {
        decide(&self.0, command)
    }
}

#[test]
fn the_default_group_appears_once_with_four_rules() {
    let ensure = || SecurityGroupCommand::EnsureDefault { project: project() };
    let given = Given::default().and(ensure());
    let default = &given.0.by_id[&default_group(&project())];
    assert_eq!((default.settings().name.as_str(), default.rules.len()), ("default", 4));
    let own = default.rules.values().filter(|rule| rule.added.traffic.remote_group == Some(default.id())).count();
    assert_eq!(own, 2, "one rule for IPv4 and one for IPv6");
    assert_eq!(given.when(ensure()), Ok(vec![]));
}

#[test]
fn a_new_group_allows_all_egress_and_ensures_the_default_group() {
    let given = Given::default().and(create(1, "web"));
    assert_eq!(given.0.by_id.len(), 2);
    let web = &given.0.by_id[&group(1)];
    assert!(web.rules.values().all(|rule| rule.added.traffic.direction == Direction::Egress));
    assert_eq!((web.rules.len(), given.0.rules), (2, 6));
    assert_eq!(given.when(create(2, "Default")), Err(SecurityGroupReject::DefaultExists));
    let given = given.and(create(2, "web"));
    assert_eq!(given.when(create(3, "db")), Err(SecurityGroupReject::OverQuota("security_group")));
}

#[test]
fn the_default_group_cannot_be_renamed_or_deleted() {
    let default = default_group(&project());
    let given = Given::default().and(create(1, "web"));
    let rename = |group, name: &str| SecurityGroupCommand::Change {
        group,
        patch: GroupPatch { name: Some(name.into()), ..GroupPatch::default() },
    };
    assert_eq!(given.when(rename(default, "x")), Err(SecurityGroupReject::CannotChangeDefault));
    assert_eq!(given.when(rename(group(1), "default")), Err(SecurityGroupReject::DefaultExists));
    assert_eq!(given.when(rename(group(1), "web")), Ok(vec![]));
    assert_eq!(
        given.when(SecurityGroupCommand::Delete { group: default, default_too: false }),
        Err(SecurityGroupReject::CannotRemoveDefault)
    );
}

#[test]
fn deleting_a_group_deletes_the_rules_that_name_it() {
    let mut to_web = rule(1, group(1));
    to_web.group = default_group(&project());
    to_web.traffic.remote_group = Some(group(1));
    let given = Given::default().and(create(1, "web")).and(add(vec![to_web.clone()]));
    assert_eq!(given.0.rules, 7);
    let given = given.and(SecurityGroupCommand::Delete { group: group(1), default_too: false });
    assert_eq!(given.0.rules, 4);
    assert!(!given.0.by_id[&to_web.group].rules.contains_key(&to_web.rule));
}

#[test]
fn rules_are_added_all_or_none_and_never_twice() {
    let given = Given::default().and(create(1, "web")).and(add(vec![rule(1, group(1))]));
    let mut anywhere = rule(2, group(1));
    anywhere.traffic.remote_prefix = Some("0.0.0.0/0".into());
    assert_eq!(given.when(add(vec![anywhere])), Err(SecurityGroupReject::RuleExists(rule(1, group(1)).rule)));
    let mut https = rule(3, group(1));
    (https.traffic.port_min, https.traffic.port_max) = (Some(443), Some(443));
    assert!(given.when(add(vec![https.clone(), https.clone()])).is_err());
    let many = SecurityGroupCommand::AddRules { rules: vec![https], limit: 7 };
    assert_eq!(given.when(many), Err(SecurityGroupReject::OverQuota("security_group_rule")));
    assert_eq!(given.when(add(vec![rule(4, group(9))])), Err(SecurityGroupReject::NotFound(group(9))));
    let gone = SecurityGroupRuleId(Uuid::from_u128(9));
    let refused = given.when(SecurityGroupCommand::RemoveRule { rule: gone });
    assert_eq!(refused, Err(SecurityGroupReject::RuleNotFound(gone)));
}

#[test]
fn invalid_rules_are_refused() {
    let given = Given::default().and(create(1, "web"));
    let refused = |change: &dyn Fn(&mut RuleTraffic)| {
        let mut rule = rule(1, group(1));
        change(&mut rule.traffic);
        matches!(given.when(add(vec![rule])), Err(SecurityGroupReject::InvalidInput(_)))
    };
    assert!(refused(&|traffic| traffic.port_max = Some(1)));
    assert!(refused(&|traffic| {
        traffic.remote_prefix = Some("192.0.2.0/24".into());
        traffic.remote_group = Some(group(1));
    }));
    assert!(refused(&|traffic| {
        traffic.protocol = Some("icmp".into());
        traffic.port_min = Some(300);
        traffic.port_max = None;
    }));
    assert!(refused(&|traffic| {
        traffic.protocol = Some("icmp".into());
        traffic.port_min = None;
    }));
}
