use sqlx::Sqlite;

use crate::database::schema::migrations;
use crate::database::{FenceStatements, Migrations, Schema};

impl Schema for Sqlite {
    const MIGRATIONS: Migrations = migrations!("sqlite");

    const REMOVAL: &'static str = include_str!("../../../migrations/sqlite/remove.sql");

    const HOME: &'static str = "SELECT 'main.'";

    const BEGIN_MIGRATION: &'static str = Sqlite::BEGIN;

    /// The schema keeps the text from the name on.
    const OBJECTS: &'static str =
        "SELECT 'trigger ' || name, 'TRIGGER IF NOT EXISTS ' || substr(sql, 16), NULL, ': drop it first'
        FROM main.sqlite_schema WHERE type = 'trigger'";
}
