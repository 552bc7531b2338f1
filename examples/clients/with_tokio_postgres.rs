//! A fenced write in a transaction of tokio-postgres, on PostgreSQL. deadpool-postgres gives the same `Client`.
//!
//! with_tokio_postgres CONFIG TOKEN BODY: ends with 0 if it wrote, 65 if the token is stale, 75 if
//! others were in the way each time, 69 if the database went away. It may have written then: look.

use std::process::ExitCode;
use std::time::Duration;

use tokio_postgres::{Client, Error, NoTls, Transaction};

const RESOURCE: &str = "files/report";

/// Admits the token in a transaction. Dropped before its commit, that is rolled back.
async fn admitted(client: &mut Client, token: i64) -> Result<Transaction<'_>, Error> {
    let tx = client.transaction().await?;
    tx.batch_execute("SET LOCAL lock_timeout = '200ms'").await?;
    tx.execute("SELECT fencing_admit($1, $2)", &[&RESOURCE, &token]).await?;
    Ok(tx)
}

/// Writes the file if no newer token has been there.
async fn write(client: &mut Client, token: i64, body: &str) -> Result<(), Error> {
    // Once for each token, alone: a deadlock in the transaction that writes cannot take the mark back then.
    admitted(client, token).await?.commit().await?;
    let tx = admitted(client, token).await?;
    tx.execute("UPDATE files SET body = $2 WHERE path = $1", &[&RESOURCE, &body]).await?;
    tx.commit().await
}

async fn once(config: &str, token: i64, body: &str) -> Result<(), Error> {
    let (mut client, connection) = tokio_postgres::connect(config, NoTls).await?;
    let connection = tokio::spawn(connection);
    let written = write(&mut client, token, body).await;
    drop(client);
    let _ = connection.await;
    written
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, config, token, body] = arguments.as_slice() else { return ExitCode::from(64) };
    let Ok(token) = token.parse() else { return ExitCode::from(64) };
    for attempt in 1..=3 {
        let Err(error) = once(config, token, body).await else {
            println!("written with token {token}");
            return ExitCode::SUCCESS;
        };
        let said = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().into());
        let (word, end) = match error.code().map_or("", |state| state.code()) {
            "ZF412" => ("refused", 65),
            // serialization failure, deadlock, lock not available
            "40001" | "40P01" | "55P03" => ("in the way", 75),
            // Without a SQLSTATE it does not come from the server.
            "" | "53300" => ("down", 69),
            code if code.starts_with("08") || code.starts_with("57P") => ("down", 69),
            _ => ("failed", 70),
        };
        println!("{word}: {said}");
        if end != 75 {
            return ExitCode::from(end);
        }
        tokio::time::sleep(Duration::from_millis(10 * attempt)).await;
    }
    ExitCode::from(75)
}
