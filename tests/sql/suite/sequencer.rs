//! A token together with its resource, presented to protected tables.

use super::foreign::is_refused;
use super::*;

fn pair(text: &str) -> Sequencer {
    text.parse().unwrap()
}

/// Two protected tables. In `documents` the mark of `a` is 34, that of `b` is 5.
async fn protected() -> Place {
    let place = with(DOCUMENTS).await;
    // No key: on MySQL one takes two of the names for one, and refuses a row before the fence does.
    run(&place.pool, "CREATE TABLE papers (path VARCHAR(255) NOT NULL, body TEXT)").await;
    Protect::rows("documents", "path").unwrap().prefix("docs/").unwrap().apply(&place.pool).await.unwrap();
    Protect::rows("papers", "path").unwrap().apply(&place.pool).await.unwrap();
    place.client(&place::insert(Some("34 docs/a"), "a", "a by 34")).unwrap();
    place.client(&place::insert(Some("5 docs/b"), "b", "b by 5")).unwrap();
    place
}

/// Inserts a row of `papers`. Where the write itself presents, this one does.
async fn insert(tx: &mut Transaction<'_, Db>, path: &str, shown: &str) -> Result<(), AdmitError> {
    Ok(sqlx::query(place::PRESENTED).bind(path).bind(shown).execute(&mut **tx).await.map(drop)?)
}

async fn write(pool: &Pool<Db>, sequencer: &Sequencer, path: &str) -> Result<(), AdmitError> {
    let mut tx = sql::begin(pool, &sequencer.resource, sequencer.token).await?;
    let written = async {
        sql::present(&mut tx, sequencer).await?;
        insert(&mut tx, path, &sequencer.to_string()).await
    };
    let written = written.await;
    end(tx, written).await
}

#[tokio::test]
async fn the_token_of_one_resource_writes_no_row_of_another() {
    let place = protected().await;
    for write in [
        place::update(Some("34 docs/a"), "b", "by the holder of a"),
        place::delete(Some("34 docs/a"), "b"),
        place::rename(Some("34 docs/a"), "a", "b2"),
        place::insert(Some("34 docs/a"), "b2", "by the holder of a"),
    ] {
        let words = "fencing: no token presented, but the sequencer 34 docs/a of another \
            resource, high water ";
        let said = is_refused(&place, &write, words, "ZF428");
        assert!(said.contains(", resource docs/b"), "{said}");
    }
    // The rightful holder goes on.
    place.client(&place::update(Some("6 docs/b"), "b", "b by 6")).unwrap();
    place.client(&place::update(Some("34 docs/a"), "a", "a again")).unwrap();
    assert_eq!(bodies(&place).await, ["a again", "b by 6"]);
    let words = "token 5 is stale, high water 6, resource docs/b";
    is_refused(&place, &place::update(Some("5 docs/b"), "b", "stale"), words, "ZF412");
    // A token alone counts everywhere, as before.
    place.client(&place::update(Some("34"), "b", "b by 34")).unwrap();
    place.client(&place::delete(Some("34 docs/b"), "b")).unwrap();
    assert_eq!(bodies(&place).await, ["a again"]);
}

#[tokio::test]
async fn a_malformed_pair_is_refused() {
    let place = protected().await;
    for bad in ["", " 35", "x", "0", "035", "3.5", "+35", "35x", "1000000000000000", "docs/a 35 "] {
        let bad = &*format!("{bad} docs/a");
        is_refused(&place, &place::update(Some(bad), "a", "bad"), "fencing: ", "ZF400");
    }
    assert_eq!(bodies(&place).await, ["a by 34", "b by 5"]);
}

#[tokio::test]
async fn names_are_compared_as_bytes() {
    let place = protected().await;
    let long = format!("{}x", "ä".repeat(127));
    for name in ["it's \"all\" `of` \\ it; --", "34 docs/a", "@1 34 x", "x%s $1 ? x", "ä", &long] {
        let own = Sequencer::new(named(name), token(34));
        write(&place.pool, &own, name).await.unwrap();
        stale(write(&place.pool, &Sequencer::new(own.resource, token(33)), name).await);
    }
    for (name, other) in
        [("b", "B"), ("a", "ä"), ("c", "c b"), ("c b", "c"), ("c", "c%"), (&format!("y{}", &long[..254]), &long)]
    {
        unpresented(write(&place.pool, &Sequencer::new(named(other), token(40)), name).await);
    }
}

#[tokio::test]
async fn a_transaction_presents_one_pair_after_the_other() {
    let place = protected().await;
    let (one, two) = (pair("34 one"), pair("7 two"));
    let mut tx = sql::begin(&place.pool, &one.resource, one.token).await.unwrap();
    sql::admit(&mut tx, &two.resource, two.token).await.unwrap();
    for (sequencer, path) in [(&one, "one"), (&two, "two")] {
        sql::present(&mut tx, sequencer).await.unwrap();
        insert(&mut tx, path, &sequencer.to_string()).await.unwrap();
    }
    tx.commit().await.unwrap();
    for (name, mark) in [("one", 34), ("two", 7)] {
        assert_eq!(highest(&place, &named(name)).await, Some(mark));
    }
    // The last one counts, and no other.
    let mut tx = place.pool.begin().await.unwrap();
    for sequencer in [&one, &two] {
        sql::present(&mut tx, sequencer).await.unwrap();
    }
    unpresented(insert(&mut tx, "one again", "7 two").await);
}

/// A pool hands the session on to the next, who presents nothing.
#[tokio::test]
async fn what_was_presented_is_not_left_behind() {
    let place = protected().await;
    let single = single(&place.pool);
    for alone in [true, false] {
        let present = async |number: u64| {
            if alone {
                return presenting(&single, number).await;
            }
            let mut tx = single.begin().await.unwrap();
            sql::present(&mut tx, &pair(&format!("{number} docs/a"))).await.unwrap();
            tx
        };
        let mut tx = present(34).await;
        run(&mut *tx, &place::guarded(Some(34))).await;
        tx.commit().await.unwrap();
        unpresented(attempt(&single, &place::guarded(None)).await);
        let mut tx = present(33).await;
        stale(attempt(&mut *tx, &place::guarded(Some(33))).await);
        tx.rollback().await.unwrap();
        unpresented(attempt(&single, &place::guarded(None)).await);
        // Presented for nothing.
        present(34).await.commit().await.unwrap();
        let mut tx = sql::begin(&single, &named("other"), token(34)).await.unwrap();
        unpresented(attempt(&mut *tx, &place::guarded(None)).await);
    }
}
