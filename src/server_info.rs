use std::time::Duration;

/// The part of Redis `INFO` that this crate reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// The `run_id` of the server: another one after each restart.
    pub(crate) run_id: String,
    pub(crate) version: String,
    pub(crate) loading: bool,
    pub(crate) master: bool,
    /// In bytes; zero means no limit.
    pub(crate) maxmemory: u64,
    pub(crate) policy: String,
    /// Since the server was started, by its own clock.
    pub(crate) uptime: Duration,
}

impl ServerInfo {
    pub(crate) fn read(text: &str) -> Result<ServerInfo, String> {
        let field = |name: &str| -> Option<String> {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.chars().filter(|c| !c.is_control()).take(129).collect())
        };
        let needed = |name| field(name).ok_or_else(|| format!("INFO without {name}"));
        let (role, run_id) = (needed("role")?, needed("run_id")?);
        if run_id.is_empty() || run_id.len() > 128 {
            return Err("INFO has a run_id of a strange length".into());
        }
        let uptime = field("uptime_in_seconds").and_then(|seconds| seconds.parse::<u64>().ok());
        Ok(ServerInfo {
            run_id,
            version: field("redis_version").unwrap_or_default(),
            loading: field("loading").is_some_and(|loading| loading == "1"),
            master: role == "master",
            maxmemory: field("maxmemory").map_or(0, |bytes| bytes.parse().unwrap_or(u64::MAX)),
            policy: field("maxmemory_policy").unwrap_or_else(|| "noeviction".into()),
            // Whole seconds of the clock, not of the time: up to one too many. A clock that was set
            // back may show a beginning in the future.
            uptime: Duration::from_secs(uptime.unwrap_or(0).saturating_sub(1)),
        })
    }
}

/// Why a server cannot keep marks, nor locks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// It has a limit of memory, and a policy that evicts keys.
    #[error("its maxmemory-policy is {policy}; it must be noeviction, as other policies evict keys")]
    Evicts {
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// It is a replica.
    #[error("it is a replica")]
    Replica,
    /// It is still loading its data.
    #[error("it is still loading its data")]
    Loading,
}

impl Unfit {
    pub(crate) fn of(loading: bool, master: bool, maxmemory: u64, policy: &str) -> Option<Unfit> {
        if loading {
            Some(Unfit::Loading)
        } else if !master {
            Some(Unfit::Replica)
        } else if maxmemory != 0 && policy != "noeviction" {
            Some(Unfit::Evicts { policy: policy.to_owned() })
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_role_or_name_is_not_read() {
        let good = "role:master\r\nrun_id:abc\r\nloading:1\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction";
        let good = ServerInfo::read(good).unwrap();
        assert_eq!((good.run_id.as_str(), good.master, good.loading), ("abc", true, true));
        assert_eq!((good.maxmemory, good.policy.as_str()), (100, "noeviction"));
        for text in ["", "role:master\nrun_id:", "run_id", "role:master", "role:master\nrun_id:", "\0\u{ff}:"] {
            assert!(ServerInfo::read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_can_keep_neither_locks_nor_marks_is_refused() {
        let evicts = Unfit::Evicts { policy: "allkeys-lru".into() };
        assert_eq!(Unfit::of(false, true, 0, "allkeys-lru"), None);
        assert_eq!(Unfit::of(false, true, 100, "noeviction"), None);
        assert_eq!(Unfit::of(true, true, 0, "noeviction"), Some(Unfit::Loading));
        assert_eq!(Unfit::of(false, false, 0, "noeviction"), Some(Unfit::Replica));
        assert_eq!(Unfit::of(false, true, 100, "allkeys-lru"), Some(evicts));
    }
}
