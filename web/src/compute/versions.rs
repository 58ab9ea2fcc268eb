//! The differences in behaviour between microversions, not in form.

use crate::microversion::{Microversion, v};

/// `PUT /servers/{id}` answers without the extended attributes.
pub(super) const fn update_answers_briefly(version: Microversion) -> bool {
    !version.at_least(v(2, 75))
}

/// Images made of servers are named in the body of the answer, and no longer in its `Location`.
pub(super) const fn images_are_named_in_the_body(version: Microversion) -> bool {
    version.at_least(v(2, 45))
}

/// Metadata of images made of servers counts for the quota of metadata.
pub(super) const fn image_metadata_counts_for_quota(version: Microversion) -> bool {
    !version.at_least(v(2, 39))
}

/// A rebuild can give a server another key pair, and shows it.
pub(super) const fn rebuild_changes_keys(version: Microversion) -> bool {
    version.at_least(v(2, 54))
}

/// A rebuild can give a server other user data, and shows it.
pub(super) const fn rebuild_changes_user_data(version: Microversion) -> bool {
    version.at_least(v(2, 57))
}

/// An unshelve may name a destination.
pub(super) const fn unshelving_has_a_destination(version: Microversion) -> bool {
    version.at_least(v(2, 77))
}

/// Hosts, hypervisors and services are known by UUIDs instead of numbers.
pub(super) const fn hosts_have_uuids(version: Microversion) -> bool {
    version.at_least(v(2, 53))
}

/// `os-keypairs` answers 201 and 204 instead of 200 and 202.
pub(super) const fn keypairs_use_fitting_codes(version: Microversion) -> bool {
    version.at_least(v(2, 2))
}

/// Key pairs may be looked at, made and removed for other users.
pub(super) const fn keypairs_of_others(version: Microversion) -> bool {
    version.at_least(v(2, 10))
}

/// A status that does not exist is an error; before, nothing has it.
pub(super) const fn unknown_status_is_refused(version: Microversion) -> bool {
    version.at_least(v(2, 38))
}

/// Servers can be sorted by `locked`; before, the sort key is accepted and ignored.
pub(super) const fn sorts_by_locked(version: Microversion) -> bool {
    version.at_least(v(2, 73))
}

/// Deleted servers' actions can be read.
pub(super) const fn actions_of_deleted(version: Microversion) -> bool {
    version.at_least(v(2, 21))
}

/// Everybody sees the events of an action; before, only those whom the policy let.
pub(super) const fn action_events_for_all(version: Microversion) -> bool {
    version.at_least(v(2, 51))
}

/// A public flavor has no access list to add to.
pub(super) const fn public_flavor_has_no_access_list(version: Microversion) -> bool {
    version.at_least(v(2, 7))
}

/// Fixed addresses, security groups and the like have quotas here.
pub(super) const fn network_quotas(version: Microversion) -> bool {
    !version.at_least(v(2, 36))
}

/// Image metadata has a limit.
pub(super) const fn image_metadata_limit(version: Microversion) -> bool {
    !version.at_least(v(2, 39))
}

/// Injected files have quotas.
pub(super) const fn file_quotas(version: Microversion) -> bool {
    !version.at_least(v(2, 57))
}

/// Hypervisors show their uptime and no longer their load.
pub(super) const fn hypervisors_show_uptime(version: Microversion) -> bool {
    version.at_least(v(2, 88))
}

/// A server's description is its own; before, its name stood for it.
pub(super) const fn servers_have_descriptions(version: Microversion) -> bool {
    version.at_least(v(2, 19))
}

/// Interfaces show their tags.
pub(super) const fn interfaces_have_tags(version: Microversion) -> bool {
    version.at_least(v(2, 70))
}

/// Hypervisors show their servers when asked to, be there any or not.
pub(super) const fn hypervisors_show_no_servers_too(version: Microversion) -> bool {
    version.at_least(v(2, 75))
}

/// Lists of key pairs come in pages.
pub(super) const fn keypairs_are_paged(version: Microversion) -> bool {
    version.at_least(v(2, 35))
}

