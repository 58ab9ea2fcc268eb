//! Tests the port on a Cinder that gives wrong answers, loses its answers, or gives none.

#![allow(clippy::unwrap_used)]

mod encryption;
mod migrations;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chronova_events::clock::SystemClock;
use chronova_events::envelope::Meta;
use chronova_events::ids::{AttachmentId, InstanceId, ProjectId, RequestId, UserId, VolumeId};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::http::{CallOptions, ServiceClient, TlsTrust};
use super::super::keystone::{
    CalledService, CallingAccounts, KeptUserToken, KeptUserTokens, KeystoneSession, ServicePlace,
};
use super::super::stub::{LOGIN, StubAnswer, StubCall, StubService};
use super::*;
use crate::ports::{NewContent, NewVolume, PortError, ServiceCaller, UserToken, UserVolumeCall, VolumeService as _};

const LONG: Duration = Duration::from_mins(1);

/// Starts a Cinder that answers with `answer`, and a Keystone on the same address. The project of Chronova's own
/// account is `service`.
async fn stub(answer: impl Fn(&StubCall) -> StubAnswer + Send + Sync + 'static) -> StubService {
    StubService::start(move |call, _| match call.line.starts_with(LOGIN) {
        true => {
            let (user, project) = (json!({"id": "u1", "name": "nova"}), json!({"id": "service", "name": "service"}));
            let url = format!("http://{}/v3/service", call.header("host").unwrap());
            let endpoint = json!({"interface": "public", "region_id": "R", "url": url});
            let body = json!({"token": {
                "user": user, "project": project, "expires_at": "2999-01-01T00:00:00.000000Z",
                "catalog": [{"type": "volumev3", "endpoints": [endpoint]}],
            }});
            StubAnswer::Gives(201, "own", body.to_string())
        }
        false => answer(call),
    })
    .await
}

fn session(stub: &StubService, timeout: Duration) -> Arc<KeystoneSession> {
    let calls = CallOptions { name: "keystone", timeout, retries: 1, tls: TlsTrust::default() };
    KeystoneSession::new(stub.account(), ServiceClient::new(calls).unwrap(), Arc::new(SystemClock))
}

fn cinder(stub: &StubService, timeout: Duration) -> Arc<CinderVolumes> {
    cinder_with(stub, timeout, None)
}

fn cinder_with(stub: &StubService, timeout: Duration, keys: Option<Arc<dyn VolumeKeyKeeper>>) -> Arc<CinderVolumes> {
    let accounts = CallingAccounts { own: session(stub, timeout), vouching: Some(session(stub, timeout)) };
    let place = ServicePlace {
        service_type: "volumev3".to_owned(),
        interfaces: vec!["public".to_owned()],
        version: "v3",
        vouches_for_itself: true,
        ..ServicePlace::default()
    };
    let calls = CallOptions { name: "cinder", timeout, retries: 1, tls: TlsTrust::default() };
    let users = KeptUserTokens::default();
    let user = KeptUserToken { token: UserToken::new("user"), project: Some(ProjectId::new("p1")) };
    users.keep(&RequestId::new("req-1"), user, std::time::Instant::now());
    CinderVolumes::new(CalledService::new(calls, place, accounts).unwrap(), Arc::new(users), RbdAccess::default(), keys)
}

fn says(status: u16, body: &Value) -> StubAnswer {
    StubAnswer::Says(status, body.to_string())
}

fn volume() -> VolumeId {
    VolumeId(Uuid::from_u128(7))
}

fn server() -> InstanceId {
    InstanceId(Uuid::from_u128(8))
}

fn attachment() -> AttachmentId {
    AttachmentId(Uuid::from_u128(9))
}

fn shown(more: &Value) -> Value {
    let mut shown = json!({
        "id": volume(), "os-vol-tenant-attr:tenant_id": "p1", "user_id": "u", "name": "disk", "size": 1,
        "status": "available", "bootable": "false", "availability_zone": "nova", "volume_type": "rbd",
        "created_at": "2030-01-02T03:04:05.000000", "attachments": [], "metadata": {},
    });
    shown.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    shown
}

fn attached(status: &str) -> Value {
    json!({"id": attachment(), "status": status, "instance": server(), "volume_id": volume()})
}

