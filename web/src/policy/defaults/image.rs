//! Image: the rules of the operations that the embedded image service has. `manage_image_cache` and
//! `stores_info_detail` are rules of Glance for operations that the service lacks.

use super::rule::{RuleDefault, rule};

pub(super) const RULES: &[RuleDefault] = &[
    rule("default", ""),
    rule("context_is_admin", "role:admin"),
    rule("add_image", "rule:context_is_admin or (role:member and project_id:%(project_id)s and project_id:%(owner)s)").project().guards("POST /v2/images"),
    rule("delete_image", "rule:context_is_admin or (role:member and project_id:%(project_id)s)").project().guards("DELETE /v2/images/{image_id}"),
    rule("get_image", "rule:context_is_admin or (role:reader and (project_id:%(project_id)s or project_id:%(member_id)s or 'community':%(visibility)s or 'public':%(visibility)s or 'shared':%(visibility)s))").project().guards("GET /v2/images/{image_id}"),
    rule("get_images", "rule:context_is_admin or (role:reader and project_id:%(project_id)s)").project().guards("GET /v2/images"),
    rule("modify_image", "rule:context_is_admin or (role:member and project_id:%(project_id)s)").project().guards("PATCH /v2/images/{image_id}"),
    rule("publicize_image", "rule:context_is_admin").project().guards("PATCH /v2/images/{image_id}"),
    rule("communitize_image", "rule:context_is_admin or (role:member and project_id:%(project_id)s)").project().guards("PATCH /v2/images/{image_id}"),
    rule("download_image", "rule:context_is_admin or (role:member and (project_id:%(project_id)s or project_id:%(member_id)s or 'community':%(visibility)s or 'public':%(visibility)s or 'shared':%(visibility)s))").project().guards("GET /v2/images/{image_id}/file"),
    rule("upload_image", "rule:context_is_admin or (role:member and project_id:%(project_id)s)").project().guards("PUT /v2/images/{image_id}/file"),
    rule("add_member", "rule:context_is_admin or (role:member and project_id:%(project_id)s)").project().guards("POST /v2/images/{image_id}/members"),
    rule("delete_member", "rule:context_is_admin or (role:member and project_id:%(project_id)s)").project().guards("DELETE /v2/images/{image_id}/members/{member_id}"),
    rule("get_member", "rule:context_is_admin or role:reader and (project_id:%(project_id)s or project_id:%(member_id)s)").project().guards("GET /v2/images/{image_id}/members/{member_id}"),
    rule("get_members", "rule:context_is_admin or role:reader and (project_id:%(project_id)s or project_id:%(member_id)s)").project().guards("GET /v2/images/{image_id}/members"),
    rule("modify_member", "rule:context_is_admin or (role:member and project_id:%(member_id)s)").project().guards("PUT /v2/images/{image_id}/members/{member_id}"),
    rule("deactivate", "rule:context_is_admin or (role:member and project_id:%(project_id)s)").project().guards("POST /v2/images/{image_id}/actions/deactivate"),
    rule("reactivate", "rule:context_is_admin or (role:member and project_id:%(project_id)s)").project().guards("POST /v2/images/{image_id}/actions/reactivate"),
    rule("manage_image_cache", "role:admin"),
    rule("stores_info_detail", "role:admin").project().guards("GET /v2/info/stores/detail"),
];
