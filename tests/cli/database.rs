//! `fencing migrate`, `marks` and `protect` on a database.

use std::process::Command;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use support::cli::{Ended, finish};
use support::clients::output;
use support::mariadb::MariadbServer;
use support::pgbouncer::PgBouncer;
use support::postgres::PostgresServer;

pub fn fencing(arguments: &[&str]) -> Ended {
    let mut command = support::cli::fencing(&[]);
    command.env_remove("FENCING_REDIS").args(arguments);
    finish(command)
}

pub fn done(arguments: &[&str]) -> String {
    let ended = fencing(arguments);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    ended.stdout
}

fn python(file: &str, script: &str) -> Result<String, String> {
    let output = Command::new("python3").args(["-c", script, file]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn execute(file: &str, statement: &str) -> Result<String, String> {
    let script = "import sqlite3, sys\n\
        db = sqlite3.connect(sys.argv[1])\nprint(db.executescript(STATEMENT).fetchall())";
    python(file, &script.replace("STATEMENT", &format!("{statement:?}")))
}

/// A statement in the database's own client: what it printed, or its error.
type Client<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// `unfenced`, `new` and `stale`: writes to the file `a` without a token, with 34 and 39.
fn is_migrated_protected_and_told(
    url: &str,
    client: Client<'_>,
    [unfenced, new, stale]: [&str; 3],
) {
    let marks = ["marks", "--database", url];
    let ended = fencing(&marks);
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.matches("migrate").count() <= 2, "advised twice: {}", ended.stderr);
    assert!(!ended.stderr.contains(" at line "), "of the server's source: {}", ended.stderr);
    for _ in 0..2 {
        assert_eq!(done(&["migrate", "--database", url]), "");
    }
    assert_eq!(done(&marks), "");
    client("CREATE TABLE files (path VARCHAR(100) PRIMARY KEY, body VARCHAR(100))").unwrap();
    for (table, column, what) in [
        ("files", "nope", "the table files has no column nope"),
        ("nope", "path", "the table nope does not exist"),
    ] {
        let protect = ["protect", "--database", url, "--table", table, "--column", column];
        fencing(&protect).says(65, what);
    }
    client("INSERT INTO files VALUES ('b', 'unprotected'); DELETE FROM files").unwrap();
    let protect = ["protect", "--database", url, "--table", "files", "--column", "path"];
    assert_eq!(done(&protect), "");
    let error = client(unfenced).unwrap_err();
    assert!(error.contains("no token presented, high water none, resource a"), "{error}");
    client(new).unwrap();
    assert_eq!(done(&marks), "34\ta\n");
    assert_eq!(done(&[&marks[..], &["--resource", "a"]].concat()), "34\ta\n");
    assert_eq!(done(&[&marks[..], &["--resource", "b"]].concat()), "none\tb\n");

    let raise = ["marks", "raise", "--database", url, "--resource", "a", "--token"];
    fencing(&[&raise[..], &["40"]].concat()).says(64, "raise the mark of a from 34 to 40");
    assert_eq!(done(&marks), "34\ta\n");
    assert_eq!(done(&[&raise[..], &["40", "--yes"]].concat()), "40\ta\n");
    fencing(&[&raise[..], &["39", "--yes"]].concat())
        .says(65, "token 39 of a is stale, high water 40");
    assert_eq!(done(&marks), "40\ta\n");
    let lower = ["marks", "lower", "--database", url, "--resource", "a", "--from"];
    let lower = [&lower[..], &["999999999999999", "--token"]].concat();
    assert_eq!(done(&[&raise[..], &["999999999999999", "--yes"]].concat()), "999999999999999\ta\n");
    let ended = fencing(&[&lower[..], &["40"]].concat());
    assert_eq!(ended.code, Some(64));
    let words = "the mark is 999999999999999; would lower the mark of a from 999999999999999 to 40: 40 and all larger tokens may write";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    assert_eq!(done(&marks), "999999999999999\ta\n");
    assert_eq!(done(&[&lower[..], &["40", "--yes"]].concat()), "40\ta\n");
    assert_eq!(done(&marks), "40\ta\n");
    fencing(&[&lower[..], &["40", "--yes"]].concat())
        .says(65, "nothing was lowered from 999999999999999 to 40, high water 40");

    let error = client(stale).unwrap_err();
    assert!(error.contains("token 39 is stale, high water 40, resource a"), "{error}");
    is_pruned(url);
    let error = client(stale).unwrap_err();
    assert!(error.contains("token 39 is stale, high water 41, resource a"), "{error}");
    is_checked_and_removed(url, client, unfenced);
    has_its_floor_raised(url);
}

/// The floor is 40.
fn has_its_floor_raised(url: &str) {
    let raise_floor = ["marks", "raise-floor", "--database", url];
    fencing(&raise_floor).says(64, "would raise the floor to 2");
    let is_refused = |token: &str| {
        let raise = ["marks", "raise", "--database", url, "--resource", "new", "--yes", "--token"];
        let ended = fencing(&[&raise[..], &[token]].concat());
        let refusal = format!("token {token} of new is stale");
        assert!(ended.stderr.contains(&refusal), "{}", ended.stderr);
    };
    assert_eq!(done(&[&raise_floor[..], &["--token", "60", "--yes"]].concat()), "floor 60\n");
    is_refused("60");
    let raised = done(&[&raise_floor[..], &["--yes"]].concat());
    is_refused(raised.trim_start_matches("floor ").trim_end());
    done(&[&raise_floor[..], &["--token", "60", "--yes"]].concat());
    is_refused("61");
}

/// There is one mark, 40 of the resource a.
fn is_pruned(url: &str) {
    let prune = ["marks", "prune", "--database", url, "--older-than"];
    assert_eq!(done(&[&prune[..], &["90d", "--yes"]].concat()), "0 marks removed, floor none\n");
    let low = [&prune[..], &["0s", "--floor", "39", "--yes"]].concat();
    assert_eq!(done(&low), "0 marks removed, floor none\n");
    let ended = fencing(&[&prune[..], &["0s"]].concat());
    assert_eq!(ended.code, Some(64));
    let words = "would remove 1 marks, and raise the floor from none to 40. The highest of them is that of a.";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    assert!(ended.stderr.contains("Add --floor 40 --yes"), "{}", ended.stderr);
    assert_eq!(done(&["marks", "--database", url]), "40\ta\n");
    let yes = [&prune[..], &["0s", "--floor", "40", "--yes"]].concat();
    assert_eq!(done(&yes), "1 marks removed, floor 40\n");
    assert_eq!(done(&["marks", "--database", url]), "");
    let raise =
        ["marks", "raise", "--database", url, "--resource", "new", "--token", "40", "--yes"];
    fencing(&raise).says(65, "token 40 of new is stale, high water 41");
    fencing(&[&prune[..], &["0s"]].concat()).says(64, "no mark; the floor is 40");
}

/// The table `files` is protected, and no other.
fn is_checked_and_removed(url: &str, client: Client<'_>, unfenced: &str) {
    let check = ["protect", "--database", url, "--check"];
    let listed = done(&check);
    assert!(listed.starts_with("whole\tfiles\t{path}\n\tdoes not see: "), "{listed}");
    assert_eq!(done(&[&check[..], &["--table", "files"]].concat()), listed);
    fencing(&[&check[..], &["--table", "nope"]].concat()).says(65, "the table nope does not exist");
    client("CREATE TABLE other (path VARCHAR(9))").unwrap();
    let ended = fencing(&[&check[..], &["--table", "other"]].concat());
    assert_eq!(ended.code, Some(65), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("broken\tother\t\n\tfault: it is not protected"));
    let found = done(&[&check[..], &["--json"]].concat());
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!((&found[0]["table"], &found[0]["resource"]), (&"files".into(), &"{path}".into()));
    assert_eq!((&found[0]["whole"], &found[0]["protected"]), (&true.into(), &true.into()));
    assert_eq!(found[0]["faults"], serde_json::json!([]));
    assert!(found[0]["unseen"][0].is_string(), "{found}");
    let ended = fencing(&[&check[..], &["--table", "other", "--json"]].concat());
    assert_eq!(ended.code, Some(65), "{}", ended.stderr);
    let found: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(found[0]["whole"], false);
    assert_eq!(found[0]["protected"], false);
    let both = ["protect", "--database", url, "--table", "files", "--column", "path,body"];
    fencing(&both).says(65, "--table files --remove");
    assert!(done(&check).starts_with("whole\tfiles\t{path}\n"));

    let remove = ["protect", "--database", url, "--table", "files", "--remove"];
    fencing(&remove).says(64, "Add --yes");
    client(unfenced).unwrap_err();
    let remove = [&remove[..], &["--yes"]].concat();
    assert_eq!(done(&remove), "");
    client("DELETE FROM files").unwrap();
    client(unfenced).unwrap();
    assert_eq!(done(&both), "");
    assert!(done(&check).starts_with("whole\tfiles\t{path}/{body}\n"));
    assert_eq!(done(&remove), "");
    fencing(&remove).says(65, "the table files is not protected");
    fencing(&check).says(65, "protected");
}

#[test]
fn a_sqlite_file_is_migrated_protected_and_its_marks_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.db");
    let file = file.to_str().unwrap();
    let writes = [
        "INSERT INTO files VALUES ('a', 'bad', NULL)",
        "INSERT INTO files VALUES ('a', 'new', 34)",
        "UPDATE files SET body = 'bad', fencing_token = 39",
    ];
    let client = |statement: &str| execute(file, statement);
    is_migrated_protected_and_told(&format!("sqlite:{file}"), &client, writes);
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
    let url = database.to_url_lossy().to_string();
    is_migrated_protected_and_told(&url, &client, writes);
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
    done(&["migrate", "--database", &url(&direct)]);
    let url = url(&pooler.on(direct.get_database().unwrap()));
    for (name, high, low) in [("a", "34", "33"), ("b", "44", "43")] {
        let on = ["--database", &url, "--resource", name];
        let marks = |action, more: &[&str]| done(&[&["marks", action], &on[..], more].concat());
        assert_eq!(marks("raise", &["--token", high, "--yes"]), format!("{high}\t{name}\n"));
        let lower = ["--from", high, "--token", low, "--yes"];
        assert_eq!(marks("lower", &lower), format!("{low}\t{name}\n"));
        assert_eq!(done(&[&["marks"], &on[..]].concat()), format!("{low}\t{name}\n"));
        let floor = ["marks", "raise-floor", "--database", &url, "--token", "9", "--yes"];
        assert_eq!(done(&floor), "floor 9\n");
        done(&[&["run"], &on[..], &["--", "true"]].concat());
        done(&["leases", "--database", &url]);
    }
    let prune = ["marks", "prune", "--database", &url, "--older-than", "0s", "--yes"];
    assert_eq!(done(&prune), "2 marks removed, floor 43\n");
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
    let url = database.to_url_lossy().to_string();
    is_migrated_protected_and_told(&url, &client, writes);
}

