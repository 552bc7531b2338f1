use std::time::Duration;

use fencing_protocol::Resource;

use super::*;
use crate::lock::error::AcquireError;

#[tokio::test]
async fn memory_gives_leases_and_every_clone_shares_them() {
    let lock = ConnectOptions::new("memory:").budget(Duration::from_secs(5)).connect().await.unwrap();
    let other = lock.with_ttl(Duration::from_secs(20)).unwrap();
    let resource = Resource::new("invoice/42").unwrap();
    let lease = lock.acquire(&resource).await.unwrap();
    assert!(other.try_acquire(&resource).await.is_err());
    lease.release().await.unwrap();
    assert!(other.try_acquire(&resource).await.is_ok());
}

#[tokio::test]
async fn leases_in_memory_are_held_under_the_name_that_is_given() {
    let lock = ConnectOptions::new("memory:").holder("billing-7").connect().await.unwrap();
    let resource = Resource::new("a").unwrap();
    let _held = lock.acquire(&resource).await.unwrap();
    let error = lock.try_acquire(&resource).await.unwrap_err();
    let AcquireError::Held { holder: Some(holder), .. } = &error else { panic!("{error:?}") };
    assert_eq!(holder.name.as_deref(), Some("billing-7"));
}

#[tokio::test]
async fn what_gives_no_lock_service_says_why() {
    let error = async |url: &str| connect(url).await.unwrap_err().to_string();
    for url in ["", "ftp://a", "http://a", "a,b,c"] {
        let error = error(url).await;
        assert!(error.contains("must begin with redis://, postgres://"), "{url:?}: {error}");
    }
    // What is not a URL may be a password.
    for url in ["host=h user=u password=s3cret", "s3cret", "/run/r.sock?pass=s3cret", "a/s3cret:"] {
        let error = error(url).await;
        assert!(error.ends_with("this one has no scheme"), "{error}");
    }
    let options = format!("{:?}", ConnectOptions::new("redis://me:s3cret@h"));
    assert!(!options.contains("s3cret"), "{options}");
    let short = ConnectOptions::new("memory:").ttl(Duration::from_millis(1)).connect().await;
    assert!(matches!(short, Err(ConnectError::Build(_))), "{short:?}");
}

#[tokio::test]
async fn nodes_have_operator_functions_of_their_own() {
    for url in ["memory:", "redis://a,b"] {
        let error = ConnectOptions::new(url).operator().unwrap_err().to_string();
        assert!(error.contains("redlock"), "{error}");
    }
    // Nothing is asked, and no file is made.
    ConnectOptions::new("sqlite:/nowhere/a.db").operator().unwrap();
}

#[test]
fn outside_of_a_runtime_there_is_an_error() {
    use futures_util::FutureExt;
    let connected = connect("sqlite:/nowhere").now_or_never().unwrap();
    assert!(matches!(connected, Err(ConnectError::NoRuntime)), "{connected:?}");
}

#[test]
fn a_scheme_is_before_the_rest_and_behind_a_name() {
    for (url, found) in [
        ("redis://a,b", "redis"),
        ("a=rediss://h", "rediss"),
        ("10.0.0.5:6379=redis://10.0.0.5:6379", "redis"),
        ("sqlite:/tmp/a=b.db", "sqlite"),
        ("sqlite:a?mode=rwc", "sqlite"),
        ("memory:", "memory"),
    ] {
        assert_eq!(scheme(url), Some(found), "{url}");
    }
}
