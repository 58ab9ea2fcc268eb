//! `nova-status`, `nova-policy`, the options of all tools, and the report at SIGUSR2.

use std::process::Command;

use super::site::ManagedCloud;
use crate::cloud::Cloud;

#[test]
fn an_upgrade_check_is_a_table_and_an_exit_code() {
    let mut site = ManagedCloud::stopped();
    let check = |site: &ManagedCloud| site.run("nova-status", &["upgrade", "check"]);
    let (code, table, _) = check(&site);
    assert_eq!(code, 2, "{table}");
    assert!(
        table.contains("| Check: Placement API") && table.contains("Placement API does not seem to be running."),
        "{table}"
    );
    site.cloud.start();
    let (code, table, _) = check(&site);
    assert_eq!(code, 0, "{table}");
    assert!(table.starts_with("+-") && table.contains("| Upgrade Check Results"), "{table}");
    for name in [
        "Cells v2",
        "Placement API",
        "Cinder API",
        "Policy File JSON to YAML Migration",
        "Older than N-1 computes",
        "hw_machine_type unset",
        "Service User Token Configuration",
        "Event Log",
    ] {
        assert!(table.contains(&format!("| Check: {name} ")), "{name}\n{table}");
    }
    assert_eq!(table.matches("Result: Success").count(), 8, "{table}");
    assert_eq!(table.matches("Details: ").count(), 8, "{table}");
    let policy = site.cloud.folder.path().join("policy.json");
    std::fs::write(&policy, "{\"os_compute_api:servers:index\": \"role:admin\"}").unwrap();
    site.cloud.configure(&format!("[oslo_policy]\npolicy_file = {}\n", policy.display()));
    let (code, table, _) = check(&site);
    assert_eq!(code, 2, "{table}");
    assert!(table.contains("JSON-formatted, which is deprecated"), "{table}");
    let broken = site.run("nova-status", &["upgrade", "check", "--config-file", "/nowhere.conf"]);
    assert_eq!(broken.0, 255);
}

#[test]
fn rules_are_judged_as_nova_policy_judges_them() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    let policy = |rest: &[&str]| {
        let words: Vec<&str> = ["policy", "check"].iter().chain(rest).copied().collect();
        site.run("nova-policy", &words)
    };
    let user = ["--os-roles", "reader", "--os-user-id", "u", "--os-tenant-id", "p"];
    let with = |rest: &[&'static str]| user.iter().chain(rest).copied().collect::<Vec<&str>>();
    let (code, own, _) = policy(&with(&["--api-name", "os_compute_api:servers:show"]));
    assert_eq!((code, own.lines().next()), (0, Some("os_compute_api:servers:show")));
    let (code, text, _) = policy(&with(&["--api-name", "os_compute_api:servers:create"]));
    assert_eq!((code, text.as_str()), (1, "No rules matched or allowed\n"));
    let (code, all, _) = policy(&user);
    let has = |name: &str| all.lines().any(|line| line == name);
    assert_eq!((code, has("os_compute_api:servers:show"), has("os_compute_api:servers:create")), (0, true, false));
    let (code, _, _) = policy(&with(&["--api-name", "os_compute_api:servers:show", "--target", "project_id=q"]));
    assert_eq!(code, 1);
    for more in ["user_id=u", "quota_class=gold", "availability_zone=north"] {
        let target = ["--api-name", "os_compute_api:servers:show", "--target", "project_id=p", more];
        assert_eq!(policy(&with(&target)).0, 0, "{more}");
    }
    // `--target` replaces the whole default target (the user's own project and user id).
    assert_eq!(policy(&with(&["--api-name", "os_compute_api:servers:show", "--target", "user_id=u"])).0, 1);
    let (code, _, said) = policy(&with(&["--target", "colour=blue"]));
    assert_eq!(code, 1);
    assert!(said.contains("colour"), "{said}");
    // The attributes of the server override the other attributes of the target. This server belongs to another project
    // than the user.
    let target = format!("instance_id={server}");
    let mut words = with(&["--api-name", "os_compute_api:servers:show", "--target", "project_id=p"]);
    words.push(&target);
    assert_eq!(policy(&words).0, 1);
    let mine = ["--os-roles", "reader", "--os-user-id", "admin", "--os-tenant-id", "admin"];
    let mut words: Vec<&str> =
        mine.into_iter().chain(["--api-name", "os_compute_api:servers:show", "--target"]).collect();
    words.push(&target);
    assert_eq!(policy(&words).0, 0);
    // The command needs no running control plane, and takes the user from the environment.
    site.cloud.stop();
    let mut command = Command::new(site.cloud.folder.path().join("nova-policy"));
    command.args(["policy", "check", "--api-name", "os_compute_api:servers:show", "--config-file"]);
    command.arg(site.cloud.folder.path().join("chronova.conf"));
    command.envs([("OS_ROLES", "member,reader"), ("OS_USER_ID", "u"), ("OS_TENANT_ID", "p")]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("os_compute_api:servers:show\n"));
}

