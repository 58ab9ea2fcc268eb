//! Network: the rules of the operations that the embedded network service has. A comparison with an attribute of the
//! target replaces each `field:` check of Neutron. The attributes are `shared`, `router:external`, and
//! `device_owner_kind` (the part of a port's `device_owner` before the colon).

use super::rule::{RuleDefault, rule};

pub(super) const RULES: &[RuleDefault] = &[
    rule("context_is_admin", "role:admin"),
    rule("context_is_advsvc", "role:advsvc"),
    rule("service_api", "role:service"),
    rule("owner", "tenant_id:%(tenant_id)s"),
    rule("admin_or_owner", "rule:context_is_admin or rule:owner"),
    rule("admin_only", "rule:context_is_admin"),
    rule("regular_user", ""),
    rule("default", "rule:admin_or_owner"),
    rule("shared", "'True':%(shared)s"),
    rule("external", "'True':%(router:external)s"),
    rule("network_owner", "tenant_id:%(network:tenant_id)s"),
    rule("sg_owner", "tenant_id:%(security_group:tenant_id)s"),
    rule("admin_or_network_owner", "rule:context_is_admin or rule:network_owner"),
    rule("admin_or_sg_owner", "rule:context_is_admin or rule:sg_owner"),
    rule("project_manager", "role:manager and project_id:%(project_id)s"),
    rule("project_member", "role:member and project_id:%(project_id)s"),
    rule("project_reader", "role:reader and project_id:%(project_id)s"),
    rule("admin_or_project_member", "(rule:admin_only) or (rule:project_member)"),
    rule("admin_or_project_reader", "(rule:admin_only) or (rule:project_reader)"),
    rule("create_network", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("create_network", "rule:regular_user")
        .guards("POST /networks"),
    rule("create_network:shared", "rule:admin_only").project().guards("POST /networks"),
    rule("create_network:router:external", "rule:admin_only").project().guards("POST /networks"),
    rule("create_network:is_default", "rule:admin_only").project().guards("POST /networks"),
    rule("create_network:provider:network_type", "rule:admin_only").project().guards("POST /networks"),
    rule("create_network:provider:physical_network", "rule:admin_only").project().guards("POST /networks"),
    rule("create_network:provider:segmentation_id", "rule:admin_only").project().guards("POST /networks"),
    rule("get_network", "(rule:admin_only) or (rule:project_reader) or role:service or rule:shared or rule:external")
        .project()
        .deprecates("get_network", "rule:admin_or_owner or rule:shared or rule:external")
        .guards("GET /networks; GET /networks/{id}"),
    rule("get_network:provider:network_type", "rule:admin_only").project().guards("GET /networks; GET /networks/{id}"),
    rule("get_network:provider:physical_network", "rule:admin_only")
        .project()
        .guards("GET /networks; GET /networks/{id}"),
    rule("get_network:provider:segmentation_id", "rule:admin_only")
        .project()
        .guards("GET /networks; GET /networks/{id}"),
    rule("update_network", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("update_network", "rule:admin_or_owner")
        .guards("PUT /networks/{id}"),
    rule("update_network:shared", "rule:admin_only").project().guards("PUT /networks/{id}"),
    rule("update_network:router:external", "rule:admin_only").project().guards("PUT /networks/{id}"),
    rule("update_network:is_default", "rule:admin_only").project().guards("PUT /networks/{id}"),
    rule("delete_network", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("delete_network", "rule:admin_or_owner")
        .guards("DELETE /networks/{id}"),
    rule("create_subnet", "(rule:admin_only) or (role:member and rule:network_owner)")
        .project()
        .deprecates("create_subnet", "rule:admin_or_network_owner")
        .guards("POST /subnets"),
    rule("get_subnet", "(rule:admin_only) or (rule:project_reader) or rule:shared or rule:external")
        .project()
        .deprecates("get_subnet", "rule:admin_or_owner or rule:shared")
        .guards("GET /subnets; GET /subnets/{id}"),
    rule("update_subnet", "(rule:admin_only) or (rule:project_member) or (role:member and rule:network_owner)")
        .project()
        .deprecates("update_subnet", "rule:admin_or_network_owner")
        .guards("PUT /subnets/{id}"),
    rule("delete_subnet", "(rule:admin_only) or (rule:project_member) or (role:member and rule:network_owner)")
        .project()
        .deprecates("delete_subnet", "rule:admin_or_network_owner")
        .guards("DELETE /subnets/{id}"),
    rule("create_port", "(rule:admin_only) or (rule:project_member) or role:service")
        .project()
        .deprecates("create_port", "rule:regular_user")
        .guards("POST /ports"),
    rule("create_port:device_owner", "not 'network':%(device_owner_kind)s or rule:context_is_admin or role:service")
        .project()
        .guards("POST /ports"),
    rule("create_port:mac_address", "(rule:admin_only) or (role:member and rule:network_owner) or role:service")
        .project()
        .guards("POST /ports"),
    rule(
        "create_port:fixed_ips",
        "(rule:admin_only) or (role:member and rule:network_owner) or role:service or rule:shared",
    )
    .project()
    .guards("POST /ports"),
    rule(
        "create_port:fixed_ips:ip_address",
        "(rule:admin_only) or (role:member and rule:network_owner) or role:service",
    )
    .project()
    .guards("POST /ports"),
    rule(
        "create_port:fixed_ips:subnet_id",
        "(rule:admin_only) or (role:member and rule:network_owner) or role:service or rule:shared",
    )
    .project()
    .guards("POST /ports"),
    rule(
        "create_port:port_security_enabled",
        "(rule:admin_only) or (role:member and rule:network_owner) or role:service",
    )
    .project()
    .guards("POST /ports"),
    rule("create_port:binding:host_id", "(rule:admin_only) or role:service").project().guards("POST /ports"),
    rule("create_port:binding:profile", "role:service").project().guards("POST /ports"),
    rule("create_port:binding:vnic_type", "(rule:admin_only) or (rule:project_member) or role:service")
        .project()
        .guards("POST /ports"),
    rule("create_port:allowed_address_pairs", "(rule:admin_only) or (role:member and rule:network_owner)")
        .project()
        .guards("POST /ports"),
    rule(
        "get_port",
        "(rule:admin_only) or (rule:project_reader) or role:service or (role:reader and rule:network_owner)",
    )
    .project()
    .deprecates("get_port", "rule:context_is_advsvc or rule:admin_or_owner or rule:network_owner")
    .guards("GET /ports; GET /ports/{id}"),
    rule("get_port:binding:vif_type", "(rule:admin_only) or role:service")
        .project()
        .guards("GET /ports; GET /ports/{id}"),
    rule("get_port:binding:vif_details", "(rule:admin_only) or role:service")
        .project()
        .guards("GET /ports; GET /ports/{id}"),
    rule("get_port:binding:host_id", "(rule:admin_only) or role:service")
        .project()
        .guards("GET /ports; GET /ports/{id}"),
    rule("get_port:binding:profile", "(rule:admin_only) or role:service")
        .project()
        .guards("GET /ports; GET /ports/{id}"),
    rule("update_port", "(rule:admin_only) or (rule:project_member) or role:service")
        .project()
        .deprecates("update_port", "rule:admin_or_owner or rule:context_is_advsvc")
        .guards("PUT /ports/{id}"),
    rule("update_port:device_owner", "not 'network':%(device_owner_kind)s or rule:context_is_admin or role:service")
        .project()
        .guards("PUT /ports/{id}"),
    rule("update_port:mac_address", "(rule:admin_only) or role:service").project().guards("PUT /ports/{id}"),
    rule(
        "update_port:fixed_ips",
        "(rule:admin_only) or (role:member and rule:network_owner) or role:service or rule:shared",
    )
    .project()
    .guards("PUT /ports/{id}"),
    rule(
        "update_port:fixed_ips:ip_address",
        "(rule:admin_only) or (role:member and rule:network_owner) or role:service",
    )
    .project()
    .guards("PUT /ports/{id}"),
    rule(
        "update_port:fixed_ips:subnet_id",
        "(rule:admin_only) or (role:member and rule:network_owner) or role:service or rule:shared",
    )
    .project()
    .guards("PUT /ports/{id}"),
    rule(
        "update_port:port_security_enabled",
        "(rule:admin_only) or (role:member and rule:network_owner) or role:service",
    )
    .project()
    .guards("PUT /ports/{id}"),
    rule("update_port:binding:host_id", "(rule:admin_only) or role:service").project().guards("PUT /ports/{id}"),
    rule("update_port:binding:profile", "role:service").project().guards("PUT /ports/{id}"),
    rule("update_port:binding:vnic_type", "(rule:admin_only) or (rule:project_member) or role:service")
        .project()
        .guards("PUT /ports/{id}"),
    rule("update_port:allowed_address_pairs", "(rule:admin_only) or (role:member and rule:network_owner)")
        .project()
        .guards("PUT /ports/{id}"),
    rule(
        "delete_port",
        "(rule:admin_only) or (rule:project_member) or role:service or (role:member and rule:network_owner)",
    )
    .project()
    .deprecates("delete_port", "rule:context_is_advsvc or rule:admin_or_owner or rule:network_owner")
    .guards("DELETE /ports/{id}"),
    rule("create_security_group", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("create_security_group", "rule:admin_or_owner")
        .guards("POST /security-groups"),
    rule("get_security_group", "(rule:admin_only) or (rule:project_reader) or 'True':%(shared)s")
        .project()
        .deprecates("get_security_group", "rule:regular_user")
        .guards("GET /security-groups; GET /security-groups/{id}"),
    rule("update_security_group", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("update_security_group", "rule:admin_or_owner")
        .guards("PUT /security-groups/{id}"),
    rule("delete_security_group", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("delete_security_group", "rule:admin_or_owner")
        .guards("DELETE /security-groups/{id}"),
    rule("create_security_group_rule", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("create_security_group_rule", "rule:admin_or_owner")
        .guards("POST /security-group-rules"),
    rule("get_security_group_rule", "(rule:admin_only) or (rule:project_reader) or (role:reader and rule:sg_owner)")
        .project()
        .deprecates("get_security_group_rule", "rule:regular_user")
        .guards("GET /security-group-rules; GET /security-group-rules/{id}"),
    rule("delete_security_group_rule", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("delete_security_group_rule", "rule:admin_or_owner")
        .guards("DELETE /security-group-rules/{id}"),
    rule("get_quota", "(rule:admin_only) or (rule:project_reader)").project().guards("GET /quotas/{id}"),
    rule("update_quota", "rule:admin_only").project().guards("PUT /quotas/{id}"),
    rule("delete_quota", "rule:admin_only").project().guards("DELETE /quotas/{id}"),
    rule("get_network_ip_availability", "rule:admin_only")
        .project()
        .guards("GET /network-ip-availabilities; GET /network-ip-availabilities/{id}"),
    rule("get_availability_zone", "").guards("GET /availability_zones"),
    rule("create_router", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("create_router", "rule:regular_user")
        .guards("POST /routers"),
    rule("create_router:external_gateway_info:enable_snat", "rule:admin_only").project().guards("POST /routers"),
    rule("create_router:external_gateway_info:external_fixed_ips", "rule:admin_only").project().guards("POST /routers"),
    rule("get_router", "(rule:admin_only) or (rule:project_reader)")
        .project()
        .deprecates("get_router", "rule:admin_or_owner")
        .guards("GET /routers; GET /routers/{id}"),
    rule("update_router", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("update_router", "rule:admin_or_owner")
        .guards("PUT /routers/{id}"),
    rule("update_router:external_gateway_info:enable_snat", "rule:admin_only").project().guards("PUT /routers/{id}"),
    rule("update_router:external_gateway_info:external_fixed_ips", "rule:admin_only")
        .project()
        .guards("PUT /routers/{id}"),
    rule("delete_router", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("delete_router", "rule:admin_or_owner")
        .guards("DELETE /routers/{id}"),
    rule("create_floatingip", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("create_floatingip", "rule:regular_user")
        .guards("POST /floatingips"),
    rule("create_floatingip:floating_ip_address", "rule:admin_only").project().guards("POST /floatingips"),
    rule("get_floatingip", "(rule:admin_only) or (rule:project_reader)")
        .project()
        .deprecates("get_floatingip", "rule:admin_or_owner")
        .guards("GET /floatingips; GET /floatingips/{id}"),
    rule("update_floatingip", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("update_floatingip", "rule:admin_or_owner")
        .guards("PUT /floatingips/{id}"),
    rule("delete_floatingip", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("delete_floatingip", "rule:admin_or_owner")
        .guards("DELETE /floatingips/{id}"),
    rule("add_router_interface", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("add_router_interface", "rule:admin_or_owner")
        .guards("PUT /routers/{id}/add_router_interface"),
    rule("remove_router_interface", "(rule:admin_only) or (rule:project_member)")
        .project()
        .deprecates("remove_router_interface", "rule:admin_or_owner")
        .guards("PUT /routers/{id}/remove_router_interface"),
];
