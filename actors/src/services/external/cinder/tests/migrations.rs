//! Cinder migrates an attached volume, and waits for the end of the exchange.

use std::sync::Mutex;

use super::*;
use crate::ports::{MigrationPair, VolumeExchange};

/// A stub of Cinder that migrates one volume.
#[derive(Debug, Clone)]
struct MovingVolumes {
    old: Option<&'static str>,
    /// The status of the new volume; `None`: it is gone.
    new: Option<String>,
    /// The volume of the server's new attachment.
    attached: VolumeId,
    /// The status of the old volume after the first look at both. The new volume is then gone.
    later: Option<&'static str>,
    /// The status of the answer to the completion, after its work.
    answers: u16,
    /// Whether the completion needs the token of an administrator, which the user is not.
    for_administrators: bool,
}

fn new_volume() -> VolumeId {
    VolumeId(Uuid::from_u128(10))
}

fn exchange() -> VolumeExchange {
    VolumeExchange { old: volume(), new: new_volume(), attachment: attachment() }
}

impl MovingVolumes {
    fn begun() -> Self {
        let new = Some(format!("target:{}", volume()));
        Self {
            old: Some("migrating"),
            new,
            attached: new_volume(),
            later: None,
            answers: 200,
            for_administrators: false,
        }
    }

    fn complete(&mut self, call: &StubCall) -> StubAnswer {
        if self.for_administrators && call.header("x-auth-token") == Some("user") {
            return says(403, &json!({"forbidden": {"message": "m"}}));
        }
        let body: Value = serde_json::from_str(&call.body).unwrap();
        let told = &body["os-migrate_volume_completion"];
        assert_eq!(told["new_volume"], json!(new_volume()), "{body}");
        match told["error"].as_bool().unwrap() {
            true => (self.old, self.new) = (Some("error"), None),
            false => (self.old, self.new, self.attached) = (Some("success"), None, volume()),
        }
        says(self.answers, &json!({"save_volume_id": volume()}))
    }

    fn answer(&mut self, call: &StubCall) -> StubAnswer {
        if call.line.starts_with("POST") {
            assert!(call.line.ends_with(&format!("/volumes/{}/action", volume())), "{}", call.line);
            return self.complete(call);
        }
        if call.line.contains("/attachments/") {
            return says(
                200,
                &json!({"attachment": {"id": attachment(), "status": "attached", "volume_id": self.attached}}),
            );
        }
        if !call.line.ends_with(&new_volume().to_string()) {
            return says(200, &json!({"volume": shown(&json!({"migration_status": self.old}))}));
        }
        let answer = match &self.new {
            Some(status) => {
                says(200, &json!({"volume": shown(&json!({"id": new_volume(), "migration_status": status}))}))
            }
            None => says(404, &json!({"itemNotFound": {"message": "m"}})),
        };
        if let Some(later) = self.later.take() {
            (self.old, self.new, self.attached) = (Some(later), None, volume());
        }
        answer
    }
}

async fn moving(begun: MovingVolumes) -> (StubService, Arc<Mutex<MovingVolumes>>) {
    let state = Arc::new(Mutex::new(begun));
    let known = Arc::clone(&state);
    (stub(move |call| known.lock().unwrap().answer(call)).await, state)
}

fn completions(stub: &StubService) -> usize {
    stub.count("POST /v3/p1/volumes/") + stub.count("POST /v3/service/volumes/")
}

#[tokio::test]
async fn cinder_is_told_the_end_of_its_migration_once() {
    for failed in [false, true] {
        let (stub, state) = moving(MovingVolumes::begun()).await;
        let cinder = cinder(&stub, LONG);
        assert_eq!(cinder.standing_of(volume(), new_volume()).await, Ok(MigrationPair::This));
        for _ in 0..2 {
            assert_eq!(cinder.end_migration(exchange(), failed, work()).await, Ok(volume()), "failed: {failed}");
        }
        assert_eq!(completions(&stub), 1, "{:?}", stub.calls());
        assert_eq!(state.lock().unwrap().old, Some(if failed { "error" } else { "success" }));
        assert_eq!(cinder.standing_of(volume(), new_volume()).await, Ok(MigrationPair::Neither));
    }
}

