//! The ways to write, and what each is measured against.

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way {
    Alone,
    Row,
    Plain,
    Begin,
    Admit,
    Folded,
    PlainOfOne,
    BeginOfOne,
    HotUpsert,
    HotBegin,
}

/// The way, the one that it is measured against, and its name.
pub const WAYS: &[(Way, Way, &str)] = &[
    (Way::Alone, Way::Alone, "one statement, unguarded"),
    (Way::Row, Way::Alone, "  row predicate"),
    (Way::Plain, Way::Plain, "transaction, unguarded"),
    (Way::Begin, Way::Plain, "  sql::begin"),
    (Way::Admit, Way::Plain, "  sql::admit in it"),
    (Way::Folded, Way::Plain, "  sql::guarded(..).begin"),
    (Way::PlainOfOne, Way::Plain, "  unguarded, sql::single_writer"),
    (Way::BeginOfOne, Way::Plain, "  sql::begin, sql::single_writer"),
    (Way::HotUpsert, Way::HotUpsert, "hot, 5 ms of work, exclusive upsert"),
    (Way::HotBegin, Way::HotUpsert, "  hot, 5 ms of work, sql::begin"),
];

/// The statements of one database, and which ways it has.
pub struct Statements {
    /// Body, path.
    pub update: &'static str,
    /// The same for `sql::guarded`: what is set, and the condition.
    pub guarded: (&'static str, &'static str),
    /// Body, token, path, token.
    pub row: &'static str,
    /// Token: locks the mark for itself alone.
    pub upsert: &'static str,
    /// Whether `sql::guarded` folds.
    pub folds: bool,
    /// Whether several are admitted to one resource at a time.
    pub hot: bool,
}

impl Statements {
    pub fn ways(&self) -> Vec<&'static (Way, Way, &'static str)> {
        let has = |way: Way| match way {
            Way::Folded => self.folds,
            Way::HotUpsert | Way::HotBegin => self.hot,
            Way::PlainOfOne | Way::BeginOfOne => !self.hot,
            _ => true,
        };
        WAYS.iter().filter(|(way, ..)| has(*way)).collect()
    }
}

pub static POSTGRES: Statements = Statements {
    update: "UPDATE files SET body = $1 WHERE path = $2",
    guarded: ("UPDATE files SET body = $1", "path = $2"),
    row: "UPDATE files SET body = $1, fence_token = $2 WHERE path = $3 AND fence_token <= $4",
    upsert: "INSERT INTO fencing_marks AS mark (resource, token) VALUES ('hot', $1)
        ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token
        WHERE mark.token <= EXCLUDED.token",
    folds: true,
    hot: true,
};

pub static MYSQL: Statements = Statements {
    update: "UPDATE files SET body = ? WHERE path = ?",
    guarded: ("UPDATE files SET body = ?", "path = ?"),
    row: "UPDATE files SET body = ?, fence_token = ? WHERE path = ? AND fence_token <= ?",
    upsert: "INSERT INTO fencing_marks (resource, token) VALUES ('hot', ?)
        ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))",
    folds: false,
    hot: true,
};

/// SQLite has one writer at a time, whatever the tokens, so the "hot" ways would show nothing new.
pub static SQLITE: Statements = Statements {
    update: "UPDATE files SET body = ?1 WHERE path = ?2",
    guarded: ("UPDATE files SET body = ?1", "path = ?2"),
    row: "UPDATE files SET body = ?1, fence_token = ?2 WHERE path = ?3 AND fence_token <= ?4",
    upsert: "INSERT INTO fencing_marks (resource, token) VALUES ('hot', ?1)
        ON CONFLICT (resource) DO UPDATE SET token = excluded.token",
    folds: true,
    hot: false,
};
