#!/usr/bin/env python3
"""Writes a file of a SQLite store, fenced, from Python.

    export FENCING_DATABASE=sqlite:store.db
    fencing run --resource files/a -- write_file.py store.db "new text"
"""

import os
import sqlite3
import sys

path, body = sys.argv[1:]
resource, token = os.environ["FENCING_RESOURCE"], int(os.environ["FENCING_TOKEN"])

store = sqlite3.connect(path, isolation_level=None, timeout=10)
store.execute("CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, body TEXT)")
store.execute("BEGIN IMMEDIATE")
try:
    # Refuses a token that is lower than the highest which the store has seen.
    store.execute("INSERT INTO main.fencing_admit VALUES (?, ?)", (resource, token))
    store.execute(
        "INSERT INTO files VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET body = excluded.body",
        (resource, body),
    )
    store.execute("COMMIT")
except sqlite3.Error as error:
    if store.in_transaction:
        store.execute("ROLLBACK")
    sys.exit(f"not written: {error}")
print(f"{resource} written with token {token}")
