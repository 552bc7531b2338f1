"""Leases with fencing tokens, from `fencing serve`.

    with Lease("files/report", url="http://127.0.0.1:7433") as lease:
        with fenced(cursor, lease):        # refuses to write if a newer holder was here
            cursor.execute("UPDATE ...")
"""
from .errors import FencingError, Held, InDoubt, Lost, Refused, Stale, Unavailable
from .lease import AsyncLease, Lease
from .sql import fenced

__all__ = [
    "AsyncLease",
    "FencingError",
    "Held",
    "InDoubt",
    "Lease",
    "Lost",
    "Refused",
    "Stale",
    "Unavailable",
    "fenced",
]
