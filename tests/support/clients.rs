//! Programs of others: the databases' own clients, and openssl.

use std::path::Path;
use std::process::Command;

pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(std::process::Stdio::null()).output();
    let output = output.expect("the client is installed: tests/run does that");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

pub fn quote(text: &str, mark: char) -> String {
    format!("{mark}{}{mark}", text.replace(mark, &format!("{mark}{mark}")))
}

/// Makes a key and a certificate for this name that vouches for itself: the files `key` and `certificate`.
pub fn certify(folder: &Path, name: &str) {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(folder).args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]);
    openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=fencing"]);
    openssl.args(["-addext", &format!("subjectAltName={name}")]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    output(openssl.args(["-keyout", "key", "-out", "certificate"])).unwrap();
}
