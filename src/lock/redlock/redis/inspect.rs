use std::time::Duration;

use ::redis::Value;
use tokio::time::timeout;

use super::info::{Info, unfit};
use super::node::{RedisNode, connect, fault, info, nonsense};
use crate::quorum::Fault;

/// How a node stands, for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node, as an operator knows it; without password.
    pub node: String,
    /// The server's life: a restart shows another.
    pub run_id: String,
    /// The server's version; empty if it does not say.
    pub version: String,
    /// Whether it is a master.
    pub master: bool,
    /// Whether it is still loading its data set.
    pub loading: bool,
    /// Its limit of memory in bytes; zero is none.
    pub maxmemory: u64,
    /// Its `maxmemory-policy`.
    pub maxmemory_policy: String,
    /// The `run_id` that it was admitted under, which may be an older one than it has
    /// now; none if it was never admitted or has forgotten that.
    pub admitted_as: Option<String>,
    /// The era in which it counts.
    pub era: Option<u64>,
    /// How long it still grants nothing, since it was admitted.
    pub quarantine: Option<Duration>,
}

impl NodeReport {
    /// Whether it was admitted and has forgotten nothing since. In quarantine it is
    /// admitted, but grants nothing yet.
    #[must_use]
    pub fn admitted(&self) -> bool {
        self.admitted_as.as_deref() == Some(self.run_id.as_str())
    }

    /// Why it gives no vote now.
    #[must_use]
    pub fn problem(&self) -> Option<Fault> {
        let unfit = unfit(self.loading, self.master, self.maxmemory, &self.maxmemory_policy);
        unfit.or_else(|| match self.quarantine {
            _ if !self.admitted() => Some(Fault::NotAdmitted),
            Some(left) => Some(Fault::Quarantined(left)),
            None => None,
        })
    }

    /// Whether nothing stands against it but a quarantine, which ends by itself.
    #[must_use]
    pub fn usable(&self) -> bool {
        matches!(self.problem(), None | Some(Fault::Quarantined(_)))
    }
}

impl RedisNode {
    /// Asks the node how it stands, over a connection of its own, within `budget`.
    ///
    /// It only reads: a node is neither prepared nor admitted by it, and a lock service
    /// that uses the node does not notice.
    ///
    /// # Errors
    /// [`Fault`] if the node can't be asked. What it says against itself is in the report.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind.
    pub async fn inspect(&self, budget: Duration) -> Result<NodeReport, Fault> {
        timeout(budget, self.ask()).await.unwrap_or(Err(Fault::TimedOut))
    }

    async fn ask(&self) -> Result<NodeReport, Fault> {
        let mut connection = connect(&self.client).await?;
        let info = Info::read(&info(&mut connection).await?)?;
        let mut report = NodeReport {
            node: self.name.clone(),
            run_id: info.incarnation.as_str().to_owned(),
            version: info.version,
            master: info.master,
            loading: info.loading,
            maxmemory: info.maxmemory,
            maxmemory_policy: info.policy,
            admitted_as: None,
            era: None,
            quarantine: None,
        };
        // A loading server answers nothing, and a replica's copy proves nothing.
        if report.master && !report.loading {
            let mut pipe = ::redis::pipe();
            pipe.cmd("HMGET").arg(&self.keys.memory).arg("admitted").arg("era");
            pipe.cmd("PTTL").arg(&self.keys.quarantine);
            let value: Result<Value, _> = pipe.query_async(&mut connection).await;
            let value = value.map_err(|error| fault(&error))?;
            read(&mut report, &value).ok_or_else(|| nonsense(&format!("{value:?}")))?;
        }
        Ok(report)
    }
}

fn read(report: &mut NodeReport, value: &Value) -> Option<()> {
    let Value::Array(parts) = value else { return None };
    let [Value::Array(memory), Value::Int(left)] = parts.as_slice() else { return None };
    let [admitted, era] = memory.as_slice() else { return None };
    report.admitted_as = text(admitted)?;
    report.era = match text(era)? {
        Some(digits) => Some(digits.parse().ok()?),
        None => None,
    };
    // -2: there is none. A key without expiry was made by hand: it is never over by itself.
    report.quarantine = match *left {
        -2 => None,
        -1 => Some(Duration::MAX),
        left => Some(Duration::from_millis(u64::try_from(left).ok()?)),
    };
    Some(())
}

/// The text of a field, or that there is none; `None` for anything else.
fn text(value: &Value) -> Option<Option<String>> {
    match value {
        Value::Nil => Some(None),
        Value::BulkString(bytes) => {
            let text = std::str::from_utf8(bytes).ok()?;
            (text.len() <= 128 && !text.contains(char::is_control)).then(|| Some(text.to_owned()))
        }
        _ => None,
    }
}
