//! The rules about Rust code.

use super::source::{CodePath, Source};

/// Receives a finding: the line and the message.
type Report<'a> = dyn FnMut(usize, String) + 'a;

pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) why: &'static str,
    pub(crate) check: fn(&Source, &mut Report<'_>),
}

pub(crate) static RULES: &[Rule] = &[
    Rule {
        name: "imports",
        why: "ARCHITECTURE.md section 2: a crate imports only what its row of the table allows; in actors, the \
              files that decide or plan must not read projections, because a decision may not use a view that lags",
        check: imports,
    },
    Rule {
        name: "actix",
        why: "actix is one way to implement the shell; the code that decides must run without it",
        check: |source, report| {
            confine(
                source,
                report,
                &["actix", "actix_rt"],
                &["actors/src/shell", "ops", "tests"],
                "actix may be named only in the shell",
            );
        },
    },
    Rule {
        name: "rusqlite",
        why: "the log's users know the EventStore trait, not a database",
        check: |source, report| {
            let store = source.path.split('/').any(|part| part.starts_with("sqlite"));
            // The store's tests damage its files from outside. Its benchmarks compare it with the bare database.
            let judges = source.is_under("events/tests") || source.is_under("events/benches");
            if !(judges || source.is_under("events/src") && store) {
                confine(
                    source,
                    report,
                    &["rusqlite", "libsqlite3_sys"],
                    &[],
                    "rusqlite may be named only in the SQLite store",
                );
            }
        },
    },
    Rule {
        name: "tokio-postgres",
        why: "the log's users know the EventStore trait, not a database; an adoption reads Nova's databases in one place",
        check: |source, report| {
            let allowed = ["events/src/store/postgres", "events/tests", "ops/src/nova/live"];
            let what = "tokio-postgres may be named only in the PostgreSQL store and in the reader of Nova's databases";
            confine(source, report, &["tokio_postgres"], &allowed, what);
            confine(
                source,
                report,
                &["mysql_async"],
                &["ops/src/nova/live"],
                "MySQL may be named only in the reader of Nova's databases",
            );
        },
    },
    Rule {
        name: "virt",
        why: "libvirt stays behind the Driver trait, so that the simulated fleet can stand in for it anywhere",
        check: |source, report| {
            confine(
                source,
                report,
                &["virt", "virt_sys"],
                &["hypervisor/src/libvirt"],
                "libvirt may be named only in its driver",
            );
        },
    },
    Rule {
        name: "eventstoredb",
        why: "two places use EventStoreDB's protocol: a store back end is its client, and an API is its server",
        check: |source, report| {
            confine(
                source,
                report,
                &["tonic", "prost"],
                &["web/src/eventstoredb"],
                "gRPC may be named only in the server of the log",
            );
            let places = ["events/src/store/eventstoredb", "events/tests"];
            confine(
                source,
                report,
                &["eventstore"],
                &places,
                "eventstore may be named only in the back end of that name",
            );
        },
    },
    Rule {
        name: "http",
        why: "HTTP calls to other services go through one client, which limits and counts them",
        check: |source, report| {
            let places = ["web/src/eventstoredb", "web/src/cluster", "actors/src/services/external"];
            confine(
                source,
                report,
                &["hyper", "hyper_util", "hyper_rustls", "http_body_util"],
                &places,
                "hyper may be named only in clients and servers of its own",
            );
        },
    },
    Rule {
        name: "amqp",
        why: "notifications know a transport, not a message broker",
        check: |source, report| {
            confine(
                source,
                report,
                &["lapin"],
                &["actors/src/services/external/amqp"],
                "AMQP may be named only in its transport",
            );
        },
    },
    Rule {
        name: "bincode",
        why: "the bytes of the log are made and read in one place, or they drift",
        check: |source, report| {
            confine(source, report, &["bincode"], &["events/src/codec.rs"], "bincode may be named only in the codec");
        },
    },
    Rule { name: "pure", why: PURE_WHY, check: pure },
    Rule {
        name: "microversions",
        why: "what a version changes is read in the tables of views, bodies, queries and routes (or in the API's \
              versions.rs, the file of named differences), not hunted for in handlers",
        check: microversions,
    },
    Rule {
        name: "unsafe",
        why: "only the libvirt driver talks to C; each of its blocks carries its proof",
        check: no_unsafe,
    },
    Rule {
        name: "coordination",
        why: "state that is valid only within one operating-system process must exist only in the leader: it belongs \
              into actors/src/coordination, where each file begins with what must not run twice",
        check: state_of_one_process,
    },
    Rule {
        name: "wall-clock",
        why: "a test that asserts how long something took fails on a busy machine; assert order or count instead",
        check: wall_clock,
    },
];

