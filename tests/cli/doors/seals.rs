//! Leases that outlive the process that granted them: several `fencing serve` with one file of keys.

use std::fs;
use std::path::PathBuf;
use std::thread;

use support::zookeeper::ZookeeperServer;
use tempfile::TempDir;

use super::*;

pub struct Keys {
    _folder: TempDir,
    pub file: PathBuf,
}

impl Keys {
    pub fn new() -> Keys {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        let keys = Keys { _folder: folder, file };
        keys.write(&["one"]);
        keys
    }

    /// Each key is made of its id.
    pub fn write(&self, ids: &[&str]) {
        let line = |id: &&str| format!("{id}={}\n", hex::encode(id.repeat(32)).split_at(64).0);
        fs::write(&self.file, ids.iter().map(line).collect::<String>()).unwrap();
    }

    pub fn serve(&self, place: &(impl Place + ?Sized)) -> Door {
        Door::serve(place, &format!("--signing-keys {}", self.file.display()))
    }
}

/// Asks until enough nodes have answered in time.
fn of(door: &Door, lease: &Answer, method: &str) -> Answer {
    loop {
        let answer = door.of(lease, method);
        if answer.status != 503 {
            return answer;
        }
    }
}

fn goes_on(place: &(impl Place + ?Sized)) {
    let keys = Keys::new();
    let (mut first, second) = (keys.serve(place), keys.serve(place));
    let lease = first.lease("a", 60_000);
    let renewed = of(&second, &lease, "PUT");
    assert_eq!((renewed.status, renewed.token()), (200, lease.token()), "{renewed:?}");
    assert_eq!(renewed.path(), lease.path());
    first.process.signal("KILL");
    first = keys.serve(place);
    for door in [&first, &second] {
        let renewed = of(door, &lease, "PUT");
        assert_eq!((renewed.status, renewed.token()), (200, lease.token()), "{renewed:?}");
        door.acquire("a", "").is(409, "held");
        assert_eq!(of(door, &lease, "GET").status, 200);
    }
    // What one has released, the other does not bring back.
    assert_eq!(of(&second, &lease, "DELETE").status, 204);
    for door in [&first, &second] {
        let over = of(door, &lease, "PUT");
        assert!([404, 409].contains(&over.status), "{over:?}");
        let over = of(door, &lease, "DELETE");
        assert_eq!(over.status, 404, "{over:?}");
    }
    let next = first.lease("a", 60_000);
    assert!(next.token() > lease.token(), "{next:?}");
    assert!([404, 409].contains(&of(&second, &lease, "PUT").status));
    assert_eq!(of(&second, &next, "PUT").status, 200);
}

#[test]
fn another_process_goes_on_with_a_lease_on_nodes_in_a_database_and_in_zookeeper() {
    goes_on(&five());
    let folder = tempfile::tempdir().unwrap();
    goes_on(&format!("sqlite:{}/leases.db", folder.path().display()));
    goes_on(&ZookeeperServer::with("maxSessionTimeout=90000").url());
}

#[test]
fn a_lease_that_has_lapsed_stays_so() {
    let (keys, servers) = (Keys::new(), five());
    let (first, second) = (keys.serve(&servers), keys.serve(&servers));
    let lease = first.lease("a", 8000);
    thread::sleep(Duration::from_secs(9));
    for door in [&second, &first, &keys.serve(&servers)] {
        of(door, &lease, "PUT").is(404, "no-lease");
        of(door, &lease, "DELETE").is(404, "no-lease");
    }
    assert_eq!(second.acquire("a", "").status, 201);
}

#[test]
fn ids_that_nobody_has_sealed_are_no_leases() {
    let (keys, servers) = (Keys::new(), five());
    let door = keys.serve(&servers);
    let lease = door.lease("secret", 60_000);
    let id = lease.json()["lease_id"].as_str().unwrap().to_owned();
    assert!(!id.contains(&hex::encode("secret")) && id.starts_with("one:"), "{id}");
    let last = if id.ends_with('0') { "1" } else { "0" };
    let (cut, changed) = (&id[..id.len() - 2], format!("{}{last}", &id[..id.len() - 1]));
    let upper = format!("one:{}", id[4..].to_uppercase());
    let other = Keys::new();
    other.write(&["other"]);
    let foreign = other.serve(&servers);
    for method in ["GET", "PUT", "DELETE"] {
        for forged in [cut, &changed, "one:", "one:00", "x", &upper, &id.replace("one:", "two:")] {
            door.ask(method, &format!("/leases/{forged}"), &[], "").is(404, "no-lease");
        }
        of(&foreign, &lease, method).is(404, "no-lease");
    }
    assert_eq!(of(&door, &lease, "PUT").status, 200);
}

/// A majority loses the lock, and all nodes, but one after another.
#[test]
fn nodes_that_have_lost_the_lock_get_it_again_from_any_process() {
    let (keys, servers) = (Keys::new(), five());
    let doors = [keys.serve(&servers), keys.serve(&servers)];
    let lease = doors[0].lease("a", 60_000);
    for (number, server) in servers.iter().enumerate() {
        server.cli(&["DEL", "{fencing}:lock:a"]);
        until("the lock is there again", || {
            assert_eq!(of(&doors[number % 2], &lease, "PUT").status, 200);
            server.cli(&["EXISTS", "{fencing}:lock:a"]) == "1"
        });
    }
    assert_eq!(of(&doors[1], &lease, "DELETE").status, 204);
    until("no node has it", || servers.iter().all(|server| server.cli(&["EXISTS", "{fencing}:lock:a"]) == "0"));
    // To a renewal that comes late it is as if another client had come and gone.
    assert!(doors[0].lease("a", 60_000).token() >= lease.token() + 2);
}

/// One process releases while others renew, on nodes that have lost the lock as well.
#[test]
fn what_was_released_is_not_renewed_into_life() {
    let rounds = std::env::var("FENCING_ROUNDS").map_or(30, |text| text.parse().unwrap());
    let (keys, servers) = (Keys::new(), five());
    let doors = [0; 3].map(|_| keys.serve(&servers));
    for round in 0..rounds {
        let name = format!("a/{round}");
        let lease = doors[0].lease(&name, 60_000);
        servers[round % 5].cli(&["DEL", &format!("{{fencing}}:lock:{name}")]);
        thread::scope(|scope| {
            for door in doors.iter().cycle().take(6) {
                let lease = &lease;
                scope.spawn(move || while of(door, lease, "PUT").status == 200 {});
            }
            thread::sleep(Duration::from_millis(round as u64 % 7));
            assert_eq!(of(&doors[round % 3], &lease, "DELETE").status, 204, "{round}");
        });
        let next = doors[1].acquire(&name, r#"{"wait_ms": 20000}"#);
        assert_eq!(next.status, 201, "{round}: {next:?}");
        assert!(next.token() > lease.token(), "{round}");
        assert_eq!(of(&doors[2], &lease, "PUT").status / 100, 4, "{round}");
    }
}
