//! Users with the rights that docs/sql.md grants, and no others.

use std::sync::OnceLock;
use std::time::Duration;

use fencing::fence::Marks;
use fencing::lock::sql::SqlLock;
use fencing::sql::{self, AdmitError, Protect, Prune, SqlMarks};
use fencing::{Resource, Token};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use support::postgres::PostgresServer;

use super::users::{pool, refused, run};
use crate::common::{documented, resource, stale, token};

const UPDATE: &str = "UPDATE documents SET body = 'new' WHERE path = 'a'";

/// One for all tests here.
static SERVER: OnceLock<PostgresServer> = OnceLock::new();

/// Everybody who has rights in one database.
struct Users {
    owner: PgPool,
}

impl Users {
    /// The tables, the users, and what docs/sql.md says, all by an owner who is no superuser.
    /// The mark of `files/a` is 34.
    async fn granted() -> Users {
        let server =
            SERVER.get_or_init(|| PostgresServer::with(&["fsync=off", "lock_timeout=20s"]));
        let database = server.database().await;
        let name = database.get_database().unwrap().to_owned();
        let admin = PgPoolOptions::new().max_connections(1).connect_lazy_with(database);
        for user in ["fence_owner", "app_1", "app_2", "app_3", "app_4", "locks", "operator"] {
            let create = format!(
                "DO $$ BEGIN CREATE ROLE {user} LOGIN; \
                 EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$"
            );
            run(&admin, &create).await.unwrap();
        }
        run(&admin, &format!("ALTER DATABASE {name} OWNER TO fence_owner")).await.unwrap();
        // As it is before version 15.
        run(&admin, "GRANT CREATE ON SCHEMA public TO PUBLIC").await.unwrap();
        let users = Users { owner: pool(&admin, "fence_owner") };
        sql::migrate(&users.owner).await.unwrap();
        let tables = "CREATE TABLE files (path text PRIMARY KEY, body text,
                fence_token bigint NOT NULL DEFAULT 0);
            CREATE TABLE documents (path text PRIMARY KEY, body text);
            CREATE TABLE secrets (secret text);
            INSERT INTO files VALUES ('a', 'old'); INSERT INTO documents VALUES ('a', 'old')";
        run(&users.owner, tables).await.unwrap();
        let protect = Protect::rows("documents", "path").unwrap().prefix("files/").unwrap();
        protect.apply(&users.owner).await.unwrap();
        run(&users.owner, &documented("### On PostgreSQL")).await.unwrap();
        let tx = sql::begin(&users.owner, &resource(), token(34)).await.unwrap();
        tx.commit().await.unwrap();
        users
    }

    fn user(&self, name: &str) -> PgPool {
        pool(&self.owner, name)
    }
}

async fn are_denied(pool: &PgPool, statements: &[&str]) {
    for statement in statements {
        assert_eq!(refused(pool, statement).await, "42501", "{statement}");
    }
}

/// What nobody may but the owner.
const OWNERS: &[&str] = &[
    "UPDATE fencing_marks SET token = 1",
    "UPDATE fencing_marks SET token = 999999999999999",
    "DELETE FROM fencing_marks",
    "INSERT INTO fencing_marks VALUES ('files/x', 999999999999999)",
    "TRUNCATE fencing_marks",
    "ALTER TABLE fencing_marks DISABLE TRIGGER USER",
    "DROP TRIGGER fencing_marks_lower ON fencing_marks",
    "INSERT INTO fencing_audit (resource, from_token, to_token) VALUES ('files/a', 34, 1)",
    "DELETE FROM fencing_audit",
    "SELECT * FROM fencing_floor",
    "UPDATE fencing_floor SET token = 0",
    "ALTER TABLE fencing_floor DISABLE TRIGGER USER",
    "SELECT * FROM secrets",
    "TRUNCATE files",
    "TRUNCATE documents",
    "ALTER TABLE documents DISABLE TRIGGER USER",
    "DROP TRIGGER fencing_protect ON documents",
    "SET session_replication_role = replica",
    "SET ROLE fence_owner",
    "CREATE TABLE public.mine (a int)",
    "CREATE FUNCTION public.fencing_check(varchar) RETURNS void LANGUAGE sql AS ''",
    "ALTER FUNCTION fencing_admit SECURITY INVOKER",
    "SELECT fencing_hold('files/x', 34, true)",
    "SELECT fencing_present('34'); SELECT fencing_check('files/x')",
    "CREATE TEMPORARY TABLE mine (path text);
        CREATE TRIGGER mine BEFORE INSERT ON mine FOR EACH ROW
        EXECUTE FUNCTION fencing_protect('path', '')",
];

