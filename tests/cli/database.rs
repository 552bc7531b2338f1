//! `fencing db migrate`, `marks` and `protect` on a database, also as they print what they would do.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::json;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use support::cli::*;
use support::clients::output;
use support::mariadb::MariadbServer;
use support::postgres::{PgBouncer, PostgresServer};
use tempfile::TempDir;

/// The servers of all tests but those that stop theirs.
pub fn postgres() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(PostgresServer::start)
}

pub fn mariadb() -> &'static MariadbServer {
    static SERVER: OnceLock<MariadbServer> = OnceLock::new();
    SERVER.get_or_init(MariadbServer::start)
}

/// Runs a statement: what it printed, or its error.
type Client = Box<dyn Fn(&str) -> Result<String, String>>;

/// A new database, and the client that comes with its server.
pub struct Database {
    pub url: String,
    pub client: Client,
}

const PYTHON: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
run = db.execute if sys.argv[2].startswith('SELECT') else db.executescript
for row in run(sys.argv[2]): print(*row)";

impl Database {
    pub fn sqlite(folder: &TempDir, name: &str) -> Database {
        let file = folder.path().join(name);
        let url = format!("sqlite:{}", file.display());
        let client =
            move |statement: &str| output(Command::new("python3").args(["-c", PYTHON]).arg(&file).arg(statement));
        Database { url, client: Box::new(client) }
    }

    pub async fn postgres() -> Database {
        let options = postgres().database().await;
        let (url, name) = (options.to_url_lossy(), options.get_database().unwrap().to_owned());
        let client = move |text: &str| output(postgres().client(&name).arg("-c").arg(text));
        Database { url: url.into(), client: Box::new(client) }
    }

    pub async fn mariadb() -> Database {
        let options = mariadb().database().await;
        let (url, name) = (options.to_url_lossy(), options.get_database().unwrap().to_owned());
        let client = move |text: &str| output(mariadb().client(&name).arg("-e").arg(text));
        Database { url: url.into(), client: Box::new(client) }
    }

    pub fn ask(&self, line: &str) -> Ended {
        ask(&self.url, line)
    }

    /// What it printed, if that was all.
    #[track_caller]
    fn done(&self, line: &str) -> String {
        self.ask(line).printed()
    }

    pub fn run(&self, statement: &str) -> Result<String, String> {
        (self.client)(statement)
    }

    /// The URL on which a session of PostgreSQL has the rights of this role, and no others.
    pub fn as_role(&self, role: &str) -> String {
        let more = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{more}options=-c%20role%3D{role}", self.url)
    }

    #[track_caller]
    fn refuses(&self, statement: &str, words: &str) {
        let error = self.run(statement).unwrap_err();
        assert!(error.contains(words), "{words:?} in {error}");
    }
}

/// `unfenced`, `new` and `stale`: writes to the file `a` without a token, with 34 and 39.
fn is_migrated_protected_and_told(it: &Database, [unfenced, new, stale]: [&str; 3]) {
    let ended = it.ask("db marks");
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.matches("db migrate").count() <= 2, "advised twice: {}", ended.stderr);
    assert!(!ended.stderr.contains(" at line "), "of the server's source: {}", ended.stderr);
    for _ in 0..2 {
        assert_eq!(it.done("db migrate"), "");
    }
    assert_eq!(it.done("db marks"), "");
    it.run("CREATE TABLE files (path VARCHAR(100) PRIMARY KEY, body VARCHAR(100))").unwrap();
    it.ask("db protect --table files --column nope").says(65, "the table files has no column nope");
    it.ask("db protect --table nope --column path").says(65, "the table nope does not exist");
    it.run("INSERT INTO files VALUES ('b', 'unprotected'); DELETE FROM files").unwrap();
    assert_eq!(it.done("db protect --table files --column path"), "");
    it.refuses(unfenced, "no token presented, high water none, resource a");
    it.run(new).unwrap();
    assert_eq!(it.done("db marks"), "34\ta\n");
    assert_eq!(it.done("db marks --resource a"), "34\ta\n");
    assert_eq!(it.done("db marks --resource b"), "none\tb\n");

    let raise = |token: &str| it.ask(&format!("db marks raise --resource a --token {token}"));
    raise("33").says(65, "token 33 of a is stale, high water 34");
    raise("40").says(64, "raise the mark of a from 34 to 40");
    assert_eq!(it.done("db marks"), "34\ta\n");
    assert_eq!(raise("40 --yes").printed(), "40\ta\n");
    raise("39 --yes").says(65, "token 39 of a is stale, high water 40");
    assert_eq!(it.done("db marks"), "40\ta\n");
    assert_eq!(raise("999999999999999 --yes").printed(), "999999999999999\ta\n");
    let lower = "db marks lower --resource a --from 999999999999999 --token 40";
    let words = "the mark is 999999999999999; would lower the mark of a from 999999999999999 to 40: 40 and all larger tokens may write";
    it.ask(lower).says(64, words);
    assert_eq!(it.done("db marks"), "999999999999999\ta\n");
    let lower = format!("{lower} --yes");
    assert_eq!(it.done(&lower), "40\ta\n");
    assert_eq!(it.done("db marks"), "40\ta\n");
    it.ask(&lower).says(65, "nothing was lowered from 999999999999999 to 40, high water 40");
    for from in ["39", "41"] {
        let words = format!("would lower nothing: the mark is 40, not {from}");
        it.ask(&format!("db marks lower --resource a --from {from} --token 38")).says(65, &words);
    }

    it.refuses(stale, "token 39 is stale, high water 40, resource a");
    is_pruned(it);
    it.refuses(stale, "token 39 is stale, high water 41, resource a");
    is_checked_and_removed(it, unfenced);
    has_its_floor_raised(it);
}

