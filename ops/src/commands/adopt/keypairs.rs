//! Adopts key pairs of users. Nova and Chronova keep only the public keys.

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::keypair::KeypairRoot;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::UserId;
use chronova_events::keypair::{KeypairCreated, KeypairEvent};

use super::history::HistoryPart;
use super::report::AdoptedThing;
use super::{Adoption, Unadoptable};
use crate::nova::database::live_rows;
use crate::nova::rows::NovaRow;

pub(super) fn adopt(adoption: &mut Adoption<'_>) {
    for row in live_rows(adoption.api(), "key_pairs") {
        let (user, name) = (row.text("user_id").unwrap_or("?"), row.text("name").unwrap_or("?"));
        let id = format!("{user}/{name}");
        adoption.report.see(AdoptedThing::Keypair, &id, name);
        if adoption.report.leaves_out(AdoptedThing::Keypair, &id) {
            continue;
        }
        match keypair(&row) {
            Ok((created, at)) => {
                let stream = KeypairRoot::stream(&created.user);
                let meta = adoption.meta.clone();
                adoption.history.push(HistoryPart::Catalogue, stream, at, &meta, KeypairEvent::from(created));
            }
            Err(error) => adoption.report.obstacle(AdoptedThing::Keypair, &id, error.reason, error.way_out),
        }
    }
}

fn keypair(row: &NovaRow<'_>) -> Result<(KeypairCreated, Timestamp), Unadoptable> {
    let created = KeypairCreated {
        user: UserId::new(row.required("user_id")?),
        name: row.required("name")?.to_owned(),
        kind: row.words("type").unwrap_or("ssh").to_owned(),
        public_key: row.text("public_key").unwrap_or_default().to_owned(),
        fingerprint: row.text("fingerprint").unwrap_or_default().to_owned(),
    };
    Ok((created, row.created_at()?))
}
