//! Hosts as hypervisors, as services, and in availability zones.

use super::{list, one, page};
use crate::answers::{Answers, ok};
use crate::compute::views::hypervisor::{BRIEF, HYPERVISOR};
use crate::compute::views::service::{SERVICE, status_shape};
use crate::schema::{Schema, null_or, object, opt, req, shape};

/// `GET /os-hosts`
pub fn hosts() -> Answers {
    let host = [req("host_name", shape::string()), req("service", shape::string()), req("zone", shape::string())];
    ok(list("hosts", object(host)))
}

/// `GET /os-hosts/{name}`: the capacity, the usage, and the sums by project.
pub fn host() -> Answers {
    let line = object([
        req("host", shape::string()),
        req("project", shape::string()),
        req("cpu", shape::integer()),
        req("memory_mb", shape::integer()),
        req("disk_gb", shape::integer()),
    ]);
    ok(list("host", one("resource", line)))
}

pub fn hypervisors() -> Answers {
    ok(page("hypervisors", BRIEF.shape(), "hypervisors_links"))
}

pub fn hypervisors_in_detail() -> Answers {
    ok(page("hypervisors", HYPERVISOR.shape(), "hypervisors_links"))
}

pub fn hypervisor() -> Answers {
    ok(one("hypervisor", HYPERVISOR.shape()))
}

pub fn uptime() -> Answers {
    ok(one("hypervisor", BRIEF.shape().plus([req("uptime", shape::string())])))
}

pub fn hypervisors_found() -> Answers {
    ok(list("hypervisors", BRIEF.shape()))
}

pub fn statistics() -> Answers {
    let sums = [
        "count",
        "vcpus",
        "memory_mb",
        "local_gb",
        "vcpus_used",
        "memory_mb_used",
        "local_gb_used",
        "free_ram_mb",
        "free_disk_gb",
        "current_workload",
        "running_vms",
        "disk_available_least",
    ];
    ok(one("hypervisor_statistics", object(sums.map(|name| req(name, shape::integer())))))
}

pub fn services() -> Answers {
    ok(list("services", SERVICE.shape()))
}

/// Before 2.53 the answer repeats the request.
pub fn service_updated() -> Answers {
    let repeated = object([
        req("host", shape::string()),
        req("binary", shape::string()),
        opt("status", status_shape()),
        opt("disabled_reason", shape::string()),
        opt("forced_down", shape::boolean()).since(2, 11),
    ]);
    ok(one("service", repeated.from(2, 53, SERVICE.shape())))
}

fn zone(hosts: Schema) -> Schema {
    object([
        req("zoneName", shape::string()),
        req("zoneState", object([req("available", shape::boolean())])),
        req("hosts", hosts),
    ])
}

pub fn zones() -> Answers {
    ok(list("availabilityZoneInfo", zone(shape::null())))
}

/// The services of each host of a zone. A zone without enabled services shows no hosts.
pub fn zones_in_detail() -> Answers {
    let service =
        [req("available", shape::boolean()), req("active", shape::boolean()), req("updated_at", shape::time_or_null())];
    ok(list("availabilityZoneInfo", zone(null_or(shape::map_of(shape::map_of(object(service)))))))
}

fn audit(name: &'static str) -> Answers {
    let report = object([
        req("state", shape::string()),
        req("instances", shape::integer()),
        req("errors", shape::integer()),
        req("message", shape::string()),
    ]);
    ok(one(
        name,
        object([
            req("period_beginning", shape::string()),
            req("period_ending", shape::string()),
            req("num_hosts", shape::integer()),
            req("num_hosts_done", shape::integer()),
            req("num_hosts_running", shape::integer()),
            req("num_hosts_not_run", shape::integer()),
            req("hosts_not_run", shape::strings()),
            req("total_instances", shape::integer()),
            req("total_errors", shape::integer()),
            req("overall_status", shape::string()),
            req("log", shape::map_of(report)),
        ]),
    ))
}

pub fn audit_logs() -> Answers {
    audit("instance_usage_audit_logs")
}

pub fn audit_log() -> Answers {
    audit("instance_usage_audit_log")
}
