//! Users with the rights that docs/sql.md grants, and no others.

use std::sync::OnceLock;
use std::time::Duration;

use fencing::fence::Marks;
use fencing::lock::sql::SqlLock;
use fencing::sql::{self, AdmitError, Protect, Prune, SqlMarks};
use fencing::{Resource, Token};
use sqlx::MySqlPool;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlPoolOptions};
use support::mariadb::MariadbServer;

use super::users::{pool, refused, run};
use crate::common::{documented, resource, stale, token};

const UPDATE: &str = "UPDATE documents SET body = 'new' WHERE path = 'a'";

/// One for all tests here.
static SERVER: OnceLock<MariadbServer> = OnceLock::new();

/// Everybody who has rights in one database.
struct Users {
    owner: MySqlPool,
}

impl Users {
    /// The tables, the users, and what docs/sql.md says, by an owner who has this database and
    /// no other right. The mark of `files/a` is 34.
    async fn granted() -> Users {
        let settings = ["log-bin=log", "log-bin-trust-function-creators=1"];
        let server = SERVER.get_or_init(|| MariadbServer::with(&settings));
        let users = Users { owner: owner(server.database().await).await };
        sql::migrate(&users.owner).await.unwrap();
        let tables = "CREATE TABLE files (path VARCHAR(99) PRIMARY KEY, body TEXT,
                fence_token BIGINT NOT NULL DEFAULT 0);
            CREATE TABLE documents (path VARCHAR(99) PRIMARY KEY, body TEXT);
            CREATE TABLE secrets (secret TEXT);
            INSERT INTO files VALUES ('a', 'old', 0); INSERT INTO documents VALUES ('a', 'old')";
        run(&users.owner, tables).await.unwrap();
        let protect = Protect::rows("documents", "path").unwrap().prefix("files/").unwrap();
        protect.apply(&users.owner).await.unwrap();
        run(&users.owner, &documented("## A mark that is too high")).await.unwrap();
        run(&users.owner, &documented("### On MySQL and MariaDB")).await.unwrap();
        let tx = sql::begin(&users.owner, &resource(), token(34)).await.unwrap();
        tx.commit().await.unwrap();
        users
    }

    fn user(&self, name: &str) -> MySqlPool {
        pool(&self.owner, name)
    }
}

/// Creates the users, and gives one of them all rights in this database.
async fn owner(database: MySqlConnectOptions) -> MySqlPool {
    let name = database.get_database().unwrap().to_owned();
    let admin = MySqlPoolOptions::new().max_connections(1).connect_lazy_with(database);
    // The server takes every user of this machine for the one without a name.
    let nameless = "DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES";
    run(&admin, nameless).await.unwrap();
    for user in ["fence_owner", "app_1", "app_2", "app_3", "app_4", "locks", "operator"] {
        run(&admin, &format!("CREATE USER IF NOT EXISTS {user}")).await.unwrap();
    }
    let all = format!("GRANT ALL ON {name}.* TO fence_owner WITH GRANT OPTION");
    run(&admin, &all).await.unwrap();
    pool(&admin, "fence_owner")
}

/// Access denied: to the database, the table, the column, the procedure, or without a right.
async fn are_denied(pool: &MySqlPool, statements: &[&str]) {
    for statement in statements {
        let error = run(pool, statement).await.expect_err(statement);
        let error = error.as_database_error().unwrap();
        let number = error.downcast_ref::<MySqlDatabaseError>().number();
        assert!([1044, 1142, 1143, 1227, 1370].contains(&number), "{statement}: {error}");
    }
}