/// The work of a user's request.
fn work() -> Arc<Meta> {
    Arc::new(Meta { request_id: Some(RequestId::new("req-1")), ..(*Meta::system("test")).clone() })
}

fn wanted() -> NewVolume {
    NewVolume {
        volume: VolumeId(Uuid::from_u128(6)),
        project: ProjectId::new("p1"),
        user: UserId::new("u"),
        name: "disk".to_owned(),
        description: None,
        size_gb: Some(1),
        content: NewContent::Blank,
        volume_type: None,
        availability_zone: None,
        metadata: vec![],
        host: None,
    }
}

#[tokio::test]
async fn nonsense_of_cinder_s_is_no_volume() {
    for (status, body) in [(200, "{}"), (200, ""), (200, "[]"), (500, "{}"), (204, ""), (301, ""), (429, "")] {
        let stub = stub(move |_| StubAnswer::Says(status, body.to_owned())).await;
        let found = cinder(&stub, LONG).find(volume(), &ProjectId::new("p1"), true).await;
        assert!(matches!(found, Err(PortError::Unavailable(_))), "{status} {body}: {found:?}");
    }
}

#[tokio::test]
async fn a_volume_of_another_project_is_not_found() {
    let stub = stub(|_| says(200, &json!({"volume": shown(&json!({}))}))).await;
    let cinder = cinder(&stub, LONG);
    assert!(cinder.find(volume(), &ProjectId::new("p1"), false).await.is_ok());
    let other = cinder.find(volume(), &ProjectId::new("p2"), false).await;
    assert!(matches!(other, Err(PortError::NotFound(_))), "{other:?}");
    assert!(
        cinder.find(volume(), &ProjectId::new("p2"), true).await.is_ok(),
        "an administrator sees another project's volume"
    );
    let unowned = json!({"os-vol-tenant-attr:tenant_id": null});
    let stub = self::stub(move |_| says(200, &json!({"volume": shown(&unowned)}))).await;
    let found = self::cinder(&stub, LONG).find(volume(), &ProjectId::new("p1"), false).await;
    assert!(matches!(found, Err(PortError::NotFound(_))), "a volume without an owner is in no project: {found:?}");
}

#[tokio::test]
async fn each_refusal_has_its_meaning() {
    for (status, body, wanted) in [
        (400, json!({"badRequest": {"message": "m", "code": 400}}), PortError::Invalid("m".to_owned())),
        (403, json!({"forbidden": {"message": "m"}}), PortError::Forbidden("m".to_owned())),
        (404, json!({"itemNotFound": {"message": "m"}}), PortError::NotFound("m".to_owned())),
        (409, json!({"conflictingRequest": {"message": "m"}}), PortError::Conflict("m".to_owned())),
        (413, json!({"overLimit": {"message": "m"}}), PortError::Forbidden("m".to_owned())),
        // A Cinder before release 12 (Queens) does not have the microversion of attachments.
        (
            406,
            json!({"computeFault": {"message": "m"}}),
            PortError::Unavailable("Cinder is too old: it has no microversion volume 3.44 (m)".to_owned()),
        ),
    ] {
        let stub = stub(move |call| match call.line.starts_with("POST") {
            true => says(status, &body),
            false => says(200, &json!({"volumes": []})),
        })
        .await;
        let refused = cinder(&stub, LONG).create(self::wanted(), false, work()).await;
        assert_eq!(refused, Err(wanted), "{status}");
    }
}

/// The first answer to `POST attachments` is lost after Cinder has made the attachment.
#[tokio::test]
async fn a_lost_answer_costs_no_second_attachment() {
    let made = Arc::new(AtomicBool::new(false));
    let known = Arc::clone(&made);
    let stub = stub(move |call| match call.line.split(' ').next() {
        Some("POST") => {
            known.store(true, Ordering::Relaxed);
            says(504, &json!({}))
        }
        _ => says(
            200,
            &json!({"attachments": if known.load(Ordering::Relaxed) { vec![attached("reserved")] } else { vec![] }}),
        ),
    })
    .await;
    let cinder = cinder(&stub, LONG);
    let lost = cinder.reserve(AttachmentId::random(), volume(), server(), work()).await;
    assert!(matches!(lost, Err(PortError::Unavailable(_))), "{lost:?}");
    let again = cinder.reserve(AttachmentId::random(), volume(), server(), work()).await;
    assert_eq!(again, Ok(attachment()));
    assert_eq!(stub.count("POST /v3/p1/attachments"), 1, "{:?}", stub.calls());
    assert_eq!(stub.count("GET /v3/service/attachments?"), 2, "Chronova's own account lists the attachments");
}

