//! The answers of the scheduler hook about the hosts of one request. They are a part of the request, so the choice that
//! reads them stays pure.

use std::collections::BTreeMap;

use chronova_events::ids::HostId;
use serde::Deserialize;
use serde_json::Value;

/// The longest reason that is kept, in characters.
const LONGEST_REASON: usize = 200;
/// The largest amount of a weight. The difference of two weights must stay finite, because the scheduler divides by it.
const LARGEST_WEIGHT: f64 = 1e100;

/// The answers of the hook.
#[derive(Debug, Clone, PartialEq)]
pub enum HookAnswers {
    /// The opinion on each host of the question. Every other host is refused, because the hook does not know it.
    Given(BTreeMap<HostId, HookOpinion>),
    /// There is no valid answer, and the options refuse all hosts then.
    Missing,
}

/// The hook's opinion on a host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOpinion {
    /// The reason of a refusal; `None`: the host passes.
    pub refusal: Option<String>,
    /// The weight before the scheduler normalises it.
    pub weight: f64,
}

/// The answer as the hook writes it.
#[derive(Debug, Deserialize)]
struct HookDocument {
    hosts: Vec<HookHostDocument>,
}

#[derive(Debug, Deserialize)]
struct HookHostDocument {
    id: HostId,
    #[serde(default = "passes")]
    passes: bool,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    weight: f64,
}

const fn passes() -> bool {
    true
}

impl HookAnswers {
    /// Reads an answer. A host of the question that the answer leaves out passes, with weight 0. A host that the
    /// question does not have is ignored.
    ///
    /// # Errors
    /// The answer does not have the documented form.
    pub fn read(answer: Value, asked: &[HostId]) -> Result<Self, String> {
        let document: HookDocument = serde_json::from_value(answer)
            .map_err(|error| format!("its answer has not the documented form: {error}"))?;
        let mut opinions: BTreeMap<HostId, HookOpinion> =
            asked.iter().map(|host| (*host, HookOpinion::default())).collect();
        for HookHostDocument { id, passes, reason, weight } in document.hosts {
            let Some(opinion) = opinions.get_mut(&id) else { continue };
            let refusal = (!passes).then(|| one_line(reason.as_deref().unwrap_or("refused without a reason")));
            *opinion = HookOpinion { refusal, weight: weight.clamp(-LARGEST_WEIGHT, LARGEST_WEIGHT) };
        }
        Ok(Self::Given(opinions))
    }

    /// Why the host does not pass; `None`: it passes.
    pub fn refusal(&self, host: HostId) -> Option<&str> {
        match self {
            Self::Missing => Some("the scheduler hook gave no valid answer"),
            Self::Given(opinions) => match opinions.get(&host) {
                Some(opinion) => opinion.refusal.as_deref(),
                None => Some("the scheduler hook was not asked about this host"),
            },
        }
    }

    pub fn weight(&self, host: HostId) -> f64 {
        match self {
            Self::Given(opinions) => opinions.get(&host).map_or(0.0, |opinion| opinion.weight),
            Self::Missing => 0.0,
        }
    }
}

/// The text in one line, and not too long for a record.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_REASON).collect()
}