#[tokio::test]
async fn a_table_in_shadow_mode_is_named_until_it_is_protected() {
    let server = PostgresServer::start();
    let database = server.database().await;
    let client = |statement: &str| {
        output(server.client(database.get_database().unwrap()).arg("-c").arg(statement))
    };
    let url = &database.to_url_lossy().to_string();
    done(&["migrate", "--database", url]);
    client("CREATE TABLE files (path TEXT PRIMARY KEY, body TEXT)").unwrap();
    let protect = ["protect", "--database", url, "--table", "files", "--column", "path"];
    done(&[&protect[..], &["--shadow"]].concat());
    client("INSERT INTO files VALUES ('a', 'new')").unwrap();
    let check = ["protect", "--database", url, "--check"];
    let ended = fencing(&check).says(65, "1 of 1 tables are in shadow mode");
    assert!(ended.stdout.contains("shadow\tfiles\t{path}\n"), "{}", ended.stdout);
    let ended = fencing(&[&check[..], &["--json"]].concat());
    assert!(ended.stdout.contains("\"shadow\": true"), "{}", ended.stdout);
    done(&protect);
    assert!(done(&check).starts_with("whole\tfiles\t{path}\n"));
    client("INSERT INTO files VALUES ('b', 'new')").unwrap_err();
    for other in ["sqlite:files.db", "mysql://app@db/files"] {
        let print = ["protect", "--database", other, "--table", "files", "--column", "path"];
        fencing(&[&print[..], &["--shadow", "--print"]].concat())
            .says(65, "no triggers in shadow mode");
    }
}

