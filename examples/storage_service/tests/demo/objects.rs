//! The files in an object store: moto, which speaks S3.

use support::cli::{Ended, finish};
use support::objects;

use super::service::{Service, storage_service};

fn play(bucket: &str, arguments: &[&str]) -> String {
    let mut command = storage_service();
    command.args(["--play", "--files", &format!("s3://{bucket}/files")]).args(arguments).envs(objects::environment());
    let Ended { code, stdout, .. } = finish(command);
    assert_eq!(code, Some(0), "{stdout}");
    stdout
}

#[test]
fn the_stale_write_is_refused_and_without_the_fence_it_corrupts() {
    objects::bucket("played");
    let played = play("played", &[]);
    assert!(played.contains("412: token "), "{played}");
    assert!(played.contains("what client 2 wrote"), "{played}");
    let played = play("played", &["--unguarded"]);
    assert!(played.contains("what client 1 wrote"), "{played}");
    assert!(played.contains("CORRUPTED"), "{played}");
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

#[test]
fn a_bucket_that_is_not_there_is_told_at_the_start() {
    let mut command = storage_service();
    command.args(["--play", "--files", "s3://no-such-bucket"]).envs(objects::environment());
    command.stderr(std::process::Stdio::piped());
    let Ended { code, stderr, .. } = finish(command);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("--files: "), "{stderr}");
    assert!(stderr.contains("NoSuchBucket"), "{stderr}");
}
