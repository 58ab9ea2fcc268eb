//! The report of an adoption: one line for each thing of the cloud, and one for each finding about it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use chronova_web::audit::line::printable;
use serde_json::{Value, json};

/// The things of a cloud that are judged one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdoptedThing {
    Cell,
    Flavor,
    Keypair,
    Quota,
    Host,
    Aggregate,
    Group,
    Provider,
    Consumer,
    Server,
    Migration,
    Network,
}

impl AdoptedThing {
    pub fn word(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Flavor => "flavor",
            Self::Keypair => "keypair",
            Self::Quota => "quota",
            Self::Host => "host",
            Self::Aggregate => "aggregate",
            Self::Group => "server group",
            Self::Provider => "provider",
            Self::Consumer => "consumer",
            Self::Server => "server",
            Self::Migration => "migration",
            Self::Network => "network",
        }
    }
}

/// The verdict about one thing. If a thing has two verdicts, the verdict that is later in this list counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdoptionVerdict {
    Adopted,
    /// The object is adopted, but something about it will change. A note says what.
    Noted,
    /// The object is deleted in Nova, and its rows cannot be read.
    Skipped,
    LeftOut,
    InTheWay,
}

impl AdoptionVerdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Adopted => "adopt",
            Self::Noted => "adopt, with a note",
            Self::Skipped => "skip",
            Self::LeftOut => "left out",
            Self::InTheWay => "in the way",
        }
    }
}

/// The reason for a verdict other than "adopt".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AdoptionFinding {
    pub verdict: AdoptionVerdict,
    pub reason: String,
    /// Tells the operator how to resolve the problem.
    pub way_out: &'static str,
}

#[derive(Debug, Default)]
struct JudgedThing {
    name: String,
    findings: BTreeSet<AdoptionFinding>,
}

/// The judgement of a whole cloud.
#[derive(Debug, Default)]
pub struct AdoptionReport {
    things: BTreeMap<(AdoptedThing, String), JudgedThing>,
    leave_out: BTreeSet<String>,
}

impl AdoptionReport {
    pub fn new(leave_out: impl IntoIterator<Item = String>) -> Self {
        Self { leave_out: leave_out.into_iter().collect(), ..Self::default() }
    }

    /// Adds an object to the report. The object is adopted, unless a finding says otherwise.
    pub(in crate::commands) fn see(&mut self, thing: AdoptedThing, id: &str, name: &str) {
        let known = self.things.entry((thing, id.to_owned())).or_default();
        name.clone_into(&mut known.name);
    }

    pub(in crate::commands) fn find(
        &mut self,
        thing: AdoptedThing,
        id: &str,
        verdict: AdoptionVerdict,
        reason: impl Into<String>,
        way_out: &'static str,
    ) {
        let finding = AdoptionFinding { verdict, reason: reason.into(), way_out };
        self.things.entry((thing, id.to_owned())).or_default().findings.insert(finding);
    }

    pub(in crate::commands) fn obstacle(
        &mut self,
        thing: AdoptedThing,
        id: &str,
        reason: impl Into<String>,
        way_out: &'static str,
    ) {
        self.find(thing, id, AdoptionVerdict::InTheWay, reason, way_out);
    }

    pub(in crate::commands) fn note(&mut self, thing: AdoptedThing, id: &str, reason: impl Into<String>) {
        self.find(thing, id, AdoptionVerdict::Noted, reason, "");
    }

    /// Whether the operator leaves the object out. If so, the report says so.
    pub(in crate::commands) fn leaves_out(&mut self, thing: AdoptedThing, id: &str) -> bool {
        let named = self.leave_out.contains(id);
        if named {
            self.find(thing, id, AdoptionVerdict::LeftOut, "named with --leave-out", "");
        }
        named
    }

    /// The ids after `--leave-out` that no object has.
    pub fn unknown(&self) -> Vec<&str> {
        let known: BTreeSet<&str> = self.things.keys().map(|(_, id)| id.as_str()).collect();
        self.leave_out.iter().map(String::as_str).filter(|id| !known.contains(id)).collect()
    }

    fn verdict(thing: &JudgedThing) -> AdoptionVerdict {
        thing.findings.iter().map(|finding| finding.verdict).max().unwrap_or(AdoptionVerdict::Adopted)
    }

    pub(in crate::commands) fn is_in_the_way(&self, thing: AdoptedThing, id: &str) -> bool {
        let judged = self.things.get(&(thing, id.to_owned()));
        judged.is_some_and(|judged| Self::verdict(judged) == AdoptionVerdict::InTheWay)
    }

    /// How many things have this verdict.
    pub fn count(&self, verdict: AdoptionVerdict) -> usize {
        self.things.values().filter(|thing| Self::verdict(thing) == verdict).count()
    }

    /// Whether nothing stands in the way.
    pub fn is_clear(&self) -> bool {
        self.count(AdoptionVerdict::InTheWay) == 0 && self.unknown().is_empty()
    }

    /// Each thing with its verdict, for tests.
    pub fn verdicts(&self) -> impl Iterator<Item = (AdoptedThing, &str, AdoptionVerdict)> {
        self.things.iter().map(|((thing, id), judged)| (*thing, id.as_str(), Self::verdict(judged)))
    }

    pub fn reasons(&self, id: &str) -> Vec<&str> {
        let of = self.things.iter().filter(|((_, known), _)| known == id);
        of.flat_map(|(_, judged)| &judged.findings).map(|finding| finding.reason.as_str()).collect()
    }

    /// Prints the report as a table for people.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{:<13} {:<36} {:<24} VERDICT", "WHAT", "ID", "NAME")?;
        for ((thing, id), judged) in &self.things {
            let verdict = Self::verdict(judged);
            writeln!(out, "{:<13} {id:<36} {:<24} {}", thing.word(), printable(&judged.name), verdict.word())?;
            for finding in &judged.findings {
                let way = if finding.way_out.is_empty() { String::new() } else { format!("; {}", finding.way_out) };
                writeln!(out, "{:<13} - {}{way}", "", printable(&finding.reason))?;
            }
        }
        for id in self.unknown() {
            writeln!(out, "--leave-out {id}: there is nothing with this id")?;
        }
        let [adopt, noted, skipped, left, obstacles] = [
            AdoptionVerdict::Adopted,
            AdoptionVerdict::Noted,
            AdoptionVerdict::Skipped,
            AdoptionVerdict::LeftOut,
            AdoptionVerdict::InTheWay,
        ]
        .map(|verdict| self.count(verdict));
        writeln!(
            out,
            "{} to adopt ({noted} with notes), {skipped} skipped, {left} left out, {obstacles} in the way",
            adopt + noted
        )
    }

    /// The report as JSON, for programs.
    pub fn json(&self) -> Value {
        let things: Vec<Value> = self
            .things
            .iter()
            .map(|((thing, id), judged)| {
                let findings: Vec<Value> = judged
                    .findings
                    .iter()
                    .map(|finding| {
                        json!({
                            "verdict": finding.verdict.word(),
                            "reason": finding.reason,
                            "way_out": finding.way_out,
                        })
                    })
                    .collect();
                let verdict = Self::verdict(judged).word();
                json!({"what": thing.word(), "id": id, "name": judged.name, "verdict": verdict, "findings": findings})
            })
            .collect();
        json!({"clear": self.is_clear(), "things": things, "unknown": self.unknown()})
    }
}
