//! The figures of a benchmark, as a table and as JSON.
//!
//! A line holds all its runs. The report prints, for each figure, the median over the runs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::machine::MachineInfo;
use super::meter::Run;
use super::stats::median;

/// All figures of one benchmark.
#[derive(Debug)]
pub struct BenchReport {
    /// The benchmark's name, for example `placement`.
    pub bench: &'static str,
    /// The settings that the benchmark was given, and those that it chose.
    pub settings: Vec<(&'static str, String)>,
    pub lines: Vec<BenchLine>,
    /// Sentences about how to read the table.
    pub notes: Vec<String>,
}

impl BenchReport {
    pub fn new(bench: &'static str) -> Self {
        Self { bench, settings: Vec::new(), lines: Vec::new(), notes: Vec::new() }
    }

    #[must_use]
    pub fn setting(mut self, name: &'static str, value: &impl ToString) -> Self {
        self.settings.push((name, value.to_string()));
        self
    }
}

/// One line of the report.
#[derive(Debug, Clone, Default)]
pub struct BenchLine {
    /// The line's name, for example `candidates: 1,000 providers, flat`.
    pub name: String,
    pub runs: Vec<Run>,
    /// The reference: its name, and its operations per second.
    pub raw: Option<(&'static str, f64)>,
    pub aim: Option<Aim>,
    /// Further figures of this line, such as events or bytes.
    pub figures: Vec<(&'static str, f64)>,
}

impl BenchLine {
    pub fn new(name: impl Into<String>, runs: Vec<Run>) -> Self {
        Self { name: name.into(), runs, ..Self::default() }
    }

    #[must_use]
    pub fn raw(self, name: &'static str, per_second: f64) -> Self {
        Self { raw: Some((name, per_second)), ..self }
    }

    #[must_use]
    pub fn aim(self, aim: Aim) -> Self {
        Self { aim: Some(aim), ..self }
    }

    #[must_use]
    pub fn figure(mut self, name: &'static str, value: f64) -> Self {
        self.figures.push((name, value));
        self
    }

    fn middle(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        median(self.runs.iter().filter_map(of).collect())
    }

    pub fn per_second(&self) -> Option<f64> {
        self.middle(per_second)
    }

    /// The percentile in microseconds.
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        self.middle(|run| run.latencies.percentile(percent).map(micros))
    }

    pub fn max(&self) -> Option<f64> {
        self.middle(|run| run.latencies.max().map(micros))
    }

    /// Microseconds of CPU per operation.
    pub fn cpu(&self) -> Option<f64> {
        self.middle(|run| (run.operations > 0).then(|| micros(run.cpu) / count(run.operations)))
    }

    fn peak_mib(&self) -> Option<f64> {
        self.middle(|run| Some(count(run.peak_kib) / 1024.0))
    }

    fn resident_mib(&self) -> Option<f64> {
        self.middle(|run| Some(count(run.resident_kib) / 1024.0))
    }

    pub fn ratio(&self) -> Option<f64> {
        let (_, raw) = self.raw.filter(|(_, raw)| *raw > 0.0)?;
        Some(self.per_second()? / raw)
    }

    fn reaches(&self) -> Option<bool> {
        Some(match self.aim? {
            Aim::PerSecond(wanted) => self.per_second()? >= wanted,
            Aim::P50Within(wanted) => self.percentile(50)? <= micros(wanted),
            Aim::CpuWithin(wanted) => self.cpu()? <= micros(wanted),
            Aim::OfRaw(wanted) => self.ratio()? >= wanted,
        })
    }
}

/// The aim of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// At least this many operations per second.
    PerSecond(f64),
    /// Half of all operations take at most this long.
    P50Within(Duration),
    /// One operation uses at most this much CPU.
    CpuWithin(Duration),
    /// At least this fraction of the reference's rate.
    OfRaw(f64),
}

impl std::fmt::Display for Aim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PerSecond(wanted) => write!(f, ">= {}/s", rate(Some(*wanted))),
            Self::P50Within(wanted) => write!(f, "p50 <= {}", time(Some(micros(*wanted)))),
            Self::CpuWithin(wanted) => write!(f, "CPU <= {}", time(Some(micros(*wanted)))),
            Self::OfRaw(wanted) => write!(f, ">= {wanted} of raw"),
        }
    }
}

