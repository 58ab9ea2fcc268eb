//! What other services tell about servers.

use crate::schema::{Schema, array, choice, object, opt, req, string, uuid};

pub fn create_body() -> Schema {
    let names = choice(["network-changed", "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted"])
        .from(
            2,
            51,
            choice([
                "network-changed",
                "network-vif-plugged",
                "network-vif-unplugged",
                "network-vif-deleted",
                "volume-extended",
            ]),
        )
        .from(
            2,
            76,
            choice([
                "network-changed",
                "network-vif-plugged",
                "network-vif-unplugged",
                "network-vif-deleted",
                "volume-extended",
                "power-update",
            ]),
        )
        .from(
            2,
            82,
            choice([
                "network-changed",
                "network-vif-plugged",
                "network-vif-unplugged",
                "network-vif-deleted",
                "volume-extended",
                "power-update",
                "accelerator-request-bound",
            ]),
        )
        .from(
            2,
            93,
            choice([
                "network-changed",
                "network-vif-plugged",
                "network-vif-unplugged",
                "network-vif-deleted",
                "volume-extended",
                "power-update",
                "accelerator-request-bound",
                "volume-reimaged",
            ]),
        );
    let event = object([
        req("name", names),
        req("server_uuid", uuid()),
        opt("status", choice(["failed", "completed", "in-progress"])),
        opt("tag", string().max_length(255)),
    ]);
    object([req("events", array(event).min_items(1))])
}
