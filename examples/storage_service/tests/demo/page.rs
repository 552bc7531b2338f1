//! The page in a real browser: what it shows is what the service did. A newcomer can compare the numbers, and what
//! matters is in view. And what the page learns about a client that falls asleep.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::cli::{five, urls};
use support::http::{Client, head};

use super::browser::{Browser, open};
use super::service::Service;

/// What the page says goes to `said`.
const LISTEN: &str = "window.said = [];
    const hear = () => said.push($('#step-text').textContent);
    new MutationObserver(hear).observe($('#step-text'), { childList: true });";

/// Plays the story by its one button. Where the machine stood still for longer than a lease lasts, it has to begin again.
async fn played(arguments: &[&str], width: u32, height: u32) -> (Service, Browser) {
    for _ in 0..3 {
        let (service, browser) = open(arguments, "/", width).await;
        browser.resize(width, height).await;
        browser.ask(LISTEN).await;
        browser.click("#play").await;
        browser.until("$('#play').textContent !== 'Pause'").await;
        if browser.text("#play").await == "Play again" {
            return (service, browser);
        }
        browser.close().await;
    }
    panic!("the story does not come to its end");
}

async fn logged(browser: &Browser, kind: &str, count: usize) {
    browser.count(&format!("#log [data-kind={kind}]"), count).await;
}

