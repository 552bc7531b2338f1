use std::fmt::Display;
use std::time::Duration;

/// What a Redis server says of itself: the part of its `INFO` that this crate reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Identifies the server's life: it changes with each restart.
    pub run_id: String,
    /// The server's version; empty if it does not say.
    pub version: String,
    /// Whether it is still loading its data set.
    pub loading: bool,
    /// Whether it is a master.
    pub master: bool,
    /// Its limit of memory in bytes; zero is none.
    pub maxmemory: u64,
    /// Its `maxmemory-policy`.
    pub maxmemory_policy: String,
    /// The server's uptime, by its own clock.
    pub uptime: Duration,
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
            maxmemory_policy: field("maxmemory_policy").unwrap_or_else(|| "noeviction".into()),
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
    pub(crate) fn of(server: &ServerInfo) -> Option<Unfit> {
        if server.loading {
            Some(Unfit::Loading)
        } else if !server.master {
            Some(Unfit::Replica)
        } else if server.maxmemory != 0 && server.maxmemory_policy != "noeviction" {
            Some(Unfit::Evicts { policy: server.maxmemory_policy.clone() })
        } else {
            None
        }
    }
}

/// Whether this may be the namespace in a key: the hash tag, in braces.
pub(crate) fn is_namespace(text: &str) -> bool {
    (1..=64).contains(&text.len()) && !text.contains(|c: char| c.is_control() || c == '{' || c == '}')
}

/// Returns what a server or its error says, fit for a line: at most 200 characters, none of them control characters.
pub(crate) fn shorten(text: impl Display) -> String {
    text.to_string().chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_role_or_name_is_not_read() {
        let good = "role:master\r\nrun_id:abc\r\nloading:1\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction";
        let good = ServerInfo::read(good).unwrap();
        assert_eq!((good.run_id.as_str(), good.master, good.loading), ("abc", true, true));
        assert_eq!((good.maxmemory, good.maxmemory_policy.as_str()), (100, "noeviction"));
        for text in ["", "role:master\nrun_id:", "run_id", "role:master", "role:master\nrun_id:", "\0\u{ff}:"] {
            assert!(ServerInfo::read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_can_keep_neither_locks_nor_marks_is_refused() {
        let evicts = Unfit::Evicts { policy: "allkeys-lru".into() };
        for (loading, master, maxmemory, policy, unfit) in [
            (false, true, 0, "allkeys-lru", None),
            (false, true, 100, "noeviction", None),
            (true, true, 0, "noeviction", Some(Unfit::Loading)),
            (false, false, 0, "noeviction", Some(Unfit::Replica)),
            (false, true, 100, "allkeys-lru", Some(evicts)),
        ] {
            let maxmemory_policy = policy.to_owned();
            let server = ServerInfo { loading, master, maxmemory, maxmemory_policy, ..ServerInfo::default() };
            assert_eq!(Unfit::of(&server), unfit);
        }
    }
}
