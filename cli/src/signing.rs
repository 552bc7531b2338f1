//! Signs sequencers by HMAC-SHA256 and seals texts by AES-256-GCM, with keys that `serve` shares with the fence.

use std::path::Path;

use fencing::Sequencer;
use fencing::http::{Fenced, Problem};
use fencing_protocol::NonEmpty;
use http::{HeaderMap, HeaderName, StatusCode};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::{Random, SystemRandom, generate};

use crate::exit::Failure;
use crate::listen::{ProblemKind, Refused};
use crate::say;
use crate::watched_files::WatchedFiles;

/// The header that carries a signature: the id of its key, a colon, and 64 hexadecimal digits.
pub(crate) const SIGNATURE: HeaderName = HeaderName::from_static("fencing-signature");

/// Prefix of signed text: the same key may sign other things.
const PREFIX: &str = "fencing-sequencer-v1\n";
const NOT_ISSUED: ProblemKind = ProblemKind::new(StatusCode::BAD_REQUEST, Problem::NOT_ISSUED);
const MIN_KEY: usize = 32;

/// Text whose HMAC under a key is the key of what it seals.
const SEALING: &str = "fencing-seal-v1\n";

/// The keys in a file, one a line: an id, `=`, and hexadecimal digits. The first one signs, and all verify.
pub(crate) struct SigningKeys(WatchedFiles<NonEmpty<SigningKey>>);

struct SigningKey {
    id: String,
    signs: Key,
    seals: LessSafeKey,
}

impl SigningKeys {
    pub(crate) fn open(path: &Path) -> Result<SigningKeys, Failure> {
        WatchedFiles::open(vec![path.to_owned()], |texts| parse(&texts.concat())).map(SigningKeys)
    }

    pub(crate) fn sign(&self, sequencer: &Sequencer) -> String {
        let keys = self.0.now();
        let SigningKey { id, signs, .. } = keys.first();
        format!("{id}:{}", hex::encode(hmac::sign(signs, text(sequencer).as_bytes())))
    }

    /// Encrypts a text, so that only a process with the keys can read it, and none without them can make another:
    /// the id of the key, a colon, and hexadecimal digits.
    pub(crate) fn seal(&self, text: &str) -> Option<String> {
        let keys = self.0.now();
        let SigningKey { id, seals, .. } = keys.first();
        let nonce = random()?;
        let mut bytes = text.as_bytes().to_vec();
        seals.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut bytes).ok()?;
        Some(format!("{id}:{}{}", hex::encode(nonce), hex::encode(bytes)))
    }

    pub(crate) fn unseal(&self, sealed: &str) -> Option<String> {
        let (id, digits) = sealed.split_once(':')?;
        // One text in one spelling.
        let bytes = hex::decode(digits).ok().filter(|bytes| hex::encode(bytes) == digits)?;
        let (nonce, bytes) = bytes.split_at_checked(NONCE_LEN)?;
        self.0.now().iter().filter(|key| key.id == id).find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut bytes = bytes.to_vec();
            let text = key.seals.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?;
            String::from_utf8(text.to_vec()).ok()
        })
    }

    fn verify(&self, sequencer: &Sequencer, signature: &str) -> bool {
        let Some((id, digits)) = signature.split_once(':') else { return false };
        let Ok(tag) = hex::decode(digits) else { return false };
        let signed = |key: &SigningKey| hmac::verify(&key.signs, text(sequencer).as_bytes(), &tag).is_ok();
        self.0.now().iter().any(|key| key.id == id && signed(key))
    }

    /// Refuses tokens of which no key says that they were issued. It asks nothing of the marks, and raises none.
    pub(crate) fn check(&self, headers: &HeaderMap, fenced: &Fenced) -> Result<(), Refused> {
        let sequencers = fenced.sequencers();
        let signatures: Vec<_> = headers.get_all(&SIGNATURE).iter().flat_map(|it| it.to_str()).collect();
        let is_signed = |sequencer| signatures.iter().any(|signature| self.verify(sequencer, signature));
        if signatures.len() == sequencers.len() && sequencers.iter().all(is_signed) {
            return Ok(());
        }
        metrics::counter!("fencing_admissions_total", "layer" => "http", "outcome" => "not_issued").increment(1);
        let tokens = say::listed(&sequencers, ", ");
        Err(NOT_ISSUED.because(format_args!("header {SIGNATURE}: no signature for {tokens}")))
    }
}

/// Returns bytes that nobody can guess, if the system has any.
pub(crate) fn random<const N: usize>() -> Option<[u8; N]> {
    generate(&SystemRandom::new()).map(Random::expose).ok()
}

/// A token never holds a space: the pair has one text.
fn text(sequencer: &Sequencer) -> String {
    format!("{PREFIX}{sequencer}")
}

fn parse(text: &str) -> Result<NonEmpty<SigningKey>, String> {
    let mut keys = Vec::new();
    let lines = text.lines().map(str::trim).enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let wrong = |why: &str| format!("line {}: {why}", number + 1);
        let (id, digits) = line.split_once('=').ok_or_else(|| wrong("write ID=KEY"))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || !id.chars().all(plain) {
            return Err(wrong("the id may have only letters, digits, '-', '_' and '.'"));
        }
        let secret = hex::decode(digits).ok().filter(|secret| secret.len() >= MIN_KEY);
        let secret = secret.ok_or_else(|| wrong("the key must have at least 64 hexadecimal digits"))?;
        let signs = Key::new(HMAC_SHA256, &secret);
        let sealing = hmac::sign(&signs, SEALING.as_bytes());
        let seals = UnboundKey::new(&AES_256_GCM, sealing.as_ref()).map_err(|error| wrong(&error.to_string()))?;
        keys.push(SigningKey { id: id.to_owned(), signs, seals: LessSafeKey::new(seals) });
    }
    NonEmpty::from_vec(keys).ok_or_else(|| "no key".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let (sealed, again) = (both.seal("a text").unwrap(), both.seal("a text").unwrap());
        assert!(sealed.starts_with("new:") && sealed != again);
        assert_eq!(both.unseal(&sealed).as_deref(), Some("a text"));
        let old_one = before.seal("old").unwrap();
        assert_eq!(both.unseal(&old_one).as_deref(), Some("old"));
        assert_eq!(before.unseal(&sealed), None);
        let cut = sealed.get(..sealed.len() - 2).unwrap();
        for forged in ["", "new:", cut, &sealed.replace("new:", "old:"), &sealed.replace(':', "")] {
            assert_eq!(both.unseal(forged), None, "{forged}");
        }
        for wrong in ["", "a", "a=", "a=0b", "a b=0b", &format!("a=zz{new}")] {
            fs::write(&path, wrong).unwrap();
            assert!(SigningKeys::open(&path).is_err(), "{wrong}");
        }
    }
}
