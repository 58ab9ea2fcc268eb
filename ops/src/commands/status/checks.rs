//! The checks: those of `nova-status` in its order and under its names, and those of Chronova after them.

use std::path::Path;

use serde_json::Value;

use super::{CheckResult, Verdict};
use crate::commands::LogPlace;
use crate::commands::manage::RunningCloud;
use crate::config::Config;
use chronova_events::error_chain::ErrorChain;

/// The microversion of Placement that schedulers need, from Nova's documentation.
const PLACEMENT_NEEDED: (u32, u32) = (1, 36);

pub(super) async fn all(
    config: &Config,
    place: &LogPlace,
    cloud: &RunningCloud<'_>,
) -> Vec<(&'static str, CheckResult)> {
    vec![
        ("Cells v2", CheckResult::success()),
        ("Placement API", placement(cloud)),
        ("Cinder API", CheckResult::success()),
        ("Policy File JSON to YAML Migration", policy_file(config)),
        ("Older than N-1 computes", CheckResult::success()),
        ("hw_machine_type unset", machine_types(cloud)),
        ("Service User Token Configuration", service_token(config)),
        ("Event Log", event_log(place).await),
    ]
}

fn placement(cloud: &RunningCloud<'_>) -> CheckResult {
    let shown = match cloud.get("/placement/") {
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

/// A server that does not answer causes only a warning here, because the check `Placement API` fails then.
fn machine_types(cloud: &RunningCloud<'_>) -> CheckResult {
    let Ok(shown) = cloud.get("/chronova/v1/machine-types/unset") else {
        return CheckResult::new(Verdict::Warning, "Unknown, because the server does not answer.");
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

/// Long work sends the user's token to other services. Once that token has expired, such work fails, unless Chronova
/// sends a token of its own service account with it.
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
