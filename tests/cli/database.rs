//! `fencing migrate`, `marks` and `protect` on a database.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use support::cli::ask;
use support::clients::output;
use support::mariadb::MariadbServer;
use support::pgbouncer::PgBouncer;
use support::postgres::PostgresServer;

/// What it printed, if that was all.
#[track_caller]
fn done(url: &str, line: &str) -> String {
    ask(url, line).printed()
}

fn execute(file: &Path, statement: &str) -> Result<String, String> {
    let script = format!(
        "import sqlite3, sys\n\
         db = sqlite3.connect(sys.argv[1])\nprint(db.executescript({statement:?}).fetchall())"
    );
    output(Command::new("python3").args(["-c", &script]).arg(file))
}

/// A new SQLite file, and its URL.
fn sqlite() -> (tempfile::TempDir, std::path::PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.db");
    let url = format!("sqlite:{}", file.display());
    (folder, file, url)
}

/// A statement in the database's own client: what it printed, or its error.
type Client<'a> = &'a dyn Fn(&str) -> Result<String, String>;

#[track_caller]
fn refuses(client: Client<'_>, statement: &str, words: &str) {
    let error = client(statement).unwrap_err();
    assert!(error.contains(words), "{words:?} in {error}");
}

/// `unfenced`, `new` and `stale`: writes to the file `a` without a token, with 34 and 39.
fn is_migrated_protected_and_told(
    url: &str,
    client: Client<'_>,
    [unfenced, new, stale]: [&str; 3],
) {
    let ended = ask(url, "marks");
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.matches("migrate").count() <= 2, "advised twice: {}", ended.stderr);
    assert!(!ended.stderr.contains(" at line "), "of the server's source: {}", ended.stderr);
    for _ in 0..2 {
        assert_eq!(done(url, "migrate"), "");
    }
    assert_eq!(done(url, "marks"), "");
    client("CREATE TABLE files (path VARCHAR(100) PRIMARY KEY, body VARCHAR(100))").unwrap();
    ask(url, "protect --table files --column nope").says(65, "the table files has no column nope");
    ask(url, "protect --table nope --column path").says(65, "the table nope does not exist");
    client("INSERT INTO files VALUES ('b', 'unprotected'); DELETE FROM files").unwrap();
    assert_eq!(done(url, "protect --table files --column path"), "");
    refuses(client, unfenced, "no token presented, high water none, resource a");
    client(new).unwrap();
    assert_eq!(done(url, "marks"), "34\ta\n");
    assert_eq!(done(url, "marks --resource a"), "34\ta\n");
    assert_eq!(done(url, "marks --resource b"), "none\tb\n");

    let raise = |token: &str| ask(url, &format!("marks raise --resource a --token {token}"));
    raise("40").says(64, "raise the mark of a from 34 to 40");
    assert_eq!(done(url, "marks"), "34\ta\n");
    assert_eq!(raise("40 --yes").printed(), "40\ta\n");
    raise("39 --yes").says(65, "token 39 of a is stale, high water 40");
    assert_eq!(done(url, "marks"), "40\ta\n");
    assert_eq!(raise("999999999999999 --yes").printed(), "999999999999999\ta\n");
    let lower = "marks lower --resource a --from 999999999999999 --token 40";
    let words = "the mark is 999999999999999; would lower the mark of a from 999999999999999 to 40: 40 and all larger tokens may write";
    ask(url, lower).says(64, words);
    assert_eq!(done(url, "marks"), "999999999999999\ta\n");
    let lower = format!("{lower} --yes");
    assert_eq!(done(url, &lower), "40\ta\n");
    assert_eq!(done(url, "marks"), "40\ta\n");
    ask(url, &lower).says(65, "nothing was lowered from 999999999999999 to 40, high water 40");

    refuses(client, stale, "token 39 is stale, high water 40, resource a");
    is_pruned(url);
    refuses(client, stale, "token 39 is stale, high water 41, resource a");
    is_checked_and_removed(url, client, unfenced);
    has_its_floor_raised(url);
}