/// The floor is 40.
fn has_its_floor_raised(it: &Database) {
    it.ask("db marks raise-floor").says(64, "would raise the floor to 2");
    let is_refused = |token: &str| {
        it.ask(&format!("db marks raise --resource new --yes --token {token}"))
            .says(65, &format!("token {token} of new is stale"));
    };
    assert_eq!(it.done("db marks raise-floor --token 60 --yes"), "the floor is 60 or higher\n");
    is_refused("60");
    let raised = it.done("db marks raise-floor --yes");
    is_refused(raised.split(' ').nth(3).unwrap());
    it.done("db marks raise-floor --token 60 --yes");
    is_refused("61");
}

/// There is one mark, 40 of the resource a.
fn is_pruned(it: &Database) {
    let old = it.done("db marks prune --older-than 90d --yes");
    assert_eq!(old, "0 marks removed, floor none\n");
    let low = it.done("db marks prune --older-than 0s --floor 39 --yes");
    assert_eq!(low, "0 marks removed, floor none\n");
    let words = "would remove 1 marks, and raise the floor from none to 40. The highest removed mark is that of a.";
    let asked = it.ask("db marks prune --older-than 0s").says(64, words);
    assert!(asked.stderr.contains("Add --floor 40 --yes"), "{}", asked.stderr);
    assert_eq!(it.done("db marks"), "40\ta\n");
    let pruned = it.done("db marks prune --older-than 0s --floor 40 --yes");
    assert_eq!(pruned, "1 marks removed, floor 40\n");
    assert_eq!(it.done("db marks"), "");
    it.ask("db marks raise --resource new --token 40 --yes").says(65, "token 40 of new is stale, high water 41");
    it.ask("db marks prune --older-than 0s").says(64, "no mark; the floor is 40");
}

/// The table `files` is protected, and no other.
fn is_checked_and_removed(it: &Database, unfenced: &str) {
    let listed = it.done("db protect --check");
    assert!(listed.starts_with("whole\tfiles\t{path}\n\tdoes not see: "), "{listed}");
    assert_eq!(it.done("db protect --check --table files"), listed);
    it.ask("db protect --check --table nope").says(65, "the table nope does not exist");
    it.run("CREATE TABLE other (path VARCHAR(9))").unwrap();
    let ended = it.ask("db protect --check --table other").says(65, "");
    assert!(ended.stdout.starts_with("broken\tother\t\n\tfault: it is not protected"));
    let found: serde_json::Value = serde_json::from_str(&it.done("db protect --check --json")).unwrap();
    let unseen = &found[0]["unseen"];
    assert!(unseen[0].is_string(), "{found}");
    let whole = json!({
        "table": "files", "resource": "{path}", "whole": true, "protected": true, "shadow": false,
        "faults": [], "unseen": unseen,
    });
    assert_eq!(found, json!([whole]));
    let ended = it.ask("db protect --check --table other --json").says(65, "");
    let found: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&found[0]["whole"], &found[0]["protected"]), (&false.into(), &false.into()));
    let both = "db protect --table files --column path,body";
    it.ask(both).says(65, "--table files --remove");
    assert!(it.done("db protect --check").starts_with("whole\tfiles\t{path}\n"));

    it.ask("db protect --table files --remove").says(64, "Add --yes");
    it.run(unfenced).unwrap_err();
    let remove = "db protect --table files --remove --yes";
    assert_eq!(it.done(remove), "");
    it.run("DELETE FROM files").unwrap();
    it.run(unfenced).unwrap();
    assert_eq!(it.done(both), "");
    assert!(it.done("db protect --check").starts_with("whole\tfiles\t{path}/{body}\n"));
    assert_eq!(it.done(remove), "");
    it.ask(remove).says(65, "the table files is not protected");
    it.ask("db protect --check").says(65, "protected");
}

