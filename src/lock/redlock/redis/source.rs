use fencing_protocol::{Mode, Request};

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

/// A script that carries out a request.
pub(super) struct Script {
    pub(super) source: &'static str,
    /// The script for several locks of one list; empty where no request needs one.
    pub(super) each: &'static str,
}

impl Script {
    pub(super) fn of(request: &Request) -> &'static Script {
        match request {
            Request::Acquire { mode: Mode::Exclusive, .. } => &ACQUIRE,
            Request::Acquire { .. } => &SHARE,
            Request::Drain { .. } => &DRAIN,
            Request::Publish { .. } => &PUBLISH,
            Request::Renew { mode: Mode::Exclusive, .. } => &RENEW,
            Request::Renew { .. } => &RENEW_SHARE,
            Request::Resume { .. } => &RESUME,
            Request::Release { .. } => &RELEASE,
            Request::Retire { .. } => &RETIRE,
            Request::Shorten { .. } => &SHORTEN,
            Request::Prepare { .. } => &Script { source: numbered!("prepare.lua"), each: "" },
            Request::Read => &Script { source: numbered!("read.lua"), each: "" },
            Request::Reserve { .. } => &Script { source: numbered!("reserve.lua"), each: "" },
            Request::Activate { .. } => &Script { source: numbered!("activate.lua"), each: "" },
            Request::Seal { .. } => &Script { source: numbered!("seal.lua"), each: "" },
            Request::Open { .. } => &Script { source: numbered!("open.lua"), each: "" },
            // Those in a list are lone ones.
            Request::Inspect | Request::Several(_) => &Script { source: numbered!("inspect.lua"), each: "" },
        }
    }
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
static ACQUIRE: Script = Script {
    source: GROUP,
    each: each!("acquire.lua"; concat!(
        "local function holder_of(KEYS, ARGV)\n",
        include_str!("common.lua"),
        "return lock()\nend\n",
        include_str!("all_or_none.lua")
    )),
};
static PUBLISH: Script = Script { source: numbered!("publish.lua"), each: each!("publish.lua"; "") };
static RENEW: Script = Script { source: GROUP, each: each!("renew.lua"; "") };
static RELEASE: Script = Script { source: GROUP, each: each!("notify.lua", "release.lua"; "") };
static RETIRE: Script =
    Script { source: concat!(own!("release"; "notify.lua", "release.lua"), numbered!("retire.lua")), each: "" };
static SHORTEN: Script = Script { source: numbered!("shorten.lua"), each: each!("shorten.lua"; "") };
static SHARE: Script = Script { source: numbered!("notify.lua", "share.lua"), each: "" };
static RENEW_SHARE: Script = Script { source: numbered!("renew_share.lua"), each: "" };
static RESUME: Script = Script { source: numbered!("resume.lua"), each: "" };
static DRAIN: Script = Script { source: numbered!("drain.lua"), each: "" };
