//! What holds on every database. `super::place` says on which one this runs.

mod admit;
mod counted;
mod foreign;
mod guarded;
mod lower;
mod marks;
mod migrate;
mod parts;
mod protect;
mod prune;
mod race;
mod rounds;
mod row;
mod sequencer;
mod shadow;
mod spawned;
mod statement;
mod table;
mod transaction;
mod transactional;
mod transactions;
mod types;
mod unmigrated;
mod ways;

use fencing::sql::{self, AdmitError};
use fencing::{Resource, Token};
use sqlx::{Connection, Transaction};

use super::place::{self, Db, LEVELS, Place};
use crate::common::{pause, resource, retryable, stale, token};

/// A database with the tables of the fence and one of an application, which counts the
/// writes that landed on top of a newer one.
pub(super) async fn ready() -> Place {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let files = "CREATE TABLE files (
        path VARCHAR(255) PRIMARY KEY, token BIGINT NOT NULL, late BIGINT NOT NULL)";
    sqlx::query(files).execute(&place.pool).await.unwrap();
    let file = sqlx::query("INSERT INTO files VALUES ('files/a', 0, 0)");
    file.execute(&place.pool).await.unwrap();
    place
}

/// What a client writes: its token. MySQL sets one column after the other.
async fn write(tx: &mut Transaction<'_, Db>, token: Token) -> sqlx::Result<()> {
    write_with(tx, token, "").await
}

/// The same, and what the write itself presents.
async fn write_with(
    tx: &mut Transaction<'_, Db>,
    token: Token,
    presents: &str,
) -> sqlx::Result<()> {
    let update = format!(
        "UPDATE files SET late = late + CASE WHEN token > $1 THEN 1 ELSE 0 END, token = $2{presents}
        WHERE path = 'files/a'"
    );
    let update = sqlx::query(place::sql(&update)).bind(i64::from(token)).bind(i64::from(token));
    update.execute(&mut **tx).await.map(drop)
}

/// The token of the last write, and how many writes were late.
pub(super) async fn file(place: &Place) -> (i64, i64) {
    let query = sqlx::query_as::<_, (i64, i64)>("SELECT token, late FROM files");
    query.fetch_one(&place.pool).await.unwrap()
}

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
