use fencing::testing::marks_contract;

use super::*;

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
