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

/// Stops the clock of the page at a time, in milliseconds, that is made of what the page knows.
async fn stop_the_clock(browser: &Browser, time: &str) {
    let script = format!(
        "return import('/world.js').then(({{ world }}) => {{
           const time = {time};
           performance.now = () => time - world.offset;
         }})"
    );
    browser.ask(&script).await;
    let drawn =
        "new Promise((drawn) => setTimeout(() => requestAnimationFrame(() => drawn(true)), 200))";
    browser.until(drawn).await;
}

async fn free() -> (Service, Browser) {
    let (service, browser) = open(&[], "/", 1280).await;
    browser.count("#nodes li.grants", 5).await;
    browser.click("#mode-free").await;
    (service, browser)
}

/// A token of a new era has a smaller count, and is shown so that one sees that it is larger.
#[tokio::test]
async fn a_token_shows_its_era() {
    let (_service, browser) = free().await;
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
    let log = browser.text("#log").await;
    assert!(log.contains(&new), "{new}");
    let gone = log.lines().filter(|line| line.contains("counts are gone"));
    let mut gone = gone.flat_map(|line| line.split(" from era ").next());
    assert!(gone.all(|nodes| !nodes.contains("node 4") && !nodes.contains("node 5")), "{log}");
    browser.close().await;
}

/// The page may be opened before the fleet has started.
#[tokio::test]
async fn a_node_that_was_new_has_lost_nothing() {
    let (_service, browser) = open(&[], "/", 1280).await;
    // A world of its own, beside that of the page.
    let script = "return import('/world.js?own').then(({ take }) => {
        const nodes = (node) => take({ kind: 'nodes', at: 0, nodes: [{ name: 'node 4', ...node }] });
        nodes({ state: 'away', why: 'not admitted' });
        nodes({ state: 'grants', era: 667 });
        return nodes({ state: 'grants', era: 671 }).map((event) => event.lost);
    })";
    assert_eq!(browser.ask(script).await, json!([false]));
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
            the_whole_story_stays_in_the_picture(&browser).await;
        }
        browser.close().await;
    }
}

/// However long somebody reads, the stale write is seen with the lease that it was begun under.
async fn the_whole_story_stays_in_the_picture(browser: &Browser) {
    stop_the_clock(browser, "world.events.at(-1).at + 60000").await;
    let shown = "const width = $('#lane-1').clientWidth;
        const box = $('#lane-1 .lease')?.getBBox();
        const write = $('#lane-with .refused path')?.getBBox();
        const at = write?.x + write?.width / 2;
        const other = $('#lane-2 .lease')?.getBBox();
        return !!box && !!write && !!other && box.x > 0 && box.width > 5
          && box.x + box.width < at && other.x < at && at < width;";
    assert_eq!(browser.ask(shown).await, json!(true));
}

/// The line of the fence has a step for each rise, with its number, and none for what rose before the
/// picture begins.
#[tokio::test]
async fn the_line_of_the_fence_steps_with_each_rise() {
    let (_service, browser) = free().await;
    for time in 1..=2 {
        browser.press("Acquire: client 1").await;
        browser.press("Write: client 1").await;
        logged(&browser, "stored", 2 * time).await;
        browser.press("Release: client 1").await;
        logged(&browser, "released", time).await;
    }
    stop_the_clock(&browser, "world.events.at(-1).at + 500").await;
    let levels = "return $$('#lane-with .step').map((step) => {
          const number = $(`#lane-with [data-number='${step.dataset.level}']`);
          return [step.dataset.level.slice(-1), number !== null, step.getBBox().height > 5];
        })";
    let rises = json!([["e", false, false], ["1", true, true], ["2", true, true]]);
    assert_eq!(browser.ask(levels).await, rises);
    let tops = "$$('#lane-with .step').map((step) => step.getBBox().y)";
    browser.until(&format!("{tops}.every((top, n, all) => n === 0 || top < all[n - 1])")).await;
    stop_the_clock(&browser, "world.events.at(-1).at + 60000").await;
    assert_eq!(browser.ask(levels).await, json!([["2", true, false]]));
    browser.close().await;
}

/// A lease that ended before the picture begins is not in it, though its client noticed later.
#[tokio::test]
async fn a_lease_that_is_over_leaves_the_picture() {
    let (_service, browser) = free().await;
    browser.press("Acquire: client 1").await;
    browser.press("Write, and fall asleep before it is sent: client 1").await;
    browser.until("$('#truth-1').textContent.includes('its lease ended')").await;
    browser.press("Wake up: client 1").await;
    logged(&browser, "lost", 1).await;
    // Nobody else has written: the file says why it took the write.
    assert!(browser.text("#with .verdict").await.contains("although the lease was over"));
    let between = "(world.clients[1].leases[0].until + world.events.at(-1).at) / 2 + 15000";
    stop_the_clock(&browser, between).await;
    let left = "return $$('#lane-1 .lease, #lane-1 text')
        .map((it) => it.querySelector('title') ? 'lease' : it.textContent)";
    assert_eq!(browser.ask(left).await, json!(["now", "asleep"]));
    browser.close().await;
}
