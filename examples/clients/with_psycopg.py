#!/usr/bin/env python3
"""A fenced write in a transaction of psycopg 3, on PostgreSQL.

with_psycopg.py CONNINFO TOKEN BODY: ends with 0 if it wrote, 65 if the token is stale, 75 if
others were in the way each time, 69 if the database went away. It may have written then: look.
"""
import random
import sys
import time

import psycopg

RETRYABLE = {"40001", "40P01", "55P03"}  # serialization failure, deadlock, lock not available


def fate(error):
    """What an error means, from any statement or from the commit."""
    if error.sqlstate == "ZF412":
        return "stale"
    if error.sqlstate in RETRYABLE:
        return "retry"
    if error.sqlstate is None or error.sqlstate.startswith(("08", "57P", "53300")):
        return "down"
    return "error"


def admit(conn, resource, token):
    conn.execute("SET LOCAL lock_timeout = '200ms'")
    conn.execute("SELECT fencing_admit(%s, %s)", (resource, token))


def write(conninfo, resource, token, body):
    with psycopg.connect(conninfo, autocommit=True) as conn:
        # `transaction` begins, commits, and rolls back after an error. The first one, once for each token, raises the
        # mark and nothing else: a deadlock in the second one cannot take that back.
        with conn.transaction():
            admit(conn, resource, token)
        with conn.transaction():
            admit(conn, resource, token)
            conn.execute("UPDATE files SET body = %s WHERE path = %s", (body, resource))


def main(conninfo, token, body):
    for attempt in range(3):
        try:
            write(conninfo, "files/report", int(token), body)
        except psycopg.Error as error:
            if fate(error) == "stale":
                print(f"refused: {error.diag.message_primary}")
                return 65
            if fate(error) == "down":
                print(f"down: {error}")
                return 69
            if fate(error) != "retry":
                raise
            print(f"in the way: {error.sqlstate}")
            time.sleep(random.uniform(0, 0.02 * 2**attempt))
        else:
            print(f"written with token {token}")
            return 0
    return 75


sys.exit(main(*sys.argv[1:]))
