//! What operators are given: alerts that Prometheus takes, and names in them that the code has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text of every file of the crate.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// The words of a text that begin with `fencing_`.
fn names(text: &str) -> BTreeSet<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c: char| !word(c)).filter(|name| name.starts_with("fencing_")).collect()
}

/// The metrics that the code has, as Prometheus names them.
fn metrics() -> BTreeSet<String> {
    let mut text = String::new();
    sources(&repository().join("src"), &mut text);
    let mut found = BTreeSet::new();
    for (kind, endings) in [
        ("counter!(", &[""][..]),
        ("gauge!(", &[""]),
        ("histogram!(", &["_bucket", "_sum", "_count"]),
        // The exporter's gauges, by its own functions.
        ("fleet(", &[""]),
        ("node(", &[""]),
        ("Counted::new(", &[""]),
    ] {
        for (at, _) in text.match_indices(kind) {
            let Some(rest) = text[at + kind.len()..].trim_start().strip_prefix('"') else {
                continue;
            };
            let name = rest.split('"').next().unwrap();
            if name.starts_with("fencing_") {
                found.extend(endings.iter().map(|ending| format!("{name}{ending}")));
            }
        }
    }
    found
}

/// The queries of the dashboard.
fn queries() -> Vec<String> {
    let dashboard: serde_json::Value = serde_json::from_str(&read("ops/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let metrics = metrics();
    let alerts = read("ops/alerts.yaml");
    let mut asked: Vec<String> = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: ").map(str::to_owned))
        .collect();
    assert!(asked.len() >= 14, "{asked:?}");
    asked.extend(queries());
    assert!(asked.len() >= 30, "{asked:?}");
    for query in &asked {
        let named = names(query);
        assert!(!named.is_empty(), "{query}");
        for name in named {
            assert!(metrics.contains(name), "{name} in `{query}` is not a metric: {metrics:?}");
        }
    }
}

#[test]
fn outcomes_in_alerts_are_outcomes_of_the_code() {
    let (mut text, alerts) = (String::new(), read("ops/alerts.yaml"));
    sources(&repository().join("src"), &mut text);
    let mut seen = 0;
    for part in alerts.split("outcome=").skip(1) {
        let value = part.trim_start_matches('~').trim_start_matches('"').split('"').next().unwrap();
        for outcome in value.split('|') {
            assert!(text.contains(&format!("\"{outcome}\"")), "{outcome} is not an outcome");
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn every_metric_is_explained() {
    let guide = read("docs/guide/production.md") + &read("docs/http.md");
    let ends = ["_bucket", "_sum", "_count"];
    for name in metrics() {
        let name = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        assert!(guide.contains(name), "{name} stands neither in production.md nor in http.md");
    }
}

#[test]
fn prometheus_takes_the_alerts_and_they_fire() {
    for arguments in [
        &["check", "rules", "alerts.yaml"][..],
        &["test", "rules", "alerts_test.yaml"],
        &["check", "config", "--syntax-only", "prometheus.yml"],
    ] {
        let mut promtool = Command::new("promtool");
        promtool.args(arguments).current_dir(repository().join("ops"));
        let ended = promtool.output().expect("promtool (Debian: prometheus) is installed");
        let said =
            [ended.stdout, ended.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        assert!(ended.status.success(), "{arguments:?}: {}", said.concat());
    }
}

#[test]
fn alerts_lead_to_pages_that_exist() {
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    let alerts = read("ops/alerts.yaml");
    let links: Vec<&str> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("runbook: ")).collect();
    assert!(links.len() >= 14, "{links:?}");
    for link in links {
        let (page, wanted) = link.split_once('#').unwrap_or((link, ""));
        let text = read(page);
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        let found = headings.any(|line| anchor(line.trim_start_matches(['#', ' '])) == wanted);
        assert!(wanted.is_empty() || found, "{link}");
    }
}
