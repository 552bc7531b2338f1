use super::writers::{WAYS, Way, Writer, waits};
use super::*;

/// Only the mark is in the newer one's way: it writes no row.
#[tokio::test]
async fn a_newer_token_waits_for_one_that_is_paused_after_its_check() {
    for way in WAYS {
        let levels = match way {
            Way::Admit => LEVELS,
            Way::Guarded => place::DEFAULTS,
            _ => &place::DEFAULTS[..1],
        };
        for &level in levels {
            let of_admit = (way == Way::Admit).then_some(level);
            // At its first contact, and with a mark that it has found equal.
            for before in [32, 33] {
                let place = ready_for(way).await;
                let pool = if of_admit.is_some() { place.pool.clone() } else { place.at(level) };
                admit(&place, &resource(), before).await.unwrap();
                let writer = Writer { level: of_admit, ..Writer::new(way) };
                let old = writer.open(&pool, 33).await.unwrap();
                let admitting = Writer { level: of_admit, ..Writer::new(Way::Admit) };
                let newer = async || Ok(admitting.admitted(&pool, 34).await?.commit().await?);
                waits(&place, newer, async { old.commit().await.unwrap() }).await;
                assert_eq!(file(&place).await, (33, 0), "{writer:?}, mark {before}");
                assert_eq!(stale(writer.write(&pool, 33).await).highest, token(34));
            }
        }
    }
}

#[tokio::test]
async fn a_conflict_says_nothing_of_the_token() {
    let place = ready().await;
    let old = admitted(&place.pool, 33).await;
    let bounded = place.impatient();
    retryable(begin(&bounded, 34).await);
    retryable(begin(&bounded, 32).await);
    old.rollback().await.unwrap();
    begin(&bounded, 32).await.unwrap();
}