/// What nobody may but the owner.
const OWNERS: &[&str] = &[
    "UPDATE fencing_marks SET token = 1",
    "UPDATE fencing_marks_base SET token = 999999999999999",
    "DELETE FROM fencing_marks",
    "INSERT INTO fencing_marks VALUES ('files/x', 999999999999999)",
    "REPLACE INTO fencing_marks_base VALUES ('files/a', 1)",
    "TRUNCATE fencing_marks",
    "DROP TABLE fencing_marks",
    "DROP TRIGGER fencing_marks_lower",
    "INSERT INTO fencing_audit VALUES (1, 'files/a', 34, 1, '', NULL)",
    "DELETE FROM fencing_audit",
    "UPDATE fencing_floor SET token = 0",
    "SELECT * FROM secrets",
    "TRUNCATE files",
    "TRUNCATE documents",
    "DROP TRIGGER fencing_update_documents",
    "CREATE TRIGGER mine BEFORE UPDATE ON documents FOR EACH ROW SET NEW.body = ''",
    "CREATE TEMPORARY TABLE fencing_marks (resource VARBINARY(255), token BIGINT)",
    "CREATE TEMPORARY TABLE fencing_marks_base (resource VARBINARY(255), token BIGINT)",
    "CREATE TABLE mine (a INT)",
    "CREATE PROCEDURE mine() SELECT 1",
    "ALTER PROCEDURE fencing_admit SQL SECURITY INVOKER",
    "DROP PROCEDURE fencing_admit",
    "CALL fencing_check('files/x', '34')",
];

/// A binary log lets few users create triggers.
#[tokio::test]
async fn to_migrate_needs_no_right_beyond_the_database() {
    let server = MariadbServer::with(&["log-bin=log"]);
    let owner = owner(server.database().await).await;
    sql::migrate(&owner).await.unwrap();
    sql::begin(&owner, &resource(), token(34)).await.unwrap().commit().await.unwrap();
    run(&owner, &documented("## A mark that is too high")).await.unwrap_err();
    sql::lower(&owner, &resource(), token(34), token(33)).await.unwrap();
}

#[tokio::test]
async fn what_is_the_owners_nobody_else_may_do() {
    let users = Users::granted().await;
    for name in ["app_1", "app_2", "app_3", "app_4", "locks", "operator"] {
        are_denied(&users.user(name), OWNERS).await;
    }
    let operators = [
        "CALL fencing_lower('files/a', 34, 1)",
        "CALL fencing_raise_floor(34, FALSE)",
        "CALL fencing_prune(0, '', 1)",
        "SELECT * FROM fencing_audit",
    ];
    for name in ["app_1", "app_2", "app_3", "app_4", "locks"] {
        are_denied(&users.user(name), &operators).await;
    }
}

#[tokio::test]
async fn who_begins_only_reads_the_marks() {
    let users = Users::granted().await;
    let pool = users.user("app_1");
    sql::migrate(&pool).await.unwrap();
    for number in [34, 34, 35] {
        let mut tx = sql::begin(&pool, &resource(), token(number)).await.unwrap();
        sqlx::query("UPDATE files SET body = 'new'").execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    }
    stale(sql::begin(&pool, &resource(), token(34)).await);
    let mut tx = pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(37)).await.unwrap();
    tx.commit().await.unwrap();
    let marks = SqlMarks::new(pool.clone());
    marks.raise(&resource(), token(38)).await.unwrap();
    marks.raise(&resource(), token(37)).await.unwrap_err();
    are_denied(&pool, &["UPDATE documents SET body = 'x'", "CALL fencing_hold('files/a', 39, 0)"])
        .await;
}

#[tokio::test]
async fn who_writes_rows_by_predicate_has_those_columns() {
    let users = Users::granted().await;
    let pool = users.user("app_2");
    run(&pool, "UPDATE files SET body = 'x', fence_token = 34 WHERE path = 'a'").await.unwrap();
    let denied = ["DELETE FROM files", "UPDATE files SET path = 'b'", "CALL fencing_admit('x', 1)"];
    are_denied(&pool, &denied).await;
}

