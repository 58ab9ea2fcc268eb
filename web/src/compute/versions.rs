//! The differences between microversions that handlers ask about. Most other differences are in the tables of `views`
//! and `bodies`.
//!
//! The documentation of each function is a sentence. The function returns whether the sentence holds at the version.

use crate::microversion::{Microversion, v};

/// `PUT /servers/{id}` and a rebuild answer without some fields of the server, for example its zone.
pub(super) const fn update_answers_briefly(version: Microversion) -> bool {
    !version.at_least(v(2, 75))
}

/// The body of the answer names the new image of a server. In earlier versions the header `Location` names it.
pub(super) const fn images_are_named_in_the_body(version: Microversion) -> bool {
    version.at_least(v(2, 45))
}

/// The quota `metadata_items` limits the number of metadata pairs in a `createImage` or `createBackup` request.
pub(super) const fn image_metadata_counts_for_quota(version: Microversion) -> bool {
    !version.at_least(v(2, 39))
}

/// A rebuild can give a server another key pair, and its answer shows the key pair.
pub(super) const fn rebuild_changes_keys(version: Microversion) -> bool {
    version.at_least(v(2, 54))
}

/// A rebuild can give a server other user data, and its answer shows the user data.
pub(super) const fn rebuild_changes_user_data(version: Microversion) -> bool {
    version.at_least(v(2, 57))
}

/// An unshelve may name a destination.
pub(super) const fn unshelving_has_a_destination(version: Microversion) -> bool {
    version.at_least(v(2, 77))
}

/// Hypervisors and services have UUIDs instead of numbers as ids.
pub(super) const fn hosts_have_uuids(version: Microversion) -> bool {
    version.at_least(v(2, 53))
}

/// `os-keypairs` answers 201 and 204 instead of 200 and 202.
pub(super) const fn keypairs_use_fitting_codes(version: Microversion) -> bool {
    version.at_least(v(2, 2))
}

/// `user_id` selects the user whose key pairs a request lists, shows, creates or deletes. The policy decides who may
/// name another user. Earlier versions ignore `user_id`.
pub(super) const fn keypairs_of_others(version: Microversion) -> bool {
    version.at_least(v(2, 10))
}

/// An unknown status is an error. Earlier versions answer with an empty list.
pub(super) const fn unknown_status_is_refused(version: Microversion) -> bool {
    version.at_least(v(2, 38))
}

/// Servers can be sorted by `locked`. Earlier versions accept this sort key and ignore it.
pub(super) const fn sorts_by_locked(version: Microversion) -> bool {
    version.at_least(v(2, 73))
}

/// Deleted servers' actions can be read.
pub(super) const fn actions_of_deleted(version: Microversion) -> bool {
    version.at_least(v(2, 21))
}

/// A caller who may see an action also sees its events. In earlier versions a further policy rule decides.
pub(super) const fn action_events_for_all(version: Microversion) -> bool {
    version.at_least(v(2, 51))
}

/// Adding a project to a public flavor's access list is refused.
pub(super) const fn public_flavor_has_no_access_list(version: Microversion) -> bool {
    version.at_least(v(2, 7))
}

/// Quota sets and `GET /limits` show network resources: fixed and floating addresses, security groups and their rules.
/// Quota classes show them until 2.49.
pub(super) const fn network_quotas(version: Microversion) -> bool {
    !version.at_least(v(2, 36))
}

/// `GET /limits` shows `maxImageMeta`.
pub(super) const fn image_metadata_limit(version: Microversion) -> bool {
    !version.at_least(v(2, 39))
}

/// Quota sets, quota classes and `GET /limits` show the limits of injected files.
pub(super) const fn file_quotas(version: Microversion) -> bool {
    !version.at_least(v(2, 57))
}

/// The uptime is needed, because `HYPERVISOR` shows it.
pub(super) const fn hypervisors_show_uptime(version: Microversion) -> bool {
    version.at_least(v(2, 88))
}

/// A server has a description of its own. In earlier versions its name serves as the description.
pub(super) const fn servers_have_descriptions(version: Microversion) -> bool {
    version.at_least(v(2, 19))
}

/// A new server may have ports that request resources, for example a minimum bandwidth.
pub(super) const fn ports_may_request_resources(version: Microversion) -> bool {
    version.at_least(v(2, 72))
}

/// Interfaces show their tags.
pub(super) const fn interfaces_have_tags(version: Microversion) -> bool {
    version.at_least(v(2, 70))
}

/// If a request asks for a hypervisor's servers, the answer has the list even if it is empty.
pub(super) const fn hypervisors_show_no_servers_too(version: Microversion) -> bool {
    version.at_least(v(2, 75))
}

/// Lists of key pairs come in pages.
pub(super) const fn keypairs_are_paged(version: Microversion) -> bool {
    version.at_least(v(2, 35))
}

/// Quota classes show the resources that quota sets show. Earlier versions show the network resources instead of the
/// server groups.
pub(super) const fn quota_classes_follow_quota_sets(version: Microversion) -> bool {
    version.at_least(v(2, 50))
}

