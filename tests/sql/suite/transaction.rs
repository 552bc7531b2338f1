use std::sync::atomic::{AtomicU32, Ordering};

use fencing::sql::Retry;

use super::writers::{Way, Writer};
use super::*;

#[tokio::test]
async fn work_that_fails_is_rolled_back_with_its_mark() {
    let place = ready().await;
    let mut tx = admitted(&place.pool, 33).await;
    write(&mut tx, token(33), "").await.unwrap();
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
    let marks = SqlMarks::new(place.pool.clone());
    // Not `Admit`: a `begin` of the driver that is dropped leaves a transaction open in the pool.
    let ways = [Some(Way::Begin), Some(Way::Guarded), None];
    for (number, way) in (1..80).zip(ways.into_iter().cycle()) {
        let polls = number / 2 + 1;
        if let Some(way) = way {
            drop(poll(polls, Writer::new(way).write(&place.pool, number)).await);
        } else {
            drop(poll(polls, marks.raise(&resource(), token(number))).await);
            drop(poll(polls / 8, sql::highest(&place.pool, &resource())).await);
        }
        raise(&place.other(), &resource(), number).await;
        let (written, late) = file(&place).await;
        assert!(written <= number.cast_signed() && late == 0, "{written}, {late} late");
    }
}

/// The driver would give the connection back in the transaction. Above READ COMMITTED a first contact has two of them.
#[tokio::test]
async fn a_begin_dropped_or_refused_leaves_the_connection_as_it_was() {
    for level in place::DEFAULTS {
        let place = ready().await;
        let single = single(&place.at(level));
        admit(&place, &resource(), 1).await.unwrap();
        let (mut begun, mut refused) = (0, 0);
        for number in 2..40 {
            begun += u32::from(poll(number / 2, begin(&single, number)).await.is_some());
            if let Some(outcome) = poll(number / 2, begin(&single, 1)).await {
                stale(outcome);
                refused += 1;
            }
            raise(&place.other(), &resource(), number).await;
            // What is written alone is written.
            run(&single, &format!("UPDATE files SET token = {number}")).await;
            assert_eq!(file(&place).await.0, number.cast_signed(), "{level}");
        }
        assert!(begun > 0 && refused > 0, "{begun} {refused}");
    }
}

/// A conflict says nothing of the token: a lower one is admitted once it is gone.
#[tokio::test]
async fn a_conflict_is_tried_again_until_it_is_gone_and_a_stale_token_is_not() {
    let place = ready().await;
    let impatient = place.impatient();
    let tries = AtomicU32::new(0);
    let policy = Retry::new().tries(5);
    let again = async |ends, held, asked| {
        let holder = std::sync::Mutex::new(Some(admitted(&place.pool, held).await));
        tries.store(0, Ordering::SeqCst);
        let attempt = || async {
            if tries.fetch_add(1, Ordering::SeqCst) == ends {
                let holder = holder.lock().unwrap().take().unwrap();
                holder.rollback().await?;
            }
            begin(&impatient, asked).await?.rollback().await?;
            Ok::<_, AdmitError>(())
        };
        sql::retry(policy, attempt).await
    };
    again(2, 33, 32).await.unwrap();
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    retryable(again(5, 35, 36).await);
    assert_eq!(tries.load(Ordering::SeqCst), 5);
    // The holder was dropped, and leaves no mark.
    until("it is rolled back", async || admit(&place, &resource(), 34).await.is_ok()).await;
    tries.store(0, Ordering::SeqCst);
    let refused = sql::retry(policy, || async {
        tries.fetch_add(1, Ordering::SeqCst);
        begin(&impatient, 33).await.map(drop)
    });
    stale(refused.await);
    assert_eq!(tries.load(Ordering::SeqCst), 1, "stale is not tried again");
}

#[tokio::test]
async fn the_drivers_own_errors_are_understood() {
    let place = ready().await;
    // Two that write the same row; one of them is in the other's way.
    let _tx = begin(&place.pool, 33).await.unwrap();
    let mut holder = place.other().begin_with(LEVELS[0]).await.unwrap();
    let impatient = place.impatient();
    let error = match write(&mut holder, token(1), "").await {
        // SQLite: the writer is at work.
        Err(error) => error,
        Ok(()) => {
            let mut other = impatient.begin().await.unwrap();
            write(&mut other, token(2), "").await.unwrap_err()
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

/// Both tokens are admitted in the transaction of a request, or neither.
#[tokio::test]
async fn several_resources_are_admitted_in_one_transaction() {
    let place = ready().await;
    let b = named("files/b");
    let begin = async |number, of_b| {
        let both = [own(number), Sequencer::new(b.clone(), token(of_b))];
        Transactions::begin(&place.pool, &both).await
    };
    let marks = async || (highest(&place, &resource()).await, highest(&place, &b).await);
    for (number, commits) in [(7, true), (8, false)] {
        let mut tx = begin(33, number).await.unwrap();
        write(&mut tx, token(number), "").await.unwrap();
        match commits {
            true => <Pool<Db> as Transactions>::commit(tx).await.unwrap(),
            false => <Pool<Db> as Transactions>::rollback(tx).await,
        }
        assert_eq!(file(&place).await, (7, 0));
        assert_eq!(marks().await.0, Some(33));
    }
    // The second is stale, though the first was raised before that.
    let Err(FenceError::Stale(stale)) = begin(34, 6).await else { panic!("begun") };
    assert_eq!(stale.resource, b);
    assert_eq!(marks().await, (Some(34), Some(8)));
}

/// The handler has ended the transaction, or ignored an error. On PostgreSQL a statement that failed leaves nothing to
/// commit, and COMMIT does not say so.
#[tokio::test]
async fn what_is_not_stored_is_not_called_committed() {
    let place = ready().await;
    let twice = "INSERT INTO files VALUES ('files/a', 0, 0)";
    for (statement, number) in [(twice, 33), ("COMMIT", 34)] {
        let mut tx = Transactions::begin(&place.pool, &[own(number)]).await.unwrap();
        write(&mut tx, token(number), "").await.unwrap();
        assert_eq!(attempt(&mut *tx, statement).await.is_err(), statement == twice);
        let committed = <Pool<Db> as Transactions>::commit(tx).await;
        let stored = file(&place).await.0 == number.cast_signed();
        match &committed {
            Ok(()) => assert!(stored && statement == twice),
            Err(CommitError::RolledBack(_)) => assert!(!stored && statement == twice),
            Err(error) => {
                assert!(statement != twice && matches!(error, CommitError::InDoubt(_)), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_pool_without_places_is_called_so() {
    let place = ready().await;
    let options = place.pool.options().clone().max_connections(1).acquire_timeout(Duration::from_millis(200));
    let single = options.connect_lazy_with((*place.pool.connect_options()).clone());
    let _held = loop {
        if let Ok(held) = single.acquire().await {
            break held;
        }
    };
    let marks = SqlMarks::new(single.clone());
    for error in [
        Transactions::begin(&single, &[own(33)]).await.unwrap_err(),
        marks.raise(&resource(), token(33)).await.unwrap_err(),
        marks.highest(&resource()).await.unwrap_err(),
    ] {
        assert!(matches!(error, FenceError::NoConnection(_)), "{error:?}");
    }
}
