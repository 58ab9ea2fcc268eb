//! Renders events in the vocabulary of the Cloud Auditing Data Federation (DMTF DSP0262): initiator, action, target,
//! outcome. OpenStack's own services use the same vocabulary.
//!
//! DSP0262 defines the actions, and resource types such as `compute/machine`. A type that DSP0262 lacks extends the
//! nearest type: `compute/machine/group`.

use std::sync::Arc;

use chronova_events::access::{AccessClient, AccessEvent};
use chronova_events::envelope::{Cause, Recorded, RequestSource};
use chronova_events::instance::{InstanceEvent, PowerAction};
use chronova_events::process::{ProcessEvent, ProcessOutcome};
use chronova_events::registry::{Event, NounEvent as _};
use serde_json::{Value, json};

/// The five CADF fields of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CadfEvent {
    pub initiator: CadfInitiator,
    /// `create`, `update`, `delete`, `start`...
    pub action: &'static str,
    pub target: CadfResource,
    /// `success`, `failure`, `pending`.
    pub outcome: &'static str,
    /// The reason of a failure.
    pub reason: Option<CadfReason>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CadfResource {
    pub type_uri: &'static str,
    pub id: String,
}

/// The cause of the event, and the project if a user caused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CadfInitiator {
    pub resource: CadfResource,
    pub project: Option<String>,
    /// The client of that user.
    pub source: Option<Arc<RequestSource>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CadfReason {
    /// The HTTP status of the failure, if there is one.
    pub code: Option<u64>,
    pub text: String,
}

impl CadfEvent {
    /// Describes one event. `payload` is the event as JSON. The reason of a failure is read from it.
    pub fn of(recorded: &Recorded, event: &Event, payload: &Value) -> Self {
        let (action, outcome) = action_and_outcome(&recorded.kind, event);
        Self {
            initiator: CadfInitiator::of(&recorded.meta.cause, event),
            action,
            target: target(recorded, payload),
            outcome,
            reason: (outcome == "failure").then(|| CadfReason::of(payload)).flatten(),
        }
    }

