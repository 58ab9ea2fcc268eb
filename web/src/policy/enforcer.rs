//! The rules in force, and the decision.
//!
//! A default, its deprecated predecessor and an override combine as in oslo.policy. If the operator overrides the rule,
//! only this override counts. Otherwise an override of the predecessor counts, if there is one. Otherwise the default
//! counts, and without `enforce_new_defaults`, the predecessor's default also grants access.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use super::check::{self, PolicyCheck};
use super::defaults::{self, RuleDefault, ScopeType};
use super::error::{LONGEST_CHAIN, PolicyError};
use super::{Overrides, Permit, PolicyTarget};
use crate::auth::{Caller, Requester};
use crate::config::PolicyConfig;
use crate::fault::Fault;
use crate::service::Service;

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDenied {
    pub rule: &'static str,
}

impl PolicyDenied {
    /// 403 in the service's words.
    pub fn fault(&self, service: Service) -> Fault {
        Fault::denied(service, self.rule)
    }
}

#[derive(Debug, Clone)]
struct RegisteredRule {
    check: PolicyCheck,
    scopes: &'static [ScopeType],
    /// Whether the rule decides on operations. Other rules are building blocks.
    is_of_api: bool,
}

/// One service's rules.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    rules: BTreeMap<String, RegisteredRule>,
    /// The rule that is used in place of an undefined rule.
    default_rule: String,
    enforce_scope: bool,
}

impl RuleSet {
    /// Combines defaults and overrides.
    pub fn build(
        defaults: &[&'static [RuleDefault]],
        overrides: &Overrides,
        config: &PolicyConfig,
    ) -> Result<Self, PolicyError> {
        let mut rules = BTreeMap::new();
        for default in defaults.iter().copied().flatten() {
            let check = effective(default, overrides, config.enforce_new_defaults)?;
            let is_of_api = !default.operations.is_empty() || !default.scopes.is_empty();
            rules.insert(default.name.to_owned(), RegisteredRule { check, scopes: default.scopes, is_of_api });
        }
        // Overrides with unknown names are the operator's own building blocks.
        for (name, check) in &overrides.rules {
            let own = || RegisteredRule { check: check.clone(), scopes: &[], is_of_api: false };
            rules.entry(name.clone()).or_insert_with(own);
        }
        let (default_rule, enforce_scope) = (config.default_rule.clone(), config.enforce_scope);
        let set = Self { rules, default_rule, enforce_scope };
        set.check_references()?;
        Ok(set)
    }

    /// Refuses circular references in all rules. Refuses a reference to a missing rule only if a rule of the API needs
    /// it. Other rules in the file may belong to another service.
    fn check_references(&self) -> Result<(), PolicyError> {
        let mut finished = BTreeMap::new();
        for name in self.rules.keys() {
            self.visit(name, &mut finished, 0)?;
        }
        let mut checked = BTreeSet::new();
        for (name, _) in self.rules.iter().filter(|(_, entry)| entry.is_of_api) {
            self.check_complete(name, &mut checked)?;
        }
        Ok(())
    }

    /// Refuses this rule if it needs a missing rule, directly or through other rules, and no default rule replaces the
    /// missing one. [`RuleSet::visit`] has refused circular references before.
    fn check_complete<'a>(&'a self, name: &'a str, checked: &mut BTreeSet<&'a str>) -> Result<(), PolicyError> {
        let Some(entry) = self.rules.get(name).filter(|_| checked.insert(name)) else { return Ok(()) };
        for wanted in entry.check.references() {
            if self.rule(wanted).is_none() {
                return Err(PolicyError::Missing { rule: name.to_owned(), missing: wanted.to_owned() });
            }
            if self.rules.contains_key(wanted) {
                self.check_complete(wanted, checked)?;
            } else {
                let instead = self.default_rule.as_str();
                tracing::warn!(
                    rule = name,
                    missing = wanted,
                    instead,
                    "the default rule replaces a missing policy rule"
                );
                self.check_complete(instead, checked)?;
            }
        }
        Ok(())
    }

