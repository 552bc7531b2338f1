//! Dumps, and what it takes to restore them. pg_restore works under an empty search path.

use std::process::Command;

use fencing::sql::{self, AdmitError, Protect};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use support::clients::output;

use super::place::Place;
use crate::common::{resource, stale, token};

/// A program of PostgreSQL on this database.
fn program(name: &str, database: &PgConnectOptions) -> Command {
    let mut program = Command::new(name);
    program.arg("-h").arg(database.get_socket().unwrap()).args(["-U", "fencing", "-d"]);
    program.arg(database.get_database().unwrap());
    program
}

async fn at_34() -> Place {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let documents = "CREATE TABLE documents (path text PRIMARY KEY, body text);
        CREATE TABLE papers (path text PRIMARY KEY, body text)";
    sqlx::raw_sql(documents).execute(&place.pool).await.unwrap();
    for table in ["documents", "papers"] {
        let protect = Protect::rows(table, "path").unwrap().prefix("files/").unwrap();
        protect.apply(&place.pool).await.unwrap();
    }
    let insert = "BEGIN; SELECT fencing_present('34');
        INSERT INTO documents VALUES ('a', 'new'); INSERT INTO papers VALUES ('a', 'new'); COMMIT";
    place.client(insert).unwrap();
    place
}

#[tokio::test]
async fn data_alone_is_restored_by_who_presents_a_token() {
    let place = at_34().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    let database = place.pool.connect_options();
    let mut dump = program("pg_dump", &database);
    dump.args(["-a", "-Fc", "-t", "documents", "-t", "papers", "-f"]).arg(&file);
    output(&mut dump).unwrap();
    let restore = |token: Option<&str>, options: &[&str]| {
        let delete = "BEGIN; SELECT fencing_present('34'); DELETE FROM documents;
            DELETE FROM papers; COMMIT";
        place.client(delete).unwrap();
        let mut restore = program("pg_restore", &database);
        if let Some(token) = token {
            restore.env("PGOPTIONS", format!("-c fencing.token={token}"));
        }
        output(restore.args(["-a", "--exit-on-error"]).args(options).arg(&file))
    };
    let error = restore(None, &[]).unwrap_err();
    assert!(error.contains("no token presented, high water 34, resource files/a"), "{error}");
    let error = restore(Some("33"), &["-1"]).unwrap_err();
    assert!(error.contains("token 33 is stale, high water 34"), "{error}");
    for (token, options) in [(Some("34"), ["-1"]), (None, ["--disable-triggers"])] {
        restore(token, &options).unwrap();
        let bodies = "SELECT body FROM documents UNION ALL SELECT body FROM papers";
        let bodies = sqlx::query_scalar::<_, String>(bodies).fetch_all(&place.pool).await;
        assert_eq!(bodies.unwrap(), ["new", "new"]);
    }
}

#[tokio::test]
async fn a_whole_database_comes_back_with_its_marks_and_guards() {
    let place = at_34().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all");
    let mut dump = program("pg_dump", &place.pool.connect_options());
    output(dump.args(["-Fc", "-f"]).arg(&file)).unwrap();
    let again = Place::empty().await;
    let mut restore = program("pg_restore", &again.pool.connect_options());
    output(restore.args(["--exit-on-error"]).arg(&file)).unwrap();
    sql::migrate(&again.pool).await.unwrap();
    let found = sql::protected(&again.pool, None).await.unwrap();
    assert!(found.len() == 2 && found.iter().all(sql::Protected::is_whole), "{found:?}");
    stale(sql::begin(&again.pool, &resource(), token(33)).await);
    let pathless = (*again.pool.connect_options()).clone().options([("search_path", "")]);
    let pathless = PgPoolOptions::new().max_connections(1).connect_lazy_with(pathless);
    let write = sqlx::raw_sql("UPDATE public.documents SET body = 'bad'").execute(&pathless).await;
    assert!(matches!(AdmitError::from(write.unwrap_err()), AdmitError::Unpresented(_)));
}
