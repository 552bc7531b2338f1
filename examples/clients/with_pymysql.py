#!/usr/bin/env python3
"""A fenced write in a transaction of PyMySQL, on MySQL or MariaDB.

with_pymysql.py SOCKET DATABASE TOKEN BODY: ends with 0 if it wrote, 65 if the token is stale, 75
if others were in the way each time, 69 if the database went away. It may have written then: look.
"""
import random
import sys
import time

import pymysql

RETRYABLE = {1205, 1213, 1020, 1412, 3572, 3101}  # a lock not free in time, a deadlock, ...
DOWN = {1040, 1053, 1203, 1927, 2002, 2003, 2006, 2013, 3169, 4031}


def fate(error):
    """What an error means, from any statement or from the commit. PyMySQL drops the SQLSTATE:
    a procedure's refusals all have the number 1644, and the message tells them apart."""
    number, message = (error.args + (None, ""))[:2]
    if number == 1644 and message.startswith("fencing: token ") and " is stale, " in message:
        return "stale"
    return "retry" if number in RETRYABLE else "down" if number in DOWN else "error"


def write(conn, resource, token, body):
    admit = "CALL fencing_admit(%s, %s)", (resource.encode(), token)
    try:
        with conn.cursor() as cursor:
            cursor.execute("SET innodb_lock_wait_timeout = 0")
            # Once for each token, alone: a deadlock in the transaction that writes cannot take the mark back then.
            conn.begin()
            cursor.execute(*admit)
            conn.commit()
            conn.begin()
            cursor.execute(*admit)
            cursor.execute("UPDATE files SET body = %s WHERE path = %s", (body, resource))
        conn.commit()
    except BaseException:
        conn.close()  # Rolls back, also where the server has not answered.
        raise


def main(socket, database, token, body):
    for attempt in range(3):
        try:
            conn = pymysql.connect(unix_socket=socket, database=database, user="root")
            write(conn, "files/report", int(token), body)
        except pymysql.MySQLError as error:
            end = {"stale": 65, "down": 69, "retry": None}.get(fate(error), 1)
            words = {65: "refused", 69: "down", None: "in the way"}
            print(words.get(end, "failed"), *error.args, sep=": ")
            if end:
                return end
            time.sleep(random.uniform(0, 0.02 * 2**attempt))
        else:
            print(f"written with token {token}")
            return 0
    return 75


sys.exit(main(*sys.argv[1:]))
