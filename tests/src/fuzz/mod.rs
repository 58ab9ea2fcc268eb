//! Random input for parsers of outside data, without a special compiler.
//!
//! A target is a function that takes anything and must not panic. The target of the APIs is a whole control plane that
//! must not answer 500. Each test first tries the earlier findings (`tests/golden/fuzz/TARGET/*`), then a fixed number
//! of new inputs from a fixed seed. With `CHRONOVA_SOAK` every target runs for 120 seconds with a new seed, which it
//! prints. `CHRONOVA_FUZZ_SECONDS` sets the duration of a run, and `CHRONOVA_FUZZ_SEED` repeats a seed. Each finding is
//! stored beside the earlier ones as a test case. If an input ends the process (a stack overflow), the file that the
//! test names at its start has the input.

pub mod bytes;
pub mod request_bodies;
pub mod requests;
pub mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use chronova_events::entropy::SplitMix;
use sha2::{Digest, Sha256};

/// A random generator; the same seed gives the same inputs.
#[derive(Debug, Clone)]
pub struct Random(SplitMix);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    pub fn number(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % bound.max(1) as u64).unwrap()
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// The length of a run against a target, and its random numbers.
#[derive(Debug)]
pub struct Run {
    pub target: &'static str,
    pub random: Random,
    seed: u64,
    left: Option<u64>,
    end: Option<Instant>,
    tried: u64,
}

impl Run {
    /// Tries `rounds` inputs; with `CHRONOVA_SOAK` or `CHRONOVA_FUZZ_SECONDS`, tries inputs for that time instead.
    pub fn of(target: &'static str, rounds: u64) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let soak = std::env::var_os("CHRONOVA_SOAK").is_some();
        let seconds = number("CHRONOVA_FUZZ_SECONDS").or(soak.then_some(120));
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_secs());
        let seed = number("CHRONOVA_FUZZ_SEED").unwrap_or(if soak { now } else { 1 });
        eprintln!("{target}: CHRONOVA_FUZZ_SEED={seed}");
        let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let left = if end.is_some() { None } else { Some(rounds) };
        Self { target, random: Random::new(seed), seed, left, end, tried: 0 }
    }

    /// Whether there is another round.
    pub fn goes_on(&mut self) -> bool {
        self.tried += 1;
        match (&mut self.left, self.end) {
            (Some(0), _) => false,
            (Some(left), _) => {
                *left -= 1;
                true
            }
            (None, end) => end.is_some_and(|end| Instant::now() < end),
        }
    }

    /// Prints the number of tried inputs.
    pub fn done(&self) {
        eprintln!("{}: {} inputs, seed {}, nothing found", self.target, self.tried - 1, self.seed);
    }

    /// Earlier findings.
    pub fn kept(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let Ok(entries) = std::fs::read_dir(folder(self.target)) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }

    /// Stores a failing input, and ends the test.
    pub fn found(&self, input: &[u8], what: &str) -> ! {
        let folder = folder(self.target);
        std::fs::create_dir_all(&folder).unwrap();
        let name = format!("{:x}", Sha256::digest(input));
        let name = &name[..12];
        let path = folder.join(name);
        std::fs::write(&path, input).unwrap();
        panic!("{}: seed {}: {what}; kept as {}", self.target, self.seed, path.display());
    }
}

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/fuzz").join(target)
}

/// Gives `judge` the earlier findings, then inputs made of `seeds` and `words`. `judge` may refuse an input but must
/// not panic.
pub fn judge_bytes(target: &'static str, rounds: u64, seeds: &[&[u8]], words: &[&str], judge: impl Fn(&[u8])) {
    let mut run = Run::of(target, rounds);
    for (path, input) in run.kept() {
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&input)));
        assert!(judged.is_ok(), "{target}: {} fails again", path.display());
    }
    let scratch = tempfile::Builder::new().prefix("fuzz-").tempdir().unwrap();
    let last = scratch.path().join(target);
    eprintln!("{target}: the input under way is in {}", last.display());
    let mut grown: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    while run.goes_on() {
        let input = bytes::changed(&mut run.random, &grown, words);
        std::fs::write(&last, &input).unwrap();
        if catch_unwind(AssertUnwindSafe(|| judge(&input))).is_err() {
            run.found(&input, "it panics");
        }
        // Repeated mutations get further from the seeds than single ones.
        if run.random.chance(5) {
            let place = seeds.len() + run.random.below(64);
            if place < grown.len() { grown[place] = input } else { grown.push(input) }
        }
    }
    run.done();
}
