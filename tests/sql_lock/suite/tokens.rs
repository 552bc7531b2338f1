use super::*;

async fn next(lock: &SqlLock<Db>) -> u64 {
    let lease = lock.try_acquire(&resource()).await.unwrap();
    let token = lease.token().get();
    release(lease).await;
    token
}

#[tokio::test]
async fn they_are_above_the_mark() {
    let place = ready().await;
    let lock = service(&place.pool);
    // The first lease ever: the tokens came from elsewhere before.
    mark(&place, 33).await;
    assert_eq!(next(&lock).await, 34);
    mark(&place, 500).await;
    assert_eq!(next(&lock).await, 501);
    let [from, to] = [500, 7].map(|number| Token::new(number).unwrap());
    sql::lower(&place.pool, &resource(), from, to).await.unwrap();
    assert_eq!(next(&lock).await, 502);
    // The leases are lost, and the marks are not.
    mark(&place, 502).await;
    run(&place, "DELETE FROM fencing_leases").await;
    assert_eq!(next(&lock).await, 503);
}

#[tokio::test]
async fn that_have_run_out_are_an_error_of_their_own() {
    let place = ready().await;
    let lock = service(&place.pool);
    mark(&place, Token::MAX.get() - 1).await;
    assert_eq!(next(&lock).await, Token::MAX.get());
    for _ in 0..2 {
        let Fault::Refused(text) = fault(lock.try_acquire(&resource()).await) else { panic!() };
        assert!(text.contains("have run out: 999999999999999"), "{text}");
        run(&place, "DELETE FROM fencing_leases").await;
        mark(&place, Token::MAX.get()).await;
    }
    assert_eq!(lock.try_acquire(&named("invoice/43")).await.unwrap().token(), Token::MIN);
}