    /// `initiator`, `action`, `target`, `outcome` and, after a failure, `reason`.
    pub fn fields(&self) -> [(&'static str, Value); 5] {
        let CadfResource { type_uri, id } = &self.initiator.resource;
        let mut initiator = json!({"typeURI": type_uri, "id": id});
        if let Some(project) = &self.initiator.project {
            initiator["project_id"] = json!(project);
        }
        if let Some(source) = &self.initiator.source {
            // CADF's host: the address of the client, and its program.
            initiator["host"] = json!(**source);
        }
        let reason = self.reason.as_ref().map(|reason| {
            let code = reason.code.map(|code| json!({"reasonType": "HTTP", "reasonCode": code.to_string()}));
            let mut value = code.unwrap_or_else(|| json!({}));
            value["reasonText"] = json!(reason.text);
            value
        });
        [
            ("initiator", initiator),
            ("action", json!(self.action)),
            ("target", json!({"typeURI": self.target.type_uri, "id": self.target.id})),
            ("outcome", json!(self.outcome)),
            ("reason", json!(reason)),
        ]
    }
}

impl CadfInitiator {
    fn of(cause: &Cause, event: &Event) -> Self {
        let (type_uri, id, project) = match cause {
            Cause::User { user, project, .. } => {
                ("service/security/account/user", user.to_string(), project.as_ref().map(ToString::to_string))
            }
            Cause::Process { process } => ("data/workload/task", process.to_string(), None),
            Cause::System { part } => ("service/compute", part.clone(), None),
        };
        let source = match cause {
            Cause::User { source: Some(source), .. } => Some(Arc::clone(source)),
            _ => AccessEvent::of(event).and_then(client),
        };
        Self { resource: CadfResource { type_uri, id }, project, source }
    }
}

/// The client in the payload of a record of access.
fn client(event: &AccessEvent) -> Option<Arc<RequestSource>> {
    let AccessClient { address, agent } = event.client()?.clone();
    (address.is_some() || agent.is_some()).then(|| Arc::new(RequestSource { address, agent }))
}

impl CadfReason {
    fn of(payload: &Value) -> Option<Self> {
        let fault = &payload["fault"];
        let text = fault["message"].as_str().or_else(|| payload["reason"].as_str())?;
        Some(Self { code: fault["code"].as_u64().or_else(|| payload["status"].as_u64()), text: text.to_owned() })
    }
}

/// CADF actions by the part of the event kind after the dot. Kinds that are neither in this table nor in
/// [`action_and_outcome`] get their action from [`action_by_ending`].
const ACTIONS_BY_KIND: &[(&str, &str)] = &[
    ("build_requested", "create"),
    ("build_succeeded", "create"),
    ("build_failed", "create"),
    ("placed", "deploy"),
    ("unplaced", "undeploy"),
    ("locked", "disable"),
    ("unlocked", "enable"),
    ("started", "start"),
    ("finished", "stop"),
    ("called_off", "stop"),
    ("registered", "create"),
    ("reserved", "update"),
    ("revoked", "revoke"),
    ("granted", "allow"),
    ("power_observed", "monitor"),
    ("request_refused", "deny"),
    ("logged_in", "authenticate"),
    ("login_failed", "authenticate"),
    ("token_issued", "authenticate"),
    ("logged_in_with_credential", "authenticate"),
    ("credential_login_failed", "authenticate"),
    ("console_opened", "start"),
    ("console_closed", "stop"),
    ("secret_read", "read"),
    ("records_left_out", "notify"),
    ("personal_erased", "delete"),
    ("erased", "delete"),
];

/// The action, and its outcome.
fn action_and_outcome(kind: &str, event: &Event) -> (&'static str, &'static str) {
    let last = kind.split_once('.').map_or(kind, |(_, last)| last);
    let outcome = match event {
        Event::ProcessEvent(ProcessEvent::Finished(finished)) => match finished.outcome {
            ProcessOutcome::Succeeded => "success",
            ProcessOutcome::Failed | ProcessOutcome::CalledOff => "failure",
        },
        _ if last.ends_with("failed") || last == "request_refused" || last.ends_with("stuck") => "failure",
        _ if last.ends_with("requested") || kind == "process.started" => "pending",
        _ => "success",
    };
    let action = match event {
        Event::InstanceEvent(InstanceEvent::PowerRequested(power)) => power_action(power.action),
        Event::InstanceEvent(InstanceEvent::PowerCompleted(power)) => power_action(power.action),
        Event::InstanceEvent(InstanceEvent::PowerFailed(power)) => power_action(power.action),
        Event::ErasureEvent(_) => "delete",
        _ => ACTIONS_BY_KIND
            .iter()
            .find(|(known, _)| *known == last)
            .map_or_else(|| action_by_ending(last), |(_, action)| action),
    };
    (action, outcome)
}

fn power_action(action: PowerAction) -> &'static str {
    match action {
        PowerAction::Start => "start",
        PowerAction::Stop => "stop",
        PowerAction::RebootSoft | PowerAction::RebootHard => "start/reboot",
        PowerAction::Pause => "stop/pause",
        PowerAction::Unpause => "start/unpause",
        PowerAction::Suspend => "stop/suspend",
        PowerAction::Resume => "start/resume",
    }
}

fn action_by_ending(last: &str) -> &'static str {
    let ends = |endings: &[&str]| endings.iter().any(|ending| last.ends_with(ending));
    if ends(&["created", "made", "imported", "allocated", "added", "claimed"]) {
        "create"
    } else if ends(&["deleted", "delete_requested", "removed", "released", "returned", "undone", "forgotten"]) {
        "delete"
    } else if ends(&["granted"]) {
        "allow"
    } else if ends(&["revoked"]) {
        "revoke"
    } else if ends(&["enabled"]) {
        "enable"
    } else if ends(&["disabled"]) {
        "disable"
    } else {
        "update"
    }
}

/// CADF resource types, by the first word of the event kind.
const TYPES: &[(&str, &str)] = &[
    ("access", "service/security"),
    ("console", "service/compute/console"),
    ("erasure", "data/security/erasure"),
    ("external", "data/external"),
    ("flavor", "compute/flavor"),
    ("fleet", "compute/node"),
    ("host", "compute/node"),
    ("host_aggregate", "compute/node/aggregate"),
    ("image", "data/image"),
    ("installation", "service/oss/log"),
    ("instance", "compute/machine"),
    ("keypair", "data/security/key"),
    ("ledger", "service/compute/placement"),
    ("network", "network"),
    ("network_quota", "service/network/quota"),
    ("notification", "service/oss/notification"),
    ("process", "data/workload/task"),
    ("quota", "service/compute/quota"),
    ("quota_class", "service/compute/quota"),
    ("router", "network/router"),
    ("security_group", "network/security_group"),
    ("server_group", "compute/machine/group"),
    ("volume", "storage/volume"),
    ("volume_quota", "service/storage/quota"),
    ("volume_type", "storage/volume/type"),
];

