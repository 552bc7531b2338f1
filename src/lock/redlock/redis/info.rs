use std::time::Duration;

use fencing_protocol::{Fault, Incarnation};

/// What a server reports in `INFO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) incarnation: Incarnation,
    pub(super) version: String,
    pub(super) loading: bool,
    pub(super) master: bool,
    /// In bytes; zero means that there is no limit.
    pub(super) maxmemory: u64,
    pub(super) policy: String,
    /// Since the server was started, by its own clock.
    pub(super) uptime: Duration,
}

impl Info {
    /// Parses it, and refuses a server that can't keep locks.
    pub(super) fn parse(text: &str) -> Result<Info, Fault> {
        let info = Info::read(text)?;
        unfit(info.loading, info.master, info.maxmemory, &info.policy).map_or(Ok(info), Err)
    }

    /// Parses it.
    pub(super) fn read(text: &str) -> Result<Info, Fault> {
        let field = |name: &str| {
            let mut lines = text.lines();
            let value =
                lines.find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.chars().filter(|c| !c.is_control()).take(129).collect())
        };
        let needed = |name: &str| -> Result<String, Fault> {
            field(name).ok_or_else(|| Fault::InvalidReply(format!("INFO without {name}")))
        };
        let maxmemory: Option<String> = field("maxmemory");
        let (role, id) = (needed("role")?, needed("run_id")?);
        if id.is_empty() || id.len() > 128 {
            return Err(Fault::InvalidReply("run_id of a strange length".into()));
        }
        Ok(Info {
            incarnation: Incarnation::new(&id),
            version: field("redis_version").unwrap_or_default(),
            loading: field("loading").is_some_and(|loading: String| loading == "1"),
            master: role == "master",
            maxmemory: maxmemory.map_or(0, |bytes| bytes.parse().unwrap_or(u64::MAX)),
            // Whole seconds of the clock, not of the time: up to one too many. A clock that was set
            // back may show a beginning in the future.
            uptime: Duration::from_secs(
                field("uptime_in_seconds")
                    .and_then(|seconds: String| seconds.parse::<u64>().ok())
                    .unwrap_or(0)
                    .saturating_sub(1),
            ),
            policy: field("maxmemory_policy").unwrap_or_else(|| "noeviction".into()),
        })
    }
}

/// Returns why such a server can't keep locks.
pub(super) fn unfit(loading: bool, master: bool, maxmemory: u64, policy: &str) -> Option<Fault> {
    if loading {
        Some(Fault::Loading)
    } else if !master {
        Some(Fault::NotMaster)
    } else if maxmemory != 0 && policy != "noeviction" {
        Some(Fault::MaxmemoryPolicy(policy.to_owned()))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nrun_id:abc\r\n# Replication\r\nrole:master\r\nloading:0\r\n";

    #[test]
    fn a_master_is_read() {
        assert_eq!(Info::parse(GOOD).unwrap().incarnation.as_str(), "abc");
    }

    #[test]
    fn what_cannot_keep_locks_is_refused() {
        let with = |more: &str| Info::parse(&format!("{more}\r\n{GOOD}")).unwrap_err();
        assert_eq!(with("loading:1"), Fault::Loading);
        assert_eq!(with("role:slave"), Fault::NotMaster);
        let evicts = "maxmemory:100\r\nmaxmemory_policy:allkeys-lru";
        assert_eq!(with(evicts), Fault::MaxmemoryPolicy("allkeys-lru".into()));
        for text in ["", "run_id", "role:master", "role:master\nrun_id:", "\0\u{ff}:"] {
            assert!(matches!(Info::parse(text), Err(Fault::InvalidReply(_))), "{text:?}");
        }
    }
}
