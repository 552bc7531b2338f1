//! The databases' own clients.

/// What a client printed, or its error.
pub fn output(command: &mut std::process::Command) -> Result<String, String> {
    let output = command.stdin(std::process::Stdio::null()).output();
    let output = output.expect("the client is installed: tests/run does that");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Quotes a name or a text.
pub fn quote(text: &str, mark: char) -> String {
    format!("{mark}{}{mark}", text.replace(mark, &format!("{mark}{mark}")))
}