/// What is printed, in the database's own client: it can be applied twice, and removed.
fn is_migrated_as_printed(it: &Database, kinds: &[&str], tables: &str) {
    let tables = || it.run(tables).unwrap().trim().parse::<u32>().unwrap();
    for kind in kinds {
        let migrate = format!("db migrate --print --database {kind}");
        for _ in 0..2 {
            it.run(&ask("", &migrate).printed()).unwrap();
        }
        // Nothing is lost, and nothing is left to do.
        it.ask("db migrate").is(0);
        it.ask("db marks raise --resource a --token 34 --yes").is(0);
        assert!(tables() > 4);
        it.run(&ask("", &format!("{migrate} --down")).printed()).unwrap();
        assert_eq!(tables(), 0);
    }
}

#[test]
fn a_sqlite_file_is_migrated_protected_and_its_marks_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let writes = [
        "INSERT INTO files VALUES ('a', 'bad', NULL)",
        "INSERT INTO files VALUES ('a', 'new', 34)",
        "UPDATE files SET body = 'bad', fencing_token = 39",
    ];
    is_migrated_protected_and_told(&Database::sqlite(&folder, "told.db"), writes);
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%fencing%'";
    is_migrated_as_printed(&Database::sqlite(&folder, "printed.db"), &["sqlite:"], tables);
}

#[tokio::test]
async fn so_is_a_postgresql_database() {
    let writes = [
        "INSERT INTO files VALUES ('a', 'bad')",
        "BEGIN; SELECT fencing_present('34'); INSERT INTO files VALUES ('a', 'older'); COMMIT;
         BEGIN; SET LOCAL fencing.token = '34'; UPDATE files SET body = 'new'; COMMIT",
        "BEGIN; SELECT fencing_present('39'); UPDATE files SET body = 'bad'; COMMIT",
    ];
    is_migrated_protected_and_told(&Database::postgres().await, writes);
    let tables = "SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE '%fencing%')
        + (SELECT count(*) FROM pg_proc WHERE proname LIKE '%fencing%')";
    let kinds = ["postgres:", "postgresql://x/y"];
    is_migrated_as_printed(&Database::postgres().await, &kinds, tables);
}

#[tokio::test]
async fn so_is_a_mariadb_database() {
    let writes = [
        "INSERT INTO files VALUES ('a', 'bad')",
        "SET @fencing_token = 34; INSERT INTO files VALUES ('a', 'new')",
        "SET @fencing_token = 39; UPDATE files SET body = 'bad'",
    ];
    is_migrated_protected_and_told(&Database::mariadb().await, writes);
    let tables = "SELECT (SELECT COUNT(*) FROM information_schema.tables
            WHERE table_schema = DATABASE() AND table_name LIKE '%fencing%')
        + (SELECT COUNT(*) FROM information_schema.routines
            WHERE routine_schema = DATABASE() AND routine_name LIKE '%fencing%')";
    is_migrated_as_printed(&Database::mariadb().await, &["mysql:", "mariadb"], tables);
}

