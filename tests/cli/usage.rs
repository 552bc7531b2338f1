//! Wrong usage is 64, what cannot be reached is 69, and no password is shown.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use support::cli::{ask, end, fencing, finish};

const SECRET: &str = "redis://me:s3cret@127.0.0.1:1";

/// Command lines, and words of what is said; `$R` names nodes, `$D` a database, `$P` a proxy.
const WRONG: &[(&str, &str)] = &[
    ("", "Usage: fencing"),
    (SECRET, "***"),
    ("nodes", "--redis"),
    ("nodes --redis ,", "there must be 1 to 99 nodes"),
    ("nodes --redis http://h", "http://h is not a redis://"),
    ("nodes --redis redis://h,redis://h", "given twice"),
    ("nodes --redis redis://h --namespace {", "namespace"),
    ("nodes redis://me:s3cret@h", "***"),
    // A shell has split the URL at a character of the password.
    ("nodes --redis redis://me:pass s3cret@h", "***"),
    ("run $R --resource= -- true", "--resource"),
    ("run $R --resource a --ttl 5 -- true", "500ms, 2s, 1m"),
    ("run $R --resource a --wait=-1s -- true", "--wait"),
    ("run $R --resource a --at-least 11s -- true", "--ttl 10s: give --ttl 11s or more"),
    ("run $R --resource a --ttl 1ms -- true", "ttl: "),
    ("run $R --resource a --node-budget 10s -- true", "node_budget: "),
    ("run $R redis://me:s3cret@h --resource a -- true", "***"),
    ("run --redis http://me:s3cret@h --resource a -- true", "is not a redis://"),
    ("run --redis redis://me:s3cret@h:port --resource a -- true", "redis: "),
    ("run --redis redis://me:s3cret@a,http://b --resource a -- true", "b is not a redis://"),
    ("run --redis memory: --resource a -- true", "is not a redis://"),
    ("run --resource a -- true", "FENCING_DATABASE"),
    ("run $R --database sqlite:/x --resource a -- true", "cannot be used with"),
    ("run --database sqlite: --resource a -- true", "keeps no other process out"),
    ("run --database sqlite::memory: --resource a -- true", "keeps no other process out"),
    ("run --database oracle:x --resource a -- true", "must begin with sqlite:, postgres: or mysql:"),
    ("run $D postgres://me:s3cret@h --resource a -- true", "***"),
    ("run --database mysql://me:s3cret@h:port/d --resource a -- true", "the mysql URL is not usable"),
    ("run --database postgres://me:s3cret@h:port/d --resource a -- true", "the postgres URL is not usable"),
    ("run --database sqlite:/no/folder/x --resource a -- true", "the folder /no/folder does not exist"),
    ("run --database sqlite:x --namespace ns --resource a -- true", "--namespace is for nodes"),
    ("run --lock redis://h --redis redis://h --resource a -- true", "cannot be used with"),
    ("run --lock sqlite:/x --database sqlite:/x --resource a -- true", "cannot be used with"),
    ("run --lock http://me:s3cret@h --resource a -- true", "--lock: the URL of a lock service must begin with"),
    ("run --lock sqlite:x --namespace ns --resource a -- true", "--namespace is for nodes"),
    ("leases --lock memory:", "in memory have no operator"),
    ("raise --lock sqlite:x --above 7", "fencing db marks raise-floor"),
    ("raise --lock a=redis://h --above 7", "fencing fleet"),
    ("fleet recover $R --yes", "--now"),
    ("fleet recover $R --now", "Add --yes"),
    ("fleet move --from redis://a,redis://b --to redis://a,redis://b", "the same"),
    ("fleet move --from redis://a --to redis://b --yes", "--lost"),
    ("fleet move --from redis://a --to redis://b --lost", "Add --ttl and --yes"),
    ("fleet move --from redis://a --to redis://b --lost --yes", "Add --ttl and --yes"),
    ("fleet move --from redis://a --to a=redis://a,a=redis://b", "--to: nodes: a is given twice"),
    ("fleet move --from http://a --to redis://b", "--from: redis: http://a is not a redis://"),
    ("fleet move redis://me:s3cret@h", "***"),
    ("serve $R --longest-ttl 5s", "--ttl 10s is longer than --longest-ttl 5s"),
    ("db migrate", "--database"),
    ("db migrate --database redis://me:s3cret@h", "must begin with sqlite:, postgres: or mysql:"),
    ("db marks postgres://me:s3cret@h", "***"),
    ("db marks postgres://me:s3,s3cret@h/d", "***"),
    ("db marks raise $D --resource a --token 0", "--token"),
    ("db marks --database mysql://me:s3cret@h:port/x", "--database"),
    ("db protect $D --table t", "--column"),
    ("db protect $D --table= --column c", "the name of a table or column"),
    ("db protect $D --table t --column c,", "the name of a table or column"),
    ("db protect $D --table t --resource r --prefix x", "--prefix"),
    ("db protect --database mysql://127.0.0.1 --check", "names no database"),
    ("watch $R --marks mysql://127.0.0.1", "the marks: the URL names no database"),
    ("db protect $D --table t --column c --remove", "--remove"),
    ("db protect $D --remove --yes", "--table"),
    ("proxy --upstream http://127.0.0.1:9", "--marks"),
    ("proxy --upstream http://127.0.0.1:9 --marks sqlite::memory: --namespace n", "--namespace"),
    ("$P --namespace n", "--namespace"),
    ("$P --resource-from /a", "--resource-from"),
    ("$P --resource-from /a={id}", "--resource-from"),
    ("$P --resource-from /a/{name}={name} --resource-from /a/{id}=a/{id}", "another pattern matches the same paths"),
];

