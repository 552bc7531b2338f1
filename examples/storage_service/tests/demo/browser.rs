//! A browser without a window, driven over WebDriver.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::{Value, json};
use support::cli::PATIENCE;
use tempfile::TempDir;

use super::service::Service;

/// Stops the driver and its browser at the end of the input, which comes however the test ends.
const KEEPER: &str = r#"
trap '' HUP INT TERM
folder=$1; shift
"$@" </dev/null & driver=$!
# The output ends with the driver.
exec >/dev/null
cat
kill -KILL $driver; wait $driver
pkill -KILL -f -- "--user-data-dir=$folder"
exit 0"#;

pub struct Browser {
    pub client: Client,
    keeper: Option<Child>,
    _folder: TempDir,
}

pub async fn open(arguments: &[&str], path: &str, width: u32) -> (Service, Browser) {
    let service = Service::start(arguments);
    let browser = Browser::open(&service.url(path), width).await;
    (service, browser)
}

impl Browser {
    pub async fn open(url: &str, width: u32) -> Browser {
        let folder = tempfile::tempdir().expect("a folder");
        let started = (0..5).find_map(|_| start_driver(folder.path()));
        let (keeper, port) = started.expect("chromedriver runs: install Debian's chromium-driver");
        let connector = hyper_util::client::legacy::connect::HttpConnector::new();
        let mut builder = ClientBuilder::new(connector);
        let builder = builder.capabilities(capabilities(folder.path()));
        let client = builder.connect(&format!("http://127.0.0.1:{port}")).await.expect("a browser");
        client.goto(url).await.expect("the page");
        let browser = Browser { client, keeper: Some(keeper), _folder: folder };
        browser.resize(width, 900).await;
        browser
    }

