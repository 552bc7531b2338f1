//! The simulator: each rule's bad schedule breaks a promise without the rule, and none with it. Asked
//! over HTTP, and in a real browser.

use serde_json::{Value, json};

use super::browser::{Browser, open};
use super::service::Service;

fn rules(service: &Service) -> Vec<Value> {
    let rules = service.get("/simulator/rules").json();
    rules.as_array().unwrap().clone()
}

fn play(service: &Service, question: &Value) -> Value {
    let headers = [("X-Page", "1"), ("Content-Type", "application/json")];
    let body = question.to_string();
    let answer = service.send("POST", "/simulator/play", &headers, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn each_rule_keeps_a_promise_that_its_schedule_breaks() {
    let service = Service::start(&[]);
    let rules = rules(&service);
    assert_eq!(rules.len(), 21);
    for rule in rules {
        let moves = rule["schedule"].as_array().unwrap();
        let question = |off: bool| json!({ "world": "rule", "rule": rule["name"], "off": off, "moves": moves });
        let without = play(&service, &question(true));
        assert_eq!(without["broke"], json!(moves.len()), "{rule}");
        assert_ne!(without["broken"], json!([]), "{rule}");
        let harms = rule["without"].as_array().map(Vec::len);
        assert_eq!(harms, without["broken"].as_array().map(Vec::len), "{rule}");
        assert!(rule["why"] != "" && rule["section"] != "", "{rule}");
        let with = play(&service, &question(false));
        assert_eq!((&with["broke"], &with["broken"]), (&Value::Null, &json!([])), "{rule}");
        // Both say where they part, if it takes a step at all.
        let at = &with["parts"]["at"];
        assert_eq!(at, &without["parts"]["at"], "{rule}");
        let parts = at.as_u64() < Some(moves.len() as u64);
        assert!(parts && at.is_u64() != moves.is_empty(), "{rule}");
    }
}

#[test]
fn a_seed_is_replayed() {
    let service = Service::start(&[]);
    for world in ["three", "five", "move"] {
        let ask = |seed: u64, moves: &Value, random: u64| {
            play(&service, &json!({ "world": world, "seed": seed, "delay": 5, "moves": moves, "random": random }))
        };
        let whole = ask(7, &json!([]), 60);
        assert_eq!(whole, ask(7, &json!([]), 60));
        assert_ne!(whole["steps"], ask(8, &json!([]), 60)["steps"]);
        assert_eq!(whole["broken"], json!([]), "{whole}");
        // Taken back, and gone on with: it is the same.
        let steps = whole["steps"].as_array().unwrap();
        let half: Vec<_> = steps.iter().take(20).map(|step| step["move"].clone()).collect();
        let on = ask(7, &json!(half), steps.len() as u64 - 20);
        assert_eq!(on["steps"], whole["steps"]);
        assert_eq!(on["nodes"], whole["nodes"]);
    }
}

#[test]
fn what_is_held_back_does_not_happen() {
    let service = Service::start(&[]);
    let ask = |moves: &[&str]| play(&service, &json!({ "world": "three", "moves": moves }));
    let open =
        |answer: &Value, name: &str| answer["open"].as_array().unwrap().iter().any(|choice| choice["name"] == name);
    let (acquire, deliver) = ("Acquire { client: 0, node: 0 }", "Deliver { client: 0, node: 0 }");
    let other = "Acquire { client: 0, node: 1 }";
    // After each of these, whether the answer may arrive; another node may be asked in any case.
    for (moves, arrives) in [
        (&[][..], true),
        (&["pause-client-1"], false),
        (&["pause-client-1", "wake-client-1"], true),
        (&["cut-a"], false),
        (&["cut-a", "join-a"], true),
        (&["drop-Deliver { client: 0, node: 0 }"], false),
    ] {
        let answer = ask(&[&[acquire], moves].concat());
        assert_eq!(open(&answer, deliver), arrives, "{moves:?}");
        assert!(open(&answer, other) && open(&answer, "Flush { node: 0 }"), "{moves:?}");
    }
    // What is not on its way is not delivered, and nothing that is asked for stops the service.
    let nothing = ask(&[deliver, "no-such-move", "drop-", "cut-z", "pause-client-9"]);
    assert!(nothing["steps"].as_array().unwrap().iter().all(|step| step["done"] == false));
}

#[test]
fn questions_are_bounded() {
    let service = Service::start(&[]);
    let ask = |headers: &[(&str, &str)], question: &Value| {
        service.send("POST", "/simulator/play", headers, &question.to_string()).status
    };
    let headers = [("X-Page", "1"), ("Content-Type", "application/json")];
    assert_eq!(ask(&headers[1..], &json!({ "world": "three" })), 400, "a page of another site");
    for (question, status) in [
        (json!({ "world": "three" }), 200),
        (json!({ "world": "three", "random": 301 }), 400),
        (json!({ "world": "three", "random": u64::MAX, "moves": ["a"] }), 400),
        (json!({ "world": "seven" }), 404),
        (json!({ "world": "rule" }), 404),
        (json!({ "world": "three", "rule": "none" }), 404),
        (json!({ "world": "three", "moves": ["a".repeat(20_000)] }), 413),
    ] {
        assert_eq!(ask(&headers, &question), status, "{question}");
    }
}

async fn simulator(width: u32) -> (Service, Browser) {
    let (service, browser) = open(&[], "/simulator", width).await;
    calm(&browser).await;
    (service, browser)
}

/// Waits until the page has drawn the last answer.
async fn calm(browser: &Browser) {
    browser.until("document.body.getAttribute('aria-busy') === 'false'").await;
}

async fn choose(browser: &Browser, field: &str, value: &str) {
    let set = format!("$('#{field}').value = '{value}';");
    browser.ask(&format!("{set} $('#{field}').dispatchEvent(new Event('change'));")).await;
    calm(browser).await;
}

async fn press(browser: &Browser, button: &str) {
    browser.click(button).await;
    calm(browser).await;
}

/// Returns what is read to those who do not see the page.
async fn verdict(browser: &Browser) -> String {
    browser.text("#verdict").await
}

/// It can be read on a dark system as well.
#[tokio::test]
async fn a_bad_schedule_breaks_a_promise_only_without_its_rule() {
    let (_service, browser) = simulator(1280).await;
    // It opens on a broken schedule, with its messages as arrows above the controls.
    browser.resize(1280, 800).await;
    assert!(verdict(&browser).await.contains("BROKEN by step 8"));
    browser.count("#arrows .row .head", 8).await;
    let texts = "$$('#arrows .row text').map((it) => it.textContent)";
    for text in ["acquire", "granted with 1·1", "has a lease, token 1·2", "✗ I1: two leases have the same token"] {
        browser.until(&format!("{texts}.includes('{text}')")).await;
    }
    let bottom = "$('#arrows').getBoundingClientRect().bottom";
    browser.until(&format!("{bottom} <= Math.min(innerHeight, $('#world').getBoundingClientRect().top)")).await;
    press(&browser, "#anew").await;
    assert!(verdict(&browser).await.contains("Every promise holds"));
    browser.count("#arrows .row", 0).await;
    press(&browser, "#step").await;
    assert!(browser.text("#place").await.starts_with("Step 1 of "));
    assert!(browser.text("#say").await.contains("On its way from node a: granted with"));
    press(&browser, "#back").await;
    assert!(browser.text("#place").await.starts_with("Step 0 of "));
    press(&browser, "#end").await;
    assert!(verdict(&browser).await.contains("BROKEN by step"), "{}", verdict(&browser).await);
    assert!(verdict(&browser).await.contains("I1: two leases have the same token"));
    browser.count("#log .broke", 1).await;
    assert!(browser.text("#parts").await.starts_with("With the rule it goes another way"));
    browser.until("$('#no-step').textContent.includes('is over')").await;
    let without = browser.text("#without").await;
    assert!(without.starts_with("Without “acquire, step 3: the publish”: ") && !without.contains("I1"), "{without}");
    browser.picture("simulator.png").await;
    // The same moves, with the rule.
    press(&browser, "#off").await;
    assert!(verdict(&browser).await.contains("Every promise holds"));
    assert!(browser.text("#parts").await.starts_with("Without the rule it goes another way"));
    // It stays switched on for the next one.
    choose(&browser, "rule", "majority").await;
    assert!(verdict(&browser).await.contains("Every promise holds"));
    press(&browser, "#off").await;
    assert!(verdict(&browser).await.contains("BROKEN by step"));
    browser.assert_darkens().await;
    browser.picture("simulator-dark.png").await;
    browser.close().await;
}

/// Messages are delivered and lost, nodes are flushed and cut off, clients are paused: by keyboard.
#[tokio::test]
async fn a_world_is_played_by_hand() {
    let (_service, browser) = simulator(360).await;
    choose(&browser, "world", "three").await;
    let press = async |label: &str| {
        browser.press(label).await;
        calm(&browser).await;
    };
    let gone = async |label: &str| browser.count(&format!("[aria-label='{label}']"), 0).await;
    press("do: client 1 to node a: acquire").await;
    press("deliver: client 1 to node b: acquire").await;
    press("lose: client 1 to node c: acquire").await;
    gone("deliver: client 1 to node c: acquire").await;
    browser.until("$('#arrows').textContent.includes('lost: acquire')").await;
    press("pause client 1").await;
    gone("deliver: node a to client 1: granted with 1·1").await;
    press("wake client 1").await;
    press("cut off node b").await;
    gone("deliver: node b to client 1: granted with 1·1").await;
    press("connect node b").await;
    press("deliver: node a to client 1: granted with 1·1").await;
    press("deliver: node b to client 1: granted with 1·1").await;
    assert!(browser.text("#clients [data-name=client-1]").await.contains("has a lease, token 1·1"));
    browser.until("$('#forgets').hidden").await;
    press("do: flush node c").await;
    browser.until("!$('#forgets').hidden").await;
    assert!(browser.text("#nodes [data-name=c]").await.contains("has forgotten"));
    press("do: re-admission 1 to node c: prepare").await;
    for round in ["read", "reserve era 2"] {
        for node in ["a", "b"] {
            press(&format!("deliver: re-admission 1 to node {node}: {round}")).await;
        }
    }
    press("deliver: re-admission 1 to node c: activate in era 2").await;
    let node = browser.text("#nodes [data-name=c]").await;
    assert!(node.contains("admitted, in a new era: it votes"), "{node}");
    choose(&browser, "world", "five").await;
    browser.click("#replay").await;
    browser.until("$$('#log li').length > 10").await;
    browser.close().await;
}
