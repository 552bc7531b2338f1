//! The page in a real browser: what it shows is what the service did.

use support::cli::{five, urls};

use super::browser::{Browser, open};
use super::service::Service;

pub const STEPS: usize = 8;

/// Plays the story up to a step.
pub async fn play_to(browser: &Browser, last: usize) {
    for step in 1..=last {
        let shown = format!("$('#step-number').textContent === 'Step {step} of {STEPS}'");
        browser.until(&shown).await;
        if step < last {
            browser.until("!$('#next').disabled").await;
            browser.click("#next").await;
        }
    }
}

/// Waits until the log has this many events of a kind.
pub async fn logged(browser: &Browser, kind: &str, count: usize) {
    browser.count(&format!("#log [data-kind={kind}]"), count).await;
}

#[tokio::test]
async fn the_story_ends_with_one_file_kept_and_one_corrupted() {
    let (service, browser) = open(&[], "/", 1280).await;
    play_to(&browser, STEPS).await;
    logged(&browser, "refused", 1).await;
    logged(&browser, "stored", 5).await;
    assert!(browser.text("#log [data-kind=refused]").await.contains("REFUSED what client 1 wrote"));
    // By its name for those who do not see it.
    browser.count("#lane-with [aria-label^='refused: client 1']", 1).await;
    let lost = "#lane-without [aria-label^='overwrote a newer write: client 1']";
    browser.count(lost, 1).await;
    assert!(browser.text("#with .content").await.contains("client 2"));
    assert!(browser.text("#with .verdict").await.contains("HTTP 412"));
    assert!(browser.text("#without .content").await.contains("client 1"));
    assert!(browser.text("#without .verdict").await.contains("CORRUPTED"));
    browser.picture("page.png").await;
    // The page says what is so: here is the file.
    assert_eq!(service.get("/files/page").text(), "client 2");
    browser.close().await;
}

#[tokio::test]
async fn without_the_fence_the_page_shows_both_corrupted() {
    let (_service, browser) = open(&["--unguarded"], "/", 360).await;
    browser.until("!$('#unguarded').hidden").await;
    play_to(&browser, STEPS).await;
    logged(&browser, "refused", 0).await;
    for file in ["#with", "#without"] {
        assert!(browser.text(&format!("{file} .verdict")).await.contains("CORRUPTED"), "{file}");
    }
    browser.close().await;
}

#[tokio::test]
async fn nodes_that_are_killed_and_wiped_are_seen() {
    let (_service, browser) = open(&[], "/", 360).await;
    browser.count("#nodes li.grants", 5).await;
    // Where nothing was granted, nothing can have been forgotten.
    browser.click("#mode-free").await;
    browser.click("[aria-label='Acquire: client 1']").await;
    logged(&browser, "granted", 1).await;
    browser.click("[aria-label='kill node 2']").await;
    browser.until("$('#nodes [data-node=\"2\"]').className === 'away'").await;
    browser.click("[aria-label='start node 2']").await;
    browser.until("$('#nodes [data-node=\"2\"]').className === 'quarantined'").await;
    browser.count("#nodes li.grants", 5).await;
    browser.click("[aria-label='wipe node 4']").await;
    browser.until("$('#nodes [data-node=\"4\"]').className !== 'grants'").await;
    for node in [1, 2, 3] {
        browser.click(&format!("[aria-label='kill node {node}']")).await;
    }
    browser.until("$('#quorum').textContent.includes('NO MAJORITY')").await;
    browser.picture("narrow.png").await;
    browser.close().await;
}

/// The buttons do by keyboard what they do by mouse, and a client that looks first does not write.
#[tokio::test]
async fn free_play_works_by_keyboard() {
    let (_service, browser) = open(&[], "/", 1600).await;
    browser.click("#mode-free").await;
    browser.press("Acquire: client 1").await;
    browser.press("Write: client 1").await;
    logged(&browser, "stored", 2).await;
    browser.press("Fall asleep: client 1").await;
    browser.press("Acquire: client 2").await;
    browser.until("$('#truth-1').textContent.includes('its lease ended')").await;
    assert!(browser.text("#belief-1").await.contains("s left"));
    browser.press("Wake up: client 1").await;
    logged(&browser, "lost", 1).await;
    browser.press("Release: client 2").await;
    logged(&browser, "released", 1).await;
    browser.close().await;
}

/// It can be read on a dark system as well.
#[tokio::test]
async fn on_redis_nodes_it_is_the_same_story() {
    let servers = five();
    let (_service, browser) = open(&["--redis", &urls(&servers)], "/", 1280).await;
    browser.assert_darkens().await;
    play_to(&browser, STEPS).await;
    logged(&browser, "refused", 1).await;
    browser.assert_readable().await;
    browser.picture("dark.png").await;
    // Nobody stops servers that belong to others.
    browser.count("#nodes li", 5).await;
    browser.count("#nodes button", 0).await;
    browser.close().await;
}

/// A page of another site gives no orders, and where there are no nodes there is no page.
#[test]
fn orders_come_from_the_page() {
    let service = Service::start(&[]);
    let order = |path: &str| service.send("POST", path, &[("X-Page", "1")], "").status;
    assert_eq!(service.send("POST", "/page/clients/1/acquire", &[], "").status, 400);
    assert_eq!(order("/page/clients/3/acquire"), 404);
    assert_eq!(order("/page/clients/1/dance"), 400);
    assert_eq!(order("/page/nodes/6/stop"), 404);
    assert_eq!(order("/page/nodes/5/stop"), 202);
    let service = Service::start(&["--lock", "database"]);
    assert_eq!(service.get("/").status, 404);
}