#[test]
fn what_is_printed_protects_a_table() {
    let protect = |kind: &str| {
        let table = "--table files --column path --prefix files/ --print";
        ask("", &format!("db protect --database {kind} {table}")).printed()
    };
    let folder = tempfile::tempdir().unwrap();
    let it = Database::sqlite(&folder, "data.db");
    it.done("db migrate");
    it.run("CREATE TABLE files (path TEXT PRIMARY KEY, fencing_token INTEGER)").unwrap();
    it.run(&protect("sqlite:")).unwrap();
    it.run("INSERT INTO files VALUES ('a', 33)").unwrap();
    let words = "token 32 is stale, high water 33, resource files/a";
    it.refuses("UPDATE files SET fencing_token = 32", words);
    for kind in ["postgres:", "mysql:", "postgresql://x/y", "mariadb"] {
        assert!(protect(kind).contains("CREATE TRIGGER"), "{kind}");
    }
}

/// Each program comes with a new connection to the pooler, which gives it a session that others have used.
#[tokio::test]
async fn operators_work_through_a_pooler() {
    let direct = postgres().database().await;
    let pooler = PgBouncer::before(postgres(), 1);
    let url = |options: &PgConnectOptions| {
        let (socket, port) = (options.get_socket().unwrap().display(), options.get_port());
        let database = options.get_database().unwrap();
        format!("postgres://fencing@localhost/{database}?host={socket}&port={port}")
    };
    ask(&url(&direct), "db migrate").is(0);
    let url = url(&pooler.on(direct.get_database().unwrap()));
    let done = |line: &str| ask(&url, line).printed();
    for (name, high, low) in [("a", "34", "33"), ("b", "44", "43")] {
        let raised = done(&format!("db marks raise --resource {name} --token {high} --yes"));
        assert_eq!(raised, format!("{high}\t{name}\n"));
        let lower = format!("db marks lower --resource {name} --from {high} --token {low} --yes");
        assert_eq!(done(&lower), format!("{low}\t{name}\n"));
        assert_eq!(done(&format!("db marks --resource {name}")), format!("{low}\t{name}\n"));
        assert_eq!(done("db marks raise-floor --token 9 --yes"), "the floor is 9 or higher\n");
        done(&format!("run --resource {name} {PATIENT} -- true"));
        done("leases");
    }
    let pruned = done("db marks prune --older-than 0s --yes");
    assert_eq!(pruned, "2 marks removed, floor 43\n");
}

#[tokio::test]
async fn a_table_in_shadow_mode_is_named_until_it_is_protected() {
    let it = Database::postgres().await;
    it.done("db migrate");
    it.run("CREATE TABLE files (path TEXT PRIMARY KEY, body TEXT)").unwrap();
    it.done("db protect --table files --column path --shadow");
    it.run("INSERT INTO files VALUES ('a', 'new')").unwrap();
    let ended = it.ask("db protect --check").says(65, "1 of 1 tables are in shadow mode");
    assert!(ended.stdout.contains("shadow\tfiles\t{path}\n"), "{}", ended.stdout);
    let ended = it.ask("db protect --check --json");
    assert!(ended.stdout.contains("\"shadow\": true"), "{}", ended.stdout);
    it.done("db protect --table files --column path");
    assert!(it.done("db protect --check").starts_with("whole\tfiles\t{path}\n"));
    it.run("INSERT INTO files VALUES ('b', 'new')").unwrap_err();
    for other in ["sqlite:files.db", "mysql://app@db/files"] {
        ask(other, "db protect --table files --column path --shadow --print").says(65, "no triggers in shadow mode");
    }
}

#[test]
fn more_marks_than_fit_one_answer_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let it = Database::sqlite(&folder, "data.db");
    it.done("db migrate");
    let many = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2500)
        INSERT INTO fencing_marks (resource, token) SELECT printf('files/%05d', n), n FROM n";
    it.run(many).unwrap();
    let listed = it.done("db marks");
    assert_eq!(listed.lines().count(), 2500);
    assert_eq!(listed.lines().last(), Some("2500\tfiles/02500"));
}

/// Each question would cost the server a process of its own.
#[tokio::test(flavor = "multi_thread")]
async fn watch_asks_over_the_same_connections() {
    let database = Database::postgres().await;
    database.ask("db migrate").is(0);
    let mut command = fencing(&*database.url, "watch --every 500ms");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut connections = || {
        for part in ["MARKS  0", "LEASES  0", "MARKS  0", "LEASES  0"] {
            assert!(lines.any(|line| line.starts_with(part)));
        }
        let others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
            AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        (database.client)(&format!("{others} ORDER BY pid")).unwrap()
    };
    assert_eq!(connections(), connections());
    drop(lines);
    end(child);
}