/// The metadata of the volume has the proposed id, so the repeated request finds the volume.
#[tokio::test]
async fn a_lost_answer_costs_no_second_volume() {
    let made = Arc::new(AtomicBool::new(false));
    let known = Arc::clone(&made);
    let stub = stub(move |call| match call.line.split(' ').next() {
        Some("POST") => {
            known.store(call.body.contains(&wanted().volume.to_string()), Ordering::Relaxed);
            says(502, &json!({}))
        }
        _ => {
            says(200, &json!({"volumes": if known.load(Ordering::Relaxed) { vec![shown(&json!({}))] } else { vec![] }}))
        }
    })
    .await;
    let cinder = cinder(&stub, LONG);
    assert!(matches!(cinder.create(wanted(), false, work()).await, Err(PortError::Unavailable(_))));
    assert_eq!(cinder.create(wanted(), false, work()).await.unwrap().id, volume());
    assert_eq!(stub.count("POST /v3/p1/volumes"), 1);
}

/// Cinder gets the zone of the new volume, or null, which stands for Cinder's own default.
#[tokio::test]
async fn a_new_volume_is_requested_of_cinder_in_its_zone() {
    for zone in [Some("north"), None] {
        let stub = stub(|call| match call.line.starts_with("POST") || call.line.contains(&volume().to_string()) {
            true => says(200, &json!({"volume": shown(&json!({}))})),
            false => says(200, &json!({"volumes": []})),
        })
        .await;
        let wanted = NewVolume { availability_zone: zone.map(str::to_owned), ..wanted() };
        assert_eq!(cinder(&stub, LONG).create(wanted, true, work()).await.unwrap().id, volume());
        let calls = stub.calls();
        let asked = calls.iter().find(|call| call.line.starts_with("POST /v3/p1/volumes")).unwrap();
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        assert_eq!(body["volume"].get("availability_zone"), Some(&json!(zone)), "{body}");
    }
}

/// Any user can give a volume the metadata that names a proposed id.
#[tokio::test]
async fn another_projects_volume_with_the_proposed_id_is_not_taken() {
    let foreign = json!({"os-vol-tenant-attr:tenant_id": "p2"});
    let stub = stub(move |call| match call.line.split(' ').next() {
        Some("POST") => says(502, &json!({})),
        _ => says(200, &json!({"volumes": [shown(&foreign)]})),
    })
    .await;
    let made = cinder(&stub, LONG).create(wanted(), false, work()).await;
    assert!(matches!(made, Err(PortError::Unavailable(_))), "{made:?}");
    assert_eq!(stub.count("POST /v3/p1/volumes"), 1);
}

/// Cinder puts a volume into the project of the token.
#[tokio::test]
async fn no_volume_is_made_in_another_project_than_the_token_s() {
    let stub = stub(|_| says(200, &json!({"volumes": []}))).await;
    let cinder = cinder(&stub, LONG);
    let foreign = NewVolume { project: ProjectId::new("p2"), ..wanted() };
    for (wanted, meta, words) in
        [(foreign, work(), "with a token of project p1"), (wanted(), Meta::system("test"), "forgets the tokens")]
    {
        let refused = cinder.create(wanted, true, meta).await;
        assert!(matches!(&refused, Err(PortError::Forbidden(told)) if told.contains(words)), "{refused:?}");
    }
    assert_eq!(stub.count("POST /v3/p"), 0);
}

#[tokio::test]
async fn an_attachment_ends_although_the_user_s_token_has_ended() {
    let stub = stub(|call| match call.header("x-auth-token") {
        Some("user") => says(401, &json!({})),
        _ => says(200, &json!({"attachments": []})),
    })
    .await;
    assert_eq!(cinder(&stub, LONG).release(volume(), attachment(), work()).await, Ok(()));
    let calls = stub.calls();
    let ends: Vec<_> = calls.iter().filter(|call| call.line.starts_with("DELETE")).collect();
    assert!(ends.len() >= 2 && ends.iter().all(|call| call.header("x-service-token") == Some("own")), "{ends:?}");
    assert!(ends.iter().all(|call| call.header("openstack-api-version") == Some("volume 3.44")));
    assert_eq!(ends.last().unwrap().header("x-auth-token"), Some("own"));
}