/// The floor is 40.
fn has_its_floor_raised(url: &str) {
    ask(url, "marks raise-floor").says(64, "would raise the floor to 2");
    let is_refused = |token: &str| {
        ask(url, &format!("marks raise --resource new --yes --token {token}"))
            .says(65, &format!("token {token} of new is stale"));
    };
    assert_eq!(done(url, "marks raise-floor --token 60 --yes"), "floor 60\n");
    is_refused("60");
    let raised = done(url, "marks raise-floor --yes");
    is_refused(raised.trim_start_matches("floor ").trim_end());
    done(url, "marks raise-floor --token 60 --yes");
    is_refused("61");
}

/// There is one mark, 40 of the resource a.
fn is_pruned(url: &str) {
    let old = done(url, "marks prune --older-than 90d --yes");
    assert_eq!(old, "0 marks removed, floor none\n");
    let low = done(url, "marks prune --older-than 0s --floor 39 --yes");
    assert_eq!(low, "0 marks removed, floor none\n");
    let words = "would remove 1 marks, and raise the floor from none to 40. The highest of them is that of a.";
    let asked = ask(url, "marks prune --older-than 0s").says(64, words);
    assert!(asked.stderr.contains("Add --floor 40 --yes"), "{}", asked.stderr);
    assert_eq!(done(url, "marks"), "40\ta\n");
    let pruned = done(url, "marks prune --older-than 0s --floor 40 --yes");
    assert_eq!(pruned, "1 marks removed, floor 40\n");
    assert_eq!(done(url, "marks"), "");
    ask(url, "marks raise --resource new --token 40 --yes")
        .says(65, "token 40 of new is stale, high water 41");
    ask(url, "marks prune --older-than 0s").says(64, "no mark; the floor is 40");
}

/// The table `files` is protected, and no other.
fn is_checked_and_removed(url: &str, client: Client<'_>, unfenced: &str) {
    let listed = done(url, "protect --check");
    assert!(listed.starts_with("whole\tfiles\t{path}\n\tdoes not see: "), "{listed}");
    assert_eq!(done(url, "protect --check --table files"), listed);
    ask(url, "protect --check --table nope").says(65, "the table nope does not exist");
    client("CREATE TABLE other (path VARCHAR(9))").unwrap();
    let ended = ask(url, "protect --check --table other").says(65, "");
    assert!(ended.stdout.starts_with("broken\tother\t\n\tfault: it is not protected"));
    let found: serde_json::Value =
        serde_json::from_str(&done(url, "protect --check --json")).unwrap();
    let unseen = &found[0]["unseen"];
    assert!(unseen[0].is_string(), "{found}");
    let whole = json!({
        "table": "files", "resource": "{path}", "whole": true, "protected": true, "shadow": false,
        "faults": [], "unseen": unseen,
    });
    assert_eq!(found, json!([whole]));
    let ended = ask(url, "protect --check --table other --json").says(65, "");
    let found: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&found[0]["whole"], &found[0]["protected"]), (&false.into(), &false.into()));
    let both = "protect --table files --column path,body";
    ask(url, both).says(65, "--table files --remove");
    assert!(done(url, "protect --check").starts_with("whole\tfiles\t{path}\n"));

    ask(url, "protect --table files --remove").says(64, "Add --yes");
    client(unfenced).unwrap_err();
    let remove = "protect --table files --remove --yes";
    assert_eq!(done(url, remove), "");
    client("DELETE FROM files").unwrap();
    client(unfenced).unwrap();
    assert_eq!(done(url, both), "");
    assert!(done(url, "protect --check").starts_with("whole\tfiles\t{path}/{body}\n"));
    assert_eq!(done(url, remove), "");
    ask(url, remove).says(65, "the table files is not protected");
    ask(url, "protect --check").says(65, "protected");
}

#[test]
fn a_sqlite_file_is_migrated_protected_and_its_marks_are_told() {
    let (_folder, file, url) = sqlite();
    let writes = [
        "INSERT INTO files VALUES ('a', 'bad', NULL)",
        "INSERT INTO files VALUES ('a', 'new', 34)",
        "UPDATE files SET body = 'bad', fencing_token = 39",
    ];
    is_migrated_protected_and_told(&url, &|statement| execute(&file, statement), writes);
}