/// The same for what does not answer.
const UNAVAILABLE: &[(&str, &str)] = &[
    ("run --redis $S --wait 0s --resource a -- true", "no quorum"),
    ("nodes --redis $S", "no quorum"),
    ("nodes --redis unix:///nowhere?user=me&pass=s3cret", "no quorum"),
    ("run $D --wait 1ms --resource a -- true", "Connection refused"),
    ("run $D --ttl 1s --wait 0s --resource a -- true", "postgres://127.0.0.1:1/d"),
    ("run --database mysql://me:s3cret@127.0.0.1:1/d --wait 0s --resource a -- true", "mysql://127.0.0.1:1/d"),
    ("proxy --upstream http://127.0.0.1:9 --marks redis+unix:///nowhere", "cannot be reached"),
    ("db protect $D --check", ""),
    ("db marks $D", ""),
    ("db migrate --database mysql://me:s3cret@127.0.0.1:1/x", ""),
];

#[test]
fn what_is_wrong_is_said_and_passwords_are_not() {
    let wrong = WRONG.iter().map(|(line, words)| (line, 64, words));
    for (line, code, words) in wrong.chain(UNAVAILABLE.iter().map(|(line, words)| (line, 69, words))) {
        let line = line
            .replace("$R", "--redis redis://h")
            .replace("$D", "--database postgres://me:s3cret@127.0.0.1:1/d")
            .replace("$P", "proxy --upstream http://127.0.0.1:9 --forget-marks-on-exit")
            .replace("$S", SECRET);
        let ended = ask("", &line);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(code), "{line}: {said}");
        assert!(!ended.stderr.is_empty() && ended.stderr.contains(words), "{line}: {said}");
        let printed = line.starts_with("nodes ") || line.starts_with("fleet move ");
        assert!(printed || ended.stdout.is_empty(), "{line}: {said}");
        assert!(!said.contains("s3cret"), "{line}: {said}");
    }
}

