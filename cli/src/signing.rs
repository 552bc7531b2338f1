//! Sequencers that a lease service has signed: HMAC-SHA256 under a key that it shares with the fence.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use fencing::Sequencer;
use fencing::http::{Fenced, Problem};
use http::{HeaderMap, HeaderName, StatusCode};
use parking_lot::Mutex;
use ring::hmac::{self, HMAC_SHA256, Key};
use tokio::task::spawn_blocking;

use crate::exit::Failure;
use crate::listen::{HttpAnswer, ProblemKind};

/// The header that carries a signature: the id of its key, a colon, and 64 hexadecimal digits.
pub(crate) const SIGNATURE: HeaderName = HeaderName::from_static("fencing-signature");

/// Prefix of signed text: the same key may sign other things.
const PREFIX: &str = "fencing-sequencer-v1\n";
const NOT_ISSUED: ProblemKind = ProblemKind::new(StatusCode::BAD_REQUEST, Problem::NOT_ISSUED);
const MIN_KEY: usize = 32;
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The keys in a file, one a line: an id, `=`, and hexadecimal digits. The first one signs, and all
/// verify. A thread reads the file again and again: a file that does not answer holds up nothing else.
pub(crate) struct SigningKeys(Arc<Mutex<Parsed>>);

type Parsed = Vec<(String, Key)>;

impl SigningKeys {
    pub(crate) fn open(path: &Path) -> Result<SigningKeys, Failure> {
        let text = read(path).map_err(Failure::usage)?;
        let keys = Arc::new(Mutex::new(parse(path, &text).map_err(Failure::usage)?));
        let (follower, path) = (Arc::downgrade(&keys), path.to_owned());
        spawn_blocking(move || follow(&path, Ok(text), &follower));
        Ok(SigningKeys(keys))
    }

    pub(crate) fn sign(&self, sequencer: &Sequencer) -> String {
        self.0.lock().first().map_or_else(String::new, |(id, key)| {
            format!("{id}:{}", hex::encode(hmac::sign(key, text(sequencer).as_bytes())))
        })
    }

    fn verify(&self, sequencer: &Sequencer, signature: &str) -> bool {
        let Some((id, digits)) = signature.split_once(':') else { return false };
        let Ok(tag) = hex::decode(digits) else { return false };
        let keys = self.0.lock();
        let mut keys = keys.iter().filter(|(known, _)| known == id);
        keys.any(|(_, key)| hmac::verify(key, text(sequencer).as_bytes(), &tag).is_ok())
    }

    /// Refuses tokens of which no key says that they were issued. Nothing was asked of the marks then, and none was
    /// raised.
    pub(crate) fn refuse(&self, headers: &HeaderMap, fenced: &Fenced) -> Option<HttpAnswer> {
        let sequencers = fenced.sequencers();
        let signatures: Vec<_> = headers.get_all(&SIGNATURE).iter().flat_map(|it| it.to_str()).collect();
        let is_signed = |sequencer| signatures.iter().any(|signature| self.verify(sequencer, signature));
        if signatures.len() == sequencers.len() && sequencers.iter().all(is_signed) {
            return None;
        }
        metrics::counter!("fencing_admissions_total", "layer" => "http", "outcome" => "not_issued").increment(1);
        let tokens: Vec<String> = sequencers.iter().map(Sequencer::to_string).collect();
        let tokens = tokens.join(", ");
        Some(NOT_ISSUED.answer(format_args!("header {SIGNATURE}: no signature for {tokens}")))
    }
}

/// Takes over new keys when the file has changed. If they cannot be read, the old keys stay.
fn follow(path: &Path, mut seen: Result<String, String>, keys: &Weak<Mutex<Parsed>>) {
    loop {
        thread::sleep(POLL_INTERVAL);
        let now = read(path);
        let Some(keys) = keys.upgrade() else { return };
        if now == seen {
            continue;
        }
        match now.clone().and_then(|text| parse(path, &text)) {
            Ok(new) => *keys.lock() = new,
            Err(error) => {
                tracing::error!(%error, "cannot read the new signing keys: the old ones stay in use")
            }
        }
        seen = now;
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A token never holds a space: the pair has one text.
fn text(sequencer: &Sequencer) -> String {
    format!("{PREFIX}{sequencer}")
}

fn parse(path: &Path, text: &str) -> Result<Parsed, String> {
    let mut keys = Vec::new();
    let lines = text.lines().map(str::trim).enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let wrong = |why: &str| format!("{}, line {}: {why}", path.display(), number + 1);
        let (id, digits) = line.split_once('=').ok_or_else(|| wrong("write ID=KEY"))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || !id.chars().all(plain) {
            return Err(wrong("the id may have only letters, digits, '-', '_' and '.'"));
        }
        let secret = hex::decode(digits).ok().filter(|secret| secret.len() >= MIN_KEY);
        let secret = secret.ok_or_else(|| wrong("the key must have at least 64 hexadecimal digits"))?;
        keys.push((id.to_owned(), Key::new(HMAC_SHA256, &secret)));
    }
    if keys.is_empty() { Err(format!("{}: no key", path.display())) } else { Ok(keys) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signature_holds_for_its_pair_and_its_key_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let (old, new) = ("0a".repeat(32), "0b".repeat(32));
        fs::write(&path, format!("# rotated\nnew={new}\nold={old}\n")).unwrap();
        let both = SigningKeys::open(&path).unwrap();
        fs::write(&path, format!("old={old}\n")).unwrap();
        let before = SigningKeys::open(&path).unwrap();
        let pair: Sequencer = "34 files/a".parse().unwrap();
        let (by_new, by_old) = (both.sign(&pair), before.sign(&pair));
        // As any other program computes it.
        let known = "76f97415880715af9202d0c06588452f2824153f72ee05d6d839559e8f6c7523";
        assert_eq!(by_new, format!("new:{known}"));
        assert!(by_old.starts_with("old:"));
        assert!(both.verify(&pair, &by_new) && both.verify(&pair, &by_old));
        assert!(!before.verify(&pair, &by_new));
        for other in ["35 files/a", "34 files/b", "3 4 files/a"] {
            if let Ok(other) = other.parse() {
                assert!(!both.verify(&other, &by_new), "{other}");
            }
        }
        let renamed = by_new.replace("new:", "old:");
        let cut = by_new.get(..20).unwrap();
        for forged in ["", "new:", ":", cut, renamed.as_str(), &by_new.replace(':', " ")] {
            assert!(!both.verify(&pair, forged), "{forged}");
        }
        for wrong in ["", "a", "a=", "a=0b", "a b=0b", &format!("a=zz{new}")] {
            fs::write(&path, wrong).unwrap();
            assert!(SigningKeys::open(&path).is_err(), "{wrong}");
        }
    }
}
