//! Users with the rights that docs/reference/sql.md grants, and no others.

use sqlx::pool::PoolOptions;

use super::setup::*;
use super::words;
use super::words::{CALL, grants};

pub const USERS: [&str; 7] = ["fence_owner", "app_1", "app_2", "app_3", "app_4", "locks", "operator"];

/// Writes the protected row whose mark is 34.
pub const UPDATE: &str = "UPDATE documents SET body = 'new' WHERE path = 'a'";

/// A pool of one connection to the same database, as this user.
pub fn pool(like: &Pool<Db>, user: &str) -> Pool<Db> {
    let options = like.connect_options().as_ref().clone().username(user);
    PoolOptions::<Db>::new().max_connections(1).connect_lazy_with(options)
}

async fn refused(pool: &Pool<Db>, statements: &str) -> sqlx::Error {
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(pool).await.map(drop).expect_err(statements)
}

async fn state(pool: &Pool<Db>, statements: &str) -> String {
    refused(pool, statements).await.as_database_error().unwrap().code().unwrap().into_owned()
}

pub async fn are_denied(pool: &Pool<Db>, statements: &[&str]) {
    for statement in statements {
        let error = refused(pool, statement).await;
        assert!(words::is_denied(&error), "{statement}: {error}");
    }
}

/// The tables, the users, and what docs/reference/sql.md says, by an owner who has this database and no other right.
/// The mark of `files/a` is 34. Returns the owner's pool.
pub async fn granted() -> Pool<Db> {
    let owner = words::owner().await;
    sql::migrate(&owner).await.unwrap();
    let tables = "CREATE TABLE files (path VARCHAR(99) PRIMARY KEY, body TEXT, fence_token BIGINT NOT NULL DEFAULT 0);
        CREATE TABLE documents (path VARCHAR(99) PRIMARY KEY, body TEXT);
        CREATE TABLE secrets (secret TEXT);
        INSERT INTO files VALUES ('a', 'old', 0); INSERT INTO documents VALUES ('a', 'old')";
    run(&owner, tables).await;
    by_path("documents").apply(&owner).await.unwrap();
    run(&owner, &grants()).await;
    raise(&owner, &resource(), 34).await;
    owner
}

/// What only the owner may do; `words::OWNERS` has more.
const OWNERS: &[&str] = &[
    "UPDATE fencing_marks SET token = 1",
    "DELETE FROM fencing_marks",
    "INSERT INTO fencing_marks VALUES ('files/x', 999999999999999)",
    "TRUNCATE fencing_marks",
    "DELETE FROM fencing_audit",
    "UPDATE fencing_floor SET token = 0",
    "SELECT * FROM secrets",
    "TRUNCATE files",
    "TRUNCATE documents",
];

#[tokio::test]
async fn what_is_the_owners_nobody_else_may_do() {
    let owner = granted().await;
    let lower = format!("{CALL} fencing_lower('files/a', 34, 1)");
    let prune = format!("{CALL} fencing_prune(0, '', 1)");
    for name in &USERS[1..] {
        let user = pool(&owner, name);
        let may_not_check = <Db as sqlx::Database>::NAME == "MySQL" && ["app_2", "app_3"].contains(name);
        // As `fencing doctor` does.
        assert_eq!(sql::check(&user).await.is_ok(), !may_not_check, "{name}");
        are_denied(&user, OWNERS).await;
        are_denied(&user, words::OWNERS).await;
        if *name != "operator" {
            are_denied(&user, &[&*lower, &*prune, words::RAISE_FLOOR, "SELECT * FROM fencing_audit"]).await;
        }
    }
}

#[tokio::test]
async fn who_begins_changes_no_mark_by_hand() {
    let pool = pool(&granted().await, "app_1");
    sql::migrate(&pool).await.unwrap();
    for number in [34, 34, 35] {
        let mut tx = sql::begin(&pool, &resource(), token(number)).await.unwrap();
        run(&mut *tx, "UPDATE files SET body = 'new'").await;
        tx.commit().await.unwrap();
    }
    stale(sql::begin(&pool, &resource(), token(34)).await);
    let mut tx = admitted(&pool, 37).await;
    stale(sql::admit(&mut tx, &resource(), token(36)).await);
    tx.commit().await.unwrap();
    let marks = SqlMarks::new(pool.clone());
    marks.raise(&resource(), token(38)).await.unwrap();
    marks.raise(&resource(), token(37)).await.unwrap_err();
    assert_eq!(sql::highest(&pool, &resource()).await.unwrap(), Some(token(38)));
    are_denied(&pool, &["UPDATE documents SET body = 'x'", words::HOLD]).await;
}

#[tokio::test]
async fn who_writes_rows_by_predicate_has_those_columns() {
    let pool = pool(&granted().await, "app_2");
    run(&pool, "UPDATE files SET body = 'x', fence_token = 34 WHERE path = 'a'").await;
    let admit = format!("{CALL} fencing_admit('x', 1)");
    are_denied(&pool, &["DELETE FROM files", "UPDATE files SET path = 'b'", &admit]).await;
}

