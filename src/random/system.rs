/// Returns the milliseconds since 1970, if the clock shows a time that 48 bits have room for.
pub(super) fn millis() -> Option<u128> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.ok().map(|now| now.as_millis()).filter(|millis| *millis < 1 << 48)
}

pub(super) fn fill(bytes: &mut [u8]) {
    if getrandom::fill(bytes).is_ok() {
        return;
    }
    // There is no entropy source. The time and the process id still tell owners apart.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos();
    let apart = (now ^ (u128::from(std::process::id()) << 96)).to_le_bytes();
    bytes.iter_mut().zip(apart).for_each(|(byte, apart)| *byte = apart);
}
