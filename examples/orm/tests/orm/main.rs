//! The examples `diesel` and `sea_orm` on real databases, and how their transactions get on
//! with the crate's own.

mod diesel;
mod sea_orm;

use std::process::{Command, Stdio};

use fencing::fence::Stale;
use fencing::{Resource, Token};

fn report() -> Resource {
    Resource::new("files/report").unwrap()
}

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

fn refusal(presented: u64, highest: u64) -> Stale {
    Stale::check(&report(), token(presented), Some(token(highest))).unwrap_err()
}

/// Runs an example on a database to its end: what it printed.
fn example(name: &str, database: &str) -> String {
    let binary = match name {
        "diesel" => env!("CARGO_BIN_EXE_diesel"),
        _ => env!("CARGO_BIN_EXE_sea_orm"),
    };
    let mut command = Command::new(binary);
    command.arg(database).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

const FIRST_RUN: &str = "\
first: written with token 33
second: written with token 34
late: refused, token 33 of files/report is stale, high water 34
again: written with token 34
";

const SECOND_RUN: &str = "\
first: refused, token 33 of files/report is stale, high water 34
second: written with token 34
late: refused, token 33 of files/report is stale, high water 34
again: written with token 34
";
