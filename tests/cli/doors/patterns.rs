//! Resources that patterns of the path name.

use super::*;

const PATTERNS: &str = "--resource-from /transfer/{from}/{to}=accounts/{from},accounts/{to} \
                        --resource-from /accounts/{id}/**=accounts/{id}";

fn transfer(door: &Door, path: &str, sequencers: &[&str]) -> Answer {
    let headers: Vec<_> = sequencers.iter().map(|value| ("Fencing-Sequencer", *value)).collect();
    door.ask("POST", path, &headers, "x")
}

#[test]
fn a_part_of_the_path_names_the_resource() {
    let (upstream, door) = proxied(PATTERNS);
    assert_eq!(door.put("/accounts/7/owner", 34, "").status, 200);
    // Another path below the same account.
    for path in ["/accounts/7", "/accounts/7/limits/daily", "/accounts/%37/owner"] {
        assert_eq!(door.put(path, 33, "").status, 412, "{path}");
    }
    assert_eq!(door.put("/accounts/8/owner", 33, "").status, 200);
    // No pattern, and what has a second name.
    for path in ["/other/7", "/Accounts/7", "/accounts//7", "/accounts/8/../7", "/accounts%2f7"] {
        assert_eq!(door.put(path, 99, "").status, 400, "{path}");
    }
    assert_eq!(door.ask("PUT", "/other/7", &[], "").status, 428);
    assert_eq!(upstream.events().len(), 4, "{:?}", upstream.events());
}

#[test]
fn a_request_about_two_resources_needs_the_tokens_of_both() {
    let (upstream, door) = proxied(PATTERNS);
    assert_eq!(door.put("/accounts/8/owner", 34, "").status, 200);
    assert_eq!(transfer(&door, "/transfer/7/8", &["10 accounts/7", "34 accounts/8"]).status, 200);
    transfer(&door, "/transfer/7/8", &["11 accounts/7", "33 accounts/8"]).is(412, "stale");
    // Its mark was raised by the transfer.
    assert_eq!(door.put("/accounts/7/owner", 9, "").status, 412);
    for wrong in [
        &["40 accounts/7"][..],
        &["40 accounts/7", "40 accounts/9"],
        &["40 accounts/7", "40 accounts/8", "40 accounts/9"],
        &["40 accounts/7", "41 accounts/7"],
    ] {
        assert_eq!(transfer(&door, "/transfer/7/8", wrong).status, 400, "{wrong:?}");
    }
    assert_eq!(door.put("/transfer/7/8", 40, "x").status, 400);
    assert_eq!(transfer(&door, "/transfer/7/8", &[]).status, 428);
    // From one to the same is one resource.
    assert_eq!(transfer(&door, "/transfer/7/7", &["20 accounts/7"]).status, 200);
    assert_eq!(upstream.events().len(), 6, "{:?}", upstream.events());
}

/// Its service is at work on both until it has answered.
#[test]
fn both_resources_are_in_flight() {
    let patterns = "--resource-from /slow/{from}/{to}=a/{from},a/{to} --resource-from /a/{id}=a/{id}";
    let (upstream, door) = proxied(&format!("--limit 200ms {patterns}"));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| transfer(&door, "/slow/7/8", &["33 a/7", "33 a/8"]).status);
        upstream.until("begin POST /slow/7/8");
        door.is_closed("/a/7");
        door.is_closed("/a/8");
        assert_eq!(door.put("/a/9", 34, "").status, 200);
        upstream.open();
        assert_eq!(slow.join().unwrap(), 200);
    });
    door.lets_in("/a/8");
}
