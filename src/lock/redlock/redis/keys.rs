use crate::resource::Resource;

/// The keys of a node, all in one hash slot.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
    pub(super) memory: String,
    pub(super) quarantine: String,
    /// Lasts for as long as a short lock that was granted or renewed on the node may be out.
    pub(super) latest: String,
    /// What the keys of those who wait begin with, and those of who was told.
    pub(super) waiting: String,
    pub(super) told: String,
    /// What the channels of the clients begin with.
    pub(super) channel: String,
    /// The long locks that were granted or renewed on the node, by their end.
    pub(super) long: String,
}

impl Keys {
    pub(super) fn new(namespace: &str) -> Keys {
        let prefix = format!("{{{namespace}}}");
        let key = |name: &str| format!("{prefix}:{name}");
        Keys {
            memory: key("memory"),
            quarantine: key("quarantine"),
            latest: key("latest"),
            long: key("long"),
            waiting: key("waiting:"),
            told: key("told:"),
            channel: key("wake:"),
            prefix,
        }
    }

    pub(super) fn lock(&self, resource: &Resource) -> String {
        format!("{}:lock:{resource}", self.prefix)
    }
}