/// The table of ARCHITECTURE.md section 2: each folder, and the project's crates that it may name.
pub(crate) const MAY_IMPORT: [(&str, &[&str]); 9] = [
    ("events", &[]),
    ("hypervisor", &["chronova_events"]),
    ("projections", &["chronova_events"]),
    ("actors", &["chronova_events", "chronova_hypervisor", "chronova_projections"]),
    ("web", &["chronova_events", "chronova_hypervisor", "chronova_projections", "chronova_actors"]),
    ("ops", EVERYTHING),
    ("ops/xtask", &[]),
    ("tests", EVERYTHING),
    ("fuzz", &["chronova_tests"]),
];

const EVERYTHING: &[&str] = &[
    "chronova",
    "chronova_events",
    "chronova_hypervisor",
    "chronova_projections",
    "chronova_actors",
    "chronova_web",
    "chronova_tests",
];

/// The names of the files of `actors` that make decisions. Such files read no read models. The rule also holds for the
/// gateway and the shell, which carry out decisions.
const DECIDING: [&str; 5] = ["aggregate", "decide", "gateway", "plan", "state"];
const SHELL: &str = "actors/src/shell";

pub(crate) fn may_import(package: &str) -> &'static [&'static str] {
    MAY_IMPORT.iter().find(|(folder, _)| *folder == package).map_or(&[], |(_, allowed)| allowed)
}

/// Whether the path begins with this crate. A single name outside of `use` is a variable, a module or a field.
fn begins_with(path: &CodePath, krate: &str) -> bool {
    path.segments.first().is_some_and(|first| first == krate) && (path.import || path.segments.len() > 1)
}

fn imports(source: &Source, report: &mut Report<'_>) {
    let allowed = may_import(source.package());
    let decides = DECIDING.contains(&source.stem()) || source.is_under(SHELL);
    for path in source.paths() {
        let Some(krate) = EVERYTHING.iter().find(|krate| begins_with(path, krate)) else { continue };
        let own = source.package() != "ops/xtask" && krate.strip_prefix("chronova_") == Some(source.package());
        if !own && !allowed.contains(krate) {
            report(path.line, format!("{} may not name {krate}", source.package()));
        } else if source.package() == "actors" && *krate == "chronova_projections" && decides && !path.test {
            report(path.line, "a decision may not read projections: they lag".to_owned());
        }
    }
}

fn confine(source: &Source, report: &mut Report<'_>, crates: &[&str], places: &[&str], what: &str) {
    if places.iter().any(|place| source.is_under(place)) {
        return;
    }
    for path in source.paths().iter().filter(|path| crates.iter().any(|krate| begins_with(path, krate))) {
        report(path.line, format!("`{}`: {what}", path.segments.join("::")));
    }
}

const PURE_WHY: &str = "decide.rs, state.rs and plan.rs are replayed and tested exhaustively: ids, time and chosen hosts \
                        arrive in the command, and nothing is asked, waited for or drawn by lot";

const PURE_FILES: [&str; 3] = ["decide", "state", "plan"];

const IMPURE_CRATES: [&str; 12] = [
    "tokio",
    "actix",
    "actix_rt",
    "actix_web",
    "async_trait",
    "futures",
    "getrandom",
    "rand",
    "fastrand",
    "rusqlite",
    "virt",
    "reqwest",
];

const IMPURE_STD: [&str; 5] = ["fs", "io", "env", "process", "thread"];

/// Types and functions that give the time or random numbers, in any crate.
const IMPURE_NAMES: [&str; 8] = ["SystemTime", "Instant", "Utc", "Local", "SystemClock", "Clock", "new_v4", "random"];

/// The names of `std::net` that reach the network. Its values, such as `IpAddr`, do not.
const NETWORK_NAMES: [&str; 4] = ["TcpStream", "TcpListener", "UdpSocket", "ToSocketAddrs"];

fn pure(source: &Source, report: &mut Report<'_>) {
    let ours = source.is_under("actors/src") || source.is_under("events/src");
    if !ours || !PURE_FILES.contains(&source.stem()) {
        return;
    }
    for path in source.paths().iter().filter(|path| !path.test) {
        let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
        let outside = IMPURE_CRATES.iter().any(|krate| begins_with(path, krate));
        let system = matches!(segments[..], ["std", module, ..] if IMPURE_STD.contains(&module));
        let named = segments.iter().any(|segment| IMPURE_NAMES.contains(segment) || NETWORK_NAMES.contains(segment));
        let waits = matches!(segments[..], ["async"]);
        if outside || system || named || waits {
            report(path.line, format!("`{}` has no place in {}.rs", segments.join("::"), source.stem()));
        }
    }
    for at in 0..source.tokens.len() {
        let called = source.is_punct(at + 1, '(') && at > 0 && source.is_punct(at - 1, '.');
        let asks_time = source.ident(at) == Some("now") && called;
        if (asks_time || source.ident(at) == Some("await")) && !source.is_test(at) {
            let name = source.ident(at).unwrap_or_default();
            report(source.line(at), format!("`.{name}` has no place in {}.rs", source.stem()));
        }
    }
}

/// Functions that take a microversion as two numbers.
const VERSION_WORDS: [&str; 9] = ["v", "new", "since", "until", "at_least", "before", "from", "between", "removed_in"];

