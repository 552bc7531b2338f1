use crate::quorum::{Fault, Incarnation};

/// What a server says of itself in `INFO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) incarnation: Incarnation,
}

impl Info {
    /// Reads it, and refuses a server that can't keep locks.
    pub(super) fn parse(text: &str) -> Result<Info, Fault> {
        let field = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
        };
        let needed =
            |name: &str| field(name).ok_or_else(|| Fault::Nonsense(format!("INFO without {name}")));
        if field("loading") == Some("1") {
            return Err(Fault::Loading);
        }
        if needed("role")? != "master" {
            return Err(Fault::NotMaster);
        }
        let policy = field("maxmemory_policy").unwrap_or("noeviction");
        if field("maxmemory").is_some_and(|bytes| bytes != "0") && policy != "noeviction" {
            return Err(Fault::MaxmemoryPolicy(policy.chars().take(64).collect()));
        }
        let id = needed("run_id")?;
        if id.is_empty() || id.len() > 128 {
            return Err(Fault::Nonsense("run_id of a strange length".into()));
        }
        Ok(Info { incarnation: Incarnation::new(id) })
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
            assert!(matches!(Info::parse(text), Err(Fault::Nonsense(_))), "{text:?}");
        }
    }
}
