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

/// Writes the file if no newer token has been there. Otherwise the error is [`Stale`].
fn write(db: &mut SqliteConnection, resource: &Resource, token: Token, body: &str) -> anyhow::Result<()> {
    db.immediate_transaction(|tx| {
        let admit = diesel::sql_query(sqlite::ADMIT).bind::<Text, _>(resource.as_str());
        let admitted = admit.bind::<BigInt, _>(i64::from(token)).execute(tx);
        admitted.map_err(|error| match sql::stale(&error, resource, token) {
            Some(stale) => anyhow::Error::from(stale),
            None => error.into(),
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
    db.batch_execute("CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, body TEXT NOT NULL)")?;

    let report = Resource::new("files/report")?;
    for (number, body) in [(33, "first"), (34, "second"), (33, "late"), (34, "again")] {
        match write(&mut db, &report, Token::new(number)?, body) {
            Ok(()) => println!("{body}: written with token {number}"),
            Err(error) => println!("{body}: refused, {}", error.downcast::<Stale>()?),
        }
    }
    Ok(())
}
