//! The suite of networks on the embedded network service, and on a service that breaks a promise. Its cases about
//! servers also run on real Neutron.

use std::sync::Arc;

use chronova_actors::ports::NetworkService;
use chronova_tests::ports::broken_networks::{BrokenNetworks, NetworkFault};
use chronova_tests::ports::embedded_networks::EmbeddedNetworkStage;
use chronova_tests::ports::network_resources;
use chronova_tests::ports::networks::{CASES, NetworkCase};
use chronova_tests::ports::real_neutron::RealNeutron;

fn all() -> impl Iterator<Item = &'static (&'static str, NetworkCase)> {
    CASES.iter().chain(network_resources::CASES)
}

fn case(named: &str) -> NetworkCase {
    all().find(|(name, _)| *name == named).unwrap_or_else(|| panic!("no case is called {named}")).1
}

#[actix_rt::test]
async fn the_embedded_network_service_keeps_every_promise() {
    for (name, case) in all() {
        let stage = EmbeddedNetworkStage::new().await;
        if let Err(broken) = case(stage.networks.as_ref(), &stage).await {
            panic!("{name}: {broken:#}");
        }
        stage.stop().await;
    }
}

#[actix_rt::test]
async fn real_neutron_keeps_every_promise_about_servers() {
    let Some(stage) = RealNeutron::start().await.unwrap() else {
        eprintln!("skipped: Neutron is not installed (setup_packages neutron)");
        return;
    };
    let networks = stage.networks().unwrap();
    let mut broken = Vec::new();
    for (name, case) in CASES {
        if let Err(error) = case(networks.as_ref(), &stage).await {
            broken.push(format!("{name}: {error:#}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[actix_rt::test]
async fn a_network_service_that_breaks_a_promise_fails_its_case() {
    let faults = [
        (NetworkFault::ChecksNothing, "checks_before_a_server_is_accepted"),
        (NetworkFault::AllocatesAgain, "allocates_once_for_each_server"),
        (NetworkFault::AttachesAgain, "attaches_once_for_each_process"),
        (NetworkFault::ReleasesNothing, "releases_what_it_made_and_keeps_what_it_was_given"),
        (NetworkFault::UndoesNothing, "undoes_an_attachment_whose_answer_was_lost"),
        (NetworkFault::DetachesAnyPort, "detaches_only_the_ports_of_the_server"),
        (NetworkFault::AppliesNoGroup, "applies_security_groups_to_servers"),
        (NetworkFault::AppliesNoGroup, "refuses_security_groups_in_kind"),
        (NetworkFault::FindsNoGroup, "finds_security_groups_by_id_and_by_name"),
        (NetworkFault::AddsNoAddress, "adds_and_removes_addresses"),
        (NetworkFault::KnowsNoAddress, "finds_ports_by_address"),
        (NetworkFault::TellsNoFloatingAddress, "tells_floating_addresses"),
        (NetworkFault::RefreshesNothing, "refreshes_interfaces_without_lost_ports"),
        (NetworkFault::RebindsNothing, "rebinds_ports_to_hosts"),
        (NetworkFault::MovesPortsAtOnce, "binds_ports_to_the_destination_of_a_live_migration"),
        (NetworkFault::ShowsAllNetworks, "shows_networks_to_those_who_may_see_them"),
        (NetworkFault::ReleasesForAll, "gives_floating_addresses_and_takes_them_back"),
        (NetworkFault::AssociatesForEver, "has_a_floating_address_stand_for_a_port"),
        (NetworkFault::ListsAllGroups, "shows_security_groups_to_their_project_alone"),
        (NetworkFault::AddsRulesForAll, "changes_rules_of_security_groups"),
        (NetworkFault::DeletesUsedGroups, "keeps_a_security_group_in_use"),
    ];
    for (fault, named) in faults {
        let stage = EmbeddedNetworkStage::new().await;
        let networks = Arc::clone(&stage.networks) as Arc<dyn NetworkService>;
        let broken = BrokenNetworks { networks, fault };
        let judged = case(named)(&broken, &stage).await;
        assert!(judged.is_err(), "{fault:?} passes {named}");
        stage.stop().await;
    }
}
