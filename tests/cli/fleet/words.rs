//! What `fencing fleet` says of its use, and what it never says.

use crate::fleet::place::{command, fencing, init, lease, list, mover, nodes, servers};
use support::cli::finish;

#[test]
fn wrong_usage_is_64_and_help_is_0() {
    let (one, two) = ("redis://a,redis://b,redis://c", "redis://a,redis://b,redis://d");
    let mv = |more: &[&'static str]| [&["fleet", "move"], more].concat();
    for (arguments, words) in [
        (vec!["fleet"], "Usage: fencing fleet"),
        (vec!["fleet", "walk"], "unrecognized subcommand"),
        (vec!["fleet", "init", "--redis", ","], "there must be 1 to 99 nodes"),
        (vec!["fleet", "init", "--redis", "http://h"], "http://h is not a redis://"),
        (vec!["fleet", "admit", "--redis", one, "--yes"], "--now"),
        (vec!["fleet", "admit", "--redis", one, "--now"], "Add --yes"),
        (mv(&["--from", one]), "--to"),
        (mv(&["--from", one, "--to", one]), "the same"),
        (mv(&["--from", one, "--to", two, "--yes"]), "--lost"),
        (mv(&["--from", one, "--to", two, "--lost"]), "Add --yes"),
        (mv(&["--from", one, "--to", "a=redis://a,a=redis://b"]), "--to: nodes: a is given twice"),
        (mv(&["--from", "http://a", "--to", two]), "--from: redis: http://a is not a redis://"),
        (mv(&["--from", one, "--to", two, "--ttl", "1"]), "500ms, 2s, 1m"),
    ] {
        let mut command = command("", &arguments);
        command.env_remove("FENCING_REDIS");
        finish(command).says(64, words);
    }
    for action in ["init", "admit", "move"] {
        let ended = fencing("", &["fleet", action, "--help"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert!(ended.stdout.contains("Exit status:"), "{}", ended.stdout);
    }
}

#[test]
fn passwords_are_never_printed() {
    let servers = servers(4);
    for server in &servers {
        server.cli(&["CONFIG", "SET", "requirepass", "s3cret"]);
    }
    let secret = |servers: &[support::redis::RedisServer]| {
        let urls = servers.iter().map(|server| format!("{}?pass=s3cret", server.url()));
        urls.collect::<Vec<_>>().join(",")
    };
    let (one, two) = (secret(&servers[..3]), secret(&servers[1..]));
    let mut texts = Vec::new();
    let mut told = |command| {
        let ended = finish(command);
        texts.push(format!("{}{}", ended.stdout, ended.stderr));
        ended
    };
    let wrong = one.replace("s3cret", "s3cret-not");
    assert_eq!(told(command(&wrong, &["fleet", "init"])).code, Some(69));
    assert_eq!(told(command(&one, &["fleet", "init"])).code, Some(0));
    assert_eq!(told(command(&wrong, &["fleet", "admit"])).code, Some(69));
    assert_eq!(told(command(&one, &["fleet", "admit"])).code, Some(0));
    assert_eq!(told(mover(&wrong, &two)).code, Some(69));
    assert_eq!(told(mover(&one, &two.replace("s3cret", "s3cret-not"))).code, Some(69));
    let mut hidden = command("", &["fleet", "move"]);
    hidden.env("FENCING_FROM", &one).env("FENCING_TO", &two);
    assert_eq!(told(hidden).code, Some(0));
    let mut help = command("", &["fleet", "move", "--help"]);
    help.env("FENCING_FROM", &one).env("FENCING_TO", &two);
    assert_eq!(told(help).code, Some(0));
    assert_eq!(told(command("", &["fleet", "move", &one])).code, Some(64));
    for text in texts {
        assert!(!text.is_empty() && !text.contains("s3cret"), "{text}");
    }
    assert!(lease(&two, &["--wait", "20s"]).is_ok());
}

#[test]
fn a_namespace_is_a_fleet_of_its_own() {
    let servers = servers(4);
    let (one, two) = (list(&servers[..3]), list(&servers[1..]));
    init(&one);
    let other = ["--namespace", "other"];
    for action in [["fleet", "init"], ["fleet", "admit"]] {
        let ended = fencing(&two, &[action, other].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let mut back = mover(&two, &one);
    back.args(other);
    assert_eq!(finish(back).code, Some(0));
    nodes(&one).assert_code(0, "");
    assert!(lease(&one, &["--wait", "0s"]).is_ok());
    assert!(lease(&one, &["--namespace", "other", "--wait", "20s"]).is_ok());
}
