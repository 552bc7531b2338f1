"""Leases that are renewed while a block runs."""
from __future__ import annotations

import asyncio
import ssl
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Callable, Dict, Optional, Type, TypeVar
from urllib.parse import quote

from .errors import FencingError, InDoubt, Lost, Refused
from .service import Service, now

# Time for an answer beside the time that the service may wait for the lock, in seconds.
ANSWER = 10.0
T = TypeVar("T")


class Lease:
    """A lock on a resource for a time, and its fencing token. A thread renews it each third of its TTL.

    Times are in seconds. `wait` is how long to wait while another client holds the lock. Without `url` the environment
    variable FENCING_URL has it, and without `client_token` FENCING_CLIENT_TOKEN (for a service with --clients).

    A lease may be lost at any moment, even between a check and a write. Only a storage that compares tokens makes a
    late write safe: give it `token` or `headers` with each write, or use `fenced`.

    After a fork only the parent renews the lease.
    """

    def __init__(
        self,
        resource: str,
        url: Optional[str] = None,
        *,
        ttl: float = 10.0,
        wait: float = 0.0,
        client_token: Optional[str] = None,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self.resource, self.ttl, self.wait = resource, ttl, wait
        self._service = Service(url, client_token, context)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._answer: Dict[str, Any] = {}
        self._deadline = 0.0
        self._cause: Optional[FencingError] = None

    @property
    def token(self) -> int:
        """The fencing token."""
        return int(self._granted()["token"])

    @property
    def sequencer(self) -> str:
        """The token and the resource that it was issued for, as in `34 files/report`."""
        return str(self._granted()["sequencer"])

    @property
    def headers(self) -> Dict[str, str]:
        """What to send with each write over HTTP: the token, its resource, and a signature if the service signs."""
        granted = self._granted()
        # A header has no bytes beyond ASCII.
        headers = {"Fencing-Token": str(self.token)}
        if "signature" in granted:
            headers["Fencing-Signature"] = str(granted["signature"])
        return headers

    @property
    def valid_for(self) -> float:
        """For how many seconds the lease lasts unless it is renewed."""
        return 0.0 if self._over.is_set() else max(0.0, self._deadline - now())

    @property
    def lost(self) -> bool:
        """Whether the lease has ended."""
        return self.valid_for == 0.0

    def check(self) -> None:
        """Raises Lost if the lease has ended."""
        if self.lost:
            raise Lost(f"the lease of {self.resource} has ended") from self._cause

    def wait_lost(self, timeout: Optional[float] = None) -> bool:
        """Waits until the lease has ended, and returns whether it has."""
        end = None if timeout is None else now() + timeout
        while not self.lost:
            left = self.valid_for if end is None else min(self.valid_for, end - now())
            if left <= 0:
                break
            self._over.wait(left)
        return self.lost

    def acquire(self) -> "Lease":
        """Acquires the lease. Raises Held, Unavailable, Refused, or InDoubt: then the lock may be held for the TTL."""
        if self._answer:
            raise Refused("a Lease is acquired once: make another one")
        body = {"ttl_ms": round(self.ttl * 1000), "wait_ms": round(self.wait * 1000)}
        # Each segment by itself: a name may have slashes, and nothing in it is a part of the URL.
        path = "/leases/" + "/".join(quote(part, safe="") for part in self.resource.split("/"))
        start = now()
        answer = self._service.ask("POST", path, self.wait + ANSWER, body)
        if not {"token", "sequencer", "lease_id", "valid_for_ms"} <= answer.keys():
            raise InDoubt("the answer of the lock service is not a lease")
        self._answer = answer
        # It may have been granted at once, and its answer be late: only a renewal says more after a wait.
        self._deadline = start + float(answer["valid_for_ms"]) / 1000
        if self._deadline - now() < self.ttl / 2:
            try:
                self._renew(ANSWER)
            except FencingError:
                self.release()
                raise
        threading.Thread(target=self._keep, name=f"lease of {self.resource}", daemon=True).start()
        return self

    def release(self) -> bool:
        """Releases the lease, and returns whether it was held until now. In doubt the lock is free after its TTL."""
        with self._lock:
            was_held = not self.lost
            self._over.set()
        if not self._answer:
            return False
        try:
            self._service.ask("DELETE", self._path(), ANSWER)
        except Lost:
            return False
        except FencingError:
            return was_held
        return was_held

    def __enter__(self) -> "Lease":
        return self.acquire()

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.release()

    def _granted(self) -> Dict[str, Any]:
        if not self._answer:
            raise Refused("the lease is not acquired")
        return self._answer

    def _path(self) -> str:
        return "/leases/" + quote(str(self._answer["lease_id"]), safe=":")

    def _renew(self, timeout: float) -> None:
        start = now()
        answer = self._service.ask("PUT", self._path(), timeout)
        with self._lock:
            # One that comes after the release brings nothing back.
            if not self._over.is_set():
                self._deadline = start + float(answer.get("valid_for_ms", 0)) / 1000

    def _keep(self) -> None:
        """Renews until the lease is released or has ended. A failed renewal is tried again soon."""
        pause = self.ttl / 3
        while not self._over.wait(min(pause, self.valid_for)) and not self.lost:
            try:
                # Cut off at the end: what comes later is too late.
                self._renew(min(self.valid_for, self.ttl / 3))
                pause = self.ttl / 3
            except Lost as error:
                self._cause = error
                break
            except FencingError as error:
                self._cause, pause = error, self.ttl / 30
        self._over.set()


class AsyncLease:
    """The same for asyncio: `async with AsyncLease("files/report") as lease`. `lease` is a Lease."""

    def __init__(self, resource: str, url: Optional[str] = None, **options: Any) -> None:
        self._lease = Lease(resource, url, **options)

    async def __aenter__(self) -> Lease:
        acquiring = _in_thread(self._lease.acquire)
        try:
            return await asyncio.shield(asyncio.wrap_future(acquiring))
        except asyncio.CancelledError:
            # The thread goes on: what it gets is released at once.
            acquiring.add_done_callback(self._give_back)
            raise

    async def __aexit__(self, *_: Any) -> None:
        await asyncio.shield(asyncio.wrap_future(_in_thread(self._lease.release)))

    def _give_back(self, acquired: "Future[Lease]") -> None:
        if acquired.exception() is None:
            _in_thread(self._lease.release)


def _in_thread(call: Callable[[], T]) -> "Future[T]":
    """Runs a call in its own thread: in a pool, calls that wait for the lock could leave no thread for its release."""
    future: "Future[T]" = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    # From now on nothing cancels it.
    future.set_running_or_notify_cancel()
    threading.Thread(target=run, daemon=True).start()
    return future
