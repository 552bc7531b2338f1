#!/usr/bin/env python3
"""A client of `fencing serve` that needs nothing but Python: it writes a file under a lease.

    fencing serve --redis redis://a:6379,redis://b:6379,redis://c:6379
    examples/lease_client.py http://127.0.0.1:7433 http://127.0.0.1:8433/files/report "the text"

The second URL is that of a service behind a fence, such as `fencing proxy`.
"""
import json
import sys
import threading
import urllib.error
import urllib.request
from urllib.parse import quote, unquote, urlsplit


def call(method, url, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers or {}, method=method)
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
    return json.loads(text) if text else None


class Lease:
    """A lease, renewed each third of its TTL while the block runs."""

    def __init__(self, service, resource, ttl_ms=10_000, wait_ms=30_000):
        self.service, self.resource = service, resource
        self.wish = {"ttl_ms": ttl_ms, "wait_ms": wait_ms}
        self.over = threading.Event()

    def __enter__(self):
        lease = call("POST", f"{self.service}/leases/{quote(self.resource)}", self.wish)
        self.url = f"{self.service}/leases/{lease['lease_id']}"
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
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    self.over.set()  # lost: the fence refuses what is written from now on
            except OSError:
                pass  # it lasts until its TTL: try again

    def __exit__(self, *_):
        self.over.set()
        try:
            call("DELETE", self.url)
        except OSError:
            pass  # the lock is free by the end of its TTL


def main():
    service, file, text = sys.argv[1:]
    resource = unquote(urlsplit(file).path).removeprefix("/")
    with Lease(service, resource) as lease:
        request = urllib.request.Request(file, text.encode(), lease.headers, method="PUT")
        urllib.request.urlopen(request).close()  # 412: a newer token was seen
        print(lease.token)


if __name__ == "__main__":
    main()
