#!/usr/bin/env python3
"""A client of `fencing serve` that needs nothing but Python: it writes a file under a lease.

    fencing serve --redis redis://a:6379,redis://b:6379,redis://c:6379
    examples/lease_client.py http://127.0.0.1:7433 http://127.0.0.1:8433/files/report "the text"

The second URL is that of a service behind a fence, such as `fencing proxy`.
"""
import json
import sys
import threading
import urllib.request
from urllib.parse import quote, unquote, urlsplit


def call(method, url, body=None, headers={"Content-Type": "application/json"}):
    request = urllib.request.Request(url, body, headers, method=method)
    with urllib.request.urlopen(request) as answer:  # fails with a status from 400 on
        return answer.read()


class Lease:
    """A lease, renewed each third of its TTL while the block runs."""

    def __init__(self, service, resource, ttl_ms=10_000, wait_ms=30_000):
        self.leases, self.path, self.over = f"{service}/leases", quote(resource), threading.Event()
        self.wish = json.dumps({"ttl_ms": ttl_ms, "wait_ms": wait_ms}).encode()

    def __enter__(self):
        lease = json.loads(call("POST", f"{self.leases}/{self.path}", self.wish))
        self.url = f"{self.leases}/{lease['lease_id']}"
        self.headers = {"Fencing-Token": str(lease["token"])}
        if "signature" in lease:  # the service signs what it hands out
            self.headers["Fencing-Signature"] = lease["signature"]
        self.token, self.pause = lease["token"], lease["ttl_ms"] / 3000
        threading.Thread(target=self.renew, daemon=True).start()
        return self

    def renew(self):
        while not self.over.wait(self.pause):
            try:
                call("PUT", self.url)
            except OSError as error:  # it lasts until its TTL: try again
                if getattr(error, "code", None) == 404:
                    self.over.set()  # lost: the fence refuses what is written from now on

    def __exit__(self, *_):
        self.over.set()
        try:
            call("DELETE", self.url)
        except OSError:
            pass  # the lock is free by the end of its TTL


if __name__ == "__main__":
    service, file, text = sys.argv[1:]
    with Lease(service, unquote(urlsplit(file).path).removeprefix("/")) as lease:
        call("PUT", file, text.encode(), lease.headers)  # 412: a newer token was seen
        print(lease.token)
