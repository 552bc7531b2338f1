/// 128 bits from the operating system.
pub(super) fn random() -> u128 {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // No entropy source: time and the process tell owners apart as well as can be.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos();
        return now ^ (u128::from(std::process::id()) << 96);
    }
    u128::from_le_bytes(bytes)
}
