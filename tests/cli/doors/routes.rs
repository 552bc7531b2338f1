//! The OpenAPI descriptions name the routes that exist, and no others.

use std::collections::BTreeMap;

use super::Door;
use super::client::{ask, get};
use super::upstream::Upstream;
use support::cli::five;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "PATCH"];

/// The methods and the statuses of each path in a description.
fn routes(text: &str) -> BTreeMap<String, BTreeMap<String, Vec<u16>>> {
    let mut found: BTreeMap<String, BTreeMap<String, Vec<u16>>> = BTreeMap::new();
    let paths = text.lines().skip_while(|line| *line != "paths:").skip(1);
    let (mut path, mut method) = (String::new(), String::new());
    for line in paths.take_while(|line| line.starts_with(' ')) {
        let indent = line.len() - line.trim_start().len();
        let key = line.trim().split(": ").next().unwrap().trim_end_matches(':');
        match indent {
            2 => path = key.to_owned(),
            4 if METHODS.contains(&&*key.to_uppercase()) => {
                method = key.to_uppercase();
                found.entry(path.clone()).or_default().insert(method.clone(), Vec::new());
            }
            8 if key.starts_with('"') => {
                let status = key.trim_matches('"').parse().unwrap();
                found.get_mut(&path).unwrap().get_mut(&method).unwrap().push(status);
            }
            _ => {}
        }
    }
    found
}

#[test]
fn the_description_of_serve_names_its_routes() {
    let servers = five();
    let door = Door::serve(&servers, &[]);
    let text = include_str!("../../../cli/openapi/serve.yaml");
    assert_eq!(get(door.requests, "/openapi.yaml").text(), text);
    assert_eq!(get(door.status, "/openapi.yaml").text(), text);
    let mut routes = routes(text);
    // Two descriptions of one path: a name or an id, as the method wants it.
    let names = routes.remove("/leases/{name}").unwrap();
    routes.get_mut("/leases/{lease_id}").unwrap().extend(names);
    assert_eq!(routes.len(), 3, "{routes:?}");
    let allowed = ["/leases/{lease_id}", "/health", "/openapi.yaml"];
    for path in allowed {
        for method in METHODS {
            let sent = path.replace("{lease_id}", "a");
            let answer = ask(door.requests, method, &sent, &[], "");
            match routes[path].get(method) {
                Some(statuses) => {
                    assert!(statuses.contains(&answer.status), "{method} {path}: {answer:?}");
                }
                None => assert_eq!(answer.status, 405, "{method} {path}: {answer:?}"),
            }
        }
    }
    let lease = ask(door.requests, "POST", "/leases/b", &[], "").json();
    for field in ["resource", "token", "sequencer", "lease_id", "ttl_ms", "valid_for_ms"] {
        assert!(
            !lease[field].is_null() && text.contains(&format!("        {field}: {{")),
            "{field}"
        );
    }
    assert_eq!(get(door.requests, "/leases").status, 404);
    assert_eq!(get(door.requests, "/").status, 404);
}

#[test]
fn the_description_of_the_proxy_names_the_routes_of_its_status_port() {
    let door = Door::proxy(&Upstream::start(), &[]);
    let text = include_str!("../../../cli/openapi/proxy.yaml");
    assert_eq!(get(door.status, "/openapi.yaml").text(), text);
    let routes = routes(text);
    assert_eq!(routes.len(), 4, "{routes:?}");
    for (path, methods) in &routes {
        for method in METHODS {
            let answer = ask(door.status, method, path, &[], "");
            match methods.get(method) {
                Some(statuses) => assert!(statuses.contains(&answer.status), "{method} {path}"),
                None => assert_eq!(answer.status, 405, "{method} {path}"),
            }
        }
    }
    assert_eq!(get(door.status, "/other").status, 404);
}
