//! The bodies of a server's `action` path.

use crate::schema::{
    Schema, any, choice, hostname, ip_address, loose_boolean, loose_boolean_or, null, null_or, object, opt, req, string,
};

pub fn start_body() -> Schema {
    object([req("os-start", any())])
}

pub fn stop_body() -> Schema {
    object([req("os-stop", any())])
}

pub fn reboot_body() -> Schema {
    object([req("reboot", object([req("type", choice(["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]))]))])
}

pub fn pause_server_pause_body() -> Schema {
    object([req("pause", any())])
}

pub fn pause_server_unpause_body() -> Schema {
    object([req("unpause", any())])
}

pub fn suspend_server_suspend_body() -> Schema {
    object([req("suspend", any())])
}

pub fn suspend_server_resume_body() -> Schema {
    object([req("resume", any())])
}

pub fn admin_actions_os_reset_state_body() -> Schema {
    object([req("os-resetState", object([req("state", choice(["active", "error"]))]))])
}

pub fn admin_actions_inject_network_info_body() -> Schema {
    object([req("injectNetworkInfo", any())])
}

pub fn servers_trigger_crash_dump_body() -> Schema {
    object([req("trigger_crash_dump", null())])
}

pub fn deferred_delete_force_delete_body() -> Schema {
    object([req("forceDelete", any())])
}

pub fn deferred_delete_restore_body() -> Schema {
    object([req("restore", any())])
}

pub fn lock_server_lock_body() -> Schema {
    object([req(
        "lock",
        any().from(2, 73, null_or(object([opt("locked_reason", string().min_length(1).max_length(255))]))),
    )])
}

pub fn lock_server_unlock_body() -> Schema {
    object([req("unlock", any())])
}

pub fn console_output_get_console_output_body() -> Schema {
    object([req(
        "os-getConsoleOutput",
        object([opt("length", any().types(["integer", "string", "null"]).pattern("^-?[0-9]+$").min(-1))]),
    )])
}

pub fn remote_consoles_vnc_body() -> Schema {
    object([req("os-getVNCConsole", object([req("type", choice(["novnc", "xvpvnc"]))]))])
}

pub fn remote_consoles_spice_body() -> Schema {
    object([req("os-getSPICEConsole", object([req("type", choice(["spice-html5"]))]))])
}

pub fn remote_consoles_serial_body() -> Schema {
    object([req("os-getSerialConsole", object([req("type", choice(["serial"]))]))])
}

pub fn floating_ips_add_body() -> Schema {
    let addresses = object([req("address", ip_address()), opt("fixed_address", ip_address())]);
    object([req("addFloatingIp", addresses)])
}

pub fn floating_ips_remove_body() -> Schema {
    object([req("removeFloatingIp", object([req("address", ip_address())]))])
}

pub fn servers_resize_body() -> Schema {
    object([req(
        "resize",
        object([
            req("flavorRef", any().types(["string", "integer"]).min_length(1)),
            opt("OS-DCF:diskConfig", choice(["AUTO", "MANUAL"])),
        ]),
    )])
}

pub fn servers_confirm_resize_body() -> Schema {
    object([req("confirmResize", any())])
}

pub fn servers_revert_resize_body() -> Schema {
    object([req("revertResize", any())])
}

pub fn migrate_server_migrate_body() -> Schema {
    object([req("migrate", any().from(2, 56, null_or(object([opt("host", null_or(hostname()))]))))])
}

pub fn migrate_server_live_body() -> Schema {
    let block = loose_boolean().from(2, 25, loose_boolean_or(["auto"]));
    object([req(
        "os-migrateLive",
        object([
            req("block_migration", block),
            req("disk_over_commit", loose_boolean()).until(2, 24),
            req("host", null_or(hostname())),
            opt("force", loose_boolean()).since(2, 30).until(2, 67),
        ]),
    )])
}

pub fn server_migrations_force_complete_body() -> Schema {
    object([req("force_complete", null())])
}

pub fn evacuate_body() -> Schema {
    let host = string().pattern("^[a-zA-Z0-9-._]*$").min_length(1).max_length(255);
    object([req(
        "evacuate",
        object([
            opt("host", host),
            req("onSharedStorage", loose_boolean()).until(2, 13),
            opt("adminPass", string()),
            opt("force", loose_boolean()).since(2, 29).until(2, 67),
        ]),
    )])
}
