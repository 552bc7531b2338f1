use ::redis::Value;

use fencing_protocol::{Resource, Token, TokenError};

use super::{Closed, FencedError};
use crate::fence::Stale;

/// The reply of a script: a word, and its values.
pub(super) struct ScriptAnswer {
    pub(super) word: String,
    pub(super) rest: Vec<Value>,
}

impl ScriptAnswer {
    /// Reads an answer, and returns what it refuses whatever was asked for.
    pub(super) fn of(value: Value) -> Result<ScriptAnswer, FencedError> {
        let Value::Array(parts) = value else { return Err(unknown(&value)) };
        let mut parts = parts.into_iter();
        let Some(word) = parts.next().as_ref().and_then(text) else {
            return Err(FencedError::InDoubt("an empty reply".into()));
        };
        match word.as_str() {
            "never-opened" => Err(FencedError::Closed(Closed::NeverOpened)),
            "other-life" => Err(FencedError::Closed(Closed::OtherLife)),
            "moved" => Err(FencedError::Closed(Closed::Moved)),
            _ => Ok(ScriptAnswer { word, rest: parts.collect() }),
        }
    }

    /// Returns a text of the answer; empty if it is not there.
    pub(super) fn text(&self, at: usize) -> String {
        self.rest.get(at).and_then(text).unwrap_or_default()
    }

    /// Returns a number of the answer.
    pub(super) fn number(&self, at: usize) -> Result<u64, FencedError> {
        match self.rest.get(at) {
            Some(Value::Int(number)) if *number >= 0 => Ok(number.cast_unsigned()),
            other => Err(unknown(other.unwrap_or(&Value::Nil))),
        }
    }

    /// Reads the answer of an admission: what the command has returned.
    pub(super) fn passed(&self, resource: &Resource, token: Token) -> Result<u64, FencedError> {
        match self.word.as_str() {
            "passed" => self.number(0),
            "stale" => {
                let highest = mark(resource, &self.text(0))?;
                Stale::check(resource, token, highest)?;
                Err(FencedError::InDoubt("the reported mark is not higher".into()))
            }
            "corrupt" => Err(corrupt(resource, &self.text(0))),
            "corrupt-floor" => Err(corrupt_floor(&self.text(0))),
            "wrong-type" => Err(FencedError::WrongType { found: short(&self.text(0)) }),
            _ => Err(FencedError::InDoubt("an unknown answer".into())),
        }
    }
}

/// Reads a mark; none if the text is empty.
pub(super) fn mark(resource: &Resource, found: &str) -> Result<Option<Token>, FencedError> {
    token(found).map_err(|_| corrupt(resource, found))
}

/// Reads the floor; none if the text is empty.
pub(super) fn floor(found: &str) -> Result<Option<Token>, FencedError> {
    token(found).map_err(|_| corrupt_floor(found))
}

fn token(found: &str) -> Result<Option<Token>, TokenError> {
    Some(found).filter(|found| !found.is_empty()).map(str::parse).transpose()
}

fn corrupt(resource: &Resource, found: &str) -> FencedError {
    FencedError::Corrupt { resource: resource.clone(), found: short(found) }
}

fn corrupt_floor(found: &str) -> FencedError {
    FencedError::CorruptFloor { found: short(found) }
}

pub(super) fn unknown(value: &Value) -> FencedError {
    FencedError::InDoubt(short(&format!("an unknown answer: {value:?}")))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

pub(super) fn short(text: &str) -> String {
    text.chars().filter(|found| !found.is_control()).take(200).collect()
}