/// Quota classes have the resources that quota sets have.
pub(super) const fn quota_classes_follow_quota_sets(version: Microversion) -> bool {
    version.at_least(v(2, 50))
}

/// Usage comes in pages.
pub(super) const fn usage_comes_in_pages(version: Microversion) -> bool {
    version.at_least(v(2, 40))
}

/// A service can be said to be down.
pub(super) const fn services_can_be_forced_down(version: Microversion) -> bool {
    version.at_least(v(2, 11))
}

/// Volumes that several servers may have can be attached.
pub(super) const fn volumes_may_be_shared(version: Microversion) -> bool {
    version.at_least(v(2, 60))
}

/// Volumes are attached while nobody waits: the answer says nothing of the device.
pub(super) const fn volumes_are_attached_in_the_background(version: Microversion) -> bool {
    version.at_least(v(2, 101))
}

/// Attachments show their tags.
pub(super) const fn attachments_have_tags(version: Microversion) -> bool {
    version.at_least(v(2, 70))
}

/// Attachments show whether the volume ends with the server.
pub(super) const fn attachments_show_deletion(version: Microversion) -> bool {
    version.at_least(v(2, 79))
}

/// An attachment can be changed without another volume taking its place.
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

/// Console tokens of all kinds are shown; before, only those of a kind that is gone.
pub(super) const fn console_tokens_are_shown(version: Microversion) -> bool {
    version.at_least(v(2, 31))
}

/// Console tokens of direct SPICE connections show their TLS port.
pub(super) const fn console_tokens_show_tls_ports(version: Microversion) -> bool {
    version.at_least(v(2, 99))
}

/// Flavors' extra specs of known namespaces must be known, and their values of the right type.
pub(super) const fn extra_specs_are_validated(version: Microversion) -> bool {
    version.at_least(v(2, 86))
}

/// Volumes come to shelved servers, and leave them.
pub(super) const fn shelved_servers_take_volumes(version: Microversion) -> bool {
    version.at_least(v(2, 20))
}

/// A rebuild writes the image to a root disk that is a volume.
pub(super) const fn rebuild_writes_volumes(version: Microversion) -> bool {
    version.at_least(v(2, 93))
}

/// Servers whose root disk is a volume can be rescued.
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

/// Migrations show, and can be found by, who asked for them.
pub(super) const fn migrations_have_askers(version: Microversion) -> bool {
    version.at_least(v(2, 80))
}

/// A live migration's checks may go on after the answer.
pub(super) const fn live_migration_checks_are_asynchronous(version: Microversion) -> bool {
    version.at_least(v(2, 34))
}

/// A host that is named for a live migration is one that the scheduler has to agree to.
pub(super) const fn live_migration_asks_the_scheduler(version: Microversion) -> bool {
    version.at_least(v(2, 30))
}

/// Unless that is forced.
pub(super) const fn live_migration_can_be_forced(version: Microversion) -> bool {
    version.at_least(v(2, 30)) && !version.at_least(v(2, 68))
}

/// A live migration that has not set out can be aborted.
pub(super) const fn waiting_live_migrations_can_be_aborted(version: Microversion) -> bool {
    version.at_least(v(2, 65))
}

/// Migrations say their kind, and live ones under way where they are shown.
pub(super) const fn migrations_have_links(version: Microversion) -> bool {
    version.at_least(v(2, 23))
}

/// Whether disks of an evacuated server are on shared storage is found out.
pub(super) const fn evacuation_finds_shared_storage(version: Microversion) -> bool {
    version.at_least(v(2, 14))
}

/// A host that is named for an evacuation is one that the scheduler has to agree to.
pub(super) const fn evacuation_asks_the_scheduler(version: Microversion) -> bool {
    version.at_least(v(2, 29))
}

/// Unless that is forced.
pub(super) const fn evacuation_can_be_forced(version: Microversion) -> bool {
    version.at_least(v(2, 29)) && !version.at_least(v(2, 68))
}

/// Evacuated servers are stopped, whatever they were.
pub(super) const fn evacuated_servers_are_stopped(version: Microversion) -> bool {
    version.at_least(v(2, 95))
}
