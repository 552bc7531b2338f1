"""What may go wrong. Each is a FencingError."""
from __future__ import annotations

from typing import Optional


class FencingError(Exception):
    """Base of all errors of this package."""


class Held(FencingError):
    """Another client holds the lock. `retry_after` is the longest time, in seconds, until it may be free."""

    def __init__(self, why: str, retry_after: Optional[float] = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class Unavailable(FencingError):
    """The service, or too many of its servers, did not answer, or it takes no more. Nothing was acquired."""


class InDoubt(FencingError):
    """The request was sent, and its answer is missing: the lock may be held until its TTL has passed."""


class Refused(FencingError):
    """The request is wrong, or this client has no right to it: trying again does not help."""


class Lost(FencingError):
    """The lease has ended: stop the work. What was sent before may still arrive, which the storage has to refuse."""


class Stale(FencingError):
    """The storage has seen a newer token, and has refused the write."""
