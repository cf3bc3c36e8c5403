"""Requests to one service: where they go, how long they may take, which are sent again."""

from __future__ import annotations

import http.client
import json
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from ._errors import InvalidReply, SlipwayError, TimedOut, Unreachable, refusal

MAX_BACKOFF = 8.0
MAX_RETRY_AFTER = 60
"""Rate limits open within a minute. Who is told to wait longer decides for themselves."""
MAX_REFUSAL_BYTES = 1024 * 1024

_Self = TypeVar("_Self")


def new_key() -> str:
    return str(uuid.uuid4())


def segment(value: str) -> str:
    """One segment of a path. Dots would lead out of it, encoded or not."""
    if value in ("", ".", ".."):
        raise ValueError(f"{value!r} is no id.")
    return urllib.parse.quote(value, safe="")


def backoff(base: float, failures: int, most: float) -> float:
    """Half of the wait is drawn, so that clients that failed together do not come back together."""
    return min(base * 2**failures, most) * (1 + random.random()) / 2


def failure(error: Exception) -> SlipwayError:
    """What the network did, as an error of ours."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return TimedOut("The service said nothing for too long.", status=0, code="timeout")
    return Unreachable("The service could not be reached.", status=0, code="unreachable")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key goes to the service alone."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _root(base_url: str) -> str:
    parts = urllib.parse.urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("base_url is an address of http or https, without user, query or fragment.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/api"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Whole seconds, or of a proxy a date (RFC 9110, section 10.2.3)."""
    value = headers.get("Retry-After") or ""
    if re.fullmatch(r"[0-9]+", value):
        return float(value)
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None


class Download:
    """The bytes of a file, read as they are asked for. Close it, or use it in a `with`."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; without it, all that is left. Nothing: that was all."""
        try:
            return self._response.read() if size < 0 else self._response.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise failure(error) from error

    def close(self) -> None:
        self._response.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transport:
    """
    `timeout` is how many seconds the service may say nothing before its reply, `idle_timeout` within a
    stream or a download: idle streams have a heartbeat each 15 s. `retries` is how often a request is
    sent again that may be repeated: one that reads, and one with an idempotency key.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = 30.0,
        idle_timeout: float = 45.0,
        retries: int = 3,
        backoff: float = 0.5,
        reconnect: float | None = None,
    ) -> None:
        if not re.fullmatch(r"[\x21-\x7e]+", api_key):
            raise ValueError("api_key is empty, or has characters that no API key has.")
        self._base = _root(base_url)
        self._api_key = api_key
        self._timeout = timeout
        self._idle_timeout = idle_timeout
        self._retries = retries
        self._backoff = backoff
        self._reconnect = reconnect
        self._opener = urllib.request.build_opener(_NoRedirects())

    def _once(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        content: bytes | None = None,
        name: str | None = None,
        media_type: str | None = None,
        idempotency_key: str | None = None,
        internal: bool = False,
        last_event_id: str | None = None,
        timeout: float | None = None,
    ) -> http.client.HTTPResponse:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        address = f"{self._base}/{'internal' if internal else 'public'}/v1{path}" + (f"?{urllib.parse.urlencode(given)}" if given else "")
        headers = {"Authorization": f"Bearer {self._api_key}", "User-Agent": "slipway-client-python"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        if content is not None:
            headers["Content-Type"] = media_type or "application/octet-stream"
            data = content
        if name is not None:
            headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{urllib.parse.quote(name, safe='')}"
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        request = urllib.request.Request(address, data=data, headers=headers, method=method)
        try:
            return self._opener.open(request, timeout=self._timeout if timeout is None else timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise failure(error) from error

    @staticmethod
    def _refusal(reply: urllib.error.HTTPError) -> SlipwayError:
        request_id = reply.headers.get("X-Request-Id")
        try:
            said = json.loads(reply.read(MAX_REFUSAL_BYTES))["error"]
            code, message = str(said["code"]), str(said["message"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            code, message = "unknown", f"The service answered with status {reply.code}."
        return refusal(reply.code, code, message, request_id=request_id, retry_after=_retry_after(reply.headers))

    def _may_help(self, error: SlipwayError, failures: int) -> bool:
        return (
            failures < self._retries
            and (isinstance(error, (Unreachable, TimedOut)) or error.status in (429, 503))
            and (error.retry_after or 0) <= MAX_RETRY_AFTER
        )

    def _persist(self, method: str, path: str, read: bool, idempotency_key: str | None, rest: dict[str, Any]) -> Any:
        """Tries until there is an answer, as long as the same request twice is the same as once."""
        repeatable = method != "POST" or idempotency_key is not None
        failures = 0
        while True:
            try:
                response = self._once(method, path, idempotency_key=idempotency_key, **rest)
                if not read:
                    return response
                with response:
                    try:
                        return response.read()
                    except (OSError, http.client.HTTPException) as error:
                        raise failure(error) from error
            except SlipwayError as error:
                if not repeatable or not self._may_help(error, failures):
                    raise
                wait = max(backoff(self._backoff, failures, MAX_BACKOFF), error.retry_after or 0)
            failures += 1
            time.sleep(wait)

    def _text(self, method: str, path: str, *, idempotency_key: str | None = None, **rest: Any) -> str:
        # A patch has the bytes of files: encode with "surrogateescape" to have them back.
        return self._persist(method, path, True, idempotency_key, rest).decode(errors="surrogateescape")

    def _json(self, method: str, path: str, *, idempotency_key: str | None = None, **rest: Any) -> Any:
        reply = self._persist(method, path, True, idempotency_key, rest)
        try:
            return json.loads(reply)
        except ValueError as error:
            raise InvalidReply("The reply is no JSON.", status=200, code="invalid_reply") from error

    def _download(self, method: str, path: str, **rest: Any) -> Download:
        return Download(self._persist(method, path, False, None, {**rest, "timeout": self._idle_timeout}))
