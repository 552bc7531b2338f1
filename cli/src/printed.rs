//! Migrations as the files of other tools.

use crate::args::database::Form;

/// What is printed, and for whom.
pub(crate) struct Printed {
    /// Whether the database's own client ends a statement at each semicolon, also within a procedure.
    pub(crate) cuts: bool,
    pub(crate) form: Form,
    /// The number of the first file.
    pub(crate) first: u64,
}

type Files = Vec<(String, String)>;

/// The way down over any part but the first: the step down over the first part removes all of them.
const NOTHING: &str =
    "-- Nothing: the parts of the fence go together, with the first of them.\nSELECT 1;\n";

impl Printed {
    /// Returns the name and the SQL of each part that creates the fence.
    pub(crate) fn up(&self, parts: &[(i64, &str, &str)], removal: &str) -> Files {
        let mut files = Files::new();
        for ((version, what, sql), number) in parts.iter().zip(self.first..) {
            let sql = format!("{}\n", sql.trim_end());
            let down = if number == self.first { removal } else { NOTHING };
            let name = what.replace(' ', "_");
            match self.form {
                Form::Client => files.push((format!("{version:04} {what}"), self.cut(&sql))),
                Form::Dbmate => files.push((
                    format!("{number:04}_{name}.sql"),
                    format!("-- migrate:up\n{sql}\n-- migrate:down\n{down}"),
                )),
                Form::Flyway => {
                    files.push((format!("R__fencing_{version:04}_{name}.sql"), self.cut(&sql)));
                }
                Form::GolangMigrate => {
                    files.push((format!("{number:06}_{name}.up.sql"), sql));
                    files.push((format!("{number:06}_{name}.down.sql"), down.to_owned()));
                }
            }
        }
        files
    }

    /// Returns the SQL that removes the fence.
    pub(crate) fn down(&self, removal: &str) -> Files {
        vec![("remove.sql".into(), self.cut(removal))]
    }

    /// Sets a delimiter, for clients that would cut a procedure into pieces.
    fn cut(&self, sql: &str) -> String {
        match self.cuts {
            true => format!("DELIMITER $$\n{}\n$$\nDELIMITER ;\n", sql.trim_end()),
            false => sql.to_owned(),
        }
    }
}
