//! The suite of identity on the embedded service, on real Keystone, and on a service that breaks a promise.

use std::sync::Arc;

use chronova_tests::ports::broken_identity::{BrokenIdentity, IdentityFault};
use chronova_tests::ports::embedded_identity::EmbeddedIdentityStage;
use chronova_tests::ports::identity::{CASES, IdentityCase};
use chronova_tests::ports::real_keystone::RealKeystone;

fn case(named: &str) -> IdentityCase {
    CASES.iter().find(|(name, _)| *name == named).unwrap_or_else(|| panic!("no case is called {named}")).1
}

#[actix_rt::test]
async fn the_embedded_identity_service_keeps_every_promise() {
    for (name, case) in CASES {
        let stage = EmbeddedIdentityStage::new().await;
        if let Err(broken) = case(stage.identity.as_ref(), &stage).await {
            panic!("{name}: {broken:#}");
        }
        stage.stop().await;
    }
}

#[actix_rt::test]
async fn real_keystone_keeps_every_promise() {
    let Some(stage) = RealKeystone::start().unwrap() else {
        eprintln!("skipped: Keystone is not installed (setup_packages openstack)");
        return;
    };
    let provider = stage.provider().unwrap();
    for (name, case) in CASES {
        if let Err(broken) = case(provider.as_ref(), &stage).await {
            panic!("{name}: {broken:#}");
        }
    }
}

#[actix_rt::test]
async fn an_identity_service_that_breaks_a_promise_fails_its_case() {
    let faults = [
        (IdentityFault::LosesScope, "tells_whose_token_it_is"),
        (IdentityFault::AddsRoles, "tells_whose_token_it_is"),
        (IdentityFault::LosesScope, "tells_where_roles_hold"),
        (IdentityFault::BelievesAll, "believes_no_forged_token"),
        (IdentityFault::RemembersFirst, "forgets_revoked_tokens"),
        (IdentityFault::BelievesAll, "forgets_roles_that_are_taken_away"),
        (IdentityFault::IgnoresEnds, "accepts_an_expired_token_only_if_allowed"),
        (IdentityFault::RefusesExpired, "accepts_an_expired_token_only_if_allowed"),
        (IdentityFault::RemembersFirst, "accepts_an_expired_token_only_if_allowed"),
        (IdentityFault::KnowsAll, "knows_only_its_own_projects"),
    ];
    for (fault, named) in faults {
        let stage = EmbeddedIdentityStage::new().await;
        let broken = BrokenIdentity::new(Arc::clone(&stage.identity) as _, fault);
        let judged = case(named)(&broken, &stage).await;
        assert!(judged.is_err(), "{fault:?} passes {named}");
        stage.stop().await;
    }
}
