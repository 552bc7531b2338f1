//! What operators are given: alerts that Prometheus takes, and names in them that the code has.

use std::collections::BTreeSet;
use std::process::Command;

use crate::imports::crate_in;
use crate::{anchors, repository};

fn read(path: &str) -> String {
    crate::read(&repository().join(path))
}

/// The words of a text that begin with `fencing_`.
fn names(text: &str) -> BTreeSet<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c: char| !word(c)).filter(|name| name.starts_with("fencing_")).collect()
}

/// The metrics that the code has, as Prometheus names them.
fn metrics() -> BTreeSet<String> {
    let text: String = ["src", "cli/src"].into_iter().flat_map(crate_in).map(|file| file.text).collect();
    let mut found = BTreeSet::new();
    for (kind, endings) in [
        ("counter!(", &[""][..]),
        ("gauge!(", &[""]),
        ("histogram!(", &["_bucket", "_sum", "_count"]),
        // The exporter's gauges, by its own functions.
        ("fleet(", &[""]),
        ("node(", &[""]),
        ("gauged(", &[""]),
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

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let metrics = metrics();
    let alerts = read("ops/alerts.yaml");
    let mut asked: Vec<String> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: ").map(str::to_owned)).collect();
    assert!(asked.len() >= 14, "{asked:?}");
    let dashboard: serde_json::Value = serde_json::from_str(&read("ops/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    asked.extend(targets.map(|target| target["expr"].as_str().unwrap().to_owned()));
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
fn every_metric_is_explained() {
    let guide = read("docs/reference/metrics.md") + &read("docs/reference/http.md");
    let ends = ["_bucket", "_sum", "_count"];
    for name in metrics() {
        let name = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        assert!(guide.contains(name), "{name} is neither in metrics.md nor in http.md");
    }
}

#[test]
fn prometheus_takes_the_alerts_and_they_fire() {
    for arguments in [
        &["check", "rules", "alerts.yaml"][..],
        &["test", "rules", "alerts_test.yaml"],
        &["check", "config", "--syntax-only", "prometheus.yml"],
    ] {
        promtool(arguments);
    }
}

fn promtool(arguments: &[&str]) {
    let mut promtool = Command::new("promtool");
    promtool.args(arguments).current_dir(repository().join("ops"));
    let ended = promtool.output().expect("promtool (Debian: prometheus) is installed");
    let said = [ended.stdout, ended.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(ended.status.success(), "{arguments:?}: {}", said.concat());
}

/// The units name programs of the machine that they run on; here every one of them is this test.
#[test]
fn systemd_takes_the_units() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap().display().to_string();
    let units = ["fencing-serve.service", "report.service", "report.timer"].map(|unit| {
        let text = read(&format!("ops/{unit}")).replace("/usr/local/bin/fencing ", &format!("{own} "));
        let path = folder.path().join(unit);
        std::fs::write(&path, text).unwrap();
        path
    });
    let ended = Command::new("systemd-analyze").arg("verify").args(units).output().expect("Debian: systemd");
    // It warns of what it does not know, and goes on.
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.is_empty(), "{said}");
}

#[test]
fn alerts_lead_to_pages_that_exist() {
    let alerts = read("ops/alerts.yaml");
    let links: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("runbook: ")).collect();
    assert!(links.len() >= 14, "{links:?}");
    for link in links {
        let (page, wanted) = link.split_once('#').unwrap_or((link, ""));
        let there = anchors(&read(page)).iter().any(|anchor| anchor == wanted);
        assert!(wanted.is_empty() || there, "{link}");
    }
}

/// Each outcome that a metric can have, and the alert that it raises when it goes on for minutes.
const OUTCOMES: [(&str, &str, &str); 8] = [
    ("fencing_admissions_total", "FencingMarksUnreachable", "unreachable closed"),
    (
        "fencing_admissions_total",
        "FencingWritesFail",
        "not_set_up not_migrated corrupt full no_connection unavailable unfit refused no_runtime no_resource",
    ),
    // What clients do wrong, what passes by itself, and a lock service that is down, which has alerts of its own.
    (
        "fencing_admissions_total",
        "",
        "not_issued unchecked busy crowded quarantine retryable superseded missing malformed rolled_back in_doubt kept \
         failed unpresented wrong_type other_slot misused shadow_not_issued shadow_superseded shadow_missing \
         shadow_malformed shadow_no_resource shadow_unavailable shadow_not_set_up shadow_retryable shadow_rolled_back \
         shadow_in_doubt shadow_kept shadow_failed shadow_unpresented shadow_waits admitted",
    ),
    ("fencing_attempts_total", "FencingNoLeases", "no_quorum unavailable"),
    ("fencing_attempts_total", "", "held wrong_count"),
    // These need no minutes: one is enough. And one needs more.
    ("fencing_admissions_total", "FencingStaleWriteRefused", "stale"),
    ("fencing_admissions_total", "FencingStaleWriteLetThrough", "shadow_stale"),
    ("fencing_attempts_total", "FencingOverloaded", "overloaded"),
];

/// The outcomes that a file gives to its errors.
fn labels(path: &str, from: &str) -> BTreeSet<String> {
    let text = read(path);
    let from = text.split(from).nth(1).unwrap_or_else(|| panic!("{path} has no `{from}`"));
    let to = from.find("\n    }\n").into_iter().chain(from.find("\n    };\n")).min().unwrap();
    let behind = from[..to].lines().map(|line| line.split("=>").last().unwrap());
    let last = |line: &str| Some(line.rsplit('"').nth(1)?.to_owned());
    behind.filter_map(last).collect()
}

#[test]
fn every_outcome_raises_its_alert_and_no_other() {
    let each = |(metric, alert, outcomes): (&'static str, &'static str, &'static str)| {
        outcomes.split_whitespace().map(move |outcome| (metric, alert, outcome))
    };
    let cases: Vec<_> = OUTCOMES.into_iter().flat_map(each).collect();
    let placed = |metric: &str| -> BTreeSet<String> {
        let of_metric = cases.iter().filter(|case| case.0 == metric);
        of_metric.map(|case| case.2.to_owned()).collect()
    };
    let admissions = [
        ("src/fence/error.rs", "fn label("),
        ("src/http/answer.rs", "fn terms("),
        ("src/sql/error.rs", "fn label("),
        ("src/sql/admit.rs", "let label = match"),
        ("src/redis/error.rs", "fn label("),
        ("src/object/error.rs", "fn label("),
    ];
    let mut of_code: BTreeSet<String> = admissions.into_iter().flat_map(|(path, from)| labels(path, from)).collect();
    let of_layer = labels("src/http/answer.rs", "fn terms(");
    of_code.extend(of_layer.iter().map(|label| format!("shadow_{label}")));
    assert_eq!(placed("fencing_admissions_total"), of_code);
    assert_eq!(placed("fencing_attempts_total"), labels("src/lock/error.rs", "fn label("));

    let mut file =
        format!("rule_files: [{}]\nevaluation_interval: 15s\ntests:\n", repository().join("ops/alerts.yaml").display());
    for (metric, alert, outcome) in &cases {
        let fires = match *alert {
            "" => String::new(),
            alert => format!("{{labels: '{{alertname=\"{alert}\"}}', value: 1}}"),
        };
        file += &format!(
            "  - name: {outcome}\n    interval: 15s\n    input_series:\n      \
             - {{series: fencing_nodes, values: 5x80}}\n      \
             - {{series: '{metric}{{instance=\"s\",outcome=\"{outcome}\"}}', values: 1+10x80}}\n    \
             promql_expr_test:\n      - eval_time: 15m\n        \
             expr: count by (alertname) (ALERTS{{alertstate=\"firing\"}})\n        \
             exp_samples: [{fires}]\n"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outcomes.yaml");
    std::fs::write(&path, &file).unwrap();
    promtool(&["test", "rules", path.to_str().unwrap()]);
}
