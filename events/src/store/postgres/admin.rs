//! Questions and requests of an operator about the members, from a process that is no member.

use std::sync::Arc;

use super::link::DatabaseLink;
use super::schema::{self, ClusterPicture};
use super::{PostgresOptions, address};
use crate::store::StoreError;

/// The log, its leader and its members.
pub async fn picture(options: &PostgresOptions) -> Result<ClusterPicture, StoreError> {
    schema::picture(&open(options).await?.client, &options.cell).await
}

/// Asks the leader to hand over to the member of that name.
pub async fn switch_over(options: &PostgresOptions, member: &str) -> Result<(), StoreError> {
    schema::wish(&open(options).await?.client, &options.cell, member).await
}

async fn open(options: &PostgresOptions) -> Result<Arc<DatabaseLink>, StoreError> {
    let link = DatabaseLink::open(&address::parse(&options.url)?).await?;
    schema::check_members(&link.client, &options.cell).await?;
    Ok(link)
}