/// CADF resource types of identity events. If the event's kind names one of these types (`user_created`), the target
/// has that type. Otherwise the target has the first of these types for which the payload has an id.
const IDENTITY_TYPES: &[(&str, &str)] = &[
    ("credential", "data/security/credential"),
    ("rule", "data/security/rule"),
    ("limit", "data/security/limit"),
    ("user", "data/security/account/user"),
    ("project", "data/security/project"),
    ("domain", "data/security/domain"),
    ("role", "data/security/role"),
    ("prior", "data/security/role"),
];

fn target(recorded: &Recorded, payload: &Value) -> CadfResource {
    let noun = recorded.kind.split_once('.').map_or(&*recorded.kind, |(noun, _)| noun);
    if noun == "identity" {
        // The payload of `project_created` names a domain, too, so the noun in the kind has precedence.
        let own = recorded.kind.split_once('.').and_then(|(_, last)| last.split_once('_')).map(|(word, _)| word);
        let named = |(key, type_uri): &(&'static str, &'static str)| {
            Some(CadfResource { type_uri, id: payload[*key].as_str()?.to_owned() })
        };
        let first = IDENTITY_TYPES.iter().filter(|(key, _)| own == Some(*key)).find_map(named);
        if let Some(resource) = first.or_else(|| IDENTITY_TYPES.iter().find_map(named)) {
            return resource;
        }
    }
    let type_uri = TYPES.iter().find(|(known, _)| *known == noun).map_or("service/compute", |(_, uri)| uri);
    CadfResource { type_uri, id: recorded.stream.key().to_owned() }
}

#[cfg(test)]
mod tests {
    use chronova_events::registry::{catalogue, samples};

    use super::*;

    /// DSP0262's actions, as pyCADF lists them. Every action must begin with one of these.
    const ACTIONS: &[&str] = &[
        "backup",
        "capture",
        "create",
        "configure",
        "read",
        "update",
        "delete",
        "monitor",
        "start",
        "stop",
        "deploy",
        "undeploy",
        "enable",
        "disable",
        "send",
        "receive",
        "authenticate",
        "revoke",
        "renew",
        "restore",
        "evaluate",
        "allow",
        "deny",
        "notify",
        "unknown",
    ];
    /// The roots of DSP0262's resource taxonomy.
    const RESOURCES: &[&str] = &["storage", "compute", "network", "service", "data"];

    #[test]
    fn every_event_is_in_the_vocabulary() {
        for event in samples() {
            let (action, outcome) = action_and_outcome(event.kind(), &event);
            assert!(ACTIONS.iter().any(|known| action.starts_with(known)), "{} {action}", event.kind());
            assert!(["success", "failure", "pending"].contains(&outcome), "{} {outcome}", event.kind());
        }
        for (_, uri) in TYPES.iter().chain(IDENTITY_TYPES) {
            assert!(RESOURCES.iter().any(|root| uri.starts_with(root)), "{uri}");
        }
        for entry in catalogue() {
            let noun = entry.kind.split_once('.').map_or(entry.kind, |(noun, _)| noun);
            assert!(noun == "identity" || TYPES.iter().any(|(known, _)| *known == noun), "{noun} has no type");
        }
    }

    #[test]
    fn events_of_each_outcome_have_their_actions() {
        let all: Vec<_> =
            samples().iter().map(|event| (event.kind(), action_and_outcome(event.kind(), event))).collect();
        let of = |kind| all.iter().find(|(known, _)| *known == kind).map(|(_, found)| *found);
        assert_eq!(of("instance.build_requested"), Some(("create", "pending")));
        assert_eq!(of("instance.build_failed"), Some(("create", "failure")));
        assert_eq!(of("instance.delete_requested"), Some(("delete", "pending")));
        assert_eq!(of("instance.renamed"), Some(("update", "success")));
        assert_eq!(of("keypair.created"), Some(("create", "success")));
        assert_eq!(of("process.step_stuck"), Some(("update", "failure")));
        assert_eq!(of("identity.role_granted"), Some(("allow", "success")));
    }
}