/// Usage comes in pages.
pub(super) const fn usage_comes_in_pages(version: Microversion) -> bool {
    version.at_least(v(2, 40))
}

/// A service can be forced down.
pub(super) const fn services_can_be_forced_down(version: Microversion) -> bool {
    version.at_least(v(2, 11))
}

/// Multiattach volumes can be attached.
pub(super) const fn volumes_may_be_shared(version: Microversion) -> bool {
    version.at_least(v(2, 60))
}

/// The answer to the attachment of a volume has no body, so it does not name the device.
pub(super) const fn volumes_are_attached_in_the_background(version: Microversion) -> bool {
    version.at_least(v(2, 101))
}

/// Attachments show their tags.
pub(super) const fn attachments_have_tags(version: Microversion) -> bool {
    version.at_least(v(2, 70))
}

/// Attachments show whether the volume is deleted with the server.
pub(super) const fn attachments_show_deletion(version: Microversion) -> bool {
    version.at_least(v(2, 79))
}

/// `PUT` on an attachment can change its properties without a swap of volumes.
pub(super) const fn attachments_can_be_changed(version: Microversion) -> bool {
    version.at_least(v(2, 85))
}

/// Attachments without an id in the volume service are not shown.
pub(super) const fn attachments_have_ids(version: Microversion) -> bool {
    version.at_least(v(2, 89))
}

/// Diagnostics have one form for all hypervisors.
pub(super) const fn diagnostics_are_standard(version: Microversion) -> bool {
    version.at_least(v(2, 48))
}

/// Console tokens of all kinds are shown. In earlier versions Nova shows only RDP tokens, which no longer exist, so the
/// request is refused.
pub(super) const fn console_tokens_are_shown(version: Microversion) -> bool {
    version.at_least(v(2, 31))
}

/// Console tokens of direct SPICE connections show their TLS port.
pub(super) const fn console_tokens_show_tls_ports(version: Microversion) -> bool {
    version.at_least(v(2, 99))
}

/// Extra specs in known namespaces must have known names and values of the right type.
pub(super) const fn extra_specs_are_validated(version: Microversion) -> bool {
    version.at_least(v(2, 86))
}

/// Volumes can be attached to shelved servers and detached from them.
pub(super) const fn shelved_servers_take_volumes(version: Microversion) -> bool {
    version.at_least(v(2, 20))
}

/// If the root disk is a volume, a rebuild writes the image to this volume.
pub(super) const fn rebuild_writes_volumes(version: Microversion) -> bool {
    version.at_least(v(2, 93))
}

/// A server whose root disk is a volume can be rescued with an image that names the rescue disk's device and bus.
pub(super) const fn rescues_servers_on_volumes(version: Microversion) -> bool {
    version.at_least(v(2, 87))
}

/// A cold migration can name its destination.
pub(super) const fn migrate_names_a_host(version: Microversion) -> bool {
    version.at_least(v(2, 56))
}

/// Migrations come in pages.
pub(super) const fn migrations_are_paged(version: Microversion) -> bool {
    version.at_least(v(2, 59))
}

/// Migrations can be filtered by the requesting user and project.
pub(super) const fn migrations_have_askers(version: Microversion) -> bool {
    version.at_least(v(2, 80))
}

/// The answer to a live migration does not wait for its checks.
pub(super) const fn live_migration_checks_are_asynchronous(version: Microversion) -> bool {
    version.at_least(v(2, 34))
}

/// The scheduler checks the host that a live migration names.
pub(super) const fn live_migration_asks_the_scheduler(version: Microversion) -> bool {
    version.at_least(v(2, 30))
}

/// A live migration can skip the scheduler's check of its host with `force`.
pub(super) const fn live_migration_can_be_forced(version: Microversion) -> bool {
    version.at_least(v(2, 30)) && !version.at_least(v(2, 68))
}

/// A queued live migration can be aborted.
pub(super) const fn waiting_live_migrations_can_be_aborted(version: Microversion) -> bool {
    version.at_least(v(2, 65))
}

/// A live migration under way shows a link to itself.
pub(super) const fn migrations_have_links(version: Microversion) -> bool {
    version.at_least(v(2, 23))
}

/// The control plane detects whether an evacuated server's disks are on shared storage.
pub(super) const fn evacuation_finds_shared_storage(version: Microversion) -> bool {
    version.at_least(v(2, 14))
}

/// The scheduler checks the host that an evacuation names.
pub(super) const fn evacuation_asks_the_scheduler(version: Microversion) -> bool {
    version.at_least(v(2, 29))
}

/// An evacuation can skip the scheduler's check of its host with `force`.
pub(super) const fn evacuation_can_be_forced(version: Microversion) -> bool {
    version.at_least(v(2, 29)) && !version.at_least(v(2, 68))
}

/// Evacuated servers are stopped on their new host. In earlier versions they run if they ran before.
pub(super) const fn evacuated_servers_are_stopped(version: Microversion) -> bool {
    version.at_least(v(2, 95))
}