fn microversions(source: &Source, report: &mut Report<'_>) {
    if !source.is_under("web/src") || tells_versions(source) {
        return;
    }
    let tables = tables(source);
    for at in 0..source.tokens.len() {
        let word = source.ident(at).is_some_and(|word| VERSION_WORDS.contains(&word));
        let numbers = source.is_punct(at + 1, '(')
            && source.is_number(at + 2)
            && source.is_punct(at + 3, ',')
            && source.is_number(at + 4)
            && source.is_punct(at + 5, ')');
        let in_table = tables.iter().any(|table| table.contains(&at));
        // Only `Microversion::new` counts, not `new(2, 1)` of another type.
        let other_new = source.ident(at) == Some("new") && source.ident(at.wrapping_sub(3)) != Some("Microversion");
        if word && numbers && !other_new && !in_table && !source.is_test(at) {
            report(
                source.line(at),
                "a microversion is named outside of views, bodies, answers, routes and versions.rs".to_owned(),
            );
        }
    }
}

/// Whether the file may name microversions anywhere: `microversion.rs`, an API's views, bodies, answers, routes and
/// versions, and the fault renderer, which is the view of errors.
fn tells_versions(source: &Source) -> bool {
    let parts = ["views", "bodies", "answers", "routes", "versions"];
    source.is_under("web/src/microversion.rs")
        || source.is_under("web/src/fault/render.rs")
        || source.path.split('/').any(|part| parts.contains(&part.strip_suffix(".rs").unwrap_or(part)))
}

/// The token ranges of tables: constants and statics of a list type, as `const ROUTES: &[Route] = ...;`.
fn tables(source: &Source) -> Vec<std::ops::Range<usize>> {
    let mut tables = Vec::new();
    for at in 0..source.tokens.len() {
        if matches!(source.ident(at), Some("const" | "static")) && source.is_punct(at + 2, ':') {
            let end = statement_end(source, at);
            let assigned = (at..end).find(|inside| source.is_punct(*inside, '=')).unwrap_or(end);
            if (at..assigned).any(|inside| source.is_punct(inside, '[')) {
                tables.push(at..end);
            }
        }
    }
    tables
}

/// The index of the `;` that ends the statement at `at`.
fn statement_end(source: &Source, mut at: usize) -> usize {
    while at < source.tokens.len() && !source.is_punct(at, ';') {
        let opens = ['(', '[', '{'].iter().any(|bracket| source.is_punct(at, *bracket));
        at = if opens { source.after_group(at) } else { at + 1 };
    }
    at
}

fn no_unsafe(source: &Source, report: &mut Report<'_>) {
    if source.is_under("hypervisor/src/libvirt") {
        return;
    }
    for path in source.paths().iter().filter(|path| matches!(path.segments[0].as_str(), "unsafe" | "unsafe_code")) {
        report(path.line, "unsafe code belongs under hypervisor/src/libvirt alone".to_owned());
    }
}

/// The files of actors that may keep state that outlives a call. Only the leader may have the state of coordination.
/// Each member may have its own copy of the other state: the actors of a gateway, the last answers of hosts, counts for
/// metrics, the bound on password hashing, clients of other services. `scheduler/placing.rs` locks a value whose
/// type is defined in `actors/src/coordination`. `image_cache.rs` counts the failures of one run.
const MAY_KEEP_STATE: [&str; 8] = [
    "actors/src/coordination",
    "actors/src/hosts/fleet.rs",
    "actors/src/reconcile/image_cache.rs",
    "actors/src/reconcile/run_counts.rs",
    "actors/src/scheduler/placing.rs",
    "actors/src/services/embedded/identity/passwords.rs",
    "actors/src/services/external",
    SHELL,
];

/// The types of values that several tasks change. A `static` with a `LazyLock` would be shared by all members in one
/// operating-system process.
const SHARED_STATE: [&str; 6] = ["Mutex", "RwLock", "Semaphore", "atomic", "DashMap", "LazyLock"];

fn state_of_one_process(source: &Source, report: &mut Report<'_>) {
    if !source.is_under("actors/src") || MAY_KEEP_STATE.iter().any(|place| source.is_under(place)) {
        return;
    }
    for path in source.paths().iter().filter(|path| path.import && !path.test) {
        if path.segments.iter().any(|segment| SHARED_STATE.contains(&segment.as_str())) {
            report(
                path.line,
                format!("`{}`: such state belongs into actors/src/coordination", path.segments.join("::")),
            );
        }
    }
}

fn wall_clock(source: &Source, report: &mut Report<'_>) {
    for at in 0..source.tokens.len() {
        let asserts = source.ident(at).is_some_and(|name| name.contains("assert")) && source.is_punct(at + 1, '!');
        if !asserts || !source.is_test(at) {
            continue;
        }
        let end = source.after_group(at + 2);
        if (at..end).any(|inside| matches!(source.ident(inside), Some("elapsed" | "duration_since"))) {
            report(source.line(at), "asserts how much time passed".to_owned());
        }
    }
}
