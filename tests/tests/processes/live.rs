//! Live migrations: of a running and of a paused guest, with a volume, and with a delete meanwhile.

use chronova_actors::process::live_migrate;
use chronova_tests::process_harness::{Case, prove};
use futures::FutureExt;

use super::{Ask, built, case, paused, prove_overtaken, with_a_volume};

#[actix_rt::test]
async fn live_migration_is_proven() {
    let ask: Ask = |life, id| life.live_migrate(id).boxed_local();
    let definition = &live_migrate::DEFINITION;
    prove(&Case { definition, ..case(built, ask, "ACTIVE", "ACTIVE") }).await;
    prove(&Case { definition, ..case(paused, ask, "PAUSED", "PAUSED") }).await;
}

#[actix_rt::test]
async fn live_migration_with_a_volume_is_proven() {
    let ask: Ask = |life, id| life.live_migrate(id).boxed_local();
    let case = case(with_a_volume, ask, "ACTIVE", "ACTIVE");
    prove(&Case { definition: &live_migrate::DEFINITION, shared: true, ..case }).await;
}

#[actix_rt::test]
async fn delete_during_a_live_migration_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.live_migrate(id).await?;
            life.delete(id).await
        }
        .boxed_local()
    };
    prove_overtaken(ask, &["ACTIVE"]).await;
}