#[test]
fn options_stand_anywhere_and_later_files_win() {
    let site = ManagedCloud::stopped();
    let folder = site.cloud.folder.path();
    let more = folder.join("more");
    std::fs::create_dir(&more).unwrap();
    std::fs::write(more.join("20.conf"), "[chronova]\nevent_store = postgresql://nova:two@db/nova\n").unwrap();
    std::fs::write(more.join("10.conf"), "[chronova]\nevent_store = postgresql://nova:one@db/nova\n").unwrap();
    std::fs::write(more.join("30.txt"), "[chronova]\nevent_store = postgresql://nova:no@db/nova\n").unwrap();
    let log = folder.join("manage.log");
    let log = log.to_str().unwrap();
    let more = more.to_str().unwrap();
    let (code, out, err) = site.run(
        "nova-manage",
        &["-d", "--config-dir", more, "cell_v2", "--log-file", log, "list_cells", "--verbose", "--nouse-json"],
    );
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("postgresql://nova:two@db/nova"), "{out}");
    // Files may stand before and after the sub-command. All are read, and the last one wins.
    let (first, last) = (format!("{more}/20.conf"), format!("{more}/10.conf"));
    let words = ["--config-file", &first, "cell_v2", "list_cells", "--verbose", "--config-file", &last];
    let (code, out, err) = site.run("nova-manage", &words);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("postgresql://nova:one@db/nova"), "{out}");
    let (code, out, err) = site.run("nova-manage", &["--config-file", &first, "cell_v2", "list_cells", "--verbose"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("postgresql://nova:two@db/nova"), "the file before the sub-command is not read: {out}");
    // The files of a folder are read after all single files.
    let words = ["--config-dir", more, "cell_v2", "list_cells", "--verbose", "--config-file", &last];
    let (code, out, err) = site.run("nova-manage", &words);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("postgresql://nova:two@db/nova"), "a single file wins over the folder: {out}");
    // Short options may be combined.
    for (words, shown) in [
        (["-dh", "cell_v2"], "cell_v2"),
        (["cell_v2", "-dh"], "list_cells"),
        (["--version", "-d"], "nova-manage "),
        (["--debug", "--version"], "nova-manage "),
    ] {
        let (code, out, err) = site.run("nova-manage", &words);
        assert!(code == 0 && out.contains(shown), "{words:?}: {code} {out}{err}");
    }
    let (code, _, err) = site.run("nova-manage", &["cell_v2", "list_hosts", "--log-file", log]);
    assert_eq!(code, 255, "{err}");
    let logged = std::fs::read_to_string(log).unwrap();
    assert!(logged.contains("the sub-command failed") && !err.contains("the sub-command failed"), "{logged} {err}");
    // Without a file the log goes to standard error, and there is nothing to watch.
    let (code, _, err) = site.run("nova-manage", &["cell_v2", "list_hosts", "--watch-log-file"]);
    assert!(code == 255 && err.contains("the sub-command failed"), "{code} {err}");
    let (code, _, err) = site.run("nova-manage", &["cell_v2", "list_cells", "--config-dir", "/nowhere"]);
    assert_eq!(code, 255, "{err}");
    // Each switch has a counterpart. The last of the two decides.
    let switches = "-d --nodebug --use-syslog --nouse-syslog --use-journal --nouse-journal --use-json --nouse-json \
                    --watch-log-file --nowatch-log-file --post-mortem --nopost-mortem --syslog-log-facility LOG_LOCAL3";
    site.manage(&format!("cell_v2 list_cells {switches}"), 0);
    let dated = "--log-dir PLACE --log-file dated.log --log-date-format %Y!";
    let failing = |rest: &str| {
        let rest = rest.replace("PLACE", folder.to_str().unwrap());
        let words = format!("cell_v2 list_hosts {rest}");
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(site.run("nova-manage", &words).0, 255);
    };
    failing(dated);
    let logged = std::fs::read_to_string(folder.join("dated.log")).unwrap();
    assert!(logged.starts_with("20") && logged[4..].starts_with('!'), "{logged}");
    // With --log-config-append, the other options of logging are ignored.
    let description = format!(
        "[loggers]\nkeys = root\n[logger_root]\nlevel = ERROR\nhandlers = file\n[handler_file]\nclass = FileHandler\n\
         args = ('{}',)\n",
        folder.join("described.log").display()
    );
    std::fs::write(folder.join("logging.conf"), description).unwrap();
    failing("--log-config-append PLACE/logging.conf --log-file PLACE/ignored.log");
    let logged = std::fs::read_to_string(folder.join("described.log")).unwrap();
    assert!(logged.contains("the sub-command failed"), "{logged}");
    assert!(!folder.join("ignored.log").exists());
}

#[test]
fn sigusr2_writes_a_report_without_secrets_and_the_server_goes_on() {
    let mut cloud = Cloud::new("sim://1");
    let reports = cloud.folder.path().join("reports");
    std::fs::create_dir(&reports).unwrap();
    cloud.configure(&format!("[oslo_reports]\nlog_dir = {}\n", reports.display()));
    cloud.configure("[neutron]\nmetadata_proxy_shared_secret = swordfish\n");
    cloud.start();
    cloud.signal("USR2");
    let read = || {
        let files = std::fs::read_dir(&reports).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()));
        files.collect::<Result<Vec<String>, _>>().unwrap().concat()
    };
    cloud.wait("the report is written", |_| read().contains("metadata_proxy_shared_secret"));
    let report = read();
    for part in ["Guru Meditation", "Package", "Threads", "Processes", "Hosts", "Configuration"] {
        assert!(report.contains(&format!("{part:^64}")), "{part}\n{report}");
    }
    assert!(report.contains(concat!("version = ", env!("CARGO_PKG_VERSION"))), "{report}");
    assert!(report.contains("\nmetadata_proxy_shared_secret = ***\n") && !report.contains("swordfish"), "{report}");
    assert!(report.contains(&format!("\nlog_dir = {}\n", reports.display())), "{report}");
    assert_eq!(cloud.client().get("/healthz").unwrap().status, 200);
    cloud.stop();
}
