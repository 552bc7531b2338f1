use fencing_protocol::{Mode, Request, Resource};

/// A script whose answer begins with the request's number, its last argument: Redis cuts an array off at a nil.
macro_rules! numbered {
    ($($file:literal),+) => {
        concat!(
            include_str!("common.lua"),
            "local function answer()\n",
            $(include_str!($file),)+
            "end\nlocal parts = answer()\ntable.insert(parts, 1, tonumber(ARGV[#ARGV]))\nreturn parts\n"
        )
    };
}

/// A function of a script that does what the files do to one lock.
macro_rules! own {
    ($name:literal; $($file:literal),+) => {
        concat!(
            "local function ", $name, "(KEYS, ARGV)\n",
            include_str!("common.lua"),
            $(include_str!($file),)+
            "end\n"
        )
    };
}

/// A script that does to each of several locks what the files do to one. Inside, `KEYS` and `ARGV` are those of one.
macro_rules! each {
    ($($file:literal),+; $before:expr) => {
        concat!(own!("one"; $($file),+), include_str!("several.lua"), $before, "return each()\n")
    };
}

/// Returns the script of a request about one lock.
pub(super) fn of_lock(request: &Request) -> Option<(&'static LockScript, &Resource)> {
    Some(match request {
        Request::Acquire { resource, mode: Mode::Exclusive, .. } => (&ACQUIRE, resource),
        Request::Acquire { resource, .. } => (&SHARE, resource),
        Request::Drain { resource, .. } => (&DRAIN, resource),
        Request::Publish { resource, .. } => (&PUBLISH, resource),
        Request::Renew { resource, mode: Mode::Exclusive, .. } => (&RENEW, resource),
        Request::Renew { resource, .. } => (&RENEW_SHARE, resource),
        Request::Resume { resource, .. } => (&RESUME, resource),
        Request::Release { resource, .. } => (&RELEASE, resource),
        Request::Retire { resource, .. } => (&RETIRE, resource),
        Request::Shorten { resource, .. } => (&SHORTEN, resource),
        _ => return None,
    })
}

/// The script for one lock.
pub(super) struct LockScript {
    pub(super) source: &'static str,
    /// The script for several locks of one list; empty where no request needs one.
    pub(super) each: &'static str,
}

/// The scripts of a lock's life, which a session loads when it opens. Those for the locks of a list go with each
/// request: they are seldom, and a session opens faster without them.
pub(super) static LOADED: [&str; 8] = [
    GROUP,
    SHARE.source,
    PUBLISH.source,
    RENEW_SHARE.source,
    RESUME.source,
    RETIRE.source,
    SHORTEN.source,
    DRAIN.source,
];
pub(super) static GROUP: &str = concat!(
    include_str!("lone.lua"),
    own!("release"; "notify.lua", "release.lua"),
    own!("acquire"; "acquire.lua"),
    own!("renew"; "renew.lua"),
    include_str!("group.lua"),
);
static ACQUIRE: LockScript = LockScript {
    source: GROUP,
    each: each!("acquire.lua"; concat!(
        "local function holder_of(KEYS, ARGV)\n",
        include_str!("common.lua"),
        "return lock()\nend\n",
        include_str!("all_or_none.lua")
    )),
};
static PUBLISH: LockScript = LockScript { source: numbered!("publish.lua"), each: each!("publish.lua"; "") };
static RENEW: LockScript = LockScript { source: GROUP, each: each!("renew.lua"; "") };
static RELEASE: LockScript = LockScript { source: GROUP, each: each!("notify.lua", "release.lua"; "") };
static RETIRE: LockScript =
    LockScript { source: concat!(own!("release"; "notify.lua", "release.lua"), numbered!("retire.lua")), each: "" };
static SHORTEN: LockScript = LockScript { source: numbered!("shorten.lua"), each: each!("shorten.lua"; "") };
static SHARE: LockScript = LockScript { source: numbered!("notify.lua", "share.lua"), each: "" };
static RENEW_SHARE: LockScript = LockScript { source: numbered!("renew_share.lua"), each: "" };
static RESUME: LockScript = LockScript { source: numbered!("resume.lua"), each: "" };
static DRAIN: LockScript = LockScript { source: numbered!("drain.lua"), each: "" };
pub(super) const PREPARE: &str = numbered!("prepare.lua");
pub(super) const READ: &str = numbered!("read.lua");
pub(super) const RESERVE: &str = numbered!("reserve.lua");
pub(super) const ACTIVATE: &str = numbered!("activate.lua");
pub(super) const SEAL: &str = numbered!("seal.lua");
pub(super) const OPEN: &str = numbered!("open.lua");
pub(super) const INSPECT: &str = numbered!("inspect.lua");
