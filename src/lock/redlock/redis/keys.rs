use ::redis::{Cmd, RedisWrite};
use fencing_protocol::{ClientId, Resource};

/// The keys of a node, all in one hash slot.
#[derive(Debug, Clone)]
pub(super) struct RedisKeys {
    prefix: String,
}

impl RedisKeys {
    pub(super) fn new(namespace: &str) -> RedisKeys {
        RedisKeys { prefix: format!("{{{namespace}}}") }
    }

    fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// Returns the head of every script: the keys that all locks share. As constants they cost a call nothing, while
    /// each argument costs a sixth of a command. `NAME` is where the resource's name begins in a lock's key.
    pub(super) fn constants(&self) -> String {
        let mut constants = format!("local NAME = {}\n", self.key("lock:").len() + 1);
        for (name, key) in [
            ("MEMORY", "memory"),
            ("QUARANTINE", "quarantine"),
            // Lasts for as long as a short lock granted or renewed on the node may be held.
            ("LATEST", "latest"),
            // The long locks that were granted or renewed on the node, by their end.
            ("LONG", "long"),
            // Prefix of the clients' channels.
            ("CHANNEL", "wake:"),
            ("WAITING", "waiting:"),
            ("NOTIFIED", "notified:"),
            // What operators have done.
            ("AUDIT", "audit"),
        ] {
            constants += &constant(name, &self.key(key));
        }
        constants
    }

    pub(super) fn channel(&self, client: ClientId) -> String {
        self.key(&format!("wake:{client}"))
    }

    /// Adds the key of a lock to a command, without a copy.
    pub(super) fn write_lock(&self, cmd: &mut Cmd, resource: &Resource) {
        cmd.write_arg_fmt(format_args!("{}:lock:{resource}", self.prefix));
    }

    /// Returns the pattern of the keys of all locks.
    pub(super) fn every_lock(&self) -> String {
        let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '\\');
        let escaped = self.prefix.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c]));
        format!("{}:lock:*", escaped.collect::<String>())
    }

    pub(super) fn resource(&self, key: &[u8]) -> Option<Resource> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        Resource::new(name.strip_prefix(":lock:")?).ok()
    }
}

/// Returns the line of a script that defines a constant.
pub(super) fn constant(name: &str, text: &str) -> String {
    let shown = |byte: u8| match byte {
        b'\'' | b'\\' | ..b' ' | b'\x7f'.. => format!("\\{byte:03}"),
        byte => char::from(byte).to_string(),
    };
    let text: String = text.bytes().map(shown).collect();
    format!("local {name} = '{text}'\n")
}