#[test]
fn the_environment_may_be_wrong_and_is_not_shown() {
    for (variables, line, words) in [
        (
            &[("FENCING_HOLDER", "two words")][..],
            "run --redis redis://h",
            "FENCING_HOLDER: \"two words\" is not a valid holder name",
        ),
        (&[("FENCING_REDIS", SECRET), ("FENCING_DATABASE", SECRET)], "run", "both FENCING_REDIS and FENCING_DATABASE"),
        (
            &[("FENCING_LOCK", "etcd://me:s3cret@h"), ("FENCING_DATABASE", SECRET)],
            "run",
            "both FENCING_LOCK and FENCING_DATABASE",
        ),
    ] {
        let mut command = fencing("", &format!("{line} --resource a -- true"));
        command.envs(variables.iter().copied());
        let ended = finish(command).says(64, words);
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
    }
    let mut command = fencing("", "nodes");
    command.env("FENCING_LOCK", "etcd://h");
    finish(command).says(64, "FENCING_LOCK is for run, serve,");
    // A list of servers that share a scheme, as the library reads it.
    let list = "redis://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3";
    for option in ["--lock", "--redis"] {
        finish(fencing("", &format!("leases {option} {list}"))).says(69, "redis://127.0.0.1:3: unreachable");
    }
    // One for each option that has a variable.
    for (line, words) in [
        ("--help", "Usage: fencing"),
        ("--version", "fencing"),
        ("run --help", "Exit status:"),
        ("fleet move --help", "Exit status:"),
        ("watch --help", "fencing watch"),
        ("db marks --help", "fencing db marks"),
        ("db protect --help", "fencing db protect"),
        ("proxy --help", "fencing proxy"),
    ] {
        let mut command = fencing("", line);
        let names = ["LOCK", "REDIS", "DATABASE", "FROM", "TO", "MARKS"].map(|it| format!("FENCING_{it}"));
        command.envs(names.map(|name| (name, SECRET)));
        let printed = finish(command).printed();
        assert!(printed.contains(words) && !printed.contains("s3cret"), "{line}: {printed}");
    }
}

#[test]
fn a_result_that_cannot_be_written_is_no_success() {
    for line in ["--help", "db migrate --print --database sqlite:x"] {
        let mut full = fencing("", line);
        full.stdout(std::fs::File::create("/dev/full").unwrap());
        end(full.spawn().unwrap()).says(74, "the output could not be written: No space left on device");
    }
}

/// The commands in the code of a page: of the lines of its blocks, and between backticks.
fn commands(page: &str) -> BTreeSet<String> {
    let (mut code, mut is_block) = (Vec::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            code.push(line.trim());
        } else {
            code.extend(line.split('`').skip(1).step_by(2));
        }
    }
    let command = |code: &str| {
        let words = code.strip_prefix("fencing ")?.split_whitespace();
        let words = words.take_while(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
        let words: Vec<&str> = words.take_while(|word| !word.starts_with('-')).collect();
        let is_group = matches!(words.first(), Some(&("db" | "fleet")));
        Some(words[..words.len().min(1 + usize::from(is_group))].join(" "))
    };
    code.into_iter().filter_map(command).collect()
}

#[test]
fn the_commands_of_the_documents_and_of_the_units_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["", "docs", "docs/guide", "docs/reference", "docs/assurance", "clients/python", "clients/node"]
        .map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let pages = files.filter(|file| file.extension().is_some_and(|kind| kind == "md"));
    let all: BTreeSet<String> = pages.flat_map(|page| commands(&fs::read_to_string(page).unwrap())).collect();
    assert!(all.len() > 15, "{all:?}");
    for command in all {
        ask("", &format!("{command} --help")).is(0);
    }
    // With their options.
    for unit in ["fencing-serve", "report"] {
        let text = fs::read_to_string(root.join(format!("ops/{unit}.service"))).unwrap();
        let command = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/fencing ")).unwrap();
        ask("", &format!("{} --help", command.split(" -- ").next().unwrap())).is(0);
    }
}
