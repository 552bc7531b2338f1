//! Private object stores: moto, which speaks S3, and Azurite, which speaks Azure Blob Storage.

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use crate::clients::output;
use crate::keeper::{Keeper, own_folder};
use crate::ports::free_port;

/// Where tests/run installs them, and the scripts beside this file.
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/object");
const SCRIPTS: &str = env!("CARGO_MANIFEST_DIR");

/// The account that every Azurite has.
pub const ACCOUNT: &str = "devstoreaccount1";
pub const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// One server for the whole process: each test has a bucket of its own.
static MOTO: LazyLock<Server> = LazyLock::new(|| {
    let python = format!("{INSTALLED}/moto/bin/python");
    Server::start(&[&python, &format!("{SCRIPTS}/s3_server.py"), "PORT"])
});
static AZURITE: LazyLock<Server> = LazyLock::new(|| {
    let azurite = format!("{INSTALLED}/azurite/node_modules/azurite/dist/src/blob/main.js");
    let options = ["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--location", "."];
    Server::start(&[&["node", &azurite, "--blobPort", "PORT"][..], &options[..]].concat())
});

struct Server {
    port: u16,
    _keeper: Keeper,
}

impl Server {
    fn start(program: &[&str]) -> Server {
        let port = free_port();
        let folder: PathBuf = own_folder("fencing-objects", &[]);
        let word = |&word: &&str| if word == "PORT" { port.to_string().into() } else { word.into() };
        let program = program.iter().map(word).collect();
        let mut shell = Command::new("sh");
        shell.current_dir(&folder);
        let ready = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        Server { port, _keeper: Keeper::start(shell, &folder, "KILL", program, ready) }
    }
}

pub fn moto() -> String {
    format!("http://127.0.0.1:{}", MOTO.port)
}

pub fn azurite() -> String {
    format!("http://127.0.0.1:{}/{ACCOUNT}", AZURITE.port)
}

/// What a program needs in its environment for `s3://BUCKET` to be in moto.
pub fn environment() -> [(&'static str, String); 5] {
    [
        ("AWS_ENDPOINT_URL", moto()),
        ("AWS_DEFAULT_REGION", "us-east-1".into()),
        ("AWS_ALLOW_HTTP", "true".into()),
        ("AWS_ACCESS_KEY_ID", "a".into()),
        ("AWS_SECRET_ACCESS_KEY", "b".into()),
    ]
}

/// The Python that has moto, and boto3.
pub fn python() -> Command {
    Command::new(format!("{INSTALLED}/moto/bin/python"))
}

pub fn bucket(name: &str) {
    output(Command::new("curl").args(["--noproxy", "*", "-sfX", "PUT", &format!("{}/{name}", moto())])).unwrap();
}

pub fn container(name: &str) {
    let script = format!("{SCRIPTS}/azure_container.py");
    output(Command::new("python3").args([&script, name, &azurite(), ACCOUNT, KEY])).unwrap();
}
