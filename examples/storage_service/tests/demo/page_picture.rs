//! What a newcomer sees on the page: the numbers can be compared, and what matters is in view.

use serde_json::json;

use super::browser::{Browser, open};
use super::page::{logged, play_to};
use super::service::Service;

/// Waits until these are wholly on the screen.
async fn in_view(browser: &Browser, selectors: &[&str]) {
    let seen = "((it) => it.height > 0 && it.top >= 0 && it.bottom <= innerHeight)";
    let all = json!(selectors);
    browser.until(&format!("{all}.every((it) => {seen}($(it).getBoundingClientRect()))")).await;
}

/// A token of a new era has a smaller count, and is shown so that one sees that it is larger.
#[tokio::test]
async fn a_token_shows_its_era() {
    let (_service, browser) = open(&[], "/", 1280).await;
    browser.count("#nodes li.grants", 5).await;
    browser.click("#mode-free").await;
    let mut seen = Vec::new();
    for client in [1, 2] {
        browser.press(&format!("Acquire: client {client}")).await;
        logged(&browser, "granted", client).await;
        browser.press(&format!("Write: client {client}")).await;
        logged(&browser, "stored", 2 * client).await;
        let mark =
            browser.ask("return [$('#with .mark').textContent, $('#with .mark').title]").await;
        let [mark, title] = [0, 1].map(|n| mark[n].as_str().unwrap());
        let (era, count) = mark.split_once('·').expect(mark);
        assert_eq!(count, "0001");
        assert!(title.contains(&format!("{era}000001)")), "{title}");
        assert!(browser.text("#log").await.contains(title));
        seen.push((era.parse::<u64>().unwrap(), era.to_owned()));
        browser.press(&format!("Release: client {client}")).await;
        if client == 1 {
            for node in [1, 2, 3] {
                browser.press(&format!("wipe node {node}")).await;
            }
            browser.until("$('#log [data-kind=era]') !== null").await;
            browser.count("#nodes li.grants", 5).await;
            // Of the three that are left, one has forgotten and two have not: all must grant.
            for node in [2, 3] {
                browser.press(&format!("kill node {node}")).await;
            }
        }
    }
    assert!(seen[0] < seen[1], "{seen:?}");
    // The nodes may have gone to one new era together, or each to one of its own.
    let new = format!("to the new era {} ", seen[1].1);
    // The two that have forgotten nothing have followed.
    browser.until("$('#log').textContent.includes('node 4')").await;
    assert!(browser.text("#log").await.contains(&new), "{new}");
    browser.close().await;
}

/// What the stale write came to can be seen where the button is, on a notebook and on a phone.
#[tokio::test]
async fn the_verdict_is_in_view() {
    let service = Service::start(&[]);
    let verdicts = ["#step-text", "#next", "#with .verdict", "#without .verdict"];
    let clients = ["#belief-1", "#truth-1", "#belief-2", "#truth-2"];
    for (width, height) in [(1280, 857), (360, 800)] {
        let browser = Browser::open(&service.url("/"), width).await;
        browser.resize(width, height).await;
        play_to(&browser, 6).await;
        browser.until("$('.differ #truth-1') !== null").await;
        browser.count(".differ", 1).await;
        assert_eq!(browser.text("#next").await, "Wake client 1");
        browser.click("#next").await;
        browser.until("$('#step-number').textContent.startsWith('Step 7')").await;
        // The phone scrolls to it.
        in_view(&browser, &verdicts).await;
        if width > 1000 {
            in_view(&browser, &clients).await;
            assert_eq!(browser.ask("return scrollY").await, 0);
        }
        browser.close().await;
    }
}
