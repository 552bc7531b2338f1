//! Two writers with neighbouring tokens, round after round: fenced in the same way at every isolation level, and in
//! different ways, which lock in different orders, the mark first, or the row.

use super::writers::Way::*;
use super::writers::{WAYS, Way, Writer, waits};
use super::*;

/// Plays two writers at every level, each time on a table of their own, which `table` makes: a pool for the writers,
/// and one that sees what they did. Without a fence some write must land on top of a newer token's.
pub async fn no_stale_write_is_accepted<T>(
    plays: &[(Way, bool)],
    table: impl AsyncFn(bool) -> (T, Pool<Db>, Pool<Db>),
) {
    for &level in LEVELS {
        for &(way, protected) in plays.iter().chain([&(Unfenced, false)]) {
            // That begins at the default level.
            if way == Begin && level != LEVELS[0] {
                continue;
            }
            let writer = Writer { way, level: Some(level), protected };
            let play = async |rounds| {
                let (_alive, pool, look) = table(protected).await;
                let before = sql::highest(&look, &resource()).await.unwrap().map_or(0, Token::get);
                let refused = refused(rounds, async |number| writer.write(&pool, before + number).await).await;
                let late = number(&look, "SELECT late FROM files").await;
                println!("{writer:?}: {rounds} rounds, {refused} refused, {late} stale writes");
                late
            };
            if way == Unfenced {
                until("a stale write lands", async || play(100).await > 0).await;
            } else {
                assert_eq!(play(rounds()).await, 0, "{writer:?}");
            }
        }
    }
}

#[tokio::test]
async fn no_stale_write_is_accepted_at_any_level() {
    let plays = [(Admit, false), (Admit, true), (Present, true), (Begin, false), (Begin, true)];
    let table = async |protected| {
        let place = ready_for(if protected { Present } else { Unfenced }).await;
        let pool = place.pool.clone();
        (place, pool.clone(), pool)
    };
    no_stale_write_is_accepted(&plays, table).await;
}

/// Which ways may meet on one table.
fn meetings(protected: bool) -> impl Iterator<Item = (Way, Way)> {
    const WAYS: [Way; 6] = [Admit, Begin, Layer, Present, Guarded, Xa];
    let pairs = WAYS.iter().flat_map(|old| WAYS.iter().map(|new| (*old, *new)));
    pairs.filter(move |(old, new)| {
        let meets = |way| *old == way || *new == way;
        (old != new || *old == Guarded)
            && meets(Guarded) != protected
            && !(meets(Guarded) && meets(Present))
            && (place::XA || !meets(Xa))
    })
}

/// `FENCING_ROUNDS` sets the rounds of twelve meetings.
#[tokio::test]
async fn writers_that_are_fenced_in_different_ways_refuse_each_other() {
    let rounds = rounds().div_ceil(12);
    let (open, closed) = (ready().await, ready_for(Present).await);
    let (mut played, mut late_tokens) = (0, 0);
    for &level in place::DEFAULTS {
        for (place, protected) in [(&open, false), (&closed, true)] {
            let pool = place.at(level);
            for (old, new) in meetings(protected) {
                late_tokens += refused(rounds, async |number| {
                    let way = if number % 2 == 1 { old } else { new };
                    Writer { way, level: None, protected }.write(&pool, number + 2 * played).await
                })
                .await;
                played += rounds;
                assert_eq!(file(place).await.1, 0, "{level}: {old:?} beside {new:?}");
            }
        }
    }
    println!("{played} rounds, {late_tokens} refused");
    assert!(late_tokens > 0, "nothing stale was attempted");
}

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
