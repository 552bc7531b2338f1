//! The files in an object store: moto, which speaks S3.

use support::objects;

use super::play::{corrupted, refused};
use super::service::Service;

#[test]
fn the_stale_write_is_refused_and_without_the_fence_it_corrupts() {
    objects::bucket("played");
    refused(&["--files", "s3://played/files"]);
    corrupted(&["--files", "s3://played/files"]);
}

/// The marks of the service are in memory and gone with it; the object itself keeps the token.
#[test]
fn a_service_that_was_started_again_refuses_it_by_the_object() {
    objects::bucket("restarted");
    let start = || Service::start_with(&["--lock", "elsewhere", "--files", "s3://restarted"], &objects::environment());
    let first = start();
    assert_eq!(first.put(34, "client 2").status, 204);
    drop(first);
    let second = start();
    let problem = second.put(33, "client 1").is(412, "stale").json();
    assert_eq!((&problem["presented"], &problem["highest"]), (&33.into(), &34.into()));
    assert_eq!(second.file(), "client 2");
    assert_eq!(second.put(35, "client 3").status, 204);
    assert_eq!(second.file(), "client 3");
}
