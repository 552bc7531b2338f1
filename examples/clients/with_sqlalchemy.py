#!/usr/bin/env python3
"""A fenced write in a transaction of SQLAlchemy, on PostgreSQL, MySQL or MariaDB.

with_sqlalchemy.py URL TOKEN BODY: ends with 0 if it wrote, 65 if the token is stale, 75 if
others were in the way each time, 69 if the database went away. It may have written then: look.
"""
import random
import sys
import time

from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

ADMIT = {"postgresql": "SELECT fencing_admit(:resource, :token)",
         "mysql": "CALL fencing_admit(:resource, :token)"}
PATIENCE = {"postgresql": "SET LOCAL lock_timeout = '200ms'",
            "mysql": "SET innodb_lock_wait_timeout = 0"}
# SQLSTATEs of PostgreSQL, numbers of MySQL.
RETRYABLE = {"40001", "40P01", "55P03", 1205, 1213, 1020, 1412, 3572, 3101}
DOWN = {None, "53300", 1040, 1053, 1203, 1927, 2002, 2003, 2006, 2013, 3169, 4031}


def fate(error):
    """What an error means, from any statement or from the commit. PyMySQL has no SQLSTATE, psycopg no pgcode."""
    if "fencing: token " in str(error.orig) and " is stale, " in str(error.orig):
        return "stale"
    code = getattr(error.orig, "sqlstate", getattr(error.orig, "pgcode", error.orig.args[0]))
    if code in RETRYABLE:
        return "retry"
    return "down" if code in DOWN or str(code).startswith(("08", "57P")) else "error"


def admit(conn, resource, token):
    conn.execute(text(PATIENCE[conn.dialect.name]))
    conn.execute(text(ADMIT[conn.dialect.name]), {"resource": resource, "token": token})


def write(engine, resource, token, body):
    # `begin` commits at the end of the block, and rolls back after an error. The first one, once for each token, raises
    # the mark and nothing else: a deadlock in the second one cannot take that back.
    with engine.begin() as conn:
        admit(conn, resource, token)
    with engine.begin() as conn:
        admit(conn, resource, token)
        update = text("UPDATE files SET body = :body WHERE path = :path")
        conn.execute(update, {"body": body, "path": resource})


def main(url, token, body):
    engine = create_engine(url)
    for attempt in range(3):
        try:
            write(engine, "files/report", int(token), body)
        except DBAPIError as error:
            end = {"stale": 65, "down": 69, "retry": None}.get(fate(error), 1)
            print({65: "refused:", 69: "down:", None: "in the way:"}.get(end, "failed:"), error.orig)
            if end:
                return end
            time.sleep(random.uniform(0, 0.02 * 2**attempt))
        else:
            print(f"written with token {token}")
            return 0
    return 75


sys.exit(main(*sys.argv[1:]))
