use fencing::{Resource, Token, sql};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use support::polled::polled;

/// No connection is lost, no transaction stays open, and the next caller writes.
#[tokio::test]
async fn begin_admit_and_highest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("files.db");
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    // With one connection to go round, one that is lost is missed.
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    let resource = Resource::new("files/a").unwrap();
    let token = |number| Token::new(number).unwrap();
    let (mut begun, mut admitted, mut read) = (false, false, false);
    for (next, polls) in (1..).zip(0..100) {
        begun |= polled(sql::begin(&pool, &resource, token(next)), polls).await.is_some();
        let mut tx = pool.begin().await.unwrap();
        admitted |= polled(sql::admit(&mut tx, &resource, token(next)), polls).await.is_some();
        drop(tx);
        read |= polled(sql::highest(&pool, &resource), polls).await.is_some();
        let tx = sql::begin(&pool, &resource, token(next)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(sql::highest(&pool, &resource).await.unwrap(), Some(token(next)));
    }
    assert!(begun && admitted && read, "more polls than that");
}
