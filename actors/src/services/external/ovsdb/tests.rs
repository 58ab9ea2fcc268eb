#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The client and a server that answers late, refuses, or ends the connection.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::time::timeout;
use uuid::Uuid;

use super::fake::FakeOvsdb;
use super::{OvsdbClient, OvsdbConnection, OvsdbFailure, OvsdbOptions, OvsdbRemote, OvsdbValue};
use crate::services::external::http::TlsTrust;

/// Only a hang reaches the limit.
const LONG: Duration = Duration::from_mins(1);

fn options(remotes: &[std::net::SocketAddr]) -> OvsdbOptions {
    let remote =
        |address: &std::net::SocketAddr| OvsdbRemote::Tcp { host: address.ip().to_string(), port: address.port() };
    OvsdbOptions {
        remotes: remotes.iter().map(remote).collect(),
        trust: TlsTrust { insecure: true, ..TlsTrust::default() },
        database: "OVN_Northbound",
        monitored: &[("Logical_Switch", &["name", "external_ids"])],
        connect_timeout: LONG,
        answer_timeout: LONG,
        probe_interval: LONG,
        longest_message: 1 << 20,
    }
}

fn insert(name: &str) -> Value {
    json!({"op": "insert", "table": "Logical_Switch", "uuid-name": "row0", "row": {"name": name}})
}

/// Waits until the copy is as described.
async fn until(client: &OvsdbClient, is: impl Fn(&OvsdbClient) -> bool) {
    let mut changes = client.changes();
    let seen = async {
        while !is(client) {
            changes.changed().await.unwrap();
        }
    };
    timeout(LONG, seen).await.expect("the copy stays as it was");
}

fn is_connected(client: &OvsdbClient) -> bool {
    matches!(client.copy().connection, OvsdbConnection::Connected(_))
}

fn has(client: &OvsdbClient, name: &str) -> bool {
    client.copy().tables.table("Logical_Switch").is_some_and(|table| table.named(name).is_some())
}

#[tokio::test]
async fn the_copy_follows_the_database() {
    let server = FakeOvsdb::start().await;
    let client = OvsdbClient::start(options(&[server.address])).unwrap();
    until(&client, is_connected).await;
    client.transact(vec![insert("one")]).await.unwrap();
    assert!(has(&client, "one"), "the update comes before the answer");
    server.change(vec![insert("two")]).await;
    until(&client, |client| has(client, "two")).await;
    let uuid = *server.state.lock().unwrap().tables["Logical_Switch"].keys().next().unwrap();
    let condition = json!([["_uuid", "==", ["uuid", uuid.to_string()]]]);
    server.change(vec![json!({"op": "delete", "table": "Logical_Switch", "where": condition})]).await;
    until(&client, |client| client.copy().tables.row("Logical_Switch", uuid).is_none()).await;
}

#[tokio::test]
async fn a_question_whether_the_client_runs_is_answered() {
    let server = FakeOvsdb::start().await;
    let client = OvsdbClient::start(options(&[server.address])).unwrap();
    until(&client, is_connected).await;
    server.say(&json!({"method": "echo", "params": ["still there?"], "id": "echo"})).await;
    let answered = async {
        while server.state.lock().unwrap().echoes == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, answered).await.expect("the client does not answer");
}

#[tokio::test]
async fn a_refused_transaction_changes_nothing() {
    let server = FakeOvsdb::start().await;
    let client = OvsdbClient::start(options(&[server.address])).unwrap();
    until(&client, is_connected).await;
    server.state.lock().unwrap().refusals = 1;
    let refused = client.transact(vec![insert("one")]).await;
    assert_eq!(refused, Err(OvsdbFailure::Refused("constraint violation: not today".to_owned())));
    assert!(!has(&client, "one"));
    client.transact(vec![insert("one")]).await.unwrap();
    assert_eq!(server.state.lock().unwrap().connections, 1, "a refusal does not end the connection");
}

