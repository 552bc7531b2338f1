use std::fmt;
use std::time::Duration;

/// What a lock's node says, a line for each field. By hand, anything may have been written there.
pub(super) struct LockContents<'a> {
    /// The owner, and the name of the holder.
    pub(super) signature: &'a str,
    /// For how long the lock stays closed unless it is renewed.
    pub(super) closed_for: Option<Duration>,
    pub(super) session: Option<&'a str>,
    /// The zxid that the token counts from, if the lock was moved: that of another node.
    pub(super) first: Option<i64>,
}

impl<'a> LockContents<'a> {
    pub(super) fn parse(text: &'a str) -> LockContents<'a> {
        let mut lines = text.lines();
        LockContents {
            signature: lines.next().unwrap_or_default(),
            closed_for: lines.next().and_then(|millis| millis.parse().ok()).map(Duration::from_millis),
            session: lines.next(),
            first: lines.next().and_then(|zxid| zxid.parse().ok()),
        }
    }

    /// Returns the owner of the lock, or the first line of what was written by hand.
    pub(super) fn owner(&self) -> &'a str {
        self.signature.get(..32).unwrap_or(self.signature)
    }
}

impl fmt::Display for LockContents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (closed_for, session) = (self.closed_for.unwrap_or_default(), self.session.unwrap_or_default());
        write!(f, "{}\n{}\n{session}", self.signature, closed_for.as_millis())?;
        self.first.map_or(Ok(()), |first| write!(f, "\n{first}"))
    }
}
