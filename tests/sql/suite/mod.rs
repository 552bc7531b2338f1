//! What holds on every database. `super::place` says on which one this runs.

mod admit;
mod foreign;
mod guarded;
mod lower;
mod migrate;
mod parts;
mod protect;
mod prune;
pub mod rounds;
mod row;
mod sequencer;
mod shadow;
pub mod snapshots;
mod statement;
mod table;
mod transaction;
mod transactional;
mod unmigrated;
pub mod writers;

use self::writers::ready_for;
use super::setup::*;

/// Admits in a transaction of its own.
async fn admit(place: &Place, resource: &Resource, number: u64) -> Result<(), AdmitError> {
    let mut tx = place.pool.begin().await.unwrap();
    sql::admit(&mut tx, resource, token(number)).await?;
    tx.commit().await.unwrap();
    Ok(())
}

async fn highest(place: &Place, resource: &Resource) -> Option<u64> {
    sql::highest(&place.pool, resource).await.unwrap().map(Token::get)
}
