//! Live migrations whose hosts die or do not answer.

use super::*;

#[actix_rt::test]
async fn a_destination_that_dies_costs_nothing() {
    let scene = Scene::on_the_way().await;
    let (source, target) = scene.ends();
    scene.world.fleet.kill_host(target);
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.boots(source)), (source, Some(1)));
    assert_eq!(scene.status().await, MigrationStatus::Error);
    scene.world.fleet.revive_host(target, false).unwrap();
    scene.life.hosts_up(2).await;
    cleared(&scene).await;
    scene.end().await;
}

#[actix_rt::test]
async fn a_source_that_dies_keeps_its_server() {
    let scene = Scene::on_the_way().await;
    let (source, target) = scene.ends();
    scene.world.fleet.kill_host(source);
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.boots(target)), (source, None));
    scene.world.fleet.revive_host(source, false).unwrap();
    scene.life.hosts_up(2).await;
    let off = scene.life.until(|context| {
        context.views.servers.read(|servers| {
            let row = servers.get(scene.id).unwrap();
            chronova_events::instance::status::of(&row.instance).is_some_and(|status| status.status == "SHUTOFF")
        })
    });
    assert!(off.await);
    scene.end().await;
}

/// Neither host answers, so the process decides nothing until one answers.
#[actix_rt::test]
async fn nothing_is_decided_about_hosts_that_do_not_answer() {
    let scene = Scene::on_the_way().await;
    let (source, target) = scene.ends();
    scene.lose_after_the_switch_over(&[source, target]).await;
    scene.life.until(|context| context.views.hosts.read(|view| view.all().all(|host| !host.up))).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(scene.server().moving.is_some(), "the process decided without an answer of a host");
    scene.world.fleet.revive_host(target, true).unwrap();
    scene.life.settled().await;
    assert_eq!(scene.home(), target);
    scene.world.fleet.revive_host(source, true).unwrap();
    scene.life.hosts_up(2).await;
    cleared(&scene).await;
    scene.end().await;
}

/// Kills the hosts, and waits until they are recorded as down.
async fn lose_both(scene: &Scene, hosts: &[usize]) {
    for host in hosts {
        scene.world.fleet.kill_host(*host);
    }
    let down = hosts.len();
    scene
        .life
        .until(|context| context.views.hosts.read(|view| view.all().filter(|host| !host.up).count()) == down)
        .await;
}

async fn reset_to_error(scene: &Scene) -> Result<(), String> {
    scene.life.instance(scene.id, InstanceRequest::DeclareState { state: DeclaredState::Error }).await
}

/// Evacuates the server to the third host. Then the two other hosts come back and lose their leftovers.
async fn is_saved(scene: Scene, [source, target]: [usize; 2]) {
    scene.life.evacuate(scene.id).await.unwrap();
    scene.life.settled().await;
    let home = scene.home();
    assert!(home != source && home != target);
    assert_eq!((scene.life.status(scene.id), scene.boots(home)), ("ACTIVE", Some(1)));
    for host in [source, target] {
        scene.world.fleet.revive_host(host, true).unwrap();
    }
    scene.life.hosts_up(3).await;
    cleared(&scene).await;
    scene.end().await;
}

/// Both hosts are down for good. As in Nova, an operator resets the server's state and evacuates it.
#[actix_rt::test]
async fn a_reset_of_the_state_ends_a_live_migration_between_dead_hosts() {
    let scene = Scene::sent(World::new(3)).await;
    let (source, target) = scene.ends();
    lose_both(&scene, &[source, target]).await;
    assert!(scene.life.evacuate(scene.id).await.is_err(), "the destination may still run the guest");
    reset_to_error(&scene).await.unwrap();
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.life.status(scene.id)), (source, "ERROR"));
    assert_eq!(scene.life.fault(scene.id), "Live migration failure: the hosts are down.");
    assert_eq!(scene.status().await, MigrationStatus::Error);
    is_saved(scene, [source, target]).await;
}

/// A reset while both hosts answer says nothing about hosts that are lost later: the guest has arrived meanwhile.
#[actix_rt::test]
async fn a_reset_of_a_healthy_live_migration_gives_no_host_up() {
    let scene = Scene::on_the_way().await;
    let (source, target) = scene.ends();
    reset_to_error(&scene).await.unwrap();
    scene.lose_after_the_switch_over(&[source, target]).await;
    scene.life.until(|context| context.views.hosts.read(|view| view.all().all(|host| !host.up))).await;
    // The process looks at the hosts at least twice in this time.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(scene.server().moving.is_some(), "the process has given up a guest that has arrived");
    scene.world.fleet.revive_host(target, true).unwrap();
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.boots(target)), (target, Some(1)));
    assert_eq!(scene.status().await, MigrationStatus::Completed);
    scene.world.fleet.revive_host(source, true).unwrap();
    scene.life.hosts_up(2).await;
    cleared(&scene).await;
    scene.end().await;
}

/// An operator who reset the state too early resets it again.
#[actix_rt::test]
async fn a_second_reset_ends_a_live_migration_that_was_reset_too_early() {
    let scene = Scene::sent(World::new(3)).await;
    let (source, target) = scene.ends();
    reset_to_error(&scene).await.unwrap();
    lose_both(&scene, &[source, target]).await;
    assert!(scene.life.evacuate(scene.id).await.is_err(), "the destination may still run the guest");
    reset_to_error(&scene).await.unwrap();
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.status().await), (source, MigrationStatus::Error));
    is_saved(scene, [source, target]).await;
}

/// The control plane crashes at each append from the reset to the end of the process.
#[actix_rt::test]
async fn the_end_of_a_live_migration_between_dead_hosts_survives_crashes() {
    let mut fuse = 1;
    loop {
        let scene = Scene::sent(World::new(3)).await;
        let (source, target) = scene.ends();
        lose_both(&scene, &[source, target]).await;
        scene.life.store.arm(Some(fuse));
        let _ = reset_to_error(&scene).await;
        scene.life.settled().await;
        let crashed = scene.life.store.is_blown();
        let Scene { world, life, id } = scene;
        life.stop().await;
        let life = world.live(None, None).await;
        life.hosts_up_of(1, 3).await;
        let scene = Scene { world, life, id };
        reset_to_error(&scene).await.unwrap();
        scene.life.settled().await;
        assert_eq!((scene.home(), scene.life.status(id)), (source, "ERROR"), "a crash at append {fuse}");
        is_saved(scene, [source, target]).await;
        if !crashed {
            break;
        }
        fuse += 1;
    }
    assert!(fuse > 3, "the end took only {fuse} appends");
}

/// An operator has switched both hosts off, so neither runs the guest.
#[actix_rt::test]
async fn a_live_migration_ends_if_both_hosts_are_fenced() {
    let scene = Scene::sent(World::new(3)).await;
    let (source, target) = scene.ends();
    lose_both(&scene, &[source, target]).await;
    for host in [source, target] {
        scene.life.force_down(scene.world.fleet.uri().host_id(host)).await.unwrap();
    }
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.status().await), (source, MigrationStatus::Error));
    is_saved(scene, [source, target]).await;
}
