//! A fenced write in a transaction of diesel, on SQLite.
//!
//! `cargo run -p orm --bin diesel -- files.db`

use anyhow::Context;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use fencing::fence::Stale;
use fencing::sql::{self, statement::sqlite};
use fencing::{Resource, Token};

diesel::table! {
    /// The files.
    files (path) {
        /// The name.
        path -> Text,
        /// What stands in it.
        body -> Text,
    }
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
}

/// Writes the file if no newer token has been there.
fn write(
    db: &mut SqliteConnection,
    resource: &Resource,
    token: Token,
    body: &str,
) -> Result<(), WriteError> {
    db.immediate_transaction(|tx| {
        diesel::sql_query(sqlite::ADMIT)
            .bind::<Text, _>(resource.as_str())
            .bind::<BigInt, _>(i64::from(token))
            .execute(tx)
            .map_err(|error| match sql::stale(&error, resource, token) {
                Some(stale) => WriteError::Stale(stale),
                None => WriteError::Database(error),
            })?;
        let file = (files::path.eq(resource.as_str()), files::body.eq(body));
        diesel::replace_into(files::table).values(file).execute(tx)?;
        Ok(())
    })
}

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).context("usage: diesel DATABASE")?;
    let mut db = SqliteConnection::establish(&path)?;
    db.batch_execute("PRAGMA busy_timeout = 5000")?;
    for (_, _, statements) in sqlite::MIGRATIONS {
        db.batch_execute(statements)?;
    }
    db.batch_execute(
        "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, body TEXT NOT NULL)",
    )?;

    let report = Resource::new("files/report")?;
    for (number, body) in [(33, "first"), (34, "second"), (33, "late"), (34, "again")] {
        match write(&mut db, &report, Token::new(number)?, body) {
            Ok(()) => println!("{body}: written with token {number}"),
            Err(WriteError::Stale(stale)) => println!("{body}: refused, {stale}"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
