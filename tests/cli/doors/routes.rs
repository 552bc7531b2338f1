//! The OpenAPI descriptions name the routes that exist, and no others.

use std::collections::BTreeMap;

use super::*;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "PATCH"];

/// The methods and the statuses of each path in a description.
pub fn routes(text: &str) -> BTreeMap<String, BTreeMap<String, Vec<u16>>> {
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

/// Asserts that these are the methods of this path, and that the answer has one of the described statuses.
fn assert_answers(at: SocketAddr, path: &str, sent: &str, methods: &BTreeMap<String, Vec<u16>>) {
    for method in METHODS {
        let answer = ask(at, method, sent, &[], "");
        let statuses = methods.get(method).map_or(&[405][..], Vec::as_slice);
        assert!(statuses.contains(&answer.status), "{method} {path}: {answer:?}");
    }
}

#[test]
fn the_description_of_serve_names_its_routes() {
    let servers = five();
    let door = Door::serve(&servers, "");
    let text = include_str!("../../../cli/openapi/serve.yaml");
    assert_eq!(door.get("/openapi.yaml").text(), text);
    assert_eq!(door.page("/openapi.yaml").text(), text);
    let mut routes = routes(text);
    // A name may end so, too: other methods are those of a lease.
    let events = routes.remove("/leases/{lease}/events").unwrap();
    assert!(events["GET"].contains(&door.get("/leases/a/events").status));
    let paths: Vec<&str> = routes.keys().map(String::as_str).collect();
    assert_eq!(paths, ["/leases/{lease}", "/openapi.yaml"]);
    for (path, methods) in &routes {
        assert_answers(door.requests, path, &path.replace("{lease}", "a"), methods);
    }
    let lease = door.acquire("b", r#"{"wait_ms": 20000}"#).json();
    for field in ["resource", "token", "sequencer", "lease_id", "ttl_ms", "valid_for_ms"] {
        let described = text.contains(&format!("        {field}: {{"));
        assert!(!lease[field].is_null() && described, "{field}");
    }
    for method in ["GET", "PUT", "DELETE"] {
        let other = door.ask(method, "/leases/%ff", &[], "").is(404, "no-lease");
        assert_eq!(other.header("cache-control"), Some("no-store"));
    }
    assert_eq!(door.get("/leases").status, 404);
    assert_eq!(door.get("/").status, 404);
}

#[test]
fn the_description_of_the_proxy_names_the_routes_of_its_status_port() {
    let (_upstream, door) = proxied("");
    let text = include_str!("../../../cli/openapi/proxy.yaml");
    assert_eq!(door.page("/openapi.yaml").text(), text);
    let routes = routes(text);
    assert_eq!(routes.len(), 4, "{routes:?}");
    for (path, methods) in &routes {
        assert_answers(door.status, path, path, methods);
    }
    assert_eq!(door.page("/other").status, 404);
}
