use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencing::sql::Retry;

use super::*;

/// A transaction that writes its token.
async fn fenced(place: &Place, number: u64) -> Result<(), AdmitError> {
    let mut tx = sql::begin(&place.pool, &resource(), token(number)).await?;
    write(&mut tx, token(number)).await?;
    Ok(tx.commit().await?)
}

#[tokio::test]
async fn a_transaction_is_admitted_and_committed() {
    let place = ready().await;
    for number in [33, 33, 34] {
        fenced(&place, number).await.unwrap();
        assert_eq!(file(&place).await, (number.cast_signed(), 0));
        assert_eq!(highest(&place, &resource()).await, Some(number));
    }
    // Often enough that every connection of the pool has refused once.
    for _ in 0..30 {
        let stale = stale(fenced(&place, 33).await);
        assert_eq!((stale.presented, stale.highest), (token(33), token(34)));
        assert_eq!(stale.resource, resource());
    }
    // None of them is left in a transaction: what is written alone is written.
    for number in 35..40_i64 {
        let update = sqlx::query(place::sql("UPDATE files SET token = $1")).bind(number);
        update.execute(&place.pool).await.unwrap();
        let seen = sqlx::query_scalar::<_, i64>("SELECT token FROM files");
        assert_eq!(seen.fetch_one(&place.other()).await.unwrap(), number);
    }
    fenced(&place, 41).await.unwrap();
}

#[tokio::test]
async fn work_that_fails_is_rolled_back_with_its_mark() {
    let place = ready().await;
    let mut tx = place.pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(33)).await.unwrap();
    write(&mut tx, token(33)).await.unwrap();
    let twice = "INSERT INTO files VALUES ('files/a', 0, 0)";
    let error = AdmitError::from(sqlx::query(twice).execute(&mut *tx).await.unwrap_err());
    assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
    let said = error.to_string();
    assert!(said.starts_with("the transaction failed: error returned from database: "), "{said}");
    // A line of the server's own source says nothing to a user.
    assert!(!said.contains(" at line "), "{said}");
    tx.rollback().await.unwrap();
    assert_eq!(file(&place).await, (0, 0));
    assert_eq!(highest(&place, &resource()).await, None);
    admit(&place, &resource(), 1).await.unwrap();
}

#[tokio::test]
async fn a_transaction_dropped_at_any_poll_leaves_no_lock_and_no_half_of_it() {
    let place = ready().await;
    let folded = async |number: u64| {
        let write = sql::guarded(place::GUARDED, "path = 'files/a'");
        let write = write.bind(number.cast_signed()).bind(number.cast_signed());
        let (tx, _) = write.begin(&place.pool, &resource(), token(number)).await?;
        Ok::<_, AdmitError>(tx.commit().await?)
    };
    for polls in 1..80 {
        match polls % 2 {
            0 => crate::common::poll(polls / 2, fenced(&place, polls)).await,
            _ => crate::common::poll(polls / 2 + 1, folded(polls)).await,
        };
        raise(&place.other(), &resource(), polls).await;
        let (written, late) = file(&place).await;
        assert!(written <= polls.cast_signed());
        assert_eq!(late, 0);
    }
}

/// The driver would give the connection back with the transaction open.
#[tokio::test]
async fn a_begin_dropped_or_refused_leaves_the_connection_as_it_was() {
    let place = ready().await;
    let single = single(&place);
    admit(&place, &resource(), 1).await.unwrap();
    let name = resource();
    let (mut begun, mut refused) = (0, 0);
    for number in 2..40 {
        let begin = sql::begin(&single, &name, token(number));
        begun += u32::from(crate::common::poll(number / 2, begin).await.is_some());
        let begin = sql::begin(&single, &name, token(1));
        if let Some(outcome) = crate::common::poll(number / 2, begin).await {
            stale(outcome);
            refused += 1;
        }
        let tx = sql::begin(&place.other(), &resource(), token(number)).await.unwrap();
        tx.commit().await.unwrap();
        // What is written alone is written.
        let update = sqlx::query(place::sql("UPDATE files SET token = $1"));
        update.bind(number.cast_signed()).execute(&single).await.unwrap();
        let seen = sqlx::query_scalar::<_, i64>("SELECT token FROM files");
        assert_eq!(seen.fetch_one(&place.other()).await.unwrap(), number.cast_signed());
    }
    assert!(begun > 0 && refused > 0, "{begun} {refused}");
}

#[tokio::test]
async fn a_conflict_is_tried_again_until_it_is_gone() {
    let place = ready().await;
    let impatient = place.impatient();
    let holder = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let holder = Mutex::new(Some(holder));
    let tries = AtomicU32::new(0);
    let policy = Retry::new().pause(Duration::from_millis(1)).tries(5);
    let done = sql::retry(policy, || async {
        if tries.fetch_add(1, Ordering::SeqCst) == 2 {
            let holder = holder.lock().unwrap().take();
            holder.unwrap().commit().await?;
        }
        sql::begin(&impatient, &resource(), token(34)).await?.commit().await?;
        Ok::<_, AdmitError>(())
    });
    done.await.unwrap();
    assert_eq!(tries.load(Ordering::SeqCst), 3);

    let _holder = sql::begin(&place.pool, &resource(), token(35)).await.unwrap();
    let tries = AtomicU32::new(0);
    let given_up = sql::retry(policy, || async {
        tries.fetch_add(1, Ordering::SeqCst);
        sql::begin(&impatient, &resource(), token(36)).await.map(drop)
    });
    retryable(given_up.await);
    assert_eq!(tries.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn stale_is_not_tried_again() {
    let place = ready().await;
    admit(&place, &resource(), 34).await.unwrap();
    let tries = AtomicU32::new(0);
    let refused = sql::retry(Retry::new(), || async {
        tries.fetch_add(1, Ordering::SeqCst);
        fenced(&place, 33).await
    });
    stale(refused.await);
    assert_eq!(tries.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_drivers_own_errors_are_understood() {
    let place = ready().await;
    // Two that write the same row; one of them is in the other's way.
    let _tx = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let mut holder = place.other().begin_with(LEVELS[0]).await.unwrap();
    let impatient = place.impatient();
    let first = write(&mut holder, token(1)).await;
    let error = match first {
        // SQLite: the writer is at work.
        Err(error) => error,
        Ok(()) => {
            let mut other = impatient.begin().await.unwrap();
            write(&mut other, token(2)).await.unwrap_err()
        }
    };
    assert!(sql::is_retryable(&error), "{error:?}");
    let boxed = std::io::Error::other(AdmitError::from(error));
    assert!(sql::is_retryable(&boxed), "found in the chain");
    assert!(!sql::is_retryable(&sqlx::Error::RowNotFound));
    let error = sqlx::query("SELECT * FROM nowhere").execute(&impatient).await.unwrap_err();
    assert!(!sql::is_retryable(&error));
    // The table of the caller is missing, and not that of the fence.
    let error = AdmitError::from(error);
    assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
}
