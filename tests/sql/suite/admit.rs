use std::sync::Mutex;

use fencing::testing::marks_contract;
use metrics_exporter_prometheus::PrometheusBuilder;

use super::writers::{WAYS, Way, Writer};
use super::*;

#[tokio::test]
async fn each_way_lets_equal_tokens_pass_and_refuses_lower_ones() {
    for way in WAYS.into_iter().chain(place::XA.then_some(Way::Xa)) {
        let place = ready_for(way).await;
        run(&place.pool, "CREATE TABLE notes (n INT)").await;
        assert_eq!(highest(&place, &resource()).await, None);
        let (writer, single) = (Writer::new(way), single(&place.pool));
        for number in [33, 33, 34, 34, 40, 40] {
            writer.write(&single, number).await.unwrap();
            assert_eq!(highest(&place, &resource()).await, Some(number));
            assert_eq!(file(&place).await, (number.cast_signed(), 0), "{way:?}");
        }
        for number in [1, 33, 39] {
            let stale = stale(writer.write(&single, number).await);
            assert_eq!((stale.presented, stale.highest), (token(number), token(40)), "{way:?}");
            assert_eq!(stale.resource, resource());
            assert_eq!(highest(&place, &resource()).await, Some(40));
        }
        // The one connection is not left in a transaction: what is written alone is written.
        run(&single, "INSERT INTO notes VALUES (1)").await;
        assert_eq!(number(&place.pool, "SELECT count(*) FROM notes").await, 1, "{way:?}");
        if way != Way::Xa {
            writer.open(&single, 41).await.unwrap().rollback().await.unwrap();
            assert_eq!(file(&place).await, (40, 0), "{way:?}");
        }
        writer.write(&single, 41).await.unwrap();
    }
}

#[tokio::test]
async fn several_admissions_fit_in_one_transaction_and_a_savepoint_takes_its_mark_back() {
    let place = ready().await;
    let other = named("files/b");
    admit(&place, &resource(), 32).await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    for number in [33, 33, 34, 34] {
        sql::admit(&mut tx, &resource(), token(number)).await.unwrap();
        sql::admit(&mut tx, &other, token(7)).await.unwrap();
    }
    let mut inner = tx.begin().await.unwrap();
    sql::admit(&mut inner, &resource(), token(35)).await.unwrap();
    inner.rollback().await.unwrap();
    sql::admit(&mut tx, &resource(), token(34)).await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    sql::admit(&mut inner, &resource(), token(36)).await.unwrap();
    inner.commit().await.unwrap();
    assert_eq!(stale(sql::admit(&mut tx, &resource(), token(35)).await).highest, token(36));
    tx.commit().await.unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(36));
    assert_eq!(highest(&place, &other).await, Some(7));
}

#[tokio::test]
async fn a_database_that_may_not_be_written_admits_nobody() {
    let place = ready().await;
    admit(&place, &resource(), 33).await.unwrap();
    let mut tx = place.read_only().begin().await.unwrap();
    let error = sql::admit(&mut tx, &resource(), token(34)).await.unwrap_err();
    assert!(matches!(error, AdmitError::Database(_) | AdmitError::Denied(_)), "{error:?}");
}

#[tokio::test]
async fn marks_keep_their_contract_and_are_those_of_admit() {
    let place = ready().await;
    let marks = SqlMarks::new(place.other());
    marks_contract(&marks).await.unwrap();
    admit(&place, &resource(), 34).await.unwrap();
    let refused = marks.raise(&resource(), token(33)).await;
    let Err(FenceError::Stale(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!((refused.presented, refused.highest), (token(33), token(34)));
    marks.raise(&resource(), token(35)).await.unwrap();
    stale(admit(&place, &resource(), 34).await);
}

#[tokio::test]
async fn marks_list_themselves_page_by_page() {
    let place = ready().await;
    for number in 1..=7 {
        admit(&place, &named(&format!("files/{number}")), number).await.unwrap();
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

/// Refused or an error: no way in accepts 33 where the mark is 34.
#[tokio::test]
async fn a_temporary_table_does_not_stand_for_the_marks() {
    for way in WAYS {
        let place = ready_for(way).await;
        raise(&place.pool, &resource(), 34).await;
        let pool = single(&place.pool);
        for statement in [
            "CREATE TEMPORARY TABLE fencing_marks (
                resource VARCHAR(255) PRIMARY KEY, token BIGINT)",
            "INSERT INTO fencing_marks VALUES ('files/a', 33)",
            place::TEMPORARY,
        ] {
            run(&pool, statement).await;
        }
        Writer::new(way).write(&pool, 33).await.expect_err(&format!("{way:?}"));
        SqlMarks::new(pool.clone()).raise(&resource(), token(33)).await.unwrap_err();
        if way != Way::Guarded {
            continue;
        }
        // A client that is not stale is not kept out.
        Writer::new(way).write(&pool, 35).await.unwrap();
        assert_eq!(file(&place).await, (35, 0));
        assert_eq!(highest(&place, &resource()).await, Some(35));
        // A lease has a token above the mark, and an operator sees the mark.
        let lock = lock(&pool);
        assert_eq!(lock.acquire(&resource()).await.unwrap().token(), token(36));
        assert!(lock.health().await.has_quorum());
        let listed = sql::marks(&pool, &[], 10).await.unwrap();
        assert_eq!(listed[0].number, Some(35), "{listed:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_counted_and_logged() {
    let place = ready().await;
    let log = tempfile::NamedTempFile::new().unwrap();
    let lines = |of: &str| {
        let log = std::fs::read_to_string(log.path()).unwrap();
        let lines = log.lines().filter(|line| line.contains(" fencing") && line.contains(of));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let file = Mutex::new(log.reopen().unwrap());
    let info = tracing_subscriber::fmt().with_ansi(false).with_writer(file);
    let _logging = tracing::subscriber::set_default(info.finish());
    // While another thread makes a place in the code known to `tracing`, a listener that comes is not seen.
    let first = named("first");
    admit(&place, &first, 2).await.unwrap();
    until("the listener is seen", async || {
        tracing::callsite::rebuild_interest_cache();
        stale(admit(&place, &first, 1).await);
        !lines("first").is_empty()
    })
    .await;
    let recorder = PrometheusBuilder::new().build_recorder();
    let counts = recorder.handle();
    let counted = |outcome: &str, times: u32| {
        let key = format!("fencing_admissions_total{{layer=\"sql\",outcome=\"{outcome}\"}} {times}\n");
        assert!(counts.render().contains(&key), "{key}{}", counts.render());
    };
    let _counting = metrics::set_default_local_recorder(&recorder);
    for number in [34, 34] {
        admit(&place, &resource(), number).await.unwrap();
    }
    begin(&place.pool, 34).await.unwrap().rollback().await.unwrap();
    counted("admitted", 3);
    stale(admit(&place, &resource(), 33).await);
    stale(begin(&place.pool, 32).await);
    counted("admitted", 3);
    counted("stale", 2);
    // Of several resources, each mark is raised first.
    let several = [resource(), first].map(|resource| Sequencer::new(resource, token(31)));
    let refused = Transactions::begin(&place.pool, &several).await.unwrap_err();
    assert!(matches!(refused, FenceError::Stale(_)), "{refused:?}");
    counted("stale", 3);
    let lines = lines("files/a");
    assert_eq!(lines.len(), 3, "only refusals are logged: {lines:?}");
    for (line, number) in lines.into_iter().zip([33, 32, 31]) {
        assert!(line.contains(" INFO ") && line.contains("transaction not admitted"), "{line}");
        assert!(line.contains(&format!("token {number} ")), "{line}");
    }
}
