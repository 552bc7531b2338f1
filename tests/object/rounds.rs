//! Kleppmann's client, over and over: a process that is paused between its read and its write, and a newer holder.

use std::process::Stdio;

use object_store::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::stores::{Kind, open, token};

const OBJECTS: u64 = 8;

/// The process of the older holder.
struct OldWriter {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl OldWriter {
    async fn start(kind: &str, url: &str, bucket: &str) -> OldWriter {
        let mut command = Command::new(env!("CARGO_BIN_EXE_old_writer"));
        command.args([kind, url, bucket]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("it is built");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let mut writer = OldWriter { _process: process, input, output };
        // The writes that test the store.
        loop {
            match &*writer.says().await {
                "sending" => writer.go().await,
                "open" => return writer,
                other => panic!("{other}"),
            }
        }
    }

    async fn says(&mut self) -> String {
        self.output.next_line().await.expect("it is text").expect("it is alive")
    }

    async fn line(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("it is alive");
    }

    async fn go(&mut self) {
        self.line("go").await;
    }

    /// Lets it begin a write, up to the point where the write would be sent.
    async fn begin(&mut self, path: &Path, token: u64, contents: &str) {
        self.line(&format!("{path} {token} {contents}")).await;
        assert_eq!(self.says().await, "sending");
    }

    /// Lets it send its write, and return what became of it.
    async fn end(&mut self) -> String {
        loop {
            self.go().await;
            match self.says().await {
                sending if sending == "sending" => {}
                end => return end,
            }
        }
    }
}

fn rounds() -> u64 {
    std::env::var("FENCING_ROUNDS").map_or(40, |rounds| rounds.parse().expect("FENCING_ROUNDS is a number"))
}

async fn no_late_write_is_applied(kind: Kind, name: &str) {
    let bucket = kind.bucket();
    let fence = open(&kind.at(&kind.url(), &bucket)).await;
    let mut old = OldWriter::start(name, &kind.url(), &bucket).await;
    let (mut applied, mut stale) = (0, 0);
    for round in 1..=rounds() {
        let path = Path::from(format!("object-{}", round % OBJECTS));
        let (older, newer) = (2 * round - 1, token(2 * round));
        old.begin(&path, older, "first").await;
        assert_eq!(old.end().await, "applied");

        // It remembers the version, and sleeps before it writes over it.
        old.begin(&path, older, "late").await;
        fence.claim(&path, newer).await.expect("it is the newest");
        assert_eq!(fence.get(&path).await.expect("it is there"), "first");
        let contents = format!("new {round}");
        fence.put(&path, newer, contents.clone().into()).await.expect("it is the newest");
        assert_eq!(old.end().await, "stale", "round {round}");
        assert_eq!(fence.get(&path).await.expect("it is there"), contents);

        // Both write at the same time: the older one comes first, or not at all.
        let path = Path::from(format!("race-{}", round % OBJECTS));
        old.begin(&path, older, "late").await;
        let (ended, claimed) = tokio::join!(old.end(), fence.claim(&path, newer));
        claimed.expect("it is the newest");
        match &*ended {
            "applied" => applied += 1,
            "stale" => stale += 1,
            other => panic!("{other}"),
        }
        fence.put(&path, newer, contents.clone().into()).await.expect("it is the newest");
        assert_eq!(fence.get(&path).await.expect("it is there"), contents);
    }
    println!("{} rounds; in a race {applied} came first, {stale} were refused", rounds());
}

#[tokio::test]
async fn no_late_write_is_applied_by_moto_or_azurite() {
    tokio::join!(no_late_write_is_applied(Kind::Moto, "moto"), no_late_write_is_applied(Kind::Azurite, "azurite"));
}