#[tokio::test]
async fn what_is_the_owners_nobody_else_may_do() {
    let users = Users::granted().await;
    for name in ["app_1", "app_2", "app_3", "app_4", "locks", "operator"] {
        are_denied(&users.user(name), OWNERS).await;
    }
    let operators = [
        "SELECT fencing_lower('files/a', 34, 1)",
        "SELECT fencing_raise_floor(34)",
        "SELECT fencing_prune(0, '', 1)",
        "SELECT * FROM fencing_audit",
    ];
    for name in ["app_1", "app_2", "app_3", "app_4", "locks"] {
        are_denied(&users.user(name), &operators).await;
    }
    for name in ["app_1", "app_2", "app_3", "app_4"] {
        are_denied(&users.user(name), &["SELECT * FROM fencing_marks"]).await;
    }
}

#[tokio::test]
async fn who_begins_needs_no_right_on_the_marks() {
    let users = Users::granted().await;
    let pool = users.user("app_1");
    sql::migrate(&pool).await.unwrap();
    for number in [34, 34, 35] {
        let mut tx = sql::begin(&pool, &resource(), token(number)).await.unwrap();
        sqlx::query("UPDATE files SET body = 'new'").execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    }
    let level = [("default_transaction_isolation", "serializable")];
    let options = pool.connect_options().as_ref().clone().options(level);
    let serializable = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    sql::begin(&serializable, &resource(), token(36)).await.unwrap().commit().await.unwrap();
    stale(sql::begin(&serializable, &resource(), token(35)).await);
    let mut tx = pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(37)).await.unwrap();
    stale(sql::admit(&mut tx, &resource(), token(36)).await);
    tx.commit().await.unwrap();
    let marks = SqlMarks::new(pool.clone());
    marks.raise(&resource(), token(38)).await.unwrap();
    marks.raise(&resource(), token(37)).await.unwrap_err();
    assert_eq!(sql::highest(&pool, &resource()).await.unwrap(), Some(token(38)));
    are_denied(&pool, &["UPDATE documents SET body = 'x'", "SELECT fencing_hold('x', 1, true)"])
        .await;
}

#[tokio::test]
async fn who_writes_rows_by_predicate_has_those_columns() {
    let users = Users::granted().await;
    let pool = users.user("app_2");
    run(&pool, "UPDATE files SET body = 'x', fence_token = 34 WHERE path = 'a'").await.unwrap();
    let denied =
        ["DELETE FROM files", "UPDATE files SET path = 'b'", "SELECT fencing_admit('x', 1)"];
    are_denied(&pool, &denied).await;
}

