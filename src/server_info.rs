use std::time::Duration;

/// What a Redis server reports in `INFO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// Names the life of the server: another one after each restart.
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
    /// Reads it.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub(crate) fn read(text: &str) -> Result<ServerInfo, String> {
        let field = |name: &str| -> Option<String> {
            let mut lines = text.lines();
            let value =
                lines.find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_role_or_name_is_not_read() {
        assert_eq!(ServerInfo::read("role:master\r\nrun_id:abc\r\n").unwrap().run_id, "abc");
        for text in ["", "run_id", "role:master", "role:master\nrun_id:", "\0\u{ff}:"] {
            assert!(ServerInfo::read(text).is_err(), "{text:?}");
        }
    }
}
