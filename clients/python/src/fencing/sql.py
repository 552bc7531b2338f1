"""The fence in a transaction of psycopg, psycopg2, PyMySQL, mysqlclient or sqlite3."""
from __future__ import annotations

import inspect
import random
import re
import time
from contextlib import contextmanager
from typing import Any, Iterator, Tuple

from .errors import FencingError, Stale
from .lease import Lease

STALE = "ZF412"
# SQLite wraps it into a message about a JSON path.
STALE_TEXT = re.compile(r"fencing: (token \d+ is stale), high water (\d+)")
RETRYABLE = {"40001", "40P01", "55P03", 1205, 1213, 1020, 1412, 3572, 3101}
TRIES = 5


@contextmanager
def fenced(cursor: Any, lease: Lease) -> Iterator[Any]:
    """Runs a block in one transaction that has admitted the token of the lease, and commits it.

    Raises Stale if the database has seen a newer token, from any statement or from the commit, and Lost if the lease
    ended before. Any error rolls back: let it leave the block. The connection must have no open transaction; in
    autocommit one is begun. Commit nothing in the block, also not by `executescript`: what comes then is not fenced.
    `fencing db migrate` creates what it calls.
    """
    if inspect.iscoroutinefunction(cursor.execute):
        raise TypeError("fenced() takes no cursor of an asynchronous connection")
    connection = cursor.connection
    statement, arguments = _admission(connection, lease.resource, lease.token)
    # Once for each token, alone: a deadlock in the transaction that writes cannot take the mark back then.
    for attempt in range(TRIES):
        try:
            with _transaction(connection, cursor, lease):
                cursor.execute(statement, arguments)
            break
        except Exception as error:
            if _code(error) not in RETRYABLE or attempt + 1 == TRIES:
                raise
            time.sleep(random.uniform(0, 0.02 * 2**attempt))
    with _transaction(connection, cursor, lease):
        cursor.execute(statement, arguments)
        yield cursor


@contextmanager
def _transaction(connection: Any, cursor: Any, lease: Lease) -> Iterator[None]:
    lease.check()
    cursor.execute("BEGIN IMMEDIATE" if _library(connection) == "sqlite3" else "BEGIN")
    try:
        yield
        if not _is_open(connection):
            raise FencingError("a statement of the block has failed, or has ended the transaction: nothing after that is fenced")
        cursor.execute("COMMIT")
    except BaseException as error:
        try:
            cursor.execute("ROLLBACK")
        except Exception:
            connection.close()  # It rolls back too, also where the server has not answered.
        text = " ".join(map(str, error.args))
        found = STALE_TEXT.search(text)
        if found or _code(error) == STALE:
            raise Stale(f"{found[1]}, {found[2]} was seen" if found else text) from error
        raise


def _admission(connection: Any, resource: str, token: int) -> Tuple[str, Tuple[Any, ...]]:
    library = _library(connection)
    if library == "sqlite3":
        return "INSERT INTO main.fencing_admit (resource, token) VALUES (?, ?)", (resource, token)
    if library in ("psycopg", "psycopg2"):
        return "SELECT fencing_admit(%s, %s)", (resource, token)
    if library in ("pymysql", "MySQLdb", "mysql"):
        return "CALL fencing_admit(%s, %s)", (resource.encode(), token)
    raise TypeError(f"fenced() knows psycopg, PyMySQL, mysqlclient and sqlite3, not {library}")


def _is_open(connection: Any) -> bool:
    """Whether the transaction goes on, and no statement of it has failed. mysqlclient does not say it."""
    library = _library(connection)
    if library == "sqlite3":
        return bool(connection.in_transaction)
    if library in ("psycopg", "psycopg2"):
        return bool(connection.info.transaction_status == 2)
    return bool(connection.server_status & 1) if library == "pymysql" else True


def _library(connection: Any) -> str:
    return type(connection).__module__.split(".")[0]


def _code(error: BaseException) -> Any:
    """The SQLSTATE, or the number of an error of MySQL."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state or next(iter(error.args), None)
