//! What an operator asks the database about the members, without being one.

use super::address;
use super::link::DatabaseLink;
use super::schema::{self, ClusterPicture};
use crate::store::StoreError;

/// The log of `cell`, its leader and its members.
pub async fn picture(url: &str, cell: &str) -> Result<ClusterPicture, StoreError> {
    schema::picture(&open(url, cell).await?.client, cell).await
}

/// Asks the leader to hand over to the member of that name.
pub async fn switch_over(url: &str, cell: &str, member: &str) -> Result<(), StoreError> {
    schema::wish(&open(url, cell).await?.client, cell, member).await
}

async fn open(url: &str, cell: &str) -> Result<std::sync::Arc<DatabaseLink>, StoreError> {
    let link = DatabaseLink::open(&address::parse(url)?).await?;
    schema::head(&link.client, cell).await?;
    Ok(link)
}
