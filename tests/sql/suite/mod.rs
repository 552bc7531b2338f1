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
    let admitted = sql::admit(&mut tx, resource, token(number)).await;
    end(tx, admitted).await
}

/// Commits, or rolls back before it returns the error: a dropped transaction lasts a moment longer.
async fn end(tx: Transaction<'_, Db>, written: Result<(), AdmitError>) -> Result<(), AdmitError> {
    match written {
        Ok(()) => tx.commit().await?,
        Err(_) => tx.rollback().await.unwrap(),
    }
    written
}

async fn highest(place: &Place, resource: &Resource) -> Option<u64> {
    sql::highest(&place.pool, resource).await.unwrap().map(Token::get)
}
