#!/usr/bin/env python3
"""Writes a file under a lease, with the client of clients/python.

    fencing serve --redis redis://a:6379,redis://b:6379,redis://c:6379
    examples/lease_client.py http://127.0.0.1:7433 http://127.0.0.1:8433/files/report "the text"

The second URL is that of a service behind a fence, such as `fencing proxy`.
"""
import sys
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).parent.parent / "clients/python/src"))
sys.dont_write_bytecode = True
from fencing import Lease

service, file, text = sys.argv[1:]
with Lease(unquote(urlsplit(file).path).removeprefix("/"), service, wait=30) as lease:
    request = urllib.request.Request(file, text.encode(), lease.headers, method="PUT")
    urllib.request.urlopen(request).close()  # 412: a newer token was seen
    print(lease.token)