#[tokio::test]
async fn the_story_ends_with_one_file_kept_and_one_corrupted() {
    let (service, browser) = played(&[], 1280, 900).await;
    let said = browser.ask("return said").await;
    assert_eq!(said.as_array().map(Vec::len), Some(7), "{said}");
    let short = |text: &Value| text.as_str().is_some_and(|text| text.split_whitespace().count() <= 12);
    assert!(said.as_array().unwrap().iter().all(short), "{said}");
    assert!(said[0].as_str().unwrap().contains("33") && said[6].as_str().unwrap().contains("34"), "{said}");
    logged(&browser, "refused", 1).await;
    logged(&browser, "stored", 5).await;
    assert!(browser.text("#log [data-kind=refused]").await.contains("REFUSED what client 1 wrote"));
    // By its name for those who do not see it.
    browser.count("#lane-with [aria-label^='refused: client 1, token 33']", 1).await;
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
    let (_service, browser) = played(&["--unguarded"], 360, 900).await;
    browser.until("!$('#unguarded').hidden").await;
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
    let (_service, browser) = played(&["--redis", &urls(&servers)], 1280, 900).await;
    browser.assert_darkens().await;
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

async fn in_view(browser: &Browser, selectors: &[&str]) {
    let seen = "((it) => it.height > 0 && it.top >= 0 && it.bottom <= innerHeight)";
    let all = json!(selectors);
    browser.until(&format!("{all}.every((it) => {seen}($(it).getBoundingClientRect()))")).await;
}

/// Tokens are shown as 33 and 34, even if a new era began in between. Point at one to see its real value.
#[tokio::test]
async fn tokens_are_numbered_from_33() {
    let (_service, browser) = open(&[], "/", 1280).await;
    browser.count("#nodes li.grants", 5).await;
    browser.click("#mode-free").await;
    let mut seen = Vec::new();
    for client in [1, 2] {
        browser.press(&format!("Acquire: client {client}")).await;
        logged(&browser, "granted", client).await;
        browser.press(&format!("Write: client {client}")).await;
        logged(&browser, "stored", 2 * client).await;
        let mark = browser.ask("return [$('#with .mark').textContent, $('#with .mark').title]").await;
        let [mark, title] = [0, 1].map(|n| mark[n].as_str().unwrap());
        assert_eq!(mark, (32 + client).to_string());
        let real = title.strip_prefix(&format!("{mark} (in full: ")).and_then(|rest| rest.strip_suffix("000001)"));
        assert!(browser.text("#log").await.contains(title));
        seen.push(real.expect(title).parse::<u64>().unwrap());
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
    let new = format!("(in full: {})", seen[1]);
    // The two that have forgotten nothing have followed.
    browser.until("$('#log').textContent.includes('node 4')").await;
    assert!(browser.text("#log").await.contains(&new), "{new}");
    browser.close().await;
}

/// What the stale write came to can be seen where the button is, on a notebook and on a phone: joined by a line to the
/// client, with what the client believed. The labels do not collide.
#[tokio::test]
async fn the_verdict_is_in_view() {
    tokio::join!(verdict_at(1280, 800), verdict_at(360, 800));
}

async fn verdict_at(width: u32, height: u32) {
    let (_service, browser) = played(&[], width, height).await;
    // The phone scrolls to it.
    in_view(&browser, &["#step-text", "#play", "#lane-with .refused", "#lane-without .corrupt"]).await;
    if width > 1000 {
        let cards = ["#with .verdict", "#without .verdict", "#belief-1", "#truth-1", "#belief-2", "#truth-2"];
        in_view(&browser, &cards).await;
        assert_eq!(browser.ask("return scrollY").await, 0);
    }
    browser.count("#lanes .late", 2).await;
    browser.count("#lane-1 .mistaken", 1).await;
    browser.count(".differ #belief-1", 1).await;
    for width in [360, 1280, 1600] {
        browser.resize(width, height).await;
        let labels = "$$('#lanes text').map((it) => it.textContent)";
        for text in ["late write", "asleep", "lease over", "refused", "overwrote", "believes"] {
            browser.until(&format!("{labels}.some((it) => it.includes('{text}'))")).await;
        }
        browser.until(APART).await;
    }
    browser.close().await;
}

/// Whether no label of the picture lies on another.
const APART: &str = "$$('#lanes text').map((it) => it.getBoundingClientRect()).every((a, index, all) =>
    all.slice(index + 1).every((b) => a.right <= b.left || b.right <= a.left
        || a.bottom <= b.top + 2 || b.bottom <= a.top + 2))";

fn events(service: &Service) -> impl Iterator<Item = Value> + use<> {
    let mut client = Client::connect(service.address);
    client.send(head("GET", "/page/events", &[]));
    let event = |line: String| serde_json::from_str(line.strip_prefix("data:")?).ok();
    client.lines().filter_map(event).filter(|event: &Value| event["client"] == 1)
}

/// A client that is renewed just before it falls asleep says so: what is shown to be over is over. The
/// renewal comes 1,000 ms after the grant, and the client looks at its lease each 100 ms.
#[test]
fn a_lease_that_is_shown_to_be_over_is_lost() {
    let is_lost_later = |awake| {
        let service = Service::start(&[]);
        let mut events = events(&service);
        let order = |order: &str| {
            let path = format!("/page/clients/1/{order}");
            assert_eq!(service.send("POST", &path, &[("X-Page", "1")], "").status, 202);
        };
        let end_of = |event: &Value| {
            let left = event["until"].as_u64().unwrap() - event["at"].as_u64().unwrap();
            Instant::now() + Duration::from_millis(left)
        };
        order("acquire");
        let granted = events.find(|event| event["kind"] == "granted").unwrap();
        let mut end = end_of(&granted);
        std::thread::sleep(Duration::from_millis(awake));
        order("sleep");
        for event in events.by_ref().take_while(|event| event["kind"] != "asleep") {
            if event["kind"] == "lost" {
                return false;
            }
            end = end_of(&event);
        }
        let over = end + Duration::from_millis(60);
        std::thread::sleep(over.saturating_duration_since(Instant::now()));
        order("wake");
        events.find(|event| event["kind"] == "lost").unwrap();
        true
    };
    // Where the machine stands still for longer than the lease lasts, it is lost before.
    let lost = |awake| assert!((0..3).any(|_| is_lost_later(awake)), "it is lost before the client falls asleep");
    std::thread::scope(|scope| {
        for awake in [1_005, 1_030, 1_060] {
            scope.spawn(move || lost(awake));
        }
    });
}
