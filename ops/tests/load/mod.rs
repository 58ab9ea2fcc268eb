//! Clients that write and read while members fail, and what they were told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::cloud::{Answer, Client, pause};

/// The counts and violations of the clients of one round.
#[derive(Debug, Default)]
pub struct Told {
    /// Names of acknowledged servers.
    pub created: BTreeSet<String>,
    pub sent: BTreeSet<String>,
    pub acknowledged: u64,
    pub refused: u64,
    pub violations: Vec<String>,
}

impl Told {
    /// Returns the answer if the request succeeded. The only other allowed answer is 503 with `Retry-After`.
    fn count(&mut self, what: &str, success: u16, answer: Result<Answer, ureq::Error>) -> Option<Answer> {
        match answer {
            Ok(answer) if answer.status == success => {
                self.acknowledged += 1;
                return Some(answer);
            }
            Ok(answer) if answer.status == 503 && answer.retry_after.is_some() => self.refused += 1,
            other => self.violations.push(format!("{what}: {other:?}")),
        }
        None
    }

    pub fn add(&mut self, other: Self) {
        self.created.extend(other.created);
        self.sent.extend(other.sent);
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.violations.extend(other.violations);
    }
}

/// Clients that send requests to two members until [`Self::end`].
pub struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Told>>,
}

impl Load {
    /// Writes increasing numbers to the server at `path` through the first client, reads them through both clients, and
    /// creates servers through the first one.
    pub fn begin(clients: &[Client; 2], path: &str, template: &Value, numbers: &Arc<AtomicU64>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        let spawn = |work: Box<dyn FnMut(&mut Told) + Send>| {
            let (over, mut work) = (Arc::clone(&over), work);
            std::thread::spawn(move || {
                let mut told = Told::default();
                while !over.load(Ordering::SeqCst) {
                    work(&mut told);
                    pause(5);
                }
                told
            })
        };
        let (client, own, known, next) =
            (clients[0].clone(), path.to_owned(), Arc::clone(&acknowledged), Arc::clone(numbers));
        threads.push(spawn(Box::new(move |told| {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let answer = client.put(&own, &json!({"server": {"name": number.to_string()}}));
            if told.count("write", 200, answer).is_some() {
                known.store(number, Ordering::SeqCst);
            }
        })));
        for (nth, client) in clients.iter().cloned().enumerate() {
            let (own, known) = (path.to_owned(), Arc::clone(&acknowledged));
            threads.push(spawn(Box::new(move |told| {
                let least = known.load(Ordering::SeqCst);
                if let Some(answer) = told.count("read", 200, client.get(&own)) {
                    let read: u64 = answer.text("/server/name").parse().unwrap();
                    if read < least {
                        told.violations.push(format!("stale read at {nth}: {read}, and {least} was acknowledged"));
                    }
                }
            })));
        }
        let (client, template, next) = (clients[0].clone(), template.clone(), Arc::clone(numbers));
        threads.push(spawn(Box::new(move |told| {
            let name = format!("load-{}", next.fetch_add(1, Ordering::SeqCst));
            let mut server = template.clone();
            server["server"]["name"] = json!(name);
            told.sent.insert(name.clone());
            if told.count("create", 202, client.post("/compute/v2.1/servers", &server)).is_some() {
                told.created.insert(name);
            }
        })));
        Self { over, threads }
    }

    pub fn end(self) -> Told {
        self.over.store(true, Ordering::SeqCst);
        let mut told = Told::default();
        for thread in self.threads {
            told.add(thread.join().unwrap());
        }
        told
    }
}
