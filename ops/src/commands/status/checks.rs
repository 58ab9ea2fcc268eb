//! The checks: those of `nova-status` in its order and under its names, and those of Chronova after them.

use std::path::Path;

use serde_json::Value;

use super::{CheckResult, Verdict};
use crate::commands::manage::{RefusedRequest, RunningCloud};
use crate::commands::{CommandFailure, LogPlace};
use crate::config::Config;
use chronova_events::error_chain::ErrorChain;

/// The microversion of Placement that schedulers need, from Nova's documentation.
const PLACEMENT_NEEDED: (u32, u32) = (1, 36);
/// The last microversion at which the Compute API lists volumes.
const WITH_VOLUMES: &str = "compute 2.35";

pub(super) async fn all(
    config: &Config,
    place: &LogPlace,
    cloud: &RunningCloud<'_>,
) -> Vec<(&'static str, CheckResult)> {
    vec![
        ("Cells v2", CheckResult::success()),
        ("Placement API", placement(cloud.get("/placement/"))),
        ("Cinder API", volumes(cloud.call_at("GET", "/compute/v2.1/os-volumes?limit=1", None, WITH_VOLUMES))),
        ("Policy File JSON to YAML Migration", policy_file(config)),
        ("Older than N-1 computes", CheckResult::success()),
        ("hw_machine_type unset", machine_types(cloud)),
        ("Service User Token Configuration", service_token(config)),
        ("Event Log", event_log(place).await),
    ]
}

fn placement(versions: Result<Value, CommandFailure>) -> CheckResult {
    let shown = match versions {
        Ok(shown) => shown,
        Err(failure) => {
            return CheckResult::new(Verdict::Failure, format!("Placement API does not seem to be running. {failure}"));
        }
    };
    match served(&shown) {
        Some(version) if version >= PLACEMENT_NEEDED => CheckResult::success(),
        version => {
            let (needed, has) = (PLACEMENT_NEEDED, version.unwrap_or((0, 0)));
            let words =
                format!("Placement API version {}.{} needed, you have {}.{}.", needed.0, needed.1, has.0, has.1);
            CheckResult::new(Verdict::Failure, words)
        }
    }
}

fn served(shown: &Value) -> Option<(u32, u32)> {
    let (major, minor) = shown["versions"][0]["max_version"].as_str()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether Cinder has the microversion 3.44, as Nova checks. The server lists volumes at this microversion, so an older
/// Cinder refuses the request. From the server's answer, the check cannot tell an older Cinder from one that does not
/// answer. The embedded volume service always answers.
fn volumes(answer: Result<Result<Value, RefusedRequest>, CommandFailure>) -> CheckResult {
    match answer {
        Ok(Ok(_)) => CheckResult::success(),
        Ok(Err(RefusedRequest { status, message, .. })) if status >= 500 => CheckResult::new(
            Verdict::Failure,
            format!(
                "Cinder API 3.44 or greater is required. The server answers {status}: {message} Its text log names the \
                 reason."
            ),
        ),
        Ok(Err(refused)) => unknown(&refused),
        Err(failure) => CheckResult::new(Verdict::Warning, format!("Unknown. {failure}")),
    }
}

fn unknown(refused: &RefusedRequest) -> CheckResult {
    let RefusedRequest { status, message, .. } = refused;
    CheckResult::new(Verdict::Warning, format!("Unknown, because the server answers {status}: {message}"))
}

fn policy_file(config: &Config) -> CheckResult {
    let targets = config.targets();
    let Some(file) = &targets.web.policy.policy_file else { return CheckResult::success() };
    match is_json(file) {
        false => CheckResult::success(),
        true => CheckResult::new(
            Verdict::Failure,
            format!(
                "Your policy file {} is JSON-formatted, which is deprecated. Convert it to YAML: \
                 `oslopolicy-convert-json-to-yaml` keeps what it says.",
                file.display()
            ),
        ),
    }
}

/// Whether the file's content is JSON. As in oslo, the name of the file does not matter.
fn is_json(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|bytes| serde_json::from_slice::<Value>(&bytes).is_ok())
}

fn machine_types(cloud: &RunningCloud<'_>) -> CheckResult {
    unset_machine_types(cloud.call("GET", "/chronova/v1/machine-types/unset", None))
}

/// A server that gives no list causes only a warning here. If it does not answer, the check `Placement API` fails.
fn unset_machine_types(answer: Result<Result<Value, RefusedRequest>, CommandFailure>) -> CheckResult {
    let shown = match answer {
        Ok(Ok(shown)) => shown,
        Ok(Err(refused)) => return unknown(&refused),
        Err(failure) => return CheckResult::new(Verdict::Warning, format!("Unknown. {failure}")),
    };
    match shown["servers"].as_array().is_some_and(|servers| !servers.is_empty()) {
        true => CheckResult::new(
            Verdict::Warning,
            "Instances found without hw_machine_type set. Use the `nova-manage libvirt list_unset_machine_type` command \
             to list these instances. Each gets its machine type at its next start.",
        ),
        false => CheckResult::success(),
    }
}