#[tokio::test]
async fn an_attachment_that_is_gone_is_ended_and_one_that_only_a_service_may_end_is_not() {
    for (status, ended) in [(404, Ok(())), (200, Ok(())), (409, Err("send_service_user_token"))] {
        let stub = stub(move |_| says(status, &json!({"conflictingRequest": {"message": "m"}}))).await;
        let told = cinder(&stub, LONG).release(volume(), attachment(), work()).await;
        match ended {
            Ok(()) => assert_eq!(told, Ok(()), "{status}"),
            Err(words) => assert!(matches!(&told, Err(PortError::Conflict(text)) if text.contains(words)), "{told:?}"),
        }
    }
}

/// Cinder makes the attachment only after the undo has looked for it once.
#[tokio::test]
async fn an_attachment_that_is_made_late_is_ended() {
    let looks = std::sync::atomic::AtomicUsize::new(0);
    let stub = stub(move |call| match call.line.split(' ').next() {
        Some("POST") => says(504, &json!({})),
        Some("GET") => {
            let is_made = looks.fetch_add(1, Ordering::Relaxed) >= 2;
            says(200, &json!({"attachments": if is_made { vec![attached("reserved")] } else { vec![] }}))
        }
        _ => says(200, &json!({})),
    })
    .await;
    let cinder = cinder(&stub, Duration::from_secs(1));
    let lost = cinder.reserve(AttachmentId::random(), volume(), server(), work()).await;
    assert!(matches!(lost, Err(PortError::Unavailable(_))), "{lost:?}");
    cinder.release_others(volume(), server(), &[], work()).await.unwrap();
    assert_eq!(stub.count("DELETE "), 1, "{:?}", stub.calls());
}

/// The attachment in `keep` stays, and all other attachments of the server are ended.
#[tokio::test]
async fn what_no_answer_told_is_ended() {
    let other = json!({"id": AttachmentId(Uuid::from_u128(10)), "status": "attaching", "volume_id": volume()});
    let stub = stub(move |call| match call.line.starts_with("GET") {
        true => says(200, &json!({"attachments": [attached("attached"), other]})),
        false => says(200, &json!({})),
    })
    .await;
    cinder(&stub, LONG).release_others(volume(), server(), &[attachment()], work()).await.unwrap();
    let ended: Vec<String> =
        stub.calls().into_iter().map(|call| call.line).filter(|line| line.starts_with("DELETE")).collect();
    assert_eq!(ended, [format!("DELETE /v3/p1/attachments/{}", Uuid::from_u128(10))]);
    let asked = stub.calls().into_iter().find(|call| call.line.starts_with("GET")).unwrap().line;
    assert!(asked.contains(&format!("instance_id={}", server())) && asked.contains("all_tenants=1"), "{asked}");
}

/// A complete attachment keeps its connector; an incomplete one gets the host's.
#[tokio::test]
async fn a_host_is_told_once() {
    let info = json!({"driver_volume_type": "rbd", "name": "volumes/v", "hosts": ["h"], "ports": ["6789"]});
    for (status, puts) in [("reserved", 1), ("attaching", 1), ("attached", 0)] {
        let info = info.clone();
        let stub = stub(move |call| {
            let mut one = attached(if call.line.starts_with("PUT") { "attaching" } else { status });
            one["connection_info"] = info.clone();
            match call.line.contains("/volumes/") {
                true => says(200, &json!({"volume": shown(&json!({"multiattach": true}))})),
                false => says(200, &one),
            }
        })
        .await;
        let way = cinder(&stub, LONG).connect(volume(), attachment(), "node-1", Some("/dev/vdb"), work()).await;
        let way = way.unwrap();
        assert_eq!((way.pool.as_str(), way.volume.as_str(), way.shareable), ("volumes", "v", true));
        let told: Vec<_> = stub.calls().into_iter().filter(|call| call.line.starts_with("PUT")).collect();
        assert_eq!(told.len(), puts, "{status}");
        assert!(told.iter().all(|call| call.body.contains("node-1") && call.body.contains("/dev/vdb")));
    }
}

