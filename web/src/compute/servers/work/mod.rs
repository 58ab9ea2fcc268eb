//! Work on a server: creating images of it, rebuilding, rescuing and shelving it, and changing its password.
//!
//! As in Nova, the handlers first check the lock and the state, then the images, the limits and the zones. A process
//! does the rest. Only the answer to `changePassword` waits for the end of its process.

mod images;
mod on_volumes;
mod password;
mod rebuild;
mod requests;
mod rescue;
mod shelve;

use crate::answers::accepted;
use crate::compute::answers::servers as answers;
use crate::compute::bodies::server_work as bodies;
use crate::handler;
use crate::route::{Route, action};

const PATH: &str = "/servers/{id}/action";
/// Another path of the actions, until 2.102: see [`super::volumes_boot`].
const BOOT_PATH: &str = "/os-volumes_boot/{id}/action";

pub(in crate::compute) const ROUTES: &[Route] = &[
    action("servers.createImage", PATH, "createImage", handler!(images::create_image))
        .policy_on_target("os_compute_api:servers:create_image")
        .body(bodies::create_image_body)
        .answers(answers::image),
    action("create_backup.createBackup", PATH, "createBackup", handler!(images::create_backup))
        .policy_on_target("os_compute_api:os-create-backup")
        .body(bodies::create_backup_body)
        .answers(answers::image),
    action("servers.rebuild", PATH, "rebuild", handler!(rebuild::rebuild))
        .policy_on_target("os_compute_api:servers:rebuild")
        .body(bodies::rebuild_body)
        .answers(answers::rebuild),
    action("rescue.rescue", PATH, "rescue", handler!(rescue::rescue))
        .policy_on_target("os_compute_api:os-rescue")
        .body(bodies::rescue_body)
        .answers(answers::rescue),
    action("rescue.unrescue", PATH, "unrescue", handler!(rescue::unrescue))
        .policy_on_target("os_compute_api:os-unrescue")
        .body(bodies::unrescue_body)
        .answers(accepted),
    action("shelve.shelve", PATH, "shelve", handler!(shelve::shelve))
        .policy_on_target("os_compute_api:os-shelve:shelve")
        .body(bodies::shelve_body)
        .answers(accepted),
    action("shelve.shelveOffload", PATH, "shelveOffload", handler!(shelve::offload))
        .policy_on_target("os_compute_api:os-shelve:shelve_offload")
        .body(bodies::shelve_offload_body)
        .answers(accepted),
    action("shelve.unshelve", PATH, "unshelve", handler!(shelve::unshelve))
        .policy_on_target("os_compute_api:os-shelve:unshelve")
        .body(bodies::unshelve_body)
        .answers(accepted),
    action("admin_password.changePassword", PATH, "changePassword", handler!(password::change))
        .policy_on_target("os_compute_api:os-admin-password")
        .body(bodies::change_password_body)
        .answers(accepted),
    action("volumes_boot.createImage", BOOT_PATH, "createImage", handler!(images::create_image))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:create_image")
        .body(bodies::create_image_body)
        .answers(answers::image),
    action("volumes_boot.rebuild", BOOT_PATH, "rebuild", handler!(rebuild::rebuild))
        .until(2, 102)
        .policy_on_target("os_compute_api:servers:rebuild")
        .body(bodies::rebuild_body)
        .answers(answers::rebuild),
];
