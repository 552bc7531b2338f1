//! What `fencing` never says of a fleet, and what a namespace keeps apart.

use crate::fleet::place::*;

#[test]
fn passwords_are_never_printed() {
    let servers = servers(4);
    for server in &servers {
        server.cli(&["CONFIG", "SET", "requirepass", "s3cret"]);
    }
    let with = |password: &str, servers: &[RedisServer]| {
        let urls = servers.iter().map(|server| format!("{}?pass={password}", server.url()));
        urls.collect::<Vec<_>>().join(",")
    };
    let (one, two) = (with("s3cret", &servers[..3]), with("s3cret", &servers[1..]));
    let (wrong, wrong_two) = (with("wr0ng", &servers[..3]), with("wr0ng", &servers[1..]));
    let init = "fleet init --node-budget 5s";
    let admit = "fleet admit --node-budget 2s";
    let mut by_environment = fencing("", "fleet move --node-budget 5s");
    by_environment.env("FENCING_FROM", &one).env("FENCING_TO", &two);
    for (command, code, words) in [
        (fencing(&wrong, init), 69, "not permitted: "),
        (fencing(&one, init), 0, ""),
        (fencing(&wrong, admit), 69, ""),
        (fencing(&one, admit), 0, ": admitted"),
        (fencing(&wrong, "nodes"), 69, "not permitted: "),
        (fencing(&servers[..3], "nodes"), 69, "(check user, password and ACL)"),
        (fencing(&one, "nodes --node-budget 2s"), 0, ": admitted"),
        (mover(&wrong, &two), 69, ""),
        (mover(&one, &wrong_two), 69, ""),
        (by_environment, 0, "moved. "),
        (fencing("", &format!("fleet move {one}")), 64, ""),
    ] {
        let ended = finish(command);
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(ended.code == Some(code) && text.contains(words), "{words}: {ended:?}");
        let shown = ["s3cret", "wr0ng"].iter().any(|password| text.contains(password));
        assert!(!text.is_empty() && !shown, "{text}");
    }
    lease(&two, "").unwrap();
}

#[test]
fn a_namespace_is_a_fleet_of_its_own() {
    let servers = servers(4);
    let (one, two) = (&servers[..3], &servers[1..]);
    init(one);
    for action in ["init", "admit"] {
        let ended = ask(two, &format!("fleet {action} --namespace other --node-budget 2s"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let mut back = mover(&urls(two), &urls(one));
    back.args(["--namespace", "other"]);
    assert_eq!(finish(back).code, Some(0));
    nodes(one, 0, "");
    lease(one, "--wait 0s").unwrap();
    lease(one, "--namespace other").unwrap();
}