#[test]
fn more_marks_than_fit_one_answer_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.db");
    let file = file.to_str().unwrap();
    let url = &format!("sqlite:{file}");
    done(&["migrate", "--database", url]);
    let many = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2500)
        INSERT INTO fencing_marks (resource, token) SELECT printf('files/%05d', n), n FROM n";
    execute(file, many).unwrap();
    let listed = done(&["marks", "--database", url]);
    assert_eq!(listed.lines().count(), 2500);
    assert_eq!(listed.lines().last(), Some("2500\tfiles/02500"));
}

#[test]
fn the_sql_is_printed_for_other_tools() {
    let print = |kind| done(&["migrate", "--print", "--database", kind]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.db");
    let file = file.to_str().unwrap();
    // What is printed is what `migrate` does.
    execute(file, &print("sqlite")).unwrap();
    execute(file, "CREATE TABLE files (path TEXT PRIMARY KEY, fencing_token INTEGER)").unwrap();
    let table = ["--table", "files", "--column", "path", "--prefix", "files/", "--print"];
    let protect = |kind| done(&[&["protect", "--database", kind], &table[..]].concat());
    execute(file, &protect("sqlite:")).unwrap();
    execute(file, "INSERT INTO files VALUES ('a', 33)").unwrap();
    let error = execute(file, "UPDATE files SET fencing_token = 32").unwrap_err();
    assert!(error.contains("token 32 is stale, high water 33, resource files/a"), "{error}");
    done(&["migrate", "--database", &format!("sqlite:{file}")]);

    for kind in ["postgres:", "mysql:", "postgresql://x/y", "mariadb"] {
        assert!(print(kind).contains("CREATE TABLE IF NOT EXISTS fencing_marks"), "{kind}");
        assert!(protect(kind).contains("CREATE TRIGGER"), "{kind}");
    }
}

#[test]
fn wrong_usage_is_64_and_no_password_is_shown() {
    let url = "postgres://me:s3cret@127.0.0.1:1/x";
    for (arguments, code) in [
        (vec!["migrate"], 64),
        (vec!["migrate", "--database", "redis://me:s3cret@h"], 64),
        (vec!["marks"], 64),
        (vec!["marks", url], 64),
        (vec!["protect", "--database", url, "--table", "t"], 64),
        (vec!["protect", "--database", url, "--table", "", "--column", "c"], 64),
        (vec!["protect", "--database", url, "--table", "t", "--column", "c,"], 64),
        (
            vec!["protect", "--database", url, "--table", "t", "--resource", "r", "--prefix", "x"],
            64,
        ),
        (vec!["protect", "--database", "mysql://127.0.0.1", "--check"], 64),
        (vec!["protect", "--database", url, "--table", "t", "--check", "--remove"], 64),
        (vec!["protect", "--database", url, "--table", "t", "--column", "c", "--remove"], 64),
        (vec!["protect", "--database", url, "--remove", "--yes"], 64),
        (vec!["protect", "--database", url, "--check"], 69),
        (vec!["marks", "raise", "--database", url, "--resource", "a", "--token", "0"], 64),
        (vec!["marks", "--database", "mysql://me:s3cret@h:port/x"], 64),
        (vec!["marks", "--database", url], 69),
        (vec!["migrate", "--database", "mysql://me:s3cret@127.0.0.1:1/x"], 69),
    ] {
        let ended = fencing(&arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        assert!(!ended.stderr.is_empty() && ended.stdout.is_empty(), "{arguments:?}");
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
}