    pub async fn until(&self, script: &str) {
        let (end, script) = (Instant::now() + PATIENCE, format!("return {script}"));
        loop {
            if self.ask(&script).await == json!(true) {
                return;
            }
            assert!(Instant::now() < end, "never came: {script}\n{}", self.log().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn count(&self, selector: &str, count: usize) {
        self.until(&format!("$$(`{selector}`).length === {count}")).await;
    }

    pub async fn text(&self, selector: &str) -> String {
        let found = self.client.find(Locator::Css(selector)).await;
        found.expect(selector).text().await.expect("its text")
    }

    pub async fn click(&self, selector: &str) {
        let found = self.client.find(Locator::Css(selector)).await;
        found.expect(selector).click().await.expect("a click");
    }

    async fn log(&self) -> String {
        let log = DriverCommand { path: "se/log", body: json!({ "type": "browser" }) };
        let log = self.client.issue_cmd(log).await.expect("the console");
        log.as_array().into_iter().flatten().map(|line| format!("{line}\n")).collect()
    }

    /// Closes the page, which has told its console nothing, asked no other host for anything, and is
    /// not wider than its window.
    pub async fn close(self) {
        assert_eq!(self.log().await, "");
        let foreign = "return performance.getEntriesByType('resource').map((it) => it.name)
            .filter((name) => !name.startsWith(location.origin))";
        assert_eq!(self.ask(foreign).await, json!([]));
        let wider = "return document.documentElement.scrollWidth - window.innerWidth";
        let wider = self.ask(wider).await;
        assert!(wider.as_i64().expect("a number") <= 0, "{wider} pixels wider than the window");
        self.client.clone().close().await.expect("it closes");
    }

    /// Shows this many pixels of the page, as on another screen.
    pub async fn resize(&self, width: u32, height: u32) {
        let screen = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.tool("Emulation.setDeviceMetricsOverride", screen).await;
        self.until(&format!("innerWidth === {width} && innerHeight === {height}")).await;
    }

    async fn tool(&self, command: &str, parameters: Value) {
        let body = json!({ "cmd": command, "params": parameters });
        let command = DriverCommand { path: "goog/cdp/execute", body };
        self.client.issue_cmd(command).await.expect("a developer tool");
    }

    /// Returns what the script returns. In it `$` finds an element, and `$$` all of them.
    pub async fn ask(&self, script: &str) -> Value {
        const FIND: &str = "const $ = (it) => document.querySelector(it);
            const $$ = (it) => [...document.querySelectorAll(it)];";
        self.client.execute(&format!("{FIND} {script}"), vec![]).await.expect("the script runs")
    }

    /// Fails if the page cannot be read, or looks the same when the system becomes dark.
    pub async fn assert_darkens(&self) {
        const BACKGROUND: &str = "return getComputedStyle(document.body).backgroundColor";
        self.assert_readable().await;
        let light = self.ask(BACKGROUND).await;
        let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
        self.tool("Emulation.setEmulatedMedia", dark).await;
        self.until("matchMedia('(prefers-color-scheme: dark)').matches").await;
        assert_ne!(self.ask(BACKGROUND).await, light);
        self.assert_readable().await;
    }

    /// Presses a button by keyboard when it can be pressed.
    pub async fn press(&self, label: &str) {
        let button = format!("$(`[aria-label='{label}']`)");
        self.until(&format!("{button}?.disabled === false")).await;
        self.ask(&format!("{button}.focus()")).await;
        self.client.active_element().await.unwrap().send_keys("\u{e007}").await.unwrap();
    }

    /// Fails if a text that is shown has less contrast with what is behind it than people need to read
    /// it: 4.5 to 1, or 3 to 1 where it is large (WCAG 2.1, 1.4.3). What is disabled may have less.
    pub async fn assert_readable(&self) {
        let faint = self.ask(FAINT).await;
        assert_eq!(faint["faint"], json!([]));
        assert!(faint["looked"].as_u64() > Some(20), "{faint}");
    }

    /// Keeps a picture of the whole page, where `SCREENSHOTS` names a folder.
    pub async fn picture(&self, name: &str) {
        let Ok(folder) = std::env::var("SCREENSHOTS") else { return };
        let size = self.ask("return [innerWidth, document.documentElement.scrollHeight]").await;
        let [width, height] = [0, 1].map(|n| size[n].as_u64().expect("a number"));
        self.resize(width as u32, height as u32).await;
        let picture = self.client.screenshot().await.expect("a picture");
        std::fs::write(Path::new(&folder).join(name), picture).expect("a file");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// Starts a driver, and returns its port: now and then one finds no free port, and ends.
fn start_driver(folder: &Path) -> Option<(Child, String)> {
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "sh"]).arg(folder).args(["chromedriver", "--port=0"]);
    keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut keeper = keeper.spawn().expect("sh runs");
    let mut output = BufReader::new(keeper.stdout.take().expect("its output")).lines();
    let port = output.by_ref().map_while(Result::ok).find_map(|line| {
        let port = line.strip_prefix("ChromeDriver was started successfully on port ")?;
        Some(port.trim_end_matches('.').to_owned())
    });
    std::thread::spawn(move || output.for_each(drop));
    let Some(port) = port else {
        drop(keeper.stdin.take());
        keeper.wait().expect("the keeper ends");
        return None;
    };
    Some((keeper, port))
}

fn capabilities(folder: &Path) -> Capabilities {
    let folder = format!("--user-data-dir={}", folder.display());
    let flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
    let arguments = [&flags[..], &["--hide-scrollbars", &folder]].concat();
    Capabilities::from_iter([
        ("goog:chromeOptions".into(), json!({ "args": arguments })),
        ("goog:loggingPrefs".into(), json!({ "browser": "ALL" })),
    ])
}

/// Each text with the luminance of its colour and of the nearest opaque colour behind it.
const FAINT: &str = r#"
const rgba = (colour) => colour.match(/[\d.]+/g).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map((part) => {
  const x = part / 255;
  return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
}).reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = rgba(getComputedStyle(at).backgroundColor);
    if ((colour[3] ?? 1) === 1) return colour;
  }
  return [255, 255, 255];
};
let looked = 0;
const faint = [];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  const text = texts.currentNode.textContent.trim();
  if (!text || !element.checkVisibility() || element.closest(':disabled, option, title')) continue;
  const style = getComputedStyle(element);
  const colour = rgba(element.closest('svg') ? style.fill : style.color);
  const pair = [luminance(colour), luminance(behind(element))].sort((a, b) => b - a);
  const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  looked += 1;
  if (contrast < (large ? 3 : 4.5)) faint.push(`${text}: ${contrast.toFixed(2)}`);
}
return { looked, faint };"#;

#[derive(Debug)]
struct DriverCommand {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for DriverCommand {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (axum::http::Method, Option<String>) {
        (axum::http::Method::POST, Some(self.body.to_string()))
    }
}