#[tokio::test]
async fn who_writes_a_protected_table_needs_a_token_and_no_right_on_the_marks() {
    let owner = granted().await;
    for first in words::SESSIONS {
        let pool = pool(&owner, "app_3");
        run(&pool, first).await;
        let presented = |shown: &str, write: &str| format!("{}; {write}", words::present(shown));
        for (write, expected) in [
            (UPDATE.to_owned(), "ZF428"),
            ("DELETE FROM documents".to_owned(), "ZF428"),
            (presented("33 files/a", UPDATE), "ZF412"),
            (presented("39 files/b", UPDATE), "ZF428"),
        ] {
            assert_eq!(state(&pool, &write).await, expected, "{write}");
        }
        run(&pool, &presented("34 files/a", UPDATE)).await;
        for write in ["INSERT INTO documents VALUES ('b', '')", "DELETE FROM documents WHERE path = 'b'"] {
            run(&pool, &presented("1 files/b", write)).await;
        }
        are_denied(&pool, words::WRITERS_MAY_NOT).await;
    }
    assert_eq!(sql::highest(&owner, &resource()).await.unwrap(), Some(token(34)));
}

#[tokio::test]
async fn who_calls_the_fence_in_sql_needs_no_right_on_the_marks() {
    let pool = pool(&granted().await, "app_4");
    let admit = |number| format!("BEGIN; {CALL} fencing_admit('files/a', {number})");
    run(&pool, &format!("{}; UPDATE files SET body = '4'; COMMIT", admit(39))).await;
    assert_eq!(state(&pool, &admit(38)).await, "ZF412");
    run(&pool, "ROLLBACK").await;
    are_denied(&pool, &[words::OTHER_CALL, UPDATE]).await;
}

#[tokio::test]
async fn who_locks_changes_no_mark() {
    let owner = granted().await;
    let pool = pool(&owner, "locks");
    // As a program does at its start. It sees no other procedures, which does not mean that they are lost.
    sql::migrate(&pool).await.unwrap();
    let lock = lock(&pool);
    let lease = lock.try_acquire(&resource()).await.unwrap();
    assert_eq!(lease.token(), token(35));
    lease.release().await.unwrap();
    let part = lock.try_acquire_shared(&resource()).await.unwrap();
    part.renew().await.unwrap();
    part.release().await.unwrap();
    // Granted last by a server that was lost. The next lease raises the floor, and a question about health does not.
    run(&owner, words::OTHER_SERVER).await;
    let floor = async || number(&owner, "SELECT token FROM fencing_floor").await;
    let before = floor().await;
    assert!(lock.health().await.has_quorum());
    assert_eq!(floor().await, before);
    let lease = lock.try_acquire(&resource()).await.unwrap();
    assert!(lease.token() > token(1_000_000), "{}", lease.token());
    are_denied(&pool, &["DELETE FROM fencing_leases", words::CHANGE_LEASES, UPDATE]).await;
    // The applied one is another, and that is for somebody else to put right.
    run(&owner, "UPDATE _fencing_migrations SET checksum = ''").await;
    sql::migrate(&pool).await.unwrap_err();
}

#[tokio::test]
async fn an_operator_takes_a_poisoned_mark_back() {
    let owner = granted().await;
    let writer = pool(&owner, "app_1");
    raise(&writer, &resource(), Token::MAX.get()).await;
    stale(sql::begin(&writer, &resource(), token(35)).await);
    let error = sql::lower(&writer, &resource(), Token::MAX, token(34)).await.unwrap_err();
    assert!(matches!(error, AdmitError::Denied(_)), "{error:?}");
    let operator = pool(&owner, "operator");
    assert_eq!(sql::highest(&operator, &resource()).await.unwrap(), Some(Token::MAX));
    sql::lower(&operator, &resource(), Token::MAX, token(34)).await.unwrap();
    raise(&writer, &resource(), 35).await;
    let lines = "SELECT to_token, lowered_by FROM fencing_audit WHERE resource = 'files/a'";
    let lines = sqlx::query_as::<_, (i64, String)>(lines).fetch_all(&operator).await.unwrap();
    assert!(matches!(&lines[..], [(34, by)] if by.starts_with("operator")), "{lines:?}");
    assert_eq!(sql::marks(&operator, &[], 10).await.unwrap().len(), 1);
    let prune = Prune::older_than(Duration::ZERO);
    let error = prune.run(&writer).await.unwrap_err();
    assert!(matches!(error, AdmitError::Denied(_) | AdmitError::Database(_) | AdmitError::NotMigrated(_)), "{error:?}");
    assert_eq!(prune.run(&operator).await.unwrap().marks, 1);
    stale(sql::begin(&writer, &resource(), token(35)).await);
    raise(&operator, &Resource::new("other").unwrap(), 36).await;
}
