//! Bytes that are nearly what they should be.

use fastrand::Rng;

/// Spoils a good text a few times: bytes changed, left out, doubled, put in, cut off.
pub fn spoiled(good: &[u8], rng: &mut Rng) -> Vec<u8> {
    const LIKED: &[u8] = b"\r\n\0 \t0129-+:$*_,%(#\"{}[]\\u;.eE\x7f\x80\xff\xc3\xa9";
    let mut bytes = good.to_vec();
    for _ in 0..rng.u8(0..6) {
        let at = rng.usize(0..=bytes.len());
        let byte = if rng.bool() { LIKED[rng.usize(0..LIKED.len())] } else { rng.u8(..) };
        match rng.u8(0..6) {
            0 if at < bytes.len() => bytes[at] = byte,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.truncate(at),
            3 => {
                let piece = bytes[at..].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.insert(at, byte),
        }
        bytes.truncate(4096);
    }
    bytes
}

pub fn one<'a>(of: &[&'a str], rng: &mut Rng) -> &'a str {
    of[rng.usize(0..of.len())]
}