#[tokio::test]
async fn who_writes_a_protected_table_needs_a_token_and_no_right_on_the_marks() {
    let users = Users::granted().await;
    let pool = users.user("app_3");
    for write in [UPDATE, "DELETE FROM documents", "REPLACE INTO documents VALUES ('a', '')"] {
        assert_eq!(refused(&pool, write).await, "ZF428");
    }
    for (shown, state) in [("33 files/a", "ZF412"), ("39 files/b", "ZF428")] {
        let write = format!("SET @fencing_sequencer = '{shown}'; {UPDATE}");
        assert_eq!(refused(&pool, &write).await, state, "{shown}");
    }
    for write in [
        format!("SET @fencing_sequencer = '34 files/a'; {UPDATE}"),
        "SET @fencing_sequencer = '1 files/b'; INSERT INTO documents VALUES ('b', '')".into(),
        "SET @fencing_sequencer = '1 files/b'; DELETE FROM documents WHERE path = 'b'".into(),
    ] {
        run(&pool, &write).await.unwrap();
    }
    are_denied(&pool, &["CALL fencing_admit('files/a', 39)", "SELECT * FROM fencing_marks"]).await;
}

#[tokio::test]
async fn who_calls_the_fence_in_sql_needs_no_right_on_the_marks() {
    let users = Users::granted().await;
    let pool = users.user("app_4");
    let write = "START TRANSACTION; CALL fencing_admit('files/a', 39);
        UPDATE files SET body = '4'; COMMIT";
    run(&pool, write).await.unwrap();
    let stale = "START TRANSACTION; CALL fencing_admit('files/a', 38)";
    assert_eq!(refused(&pool, stale).await, "ZF412");
    are_denied(&pool, &["CALL fencing_hold('files/a', 40, NULL)", UPDATE]).await;
}

#[tokio::test]
async fn who_locks_changes_no_mark() {
    let users = Users::granted().await;
    let pool = users.user("locks");
    // As a program does at its start.
    sql::migrate(&pool).await.unwrap();
    let lease = SqlLock::new(pool.clone()).try_acquire(&resource()).await.unwrap();
    assert_eq!(lease.token(), token(35));
    lease.release().await.unwrap();
    let part = SqlLock::new(pool.clone()).try_acquire_shared(&resource()).await.unwrap();
    part.renew().await.unwrap();
    part.release().await.unwrap();
    // Granted last by a server that was lost.
    run(&users.owner, "UPDATE fencing_floor SET server = 77777").await.unwrap();
    let lease = SqlLock::new(pool.clone()).try_acquire(&resource()).await.unwrap();
    assert!(lease.token() > token(1_000_000), "{}", lease.token());
    let denied = ["DELETE FROM fencing_leases", "UPDATE fencing_leases SET token = 1", UPDATE];
    are_denied(&pool, &denied).await;
}

#[tokio::test]
async fn an_operator_takes_a_poisoned_mark_back() {
    let users = Users::granted().await;
    let writer = users.user("app_1");
    sql::begin(&writer, &resource(), Token::MAX).await.unwrap().commit().await.unwrap();
    stale(sql::begin(&writer, &resource(), token(35)).await);
    let error = sql::lower(&writer, &resource(), Token::MAX, token(34)).await.unwrap_err();
    assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
    let operator = users.user("operator");
    assert_eq!(sql::highest(&operator, &resource()).await.unwrap(), Some(Token::MAX));
    sql::lower(&operator, &resource(), Token::MAX, token(34)).await.unwrap();
    sql::begin(&writer, &resource(), token(35)).await.unwrap().commit().await.unwrap();
    let lines = "SELECT resource, to_token, lowered_by FROM fencing_audit";
    let lines = sqlx::query_as::<_, (Vec<u8>, i64, String)>(lines).fetch_all(&operator).await;
    let (name, mark, by) = lines.unwrap().pop().unwrap();
    assert_eq!((name.as_slice(), mark), (b"files/a".as_slice(), 34));
    assert!(by.starts_with("operator@"), "{by}");
    assert_eq!(sql::marks(&operator, &[], 10).await.unwrap().len(), 1);
    let prune = Prune::older_than(Duration::ZERO);
    let error = prune.run(&writer).await.unwrap_err();
    assert!(matches!(error, AdmitError::Database(_) | AdmitError::NotMigrated(_)), "{error:?}");
    assert_eq!(prune.run(&operator).await.unwrap().marks, 1);
    stale(sql::begin(&writer, &resource(), token(35)).await);
    let other = Resource::new("other").unwrap();
    sql::begin(&operator, &other, token(36)).await.unwrap().commit().await.unwrap();
}
