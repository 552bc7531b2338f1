//! Whose share of a mark lasts: of writers with equal tokens, in XA, and outside of a transaction.

use super::setup::*;

async fn ready() -> Place {
    with("CREATE TABLE shop (id INT PRIMARY KEY, n INT NOT NULL); INSERT INTO shop VALUES (1, 0), (2, 0)").await
}

/// A statement that fires triggers locked the mark as a writer does, and waited for every other share of it.
#[tokio::test]
async fn equal_tokens_write_rows_of_a_protected_table_side_by_side() {
    let place = ready().await;
    Protect::whole("shop", resource()).unwrap().apply(&place.pool).await.unwrap();
    let own = Sequencer::new(resource(), token(33));
    // Whoever waits for the other fails.
    let pool = place.impatient();
    let mut one = sql::begin(&pool, &own.resource, own.token).await.unwrap();
    let mut two = sql::begin(&pool, &own.resource, own.token).await.unwrap();
    for (tx, row) in [(&mut one, "1"), (&mut two, "2")] {
        sql::present(tx, &own).await.unwrap();
        let write = sqlx::query("UPDATE shop SET n = n + 1 WHERE id = ?").bind(row);
        write.execute(&mut **tx).await.unwrap();
    }
    one.commit().await.unwrap();
    two.commit().await.unwrap();
}

/// XA PREPARE gives up locks that are shared: 34 was admitted while 33 could still commit.
#[tokio::test]
async fn a_prepared_transaction_keeps_newer_tokens_out() {
    let place = ready().await;
    // In the first round the token is new, in the others its mark is raised already. Each changes the row: PREPARE
    // gives up nothing of a transaction that has changed none.
    for branch in ["one", "two", "three"] {
        let mut old = place.pool.acquire().await.unwrap();
        let level = if branch == "two" { "REPEATABLE READ" } else { "READ COMMITTED" };
        let xa = format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL {level}; XA START '{branch}'; CALL fencing_admit('files/a', 33); UPDATE shop SET n = n + 1 WHERE id = 1;
            XA END '{branch}'; XA PREPARE '{branch}'"
        );
        old.execute(raw_sql(sqlx::AssertSqlSafe(xa))).await.unwrap();
        retryable(begin(&place.impatient(), 34).await);
        old.execute(raw_sql(sqlx::AssertSqlSafe(format!("XA COMMIT '{branch}'")))).await.unwrap();
    }
    raise(&place.pool, &resource(), 34).await;
}

/// In its snapshot the mark is older than its token; a rival with that token raised it since, and a prune the floor.
#[tokio::test]
async fn a_prepared_transaction_keeps_newer_tokens_out_whatever_its_snapshot_is() {
    let place = ready().await;
    raise(&place.pool, &resource(), 32).await;
    let mut old = place.pool.acquire().await.unwrap();
    old.execute(raw_sql("XA START 'old'; SELECT * FROM shop")).await.unwrap();
    raise(&place.pool, &resource(), 33).await;
    sql::raise_floor(&place.pool, token(40)).await.unwrap();
    let rest =
        "CALL fencing_admit('files/a', 33); UPDATE shop SET n = n + 1 WHERE id = 1; XA END 'old'; XA PREPARE 'old'";
    old.execute(raw_sql(rest)).await.unwrap();
    retryable(begin(&place.impatient(), 41).await);
    old.execute(raw_sql("XA COMMIT 'old'")).await.unwrap();
    raise(&place.pool, &resource(), 41).await;
}

/// A client with another character set would have marks of its own.
#[tokio::test]
async fn a_name_that_is_not_utf8_is_refused() {
    let place = ready().await;
    let mut other = place.pool.acquire().await.unwrap();
    for (names, is_utf8) in [("utf8mb4", true), ("latin1", false)] {
        // Its bytes, as that client sends them.
        let name = if is_utf8 { "x'66696c65732fc3a9'" } else { "x'66696c65732fe9'" };
        let admit = format!(
            "SET NAMES {names}; START TRANSACTION; CALL fencing_admit({name}, 41); ROLLBACK; SET NAMES utf8mb4"
        );
        let admitted = other.execute(raw_sql(sqlx::AssertSqlSafe(admit))).await;
        assert_eq!(admitted.is_ok(), is_utf8, "{names}: {admitted:?}");
        if let Err(error) = admitted {
            assert!(error.to_string().contains("is not UTF-8"), "{error}");
        }
    }
}

#[tokio::test]
async fn an_admission_without_a_transaction_or_below_lock_tables_is_an_error() {
    let place = ready().await;
    let mut alone = place.pool.acquire().await.unwrap();
    let error = alone.execute("CALL fencing_admit('files/a', 33)").await.unwrap_err().to_string();
    assert!(error.contains("no transaction is open"), "{error}");
    assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), None);
    // Without autocommit the admission begins one.
    let open = "SET autocommit = 0; CALL fencing_admit('files/a', 33); SELECT @@in_transaction";
    let open = alone.fetch_one(raw_sql(open)).await.unwrap();
    assert_eq!(open.get::<u64, _>(0), 1);
    // The database names a view of the fence, which the user has never seen.
    let mut locked = place.pool.acquire().await.unwrap();
    let admit = "SET autocommit = 0; LOCK TABLES shop WRITE; CALL fencing_admit('files/a', 33)";
    let error = AdmitError::from(locked.execute(admit).await.unwrap_err()).to_string();
    assert!(error.ends_with("was not locked with LOCK TABLES: run UNLOCK TABLES first"), "{error}");
}