#[tokio::test]
async fn so_is_a_postgresql_database() {
    let server = PostgresServer::start();
    let database = server.database().await;
    let name = database.get_database().unwrap();
    let writes = [
        "INSERT INTO files VALUES ('a', 'bad')",
        "BEGIN; SELECT fencing_present('34'); INSERT INTO files VALUES ('a', 'older'); COMMIT;
         BEGIN; SET LOCAL fencing.token = '34'; UPDATE files SET body = 'new'; COMMIT",
        "BEGIN; SELECT fencing_present('39'); UPDATE files SET body = 'bad'; COMMIT",
    ];
    let client = |statement: &str| output(server.client(name).arg("-c").arg(statement));
    is_migrated_protected_and_told(database.to_url_lossy().as_str(), &client, writes);
}

#[tokio::test]
async fn so_is_a_mariadb_database() {
    let server = MariadbServer::start();
    let database = server.database().await;
    let name = database.get_database().unwrap();
    let writes = [
        "INSERT INTO files VALUES ('a', 'bad')",
        "SET @fencing_token = 34; INSERT INTO files VALUES ('a', 'new')",
        "SET @fencing_token = 39; UPDATE files SET body = 'bad'",
    ];
    let client = |statement: &str| output(server.client(name).arg("-e").arg(statement));
    is_migrated_protected_and_told(database.to_url_lossy().as_str(), &client, writes);
}

/// Each program comes with a new connection to the pooler, which gives it a session that others have used.
#[tokio::test]
async fn operators_work_through_a_pooler() {
    let server = PostgresServer::start();
    let direct = server.database().await;
    let pooler = PgBouncer::before(&server, 1);
    let url = |options: &PgConnectOptions| {
        let (socket, port) = (options.get_socket().unwrap().display(), options.get_port());
        let database = options.get_database().unwrap();
        format!("postgres://fencing@localhost/{database}?host={socket}&port={port}")
    };
    done(&url(&direct), "migrate");
    let url = &url(&pooler.on(direct.get_database().unwrap()));
    for (name, high, low) in [("a", "34", "33"), ("b", "44", "43")] {
        let raised = done(url, &format!("marks raise --resource {name} --token {high} --yes"));
        assert_eq!(raised, format!("{high}\t{name}\n"));
        let lower = format!("marks lower --resource {name} --from {high} --token {low} --yes");
        assert_eq!(done(url, &lower), format!("{low}\t{name}\n"));
        assert_eq!(done(url, &format!("marks --resource {name}")), format!("{low}\t{name}\n"));
        assert_eq!(done(url, "marks raise-floor --token 9 --yes"), "floor 9\n");
        done(url, &format!("run --resource {name} -- true"));
        done(url, "leases");
    }
    let pruned = done(url, "marks prune --older-than 0s --yes");
    assert_eq!(pruned, "2 marks removed, floor 43\n");
}

#[tokio::test]
async fn a_table_in_shadow_mode_is_named_until_it_is_protected() {
    let server = PostgresServer::start();
    let database = server.database().await;
    let client = |statement: &str| {
        output(server.client(database.get_database().unwrap()).arg("-c").arg(statement))
    };
    let url = &database.to_url_lossy().to_string();
    done(url, "migrate");
    client("CREATE TABLE files (path TEXT PRIMARY KEY, body TEXT)").unwrap();
    done(url, "protect --table files --column path --shadow");
    client("INSERT INTO files VALUES ('a', 'new')").unwrap();
    let ended = ask(url, "protect --check").says(65, "1 of 1 tables are in shadow mode");
    assert!(ended.stdout.contains("shadow\tfiles\t{path}\n"), "{}", ended.stdout);
    let ended = ask(url, "protect --check --json");
    assert!(ended.stdout.contains("\"shadow\": true"), "{}", ended.stdout);
    done(url, "protect --table files --column path");
    assert!(done(url, "protect --check").starts_with("whole\tfiles\t{path}\n"));
    client("INSERT INTO files VALUES ('b', 'new')").unwrap_err();
    for other in ["sqlite:files.db", "mysql://app@db/files"] {
        ask(other, "protect --table files --column path --shadow --print")
            .says(65, "no triggers in shadow mode");
    }
}

#[test]
fn more_marks_than_fit_one_answer_are_listed() {
    let (_folder, file, url) = sqlite();
    done(&url, "migrate");
    let many = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2500)
        INSERT INTO fencing_marks (resource, token) SELECT printf('files/%05d', n), n FROM n";
    execute(&file, many).unwrap();
    let listed = done(&url, "marks");
    assert_eq!(listed.lines().count(), 2500);
    assert_eq!(listed.lines().last(), Some("2500\tfiles/02500"));
}
