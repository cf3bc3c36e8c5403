from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import types
from ._errors import EmptyStream, InvalidReply, SlipwayError
from ._operations import Operations
from ._server_sent_events import blocks
from ._transport import backoff, failure, segment

FINISHED = frozenset(("succeeded", "failed", "terminated"))

RECONNECT = 2.0
"""What services say, `retry: 2000`, until they said it."""
MAX_RECONNECT = 30.0
MAX_FRUITLESS = 10
"""Connections in a row that bring nothing, before a stream gives up: about 4 minutes."""


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read1(65536)
        except (OSError, http.client.HTTPException) as error:
            raise failure(error) from error
        if not chunk:
            return
        yield chunk


class SlipwayClient(Operations):
    """
    The API of one service. Every operation is a method; what fails raises a `SlipwayError`. Threads may
    share a client: each call has a connection of its own.
    """

    def approve(self, sandbox_id: str, approval_id: str, *, for_turn: bool = False) -> types.CommandResult:
        """`for_turn`: also what else of the same kind waits, or is asked for until the turn ends. The first decision wins."""
        body: types.ApprovalDecision = {"decision": "approve"}
        if for_turn:
            body["scope"] = "turn"
        return self.decide_approval(sandbox_id, approval_id, body)

    def deny(self, sandbox_id: str, approval_id: str, *, reason: str | None = None) -> types.CommandResult:
        """The agent is told the `reason`."""
        body: types.ApprovalDecision = {"decision": "deny"}
        if reason is not None:
            body["reason"] = reason
        return self.decide_approval(sandbox_id, approval_id, body)

    def delete_sandbox(self, sandbox_id: str) -> None:
        """
        Delete an ended sandbox and its data for good. The key needs the scope `sandboxes:delete`. Raises
        `SlipwayError` with `not_found` once it is deleted, also where a lost answer was asked for again.
        """
        self._text("DELETE", f"/sandboxes/{segment(sandbox_id)}", internal=True)

    def archive_sandbox(self, sandbox_id: str, *, archived: bool = True) -> None:
        """Hide a sandbox from the pages and from `slipway ps`, or show it again. The API is unchanged by it. Safe to repeat."""
        self._text("POST", f"/sandboxes/{segment(sandbox_id)}/{'archive' if archived else 'unarchive'}", internal=True)

    def archived_sandboxes(self, sandbox_ids: list[str]) -> list[str]:
        """The archived ones of up to 100 sandboxes."""
        return self._json("GET", "/sandboxes/archived", query={"ids": ",".join(sandbox_ids)}, internal=True)["data"]

    def get_pull_request_reviews(self, sandbox_id: str, *, repo: str | None = None) -> dict[str, Any]:
        """
        The comments on the pull request with their texts, files and lines, and its checks, as `GET
        /api/internal/v1/sandboxes/{id}/pull-request/reviews` answers. Texts are of strangers: escape them.
        """
        query = {} if repo is None else {"repo": repo}
        return self._json("GET", f"/sandboxes/{segment(sandbox_id)}/pull-request/reviews", query=query, internal=True)

    def stream_events(
        self,
        sandbox_id: str,
        *,
        since: int | str | None = None,
        on_lost: Callable[[SlipwayError, float], None] | None = None,
    ) -> Iterator[types.SandboxEventEnvelope]:
        """
        Events as they happen, until the sandbox is finished and its last event was told: first a
        snapshot, or with `since` everything after that event; 0 is the beginning. A connection that is
        lost is made again where it was lost: every event with an id comes once, in order. `on_lost` is
        told of each connection that failed or ended without an event, and how many seconds it waits.
        After ten of them in a row the stream fails. Closing the iterator, or leaving a loop over it,
        ends the stream.
        """
        path = f"/sandboxes/{segment(sandbox_id)}/events/stream"
        last = None if since is None else str(since)
        reconnect = RECONNECT if self._reconnect is None else self._reconnect
        fruitless = 0
        status: str | None = None
        while True:
            try:
                with self._once("GET", path, last_event_id=last, timeout=self._idle_timeout) as response:
                    if response.status == 204:
                        return
                    news, empty = False, True
                    for block in blocks(_chunks(response)):
                        if block.retry is not None and self._reconnect is None:
                            reconnect = block.retry
                        if block.data is None:
                            continue
                        event = _event(block.data)
                        fruitless, empty = 0, False
                        type = event["type"]
                        news = news or block.id is not None or type == "snapshot"
                        if type in ("snapshot", "stream.resync"):
                            # Whoever has a snapshot needs no second one.
                            last = event["data"]["resume_cursor"]
                        elif block.id is not None:
                            last = block.id
                        if type == "sandbox.status":
                            status = event["data"]["status"]
                        yield event
                    if empty:
                        raise EmptyStream("The stream ended without an event.", status=response.status, code="empty_stream")
                # Streams end for other reasons too. Of a finished sandbox it is asked at once: 204 says that nothing is left.
                wait = 0.0 if news and status in FINISHED else backoff(reconnect, 0, MAX_RECONNECT)
            except SlipwayError as error:
                fruitless += 1
                if not error.is_temporary or fruitless > MAX_FRUITLESS:
                    raise
                wait = max(backoff(reconnect, fruitless, MAX_RECONNECT), error.retry_after or 0)
                if on_lost is not None:
                    on_lost(error, wait)
            time.sleep(wait)

    def snapshot(self, sandbox_id: str) -> types.SnapshotEventData:
        """The sandbox, its newest turn and what waits for a person, all of one moment."""
        for event in self.stream_events(sandbox_id):
            if event["type"] == "snapshot":
                return event["data"]
        raise InvalidReply("The stream brought no snapshot.", status=200, code="invalid_reply")


def _event(data: str) -> Any:
    try:
        event = json.loads(data)
        event["type"], event["data"]
        return event
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidReply("The stream brought what is no event.", status=200, code="invalid_reply") from error