    /// The length of the longest chain of references below this rule. In `finished`, `None` marks a rule that is being
    /// visited.
    fn visit<'a>(
        &'a self,
        name: &'a str,
        finished: &mut BTreeMap<&'a str, Option<usize>>,
        depth: usize,
    ) -> Result<usize, PolicyError> {
        match finished.get(name) {
            Some(Some(height)) => return Ok(*height),
            Some(None) => return Err(PolicyError::Circular(name.to_owned())),
            None if depth > LONGEST_CHAIN => return Err(PolicyError::TooLong(name.to_owned())),
            None => {}
        }
        finished.insert(name, None);
        let mut height = 0;
        if let Some(entry) = self.rule(name) {
            for wanted in entry.check.references() {
                height = height.max(self.visit(wanted, finished, depth + 1)? + 1);
            }
        }
        if height > LONGEST_CHAIN {
            return Err(PolicyError::TooLong(name.to_owned()));
        }
        finished.insert(name, Some(height));
        Ok(height)
    }

    /// The rule of that name, or the default rule.
    fn rule(&self, name: &str) -> Option<&RegisteredRule> {
        self.rules.get(name).or_else(|| self.rules.get(&self.default_rule))
    }

    /// Whether `rule` grants `caller` access to `target`.
    pub fn allows(&self, rule: &str, caller: &Caller, target: &PolicyTarget) -> bool {
        let Some(entry) = self.rule(rule) else { return false };
        if self.enforce_scope && !entry.scopes.is_empty() && !entry.scopes.contains(&ScopeType::of(caller)) {
            return false;
        }
        entry.check.holds(caller, target, &|name| self.holds(name, caller, target))
    }

    /// Whether a referenced rule holds. The scopes of a referenced rule are not checked; only the scopes of the
    /// requested rule are checked.
    fn holds(&self, rule: &str, caller: &Caller, target: &PolicyTarget) -> bool {
        self.rule(rule).is_some_and(|entry| entry.check.holds(caller, target, &|name| self.holds(name, caller, target)))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.keys().map(String::as_str)
    }
}

fn effective(default: &RuleDefault, overrides: &Overrides, new_only: bool) -> Result<PolicyCheck, PolicyError> {
    if let Some(check) = overrides.rules.get(default.name) {
        return Ok(check.clone());
    }
    let parse =
        |text: &str| check::parse(text).map_err(|source| PolicyError::Check { rule: default.name.to_owned(), source });
    let current = parse(default.check)?;
    let Some((name, text)) = default.deprecated else { return Ok(current) };
    if name != default.name
        && let Some(check) = overrides.rules.get(name)
        && *check != PolicyCheck::Rule(default.name.to_owned())
    {
        return Ok(check.clone());
    }
    if new_only {
        return Ok(current);
    }
    Ok(PolicyCheck::Or(vec![current, parse(text)?]))
}

/// The rules of all services.
///
/// Clones share the rules, even after an [`Enforcer::reload`].
#[derive(Debug, Clone)]
pub struct Enforcer {
    sets: Arc<RwLock<RuleSets>>,
}

type RuleSets = BTreeMap<Service, Arc<RuleSet>>;

impl Enforcer {
    /// Reads the files that the configuration names.
    pub fn load(config: &PolicyConfig) -> Result<Self, PolicyError> {
        let shared = Overrides::configured(config)?;
        let mut sets = BTreeMap::new();
        for service in Service::ALL {
            let own = config.service_policy_files.iter().find(|(of, _)| *of == service);
            let set = match own {
                Some((_, path)) => Self::set(service, &Overrides::load(path)?, config)?,
                None => Self::set(service, &shared, config)?,
            };
            sets.insert(service, Arc::new(set));
        }
        Ok(Self::with(sets))
    }

    /// Uses the same overrides for every service.
    pub fn new(config: &PolicyConfig, overrides: &Overrides) -> Result<Self, PolicyError> {
        let sets = Service::ALL
            .into_iter()
            .map(|service| Ok((service, Arc::new(Self::set(service, overrides, config)?))))
            .collect::<Result<_, PolicyError>>()?;
        Ok(Self::with(sets))
    }

    fn with(sets: RuleSets) -> Self {
        Self { sets: Arc::new(RwLock::new(sets)) }
    }

    /// Reads the files again. After an error the rules stay as they are.
    pub fn reload(&self, config: &PolicyConfig) -> Result<(), PolicyError> {
        let fresh = Self::load(config)?;
        let sets = std::mem::take(&mut *fresh.sets.write().unwrap_or_else(PoisonError::into_inner));
        *self.sets.write().unwrap_or_else(PoisonError::into_inner) = sets;
        Ok(())
    }

