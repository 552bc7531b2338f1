//! The page in a real browser: what it shows is what the service did.

use std::io::{Read, Write};

use support::cli::{five, urls};
use support::process::signal;

use super::browser::Browser;
use super::service::Service;

const STEPS: usize = 8;

/// Plays the story until it is over.
async fn play(browser: &Browser) {
    play_to(browser, STEPS).await;
}

/// Plays the story up to a step.
pub async fn play_to(browser: &Browser, last: usize) {
    let number = async |step: usize| {
        let shown = format!(
            "document.querySelector('#step-number').textContent === 'Step {step} of {STEPS}'"
        );
        browser.until(&shown).await;
    };
    for step in 1..last {
        number(step).await;
        browser.until("!document.querySelector('#next').disabled").await;
        browser.click("#next").await;
    }
    number(last).await;
}

/// Waits until the log has this many events of a kind.
pub async fn logged(browser: &Browser, kind: &str, count: usize) {
    let found = format!("document.querySelectorAll('#log [data-kind={kind}]').length === {count}");
    browser.until(&found).await;
}

#[tokio::test]
async fn the_story_ends_with_one_file_kept_and_one_corrupted() {
    let service = Service::start(&[]);
    let browser = Browser::open(&service.url("/"), 1280).await;
    play(&browser).await;
    logged(&browser, "refused", 1).await;
    logged(&browser, "stored", 5).await;
    assert!(browser.text("#log [data-kind=refused]").await.contains("REFUSED what client 1 wrote"));
    // By its name for those who do not see it.
    browser.until("document.querySelectorAll('#lane-with [aria-label^=\"refused: client 1\"]').length === 1").await;
    browser.until("document.querySelectorAll('#lane-without [aria-label^=\"overwrote a newer write: client 1\"]').length === 1").await;
    assert!(browser.text("#with .content").await.contains("client 2"));
    assert!(browser.text("#with .verdict").await.contains("HTTP 412"));
    assert!(browser.text("#without .content").await.contains("client 1"));
    assert!(browser.text("#without .verdict").await.contains("CORRUPTED"));
    browser.picture("page.png").await;
    // The page says what is so: here are the files.
    let get = |path| service.send("GET", path, &[], b"").body;
    assert_eq!(get("/files/page"), "client 2");
    browser.close().await;
}

#[tokio::test]
async fn without_the_fence_the_page_shows_both_corrupted() {
    let service = Service::start(&["--unguarded"]);
    let browser = Browser::open(&service.url("/"), 360).await;
    browser.until("!document.querySelector('#unguarded').hidden").await;
    play(&browser).await;
    logged(&browser, "refused", 0).await;
    for file in ["#with", "#without"] {
        assert!(browser.text(&format!("{file} .verdict")).await.contains("CORRUPTED"), "{file}");
    }
    browser.close().await;
}

#[tokio::test]
async fn nodes_that_are_killed_and_wiped_are_seen() {
    let service = Service::start(&[]);
    let browser = Browser::open(&service.url("/"), 360).await;
    browser.until("document.querySelectorAll('#nodes li.grants').length === 5").await;
    // Where nothing was granted, nothing can have been forgotten.
    browser.click("#mode-free").await;
    browser.click("[aria-label='Acquire: client 1']").await;
    logged(&browser, "granted", 1).await;
    browser.click("[aria-label='kill node 2']").await;
    browser.until("document.querySelector('#nodes [data-node=\"2\"]').className === 'away'").await;
    browser.click("[aria-label='start node 2']").await;
    browser
        .until("document.querySelector('#nodes [data-node=\"2\"]').className === 'quarantined'")
        .await;
    browser.until("document.querySelectorAll('#nodes li.grants').length === 5").await;
    browser.click("[aria-label='wipe node 4']").await;
    browser
        .until("document.querySelector('#nodes [data-node=\"4\"]').className !== 'grants'")
        .await;
    for node in [1, 2, 3] {
        browser.click(&format!("[aria-label='kill node {node}']")).await;
    }
    browser.until("document.querySelector('#quorum').textContent.includes('NO MAJORITY')").await;
    browser.picture("narrow.png").await;
    browser.close().await;
}

/// The buttons do by keyboard what they do by mouse, and a client that looks first does not write.
#[tokio::test]
async fn free_play_works_by_keyboard() {
    let service = Service::start(&[]);
    let browser = Browser::open(&service.url("/"), 1600).await;
    let press = async |label: &str| browser.press(label).await;
    browser.click("#mode-free").await;
    press("Acquire: client 1").await;
    press("Write: client 1").await;
    logged(&browser, "stored", 2).await;
    press("Fall asleep: client 1").await;
    press("Acquire: client 2").await;
    browser
        .until("document.querySelector('#truth-1').textContent.includes('its lease ended')")
        .await;
    assert!(browser.text("#belief-1").await.contains("s left"));
    press("Wake up: client 1").await;
    logged(&browser, "lost", 1).await;
    press("Release: client 2").await;
    logged(&browser, "released", 1).await;
    browser.close().await;
}

#[tokio::test]
async fn on_redis_nodes_it_is_the_same_story() {
    let servers = five();
    let service = Service::start(&["--redis", &urls(&servers)]);
    let browser = Browser::open(&service.url("/"), 1280).await;
    play(&browser).await;
    logged(&browser, "refused", 1).await;
    // Nobody stops servers that belong to others.
    browser.until("document.querySelectorAll('#nodes li').length === 5").await;
    browser.until("document.querySelectorAll('#nodes button').length === 0").await;
    browser.close().await;
}

#[tokio::test]
async fn on_a_dark_system_it_can_be_read() {
    let service = Service::start(&[]);
    let browser = Browser::open(&service.url("/"), 1280).await;
    browser.assert_darkens().await;
    play(&browser).await;
    logged(&browser, "refused", 1).await;
    browser.assert_readable().await;
    browser.picture("dark.png").await;
    browser.close().await;
}

/// A page of another site gives no orders, and where there are no nodes there is no page.
#[test]
fn orders_come_from_the_page() {
    let service = Service::start(&[]);
    assert_eq!(service.send("POST", "/page/clients/1/acquire", &[], b"").status, 400);
    assert_eq!(service.send("POST", "/page/clients/3/acquire", &["X-Page: 1"], b"").status, 404);
    assert_eq!(service.send("POST", "/page/clients/1/dance", &["X-Page: 1"], b"").status, 400);
    assert_eq!(service.send("POST", "/page/nodes/6/stop", &["X-Page: 1"], b"").status, 404);
    assert_eq!(service.send("POST", "/page/nodes/5/stop", &["X-Page: 1"], b"").status, 202);
    let service = Service::start(&["--lock", "database"]);
    assert_eq!(service.send("GET", "/", &[], b"").status, 404);
}

/// Watchers do not hold up the end.
#[test]
fn the_service_stops_while_the_page_is_open() {
    let mut service = Service::start(&[]);
    let mut stream = service.connect();
    stream.write_all(b"GET /page/events HTTP/1.1\r\nHost: demo\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 100]).unwrap();
    signal(service.child.id(), "TERM");
    service.ends_well();
}