/// Long work sends the user's token to other services. Once that token has expired, such work fails. It does not fail
/// if Chronova also sends a token of its own service account.
fn service_token(config: &Config) -> CheckResult {
    let keystone = config.keystone_authtoken.auth_url.is_some() && config.api.auth_strategy != "noauth2";
    match keystone && !config.service_user.send_service_user_token {
        true => CheckResult::new(
            Verdict::Failure,
            "Service user token configuration is required for all Nova services. Set [service_user] \
             send_service_user_token to true, and give the section an account.",
        ),
        false => CheckResult::success(),
    }
}

/// Whether this version can read the log. The server of this version raises an older log when it starts.
async fn event_log(place: &LogPlace) -> CheckResult {
    let store = match place.read_any().await {
        Ok(Some(store)) => store,
        Ok(None) => return CheckResult::new(Verdict::Success, "There is no event log yet."),
        Err(error @ chronova_events::store::StoreError::OlderFormat { .. }) => {
            return CheckResult::new(Verdict::Success, format!("The server will raise it when it starts: {error}."));
        }
        Err(error) => return CheckResult::new(Verdict::Failure, ErrorChain(&error).to_string()),
    };
    let head = store.head();
    let last = match store.read_all(chronova_events::envelope::Position(head.0.saturating_sub(1)), 1).await {
        Ok(last) => last,
        Err(error) => return CheckResult::new(Verdict::Failure, ErrorChain(&error).to_string()),
    };
    match last.first().map(|last| last.event()) {
        Some(Err(error)) => CheckResult::new(
            Verdict::Failure,
            format!("The newest event cannot be read, so a newer version wrote it: {}", ErrorChain(&error)),
        ),
        _ => CheckResult::success(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_older_placement_blocks_an_upgrade() {
        let found = |newest: &str| placement(Ok(json!({"versions": [{"id": "v1.0", "max_version": newest}]})));
        for newest in ["1.36", "1.39", "2.0"] {
            assert_eq!(found(newest).verdict, Verdict::Success, "{newest}");
        }
        let old = found("1.35");
        assert_eq!(old.verdict, Verdict::Failure);
        assert_eq!(old.details.as_deref(), Some("Placement API version 1.36 needed, you have 1.35."));
        assert_eq!(placement(Ok(json!({}))).verdict, Verdict::Failure, "an answer without versions");
        let silent = placement(Err(CommandFailure::Usage("no answer".to_owned())));
        assert_eq!(silent.details.as_deref(), Some("Placement API does not seem to be running. no answer"));
    }

    #[test]
    fn an_older_cinder_blocks_an_upgrade() {
        let refused = |status| Ok(Err(RefusedRequest { status, key: String::new(), message: "No.".to_owned() }));
        let silent = Err(CommandFailure::Usage("the server does not answer".to_owned()));
        for (answer, verdict, words) in [
            (Ok(Ok(json!({"volumes": []}))), Verdict::Success, ""),
            (refused(503), Verdict::Failure, "Cinder API 3.44 or greater is required. The server answers 503: No."),
            (refused(403), Verdict::Warning, "the server answers 403: No."),
            (silent, Verdict::Warning, "the server does not answer"),
        ] {
            let found = volumes(answer);
            assert_eq!(found.verdict, verdict, "{found:?}");
            assert!(found.details.as_deref().unwrap_or_default().contains(words), "{found:?}");
        }
    }

    #[test]
    fn a_refusal_is_told_from_silence() {
        let refused = |status| Ok(Err(RefusedRequest { status, key: String::new(), message: "No right.".to_owned() }));
        let silent = Err(CommandFailure::Usage("the server does not answer".to_owned()));
        for (answer, verdict, words) in [
            (refused(401), Verdict::Warning, "the server answers 401: No right."),
            (refused(503), Verdict::Warning, "the server answers 503: No right."),
            (silent, Verdict::Warning, "the server does not answer"),
            (Ok(Ok(json!({"servers": ["s"]}))), Verdict::Warning, "Instances found without hw_machine_type"),
            (Ok(Ok(json!({"servers": []}))), Verdict::Success, ""),
        ] {
            let found = unset_machine_types(answer);
            assert_eq!(found.verdict, verdict, "{found:?}");
            assert!(found.details.as_deref().unwrap_or_default().contains(words), "{found:?}");
        }
    }
}
