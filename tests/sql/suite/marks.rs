use std::sync::Arc;

use fencing::fence::{Marks, MarksError};
use fencing::sql::SqlMarks;

use super::*;

#[tokio::test]
async fn marks_compare_and_raise() {
    let place = ready().await;
    let marks = SqlMarks::new(place.pool.clone());
    for number in [33, 33, 34] {
        marks.raise(&resource(), token(number)).await.unwrap();
        assert_eq!(highest(&place, &resource()).await, Some(number));
    }
    let refused = marks.raise(&resource(), token(33)).await;
    let Err(MarksError::Stale(stale)) = refused else { panic!("{refused:?}") };
    assert_eq!((stale.presented, stale.highest), (token(33), token(34)));
    marks.raise(&Resource::new("files/b").unwrap(), token(1)).await.unwrap();
    // The same marks as those of `admit`.
    crate::common::stale(admit(&place, &resource(), 33).await);
    admit(&place, &resource(), 35).await.unwrap();
    assert!(matches!(marks.raise(&resource(), token(34)).await, Err(MarksError::Stale(_))));
}

#[tokio::test]
async fn marks_raised_by_many_keep_the_highest() {
    let place = ready().await;
    // As two processes would.
    let pools = [place.other(), place.other()];
    let highest_seen = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let tasks = (0..40_u64).map(|number| {
        let marks = SqlMarks::new(pools[usize::from(number % 2 == 0)].clone());
        let number = (number * 7) % 20 + 1;
        let seen = Arc::clone(&highest_seen);
        tokio::spawn(async move {
            let before = seen.load(std::sync::atomic::Ordering::SeqCst);
            match marks.raise(&resource(), token(number)).await {
                Ok(()) => {
                    assert!(number >= before, "{number} passed after {before}");
                    seen.fetch_max(number, std::sync::atomic::Ordering::SeqCst);
                }
                Err(MarksError::Stale(stale)) => assert!(stale.highest.get() > number),
                Err(error) => panic!("{error:?}"),
            }
            number
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(highest(&place, &resource()).await, Some(20));
}

#[tokio::test]
async fn marks_that_are_not_there_are_not_set_up() {
    let place = Place::empty().await;
    let marks = SqlMarks::new(place.pool.clone());
    let error = marks.raise(&resource(), token(1)).await.unwrap_err();
    let MarksError::NotSetUp(source) = error else { panic!("{error:?}") };
    assert!(source.to_string().contains("run fencing::sql::migrate"), "{source}");
    place.pool.close().await;
    let error = marks.clone().raise(&resource(), token(1)).await.unwrap_err();
    assert!(matches!(error, MarksError::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn a_raise_dropped_at_any_poll_leaves_the_marks_usable() {
    let place = ready().await;
    let marks = SqlMarks::new(place.pool.clone());
    for polls in 1..25 {
        crate::common::poll(polls, marks.raise(&resource(), token(polls))).await;
        marks.raise(&resource(), token(polls)).await.unwrap();
    }
}

#[tokio::test]
async fn marks_list_themselves_page_by_page() {
    let place = ready().await;
    for number in 1..=7 {
        let name = Resource::new(format!("files/{number}")).unwrap();
        admit(&place, &name, number).await.unwrap();
    }
    let marks = SqlMarks::new(place.pool.clone());
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = marks.list(after.as_ref(), 3).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        found.extend(page.into_iter().map(|(name, token)| (name.to_string(), token.get())));
    }
    let expected = (1..=7).map(|number| (format!("files/{number}"), number));
    assert!(found.into_iter().eq(expected));
}