/// A table of the machine, the settings and the figures, for people.
pub fn table(report: &BenchReport, machine: &MachineInfo) -> String {
    let mut text = format!("chronova-dev {}\n\n", report.bench);
    let mut settings: Vec<(&str, String)> = vec![
        ("version", format!("{} ({} build)", machine.version, machine.profile)),
        ("machine", format!("{} cores, {}, {} MiB", machine.cores, machine.processor, machine.memory_mib)),
        ("kernel", machine.kernel.clone()),
        ("data", format!("{} ({})", machine.data, machine.data_file_system)),
    ];
    settings.extend(report.settings.iter().cloned());
    let widest = settings.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in &settings {
        let _ = writeln!(text, "  {name:widest$}  {value}");
    }
    for warning in machine.warnings() {
        let _ = writeln!(text, "  WARNING: {warning}");
    }
    text.push('\n');
    let head = ["", "per second", "p50", "p95", "p99", "max", "CPU/op", "peak MiB", "of raw", "aim"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(report.lines.iter().map(row));
    text.push_str(&columns(&rows));
    for line in report.lines.iter().filter(|line| !line.figures.is_empty()) {
        let figures: Vec<String> =
            line.figures.iter().map(|(name, value)| format!("{name} {}", plain(*value))).collect();
        let _ = writeln!(text, "  {}: {}", line.name, figures.join(", "));
    }
    let raws: std::collections::BTreeMap<&str, f64> = report.lines.iter().filter_map(|line| line.raw).collect();
    for (name, per_second) in raws {
        let _ = writeln!(text, "  raw: {name}: {}/s", rate(Some(per_second)));
    }
    for note in &report.notes {
        let _ = writeln!(text, "  {note}");
    }
    text
}

fn row(line: &BenchLine) -> Vec<String> {
    let aim = line.aim.map(|aim| {
        let word = if line.reaches() == Some(true) { "reached" } else { "MISSED" };
        format!("{aim}: {word}")
    });
    vec![
        line.name.clone(),
        rate(line.per_second()),
        time(line.percentile(50)),
        time(line.percentile(95)),
        time(line.percentile(99)),
        time(line.max()),
        time(line.cpu()),
        line.peak_mib().map_or_else(String::new, |mib| format!("{mib:.0}")),
        line.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        aim.unwrap_or_default(),
    ]
}

/// Aligns the first and the last column to the left, and figures to the right.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match at == 0 || at + 1 == count {
                true => write!(line, "  {cell:<width$}"),
                false => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The report as JSON, for programs: every run, and the medians.
pub fn json(report: &BenchReport, machine: &MachineInfo) -> Value {
    let settings: Map<String, Value> =
        report.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({
        "bench": report.bench,
        "machine": machine,
        "warnings": machine.warnings(),
        "settings": settings,
        "ratios": ratios(report),
        "lines": report.lines.iter().map(line_json).collect::<Vec<Value>>(),
        "notes": report.notes,
    })
}

/// For each line with a reference: the line's rate divided by the reference's rate, for example under the key
/// `append.64.ratio_to_raw`.
fn ratios(report: &BenchReport) -> Map<String, Value> {
    let ratio = |line: &BenchLine| Some((format!("{}.ratio_to_raw", line.name), json!(line.ratio()?)));
    report.lines.iter().filter_map(ratio).collect()
}

fn line_json(line: &BenchLine) -> Value {
    let figures: Map<String, Value> =
        line.figures.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({
        "name": line.name,
        "per_second": line.per_second(),
        "p50_us": line.percentile(50),
        "p95_us": line.percentile(95),
        "p99_us": line.percentile(99),
        "max_us": line.max(),
        "cpu_us_per_operation": line.cpu(),
        "resident_mib": line.resident_mib(),
        "peak_mib": line.peak_mib(),
        "raw": line.raw.map(|(name, per_second)| json!({"name": name, "per_second": per_second})),
        "of_raw": line.ratio(),
        "aim": line.aim.map(|aim| aim.to_string()),
        "aim_reached": line.reaches(),
        "figures": figures,
        "runs": line.runs.iter().map(run_json).collect::<Vec<Value>>(),
    })
}

fn run_json(run: &Run) -> Value {
    let percentile = |percent| run.latencies.percentile(percent).map(micros);
    json!({
        "operations": run.operations,
        "elapsed_us": micros(run.elapsed),
        "cpu_us": micros(run.cpu),
        "per_second": per_second(run),
        "p50_us": percentile(50),
        "p95_us": percentile(95),
        "p99_us": percentile(99),
        "max_us": run.latencies.max().map(micros),
        "resident_kib": run.resident_kib,
        "peak_kib": run.peak_kib,
    })
}

fn per_second(run: &Run) -> Option<f64> {
    let seconds = run.elapsed.as_secs_f64();
    (seconds > 0.0).then(|| count(run.operations) / seconds)
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[allow(clippy::cast_precision_loss)] // counts stay far below 2^53
fn count(number: u64) -> f64 {
    number as f64
}

/// A time with its unit: `0.80 us`, `12 us`, `4.56 ms`, `12.3 ms`, `1.20 s`.
fn time(micros: Option<f64>) -> String {
    match micros {
        None => String::new(),
        Some(us) if us < 10.0 => format!("{us:.2} us"),
        Some(us) if us < 1_000.0 => format!("{us:.0} us"),
        Some(us) if us < 10_000.0 => format!("{:.2} ms", us / 1e3),
        Some(us) if us < 1_000_000.0 => format!("{:.1} ms", us / 1e3),
        Some(us) => format!("{:.2} s", us / 1e6),
    }
}

/// A rate, as `2,134` or `12.3`.
fn rate(per_second: Option<f64>) -> String {
    match per_second {
        None => String::new(),
        Some(rate) if rate < 100.0 => format!("{rate:.1}"),
        Some(rate) => thousands(rate),
    }
}

fn plain(value: f64) -> String {
    if value.fract() == 0.0 { thousands(value) } else { format!("{value:.2}") }
}

/// A number with its digits grouped in threes.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    let mut text = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::stats::Latencies;
    use super::*;

    fn run(operations: u64, millis: u64) -> Run {
        let each = Duration::from_millis(millis) / u32::try_from(operations).unwrap_or(1);
        Run {
            operations,
            elapsed: Duration::from_millis(millis),
            cpu: Duration::from_millis(millis / 2),
            latencies: Latencies::of(vec![each; usize::try_from(operations).unwrap_or(0)]),
            resident_kib: 2048,
            peak_kib: 4096,
        }
    }

    fn report() -> BenchReport {
        let mut report = BenchReport::new("placement").setting("runs", &3);
        // One run was disturbed, which does not change the medians.
        let runs = vec![run(100, 50), run(100, 5_000), run(100, 50)];
        let line =
            BenchLine::new("claims, 8 at once", runs).raw("append and sync", 4_000.0).aim(Aim::PerSecond(1_500.0));
        report.lines.push(line.figure("refused", 12_345.0));
        let slow = BenchLine::new("candidates", vec![run(10, 100)]);
        report.lines.push(slow.aim(Aim::P50Within(Duration::from_millis(5))));
        report
    }

    #[test]
    fn the_table_shows_medians_ratios_and_aims() {
        let machine = MachineInfo { profile: "debug", ..MachineInfo::here(Path::new("/")) };
        let text = table(&report(), &machine);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["runs", "3"]), "{text}");
        assert!(text.contains("WARNING: this is a debug build"), "{text}");
        let claims = "claims, 8 at once 2,000 500 us 500 us 500 us 500 us 250 us 4 0.50 >= 1,500/s: reached";
        assert!(rows.contains(&claims.split(' ').collect()), "{text}");
        let candidates = "candidates 100 10.0 ms 10.0 ms 10.0 ms 10.0 ms 5.00 ms 4 p50 <= 5.00 ms: MISSED";
        assert!(rows.contains(&candidates.split(' ').collect()), "{text}");
        assert!(text.contains("claims, 8 at once: refused 12,345"), "{text}");
        assert!(text.contains("raw: append and sync: 4,000/s"), "{text}");
    }

    #[test]
    fn the_json_has_every_run() {
        let value = json(&report(), &MachineInfo::here(Path::new("/")));
        assert_eq!(value["settings"]["runs"], "3");
        let line = &value["lines"][0];
        assert_eq!(line["runs"].as_array().map(Vec::len), Some(3));
        assert_eq!((&line["per_second"], &line["of_raw"]), (&json!(2_000.0), &json!(0.5)));
        assert_eq!((&line["aim_reached"], &value["lines"][1]["aim_reached"]), (&json!(true), &json!(false)));
        assert_eq!(line["figures"]["refused"], 12_345.0);
        assert!(value["machine"]["cores"].is_u64());
    }

    #[test]
    fn numbers_for_people() {
        let thousand = |value| thousands(value);
        assert_eq!(
            [0.0, 999.0, 1_000.0, 1_234_567.0, -4_321.0].map(thousand),
            ["0", "999", "1,000", "1,234,567", "-4,321"]
        );
        let times = [0.4, 12.3, 999.4, 1_500.0, 12_340.0, 2_500_000.0].map(|us| time(Some(us)));
        assert_eq!(times, ["0.40 us", "12 us", "999 us", "1.50 ms", "12.3 ms", "2.50 s"]);
        assert_eq!(rate(Some(12.34)), "12.3");
    }
}
