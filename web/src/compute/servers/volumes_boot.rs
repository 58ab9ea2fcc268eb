//! `/os-volumes_boot` until 2.102. This is another path of `/servers`, from the time when booting from volumes was an
//! extension.

use super::{actions, admin, change, create, list, moves};
use crate::answers::{accepted, no_content};
use crate::compute::answers::servers as answers;
use crate::compute::bodies::{no_query, server_actions, servers as bodies};
use crate::handler;
use crate::route::{Route, action, delete, get, post, put};

const PATH: &str = "/os-volumes_boot/{id}/action";

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("volumes_boot.index", "/os-volumes_boot", handler!(list::index))
        .until(2, 102)
        .policy("os_compute_api:servers:index")
        .query(bodies::index_query)
        .answers(answers::index),
    get("volumes_boot.detail", "/os-volumes_boot/detail", handler!(list::detail))
        .until(2, 102)
        .policy("os_compute_api:servers:detail")
        .query(bodies::index_query)
        .answers(answers::detail),
    post("volumes_boot.create", "/os-volumes_boot", handler!(create::create))
        .until(2, 102)
        .policy("os_compute_api:servers:create")
        .body(bodies::create_body)
        .answers(answers::create),
    get("volumes_boot.show", "/os-volumes_boot/{id}", handler!(super::show))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:show")
        .query(no_query)
        .answers(answers::show),
    put("volumes_boot.update", "/os-volumes_boot/{id}", handler!(change::update))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:update")
        .body(bodies::update_body)
        .answers(answers::show),
    delete("volumes_boot.delete", "/os-volumes_boot/{id}", handler!(change::delete))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:delete")
        .answers(no_content),
    action("volumes_boot.os-start", PATH, "os-start", handler!(actions::start))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:start")
        .body(server_actions::start_body)
        .answers(accepted),
    action("volumes_boot.os-stop", PATH, "os-stop", handler!(actions::stop))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:stop")
        .body(server_actions::stop_body)
        .answers(accepted),
    action("volumes_boot.reboot", PATH, "reboot", handler!(actions::reboot))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:reboot")
        .body(server_actions::reboot_body)
        .answers(accepted),
    action("volumes_boot.resize", PATH, "resize", handler!(moves::resize))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:resize")
        .body(server_actions::servers_resize_body)
        .answers(accepted),
    action("volumes_boot.confirmResize", PATH, "confirmResize", handler!(moves::confirm))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:confirm_resize")
        .body(server_actions::servers_confirm_resize_body)
        .answers(no_content),
    action("volumes_boot.revertResize", PATH, "revertResize", handler!(moves::revert))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:revert_resize")
        .body(server_actions::servers_revert_resize_body)
        .answers(accepted),
    action("volumes_boot.trigger_crash_dump", PATH, "trigger_crash_dump", handler!(admin::trigger_crash_dump))
        .since(2, 17)
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:trigger_crash_dump")
        .body(server_actions::servers_trigger_crash_dump_body)
        .answers(accepted),
];