/// A second completion would give the ids back.
#[tokio::test]
async fn a_lost_answer_costs_no_second_completion() {
    for status in [500, 504] {
        let (stub, _) = moving(MovingVolumes { answers: status, ..MovingVolumes::begun() }).await;
        let cinder = cinder(&stub, Duration::from_secs(1));
        let lost = cinder.end_migration(exchange(), false, work()).await;
        assert!(matches!(lost, Err(PortError::Unavailable(_))), "{lost:?}");
        assert_eq!(cinder.end_migration(exchange(), false, work()).await, Ok(volume()));
        assert_eq!(completions(&stub), 1, "{:?}", stub.calls());
    }
}

#[tokio::test]
async fn a_completion_under_way_is_waited_for() {
    let (stub, state) = moving(MovingVolumes { old: Some("completing"), ..MovingVolumes::begun() }).await;
    let cinder = cinder(&stub, LONG);
    let waits = cinder.end_migration(exchange(), false, work()).await;
    assert!(matches!(&waits, Err(PortError::Unavailable(told)) if told.contains("still completes")), "{waits:?}");
    // The old volume has the content, but the attachment belongs to the deleted one for another moment.
    {
        let mut state = state.lock().unwrap();
        (state.old, state.new) = (Some("success"), Some("deleting".to_owned()));
    }
    assert_eq!(cinder.end_migration(exchange(), false, work()).await, Ok(volume()));
    assert_eq!(completions(&stub), 0);
}

/// In this moment the old volume has no status. The attachment belongs to the new volume still.
#[tokio::test]
async fn the_moment_between_two_statuses_is_no_other_exchange() {
    let begun = MovingVolumes { old: None, new: Some("deleting".to_owned()), ..MovingVolumes::begun() };
    let (stub, _) = moving(begun).await;
    assert_eq!(cinder(&stub, LONG).end_migration(exchange(), false, work()).await, Ok(volume()));
    let begun = MovingVolumes { old: None, later: Some("success"), ..MovingVolumes::begun() };
    let (later, _) = moving(begun).await;
    assert_eq!(cinder(&later, LONG).end_migration(exchange(), false, work()).await, Ok(volume()));
    assert_eq!((completions(&stub), completions(&later)), (0, 0));
}

/// Without the user's token, the request may be from before a restart, and Cinder may still execute a call from that
/// time. Here Cinder has executed such a call by the second look.
#[tokio::test]
async fn a_call_from_before_a_restart_is_waited_for() {
    let (stub, _) = moving(MovingVolumes { later: Some("success"), ..MovingVolumes::begun() }).await;
    let before = Arc::new(Meta { request_id: Some(RequestId::new("req-0")), ..(*Meta::system("test")).clone() });
    let cinder = cinder(&stub, Duration::from_secs(1));
    assert_eq!(cinder.end_migration(exchange(), false, before).await, Ok(volume()));
    assert_eq!(completions(&stub), 0, "{:?}", stub.calls());
}

/// A volume may have been migrated before, or a migration of it may have failed.
#[tokio::test]
async fn an_exchange_that_cinder_did_not_request_is_not_completed() {
    for old in [None, Some("success"), Some("error"), Some("migrating")] {
        let (stub, _) = moving(MovingVolumes { old, new: Some("success".to_owned()), ..MovingVolumes::begun() }).await;
        let cinder = cinder(&stub, LONG);
        let pair = if old == Some("migrating") { MigrationPair::OldElsewhere } else { MigrationPair::Neither };
        assert_eq!(cinder.standing_of(volume(), new_volume()).await, Ok(pair), "{old:?}");
        assert_eq!(cinder.end_migration(exchange(), false, work()).await, Ok(new_volume()), "{old:?}");
        assert_eq!(cinder.end_migration(exchange(), true, work()).await, Ok(volume()), "{old:?}");
        assert_eq!(completions(&stub), 0, "{old:?}");
    }
}

#[tokio::test]
async fn chronova_s_own_account_completes_what_the_user_may_not() {
    let (stub, _) = moving(MovingVolumes { for_administrators: true, ..MovingVolumes::begun() }).await;
    assert_eq!(cinder(&stub, LONG).end_migration(exchange(), false, work()).await, Ok(volume()));
    assert_eq!((stub.count("POST /v3/p1/volumes/"), stub.count("POST /v3/service/volumes/")), (1, 1));
}