#[tokio::test]
async fn who_writes_a_protected_table_needs_a_token_and_no_right_on_the_marks() {
    let users = Users::granted().await;
    let shadow = "CREATE TEMPORARY TABLE fencing_marks (resource text, token bigint)";
    for first in ["SELECT 1", shadow] {
        let pool = users.user("app_3");
        run(&pool, first).await.unwrap();
        assert_eq!(refused(&pool, UPDATE).await, "ZF428");
        assert_eq!(refused(&pool, "DELETE FROM documents").await, "ZF428");
        for (shown, state) in [("33 files/a", "ZF412"), ("39 files/b", "ZF428"), ("33", "ZF412")] {
            let write = format!("SELECT fencing_present('{shown}'); {UPDATE}");
            assert_eq!(refused(&pool, &write).await, state, "{shown}");
        }
        let write = format!("SELECT fencing_present('34 files/a'); {UPDATE}");
        run(&pool, &write).await.unwrap();
        let write = "SET LOCAL fencing.sequencer = '1 files/b';
            INSERT INTO documents VALUES ('b', ''); DELETE FROM documents WHERE path = 'b'";
        run(&pool, &format!("BEGIN; {write}; COMMIT")).await.unwrap();
        let calls =
            ["SELECT fencing_admit('files/a', 39)", "SELECT fencing_compare('files/a', 39)"];
        are_denied(&pool, &calls).await;
    }
    assert_eq!(sql::highest(&users.owner, &resource()).await.unwrap(), Some(token(34)));
}

#[tokio::test]
async fn who_calls_the_fence_in_sql_needs_no_right_on_the_marks() {
    let users = Users::granted().await;
    let pool = users.user("app_4");
    let write = "BEGIN; SELECT fencing_admit('files/a', 39); UPDATE files SET body = '4'; COMMIT";
    run(&pool, write).await.unwrap();
    assert_eq!(refused(&pool, "SELECT fencing_admit('files/a', 38)").await, "ZF412");
    are_denied(&pool, &["CALL fencing_begin('files/a', 40)", UPDATE]).await;
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
    are_denied(&pool, &["DELETE FROM fencing_leases", "TRUNCATE fencing_leases", UPDATE]).await;
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
    let lines = sqlx::query_as::<_, (String, i64, String)>(lines).fetch_all(&operator).await;
    assert_eq!(lines.unwrap(), [("files/a".to_owned(), 34, "operator".to_owned())]);
    assert_eq!(sql::marks(&operator, &[], 10).await.unwrap().len(), 1);
    let prune = Prune::older_than(Duration::ZERO);
    let error = prune.run(&writer).await.unwrap_err();
    assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
    assert_eq!(prune.run(&operator).await.unwrap().marks, 1);
    stale(sql::begin(&writer, &resource(), token(35)).await);
    let other = Resource::new("other").unwrap();
    sql::begin(&operator, &other, token(36)).await.unwrap().commit().await.unwrap();
}

/// With the rights of docs/sql.md, and with none at all on the fence.
#[tokio::test]
async fn in_shadow_mode_nobody_is_refused_for_want_of_a_right() {
    let users = Users::granted().await;
    let protect = Protect::rows("documents", "path").unwrap().prefix("files/").unwrap();
    protect.shadow().apply(&users.owner).await.unwrap();
    let presented = |number| format!("SELECT fencing_present('{number} files/a'); {UPDATE}");
    let app = users.user("app_3");
    for write in [UPDATE.to_owned(), presented(33), presented(35)] {
        run(&app, &write).await.unwrap();
    }
    let causes = async || {
        let all = sql::refusals(&users.owner).await.unwrap();
        all.into_iter().map(|own| (own.cause, own.writer)).collect::<Vec<_>>()
    };
    let owned = |cause: &str| (cause.to_owned(), "app_3".to_owned());
    assert_eq!(causes().await, [owned("unpresented"), owned("stale")]);
    assert_eq!(sql::highest(&users.owner, &resource()).await.unwrap(), Some(token(35)));
    let invoker =
        "ALTER FUNCTION fencing_protect_shadow SECURITY INVOKER; DELETE FROM fencing_refusals";
    run(&users.owner, invoker).await.unwrap();
    run(&app, UPDATE).await.unwrap();
    assert_eq!(causes().await, [], "it may not even tell");
    run(&users.owner, "GRANT EXECUTE ON FUNCTION fencing_note TO PUBLIC").await.unwrap();
    run(&app, UPDATE).await.unwrap();
    assert_eq!(causes().await, [owned("failed")]);
    are_denied(&app, &["DELETE FROM fencing_refusals", "SELECT * FROM fencing_refusals"]).await;
}
