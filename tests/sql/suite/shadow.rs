//! Shadow mode: nothing is refused, and what would be is told.

use fencing::sql::ProtectError;

use super::*;

#[tokio::test]
async fn a_transaction_is_told_what_the_fence_would_say() {
    let place = ready().await;
    let mut tx = place.pool.begin().await.unwrap();
    let stale = "token 33 of files/a is stale, high water 34";
    let none = "no token presented, resource files/a";
    for (number, said) in [(Some(34), None), (Some(33), Some(stale)), (None, Some(none))] {
        let refused = sql::admit_in_shadow(&mut tx, &resource(), number.map(token)).await;
        assert_eq!(refused.unwrap().as_deref(), said);
    }
    // What was refused has ended nothing.
    write(&mut tx, token(34), "").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((highest(&place, &resource()).await, file(&place).await), (Some(34), (34, 0)));
}

/// Two transactions are open side by side, and each meets what the other has touched.
#[tokio::test]
async fn nobody_waits_in_shadow_mode() {
    if place::STATES.is_empty() {
        return; // SQLite has one writer at a time.
    }
    for &level in LEVELS {
        // There MySQL locks what it reads, and PostgreSQL finds conflicts between reads.
        if level.contains("SERIALIZABLE") {
            continue;
        }
        let place = ready().await;
        raise(&place.pool, &resource(), 5).await;
        let both = async {
            let mut one = place.pool.begin_with(level).await.unwrap();
            let mut two = place.pool.begin_with(level).await.unwrap();
            let (x, y) = (Resource::new("x").unwrap(), Resource::new("y").unwrap());
            let mut met = 0;
            for (tx, number, names) in [(&mut one, 6, [&x, &y, &resource()]), (&mut two, 7, [&y, &x, &resource()])] {
                for name in names {
                    let refused = sql::admit_in_shadow(tx, name, Some(token(number))).await;
                    met += usize::from(refused.unwrap().is_some());
                }
            }
            one.commit().await.unwrap();
            two.commit().await.unwrap();
            met
        };
        let met = tokio::time::timeout(Duration::from_secs(10), both).await;
        assert_eq!(met.expect("somebody waits"), 3, "{level}");
        assert_eq!(highest(&place, &resource()).await, Some(6), "{level}");
    }
}

#[tokio::test]
async fn triggers_in_shadow_mode_are_refused_where_nobody_would_see_what_they_warn_of() {
    let place = ready().await;
    let shadow = Protect::rows("files", "path").unwrap().shadow();
    let applied = shadow.apply(&place.pool).await;
    if Db::NAME == "PostgreSQL" {
        return applied.unwrap();
    }
    assert!(matches!(applied, Err(ProtectError::NoShadow)), "{applied:?}");
    assert!(matches!(shadow.statements::<Db>(), Err(ProtectError::NoShadow)));
    let found = sql::protected(&place.pool, Some("files")).await.unwrap();
    assert!(!found[0].is_protected(), "{found:?}");
}