    fn set(service: Service, overrides: &Overrides, config: &PolicyConfig) -> Result<RuleSet, PolicyError> {
        RuleSet::build(defaults::of(service), overrides, config)
    }

    pub fn rules(&self, service: Service) -> Option<Arc<RuleSet>> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner).get(&service).cloned()
    }

    /// Decides whether the rule grants access. The permit proves that it does.
    pub fn authorize(
        &self,
        service: Service,
        rule: &'static str,
        requester: &Arc<Requester>,
        target: &PolicyTarget,
    ) -> Result<Permit, PolicyDenied> {
        if self.allows(service, rule, &requester.caller, target) {
            Ok(Permit::grant(rule, requester))
        } else {
            Err(PolicyDenied { rule })
        }
    }

    /// The decision without a permit, for fields and filters that only some callers get.
    ///
    /// An unscoped token is valid only at the identity service, which exchanges it for a scoped token. At the
    /// other services even a rule for everybody (`@`) needs a token for a project, a domain or the system.
    pub fn allows(&self, service: Service, rule: &str, caller: &Caller, target: &PolicyTarget) -> bool {
        if service != Service::Identity && caller.is_unscoped() {
            return false;
        }
        self.rules(service).is_some_and(|set| set.allows(rule, caller, target))
    }

    /// Whether the caller is an administrator of the service, by its `context_is_admin` or the equivalent rule. At
    /// services without such a rule, the role `admin` decides.
    pub fn is_admin(&self, service: Service, caller: &Caller) -> bool {
        let rule = match service {
            Service::Compute | Service::Network | Service::Image => "context_is_admin",
            Service::Placement => "admin_api",
            Service::Identity => "admin_required",
            Service::Volume | Service::Metadata | Service::Chronova => return caller.has_role("admin"),
        };
        self.allows(service, rule, caller, &PolicyTarget::of(caller))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use chronova_events::ids::{ProjectId, RequestId, UserId};

    use super::*;

    fn requester(roles: &[&str], project: Option<&str>) -> Arc<Requester> {
        let mut caller = Caller::of_user(UserId::new("u1"));
        caller.project = project.map(ProjectId::new);
        if project.is_none() {
            caller.system_scope = Some("all".to_owned());
        }
        caller.roles = roles.iter().map(|role| (*role).to_owned()).collect();
        Arc::new(Requester { caller, request_id: RequestId::new("req-1"), global_request_id: None, source: None })
    }

    fn enforcer(yaml: &str, new_only: bool) -> Result<Enforcer, PolicyError> {
        let config = PolicyConfig { enforce_new_defaults: new_only, ..PolicyConfig::default() };
        Enforcer::new(&config, &Overrides::parse(yaml, "policy.yaml")?)
    }

    fn allowed(enforcer: &Enforcer, rule: &'static str, requester: &Arc<Requester>, project: &str) -> bool {
        let target = PolicyTarget::default().with("project_id", project);
        enforcer.authorize(Service::Compute, rule, requester, &target).is_ok()
    }

    #[test]
    fn defaults_of_servers() {
        let enforcer = enforcer("", true).unwrap();
        let (reader, member) = (requester(&["reader"], Some("p1")), requester(&["member"], Some("p1")));
        let admin = requester(&["admin"], Some("p2"));
        assert!(allowed(&enforcer, "os_compute_api:servers:index", &reader, "p1"));
        assert!(!allowed(&enforcer, "os_compute_api:servers:index", &reader, "p2"));
        assert!(!allowed(&enforcer, "os_compute_api:servers:create", &reader, "p1"));
        assert!(allowed(&enforcer, "os_compute_api:servers:create", &member, "p1"));
        assert!(allowed(&enforcer, "os_compute_api:servers:create", &admin, "p1"));
        assert!(!allowed(&enforcer, "no:such:rule", &admin, "p1"));
    }

    #[test]
    fn scope_counts_where_it_is_enforced() {
        let system = requester(&["admin"], None);
        let default = enforcer("", true).unwrap();
        assert!(!allowed(&default, "os_compute_api:os-hypervisors:list", &system, "p"));
        assert!(allowed(&default, "os_compute_api:chronova:as_of", &system, "p"), "the past of other APIs is closed");
        assert!(!allowed(&default, "os_compute_api:chronova:as_of", &requester(&["reader"], None), "p"));
        let config = PolicyConfig { enforce_scope: false, ..PolicyConfig::default() };
        let open = Enforcer::new(&config, &Overrides::default()).unwrap();
        assert!(allowed(&open, "os_compute_api:os-hypervisors:list", &system, "p"));
    }

    #[test]
    fn the_deprecated_default_is_ored_unless_the_option_forbids_it() {
        let plain = requester(&[], Some("p1"));
        // The old default of os_compute_api:os-instance-actions:list was admin_or_owner, which required no role.
        let rule = "os_compute_api:os-instance-actions:list";
        assert!(!allowed(&enforcer("", true).unwrap(), rule, &plain, "p1"));
        assert!(allowed(&enforcer("", false).unwrap(), rule, &plain, "p1"));
    }

    #[test]
    fn overrides_count_alone_and_by_the_old_name_too() {
        let member = requester(&["member"], Some("p1"));
        let shut = enforcer("'os_compute_api:servers:create': 'role:builder'", false).unwrap();
        assert!(!allowed(&shut, "os_compute_api:servers:create", &member, "p1"));
        let old = enforcer("'os_compute_api:os-instance-actions': '!'", true).unwrap();
        assert!(!allowed(&old, "os_compute_api:os-instance-actions:list", &member, "p1"));
        let own = enforcer("'os_compute_api:servers:create': 'rule:mine'\nmine: 'role:member'", true).unwrap();
        assert!(allowed(&own, "os_compute_api:servers:create", &member, "p2"));
    }

    #[test]
    fn the_default_rule_decides_for_undefined_rules() {
        let (member, stranger) = (requester(&["member"], Some("p1")), requester(&["stranger"], Some("p1")));
        let text = "default: 'role:member'\n'os_compute_api:servers:create': 'rule:nowhere'";
        let set = enforcer(text, true).unwrap();
        for rule in ["os_compute_api:servers:create", "no:such:rule"] {
            assert!(allowed(&set, rule, &member, "p1"), "{rule}");
            assert!(!allowed(&set, rule, &stranger, "p1"), "{rule}");
        }
        let config = PolicyConfig { default_rule: "other".to_owned(), ..PolicyConfig::default() };
        let overrides = Overrides::parse("other: '@'\ndefault: '!'", "policy.yaml").unwrap();
        assert!(allowed(&Enforcer::new(&config, &overrides).unwrap(), "no:such:rule", &stranger, "p1"));
        assert!(matches!(enforcer("default: 'rule:nowhere'", true), Err(PolicyError::Circular(_))));
    }

    #[test]
    fn a_bad_policy_file_stops_the_start() {
        assert!(matches!(enforcer("a: 'rule:b'\nb: 'rule:a'", true), Err(PolicyError::Circular(_))));
        for step in [1, -1] {
            let line = |n: i32| format!("r{}: 'rule:r{}'\n", 50_000 + n * step, 50_000 + (n + 1) * step);
            let chain = |length| (0..length).map(line).collect::<String>();
            assert!(matches!(enforcer(&chain(5_000), true), Err(PolicyError::TooLong(_))));
            assert!(enforcer(&chain(90), true).is_ok());
        }
    }

    /// A rule of the API may need the missing rule directly, or through an operator's rule or a building block.
    #[test]
    fn a_missing_rule_stops_the_start_wherever_the_api_needs_it() {
        for (text, of) in [
            ("'os_compute_api:servers:create': 'rule:nowhere'", "os_compute_api:servers:create"),
            ("'os_compute_api:servers:create': 'rule:mine'\nmine: 'role:a or rule:nowhere'", "mine"),
            ("project_reader_api: 'rule:nowhere'", "project_reader_api"),
            ("admin_required: 'rule:nowhere'", "admin_required"),
        ] {
            let Err(PolicyError::Missing { rule, missing }) = enforcer(text, true) else {
                panic!("{text} is accepted")
            };
            assert_eq!((rule.as_str(), missing.as_str()), (of, "nowhere"), "{text}");
        }
        // No rule of an API needs these rules.
        assert!(enforcer("mine: 'rule:nowhere'\n'os_sharing_api:shares:create': 'rule:nowhere'", true).is_ok());
    }
}
