//! Dumps, and what it takes to restore them. pg_restore works under an empty search path.

use std::process::Command;
use std::time::Duration;

use fencing::Resource;
use fencing::sql::{self, AdmitError, Protect, Prune};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use support::clients::output;

use super::place::{self, Place};
use super::setup::{attempt, migrated, raise, run};
use crate::common::{resource, stale, token};

/// A program of PostgreSQL on this database.
fn program(name: &str, database: &PgConnectOptions) -> Command {
    let mut program = Command::new(name);
    program.arg("-h").arg(database.get_socket().unwrap()).args(["-U", "fencing", "-d"]);
    program.arg(database.get_database().unwrap());
    program
}

async fn at_34() -> Place {
    let place = migrated().await;
    let documents = "CREATE TABLE documents (path text PRIMARY KEY, body text);
        CREATE TABLE papers (path text PRIMARY KEY, body text)";
    run(&place.pool, documents).await;
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
    let other = Resource::new("other").unwrap();
    raise(&place.pool, &other, 50).await;
    run(&place.pool, place::OLDER).await;
    raise(&place.pool, &resource(), 35).await;
    let pruned = Prune::older_than(Duration::from_secs(3600)).run(&place.pool).await.unwrap();
    assert_eq!((pruned.marks, pruned.floor), (1, Some(token(50))));
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
    stale(sql::begin(&again.pool, &other, token(50)).await);
    // Below the floor, and it has its mark.
    raise(&again.pool, &resource(), 35).await;
    stale(sql::begin(&again.pool, &resource(), token(34)).await);
    let pathless = (*again.pool.connect_options()).clone().options([("search_path", "")]);
    let pathless = PgPoolOptions::new().max_connections(1).connect_lazy_with(pathless);
    let write = sqlx::raw_sql("UPDATE public.documents SET body = 'bad'").execute(&pathless).await;
    assert!(matches!(AdmitError::from(write.unwrap_err()), AdmitError::Unpresented(_)));
}

/// The target has its fence already, and a floor of 0. The row is in the way of the one that is restored.
#[tokio::test]
async fn marks_that_are_restored_alone_bring_their_floor_or_nothing() {
    let source = pruned_at_10().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("marks");
    let mut dump = program("pg_dump", &source.pool.connect_options());
    dump.args(["-a", "--disable-triggers", "-t", "fencing_marks", "-t", "fencing_floor", "-f"]);
    output(dump.arg(&file)).unwrap();
    let place = migrated().await;
    let restore = || {
        let mut psql = program("psql", &place.pool.connect_options());
        output(psql.args(["-q", "-1", "-v", "ON_ERROR_STOP=1", "-f"]).arg(&file))
    };
    let error = restore().unwrap_err();
    assert!(error.contains("duplicate key"), "{error}");
    assert_eq!(sql::marks(&place.pool, &[], 1).await.unwrap(), []);

    // What has no floor yet admits nobody.
    run(&place.pool, "DELETE FROM fencing_floor").await;
    let error = sql::begin(&place.pool, &resource(), token(34)).await.unwrap_err();
    assert!(matches!(error, AdmitError::Corrupt { .. }), "{error:?}");
    let error = attempt(&place.pool, "SELECT fencing_raise_floor(10)").await.unwrap_err();
    assert!(error.to_string().contains("fencing_floor has no row"), "{error}");
    restore().unwrap();
    for (name, number) in [("r", 5), ("r", 10), ("low", 4), ("s", 499)] {
        let name = Resource::new(name).unwrap();
        stale(sql::begin(&place.pool, &name, token(number)).await);
    }
    for (name, number) in [("r", 11), ("low", 5), ("s", 500)] {
        let name = Resource::new(name).unwrap();
        raise(&place.pool, &name, number).await;
    }
    for statement in ["DELETE FROM fencing_floor", "TRUNCATE fencing_floor"] {
        let error = attempt(&place.pool, statement).await.unwrap_err();
        assert!(error.to_string().contains("a mark is never lowered"), "{error}");
    }
}

/// The mark of `r` was 10 and is pruned, that of `s` is above the floor, that of `low` below.
async fn pruned_at_10() -> Place {
    let place = migrated().await;
    for (name, number) in [("r", 10), ("s", 500), ("low", 5)] {
        let name = Resource::new(name).unwrap();
        raise(&place.pool, &name, number).await;
    }
    run(
        &place.pool,
        "UPDATE fencing_marks SET raised_at = raised_at - interval '2 hours' WHERE resource = 'r'",
    )
    .await;
    let pruned = Prune::older_than(Duration::from_secs(3600)).run(&place.pool).await.unwrap();
    assert_eq!((pruned.marks, pruned.floor), (1, Some(token(10))));
    place
}