#[tokio::test]
async fn after_a_lost_connection_the_copy_is_new() {
    let server = FakeOvsdb::start().await;
    let client = OvsdbClient::start(options(&[server.address])).unwrap();
    until(&client, is_connected).await;
    server.state.lock().unwrap().hangs_up = true;
    let lost = client.transact(vec![insert("one")]).await;
    assert!(matches!(lost, Err(OvsdbFailure::Unavailable(_))), "{lost:?}");
    until(&client, |client| is_connected(client) && server.state.lock().unwrap().connections == 2).await;
    client.transact(vec![insert("one")]).await.unwrap();

    // The rows of a server that is gone stay visible, and the next server of the list has others.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (first, second) = (server.address, listener.local_addr().unwrap());
    let moving = OvsdbClient::start(options(&[first, second])).unwrap();
    until(&moving, is_connected).await;
    assert!(has(&moving, "one"));
    server.stop().await;
    until(&moving, |client| !is_connected(client)).await;
    assert!(has(&moving, "one"));
    let refused = moving.transact(vec![insert("two")]).await;
    assert!(matches!(refused, Err(OvsdbFailure::Unavailable(_))), "{refused:?}");
    let other = FakeOvsdb::on(listener, std::sync::Arc::default());
    until(&moving, is_connected).await;
    assert!(!has(&moving, "one"), "the copy is still that of the first server");
    assert_eq!(other.address, second);
}

#[tokio::test]
async fn a_silent_server_loses_its_client() {
    // A listener that never accepts: the connection stands, and no answer comes.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent =
        OvsdbOptions { connect_timeout: Duration::from_millis(20), ..options(&[listener.local_addr().unwrap()]) };
    let client = OvsdbClient::start(silent).unwrap();
    let told = |client: &OvsdbClient| match client.copy().connection {
        OvsdbConnection::Lost(reason) => reason.contains("takes too long"),
        OvsdbConnection::Connected(_) => false,
    };
    until(&client, told).await;

    // A server that shows its tables, and then answers nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let probed =
        OvsdbOptions { probe_interval: Duration::from_millis(20), ..options(&[listener.local_addr().unwrap()]) };
    let client = OvsdbClient::start(probed).unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(br#"{"id":0,"result":{},"error":null}"#).await.unwrap();
    let is_silent = |client: &OvsdbClient| match client.copy().connection {
        OvsdbConnection::Lost(reason) => reason.contains("it is silent"),
        OvsdbConnection::Connected(_) => false,
    };
    until(&client, is_silent).await;
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_connection() {
    let server = FakeOvsdb::start().await;
    let short = OvsdbOptions { longest_message: 4096, ..options(&[server.address]) };
    let client = OvsdbClient::start(short).unwrap();
    until(&client, is_connected).await;
    server.say(&json!({"method": "update", "params": [null, {"x": "y".repeat(8192)}], "id": null})).await;
    let too_long = |client: &OvsdbClient| match client.copy().connection {
        OvsdbConnection::Lost(reason) => reason.contains("more than 4096 bytes"),
        OvsdbConnection::Connected(_) => false,
    };
    until(&client, too_long).await;
}

#[test]
fn values_are_read_as_they_are_written() {
    let uuid = Uuid::from_u128(7);
    for value in [
        json!("text"),
        json!(-3),
        json!(true),
        json!(["uuid", uuid.to_string()]),
        json!(["set", []]),
        json!(["set", ["a", "b"]]),
        json!(["map", [["k", "v"], ["l", "w"]]]),
    ] {
        assert_eq!(OvsdbValue::read(&value).unwrap().to_json(), value);
    }
    assert_eq!(OvsdbValue::read(&json!(["set", ["a"]])).unwrap().to_json(), json!("a"));
    assert_eq!(OvsdbValue::text("a\0b").to_json(), json!("ab"), "the database ends the connection after a NUL");
    for wrong in [json!(null), json!(["uuid", "x"]), json!(["set", "a"]), json!(["map", [["k"]]]), json!({})] {
        assert!(OvsdbValue::read(&wrong).is_err(), "{wrong}");
    }
}
