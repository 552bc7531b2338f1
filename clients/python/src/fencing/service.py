"""One request to `fencing serve`, without redirects, proxies and second tries."""
from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from typing import Any, Dict, Optional, Tuple
from urllib.parse import urlsplit

from .errors import FencingError, Held, InDoubt, Lost, Refused, Unavailable

MAX_ANSWER = 64 * 1024


def now() -> float:
    """Seconds of a clock that nobody sets, and that goes on while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Service:
    """Where the lock service is, and who asks it."""

    def __init__(self, url: Optional[str], token: Optional[str], context: Optional[ssl.SSLContext]) -> None:
        url = url or os.environ.get("FENCING_URL") or "http://127.0.0.1:7433"
        # A file of a secret often ends with a newline.
        self.token = (token or os.environ.get("FENCING_CLIENT_TOKEN") or "").strip()
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise Refused("the URL of the service must be http://HOST:PORT or https://HOST:PORT")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._prefix, self._context = parts.path.rstrip("/"), context

    def ask(self, method: str, path: str, timeout: float, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Sends a request. Raises InDoubt if it may have been carried out without an answer."""
        connection = self._connection(max(timeout, 0.001))
        try:
            try:
                connection.connect()
            except (OSError, http.client.HTTPException) as error:
                raise Unavailable(f"the lock service cannot be reached: {error}") from error
            try:
                status, headers, text = self._exchange(connection, method, path, body)
            except (OSError, http.client.HTTPException) as error:
                raise InDoubt(f"{method}: no answer from the lock service: {error}") from error
        finally:
            connection.close()
        return self._read(status, headers, text)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Optional[Dict[str, Any]]
    ) -> Tuple[int, http.client.HTTPMessage, bytes]:
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        text = None
        if body is not None:
            text, headers["Content-Type"] = json.dumps(body), "application/json"
        connection.request(method, self._prefix + path, text, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read(MAX_ANSWER)

    @staticmethod
    def _read(status: int, headers: http.client.HTTPMessage, text: bytes) -> Dict[str, Any]:
        try:
            answer = json.loads(text) if text else {}
        except ValueError:
            answer = None
        if status < 300:
            if not isinstance(answer, dict):
                raise InDoubt(f"the answer of the lock service cannot be read (HTTP {status})")
            return answer
        problem = answer if isinstance(answer, dict) else {}
        kind, why = problem.get("type"), str(problem.get("detail") or f"HTTP {status}, and not from `fencing serve`")
        if kind == "urn:fencing:held":
            after = headers.get("Retry-After", "")
            raise Held(why, float(after) if after.isdecimal() else None)
        if kind in ("urn:fencing:no-lease", "urn:fencing:superseded"):
            raise Lost(why)
        if kind == "urn:fencing:in-doubt":
            raise InDoubt(why)
        if status >= 500 or status == 429:
            raise Unavailable(why)
        if status >= 400:
            raise Refused(why)
        raise FencingError(f"HTTP {status}: this is not `fencing serve`")