/// A server moves: Cinder refuses the second host for an existing attachment, but accepts it for a new one.
#[tokio::test]
async fn a_second_host_gets_an_attachment_that_is_made_with_it() {
    let stub = stub(|call| match call.line.split(' ').next() {
        Some("PUT") => says(500, &json!({"computeFault": {"message": "duplicate connectors detected on volume"}})),
        Some("POST") => {
            let info = json!({"driver_volume_type": "rbd", "name": "volumes/v", "hosts": [], "ports": []});
            let id = AttachmentId(Uuid::from_u128(10));
            says(200, &json!({"attachment": {"id": id, "status": "attaching", "volume_id": volume(), "connection_info": info}}))
        }
        Some("GET") if call.line.contains("/volumes/") => says(200, &json!({"volume": shown(&json!({}))})),
        _ => says(200, &json!({"attachment": attached("reserved"), "attachments": []})),
    })
    .await;
    let way = cinder(&stub, LONG).connect(volume(), attachment(), "node-2", None, work()).await.unwrap();
    assert_eq!(way.replaced_by, Some(AttachmentId(Uuid::from_u128(10))));
    let made = stub.calls().into_iter().find(|call| call.line == "POST /v3/p1/attachments").unwrap().body;
    assert!(made.contains("node-2") && made.contains(&server().to_string()), "{made}");
    assert_eq!(
        stub.count(&format!("DELETE /v3/p1/attachments/{}", attachment())),
        1,
        "the replaced attachment is ended"
    );
}

#[tokio::test]
async fn a_list_is_read_to_its_end() {
    let stub = stub(|call| {
        let id = |n: u128| json!({"id": VolumeId(Uuid::from_u128(n))});
        match call.line.contains("marker=") {
            true => says(200, &json!({"volumes": [shown(&id(2))]})),
            false => says(200, &json!({"volumes": [shown(&id(1))], "volumes_links": [{"rel": "next", "href": "x"}]})),
        }
    })
    .await;
    let listed = cinder(&stub, LONG).list(&ProjectId::new("p1"), false).await.unwrap();
    assert_eq!(listed.len(), 2);
    let marked =
        stub.calls().into_iter().filter(|call| call.line.contains("marker=00000000-0000-0000-0000-000000000001"));
    assert_eq!(marked.count(), 1);
}

#[tokio::test]
async fn a_user_reads_only_what_cinder_s_policy_allows() {
    let stub = stub(|call| match call.header("x-auth-token") == Some("user") {
        true => says(403, &json!({"forbidden": {"message": "m", "code": 403}})),
        false => says(200, &json!({"volume": shown(&json!({}))})),
    })
    .await;
    let cinder = cinder(&stub, LONG);
    assert!(cinder.find(volume(), &ProjectId::new("p1"), false).await.is_ok(), "Chronova's own account may read");
    let (project, token) = (Some(ProjectId::new("p1")), Some(UserToken::new("user")));
    let user = ServiceCaller { project, token, is_admin: false, ..ServiceCaller::system("test") };
    for call in [UserVolumeCall::List, UserVolumeCall::Show(volume()), UserVolumeCall::ListSnapshots] {
        let checked = cinder.check_user(call, &user).await;
        assert_eq!(checked, Err(PortError::Forbidden("m".to_owned())), "{call:?}");
    }
    let unknown = ServiceCaller { token: None, ..user };
    let checked = cinder.check_user(UserVolumeCall::List, &unknown).await;
    assert!(matches!(checked, Err(PortError::Forbidden(_))), "{checked:?}");
}

#[tokio::test]
async fn a_silent_cinder_ends_every_call() {
    let stub = stub(|_| StubAnswer::Silence).await;
    let cinder = cinder(&stub, Duration::from_millis(50));
    let found = cinder.find(volume(), &ProjectId::new("p1"), true).await;
    assert!(matches!(found, Err(PortError::Unavailable(_))), "{found:?}");
    let reserved = cinder.reserve(attachment(), volume(), server(), work()).await;
    assert!(matches!(reserved, Err(PortError::Unavailable(_))), "{reserved:?}");
    assert!(matches!(cinder.release(volume(), attachment(), work()).await, Err(PortError::Unavailable(_))));
}
