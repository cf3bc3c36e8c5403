"""Reading Server-Sent Events (WHATWG HTML, section 9.2.6), as far as an API needs it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ._errors import InvalidReply

MAX_BLOCK_CHARACTERS = 32 * 1024 * 1024


@dataclass(frozen=True)
class Block:
    data: str | None
    """`None`: the block had no data, as heartbeats."""
    id: str | None
    retry: float | None
    """Seconds to wait before the next connection, where the service said so."""


def _parse(block: str) -> Block:
    data: list[str] = []
    id: str | None = None
    retry: float | None = None
    for line in block.split("\n"):
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "data":
            data.append(value)
        elif field == "id":
            id = value
        elif field == "retry" and re.fullmatch(r"[0-9]+", value):
            retry = int(value) / 1000
    return Block("\n".join(data) if data else None, id, retry)


def blocks(chunks: Iterable[bytes]) -> Iterator[Block]:
    """Blocks as they arrive. One that is cut off by the end of the body is dropped, as the standard says."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = ""
    for chunk in chunks:
        # A line may end with CR, LF or both; a CR at the end waits for what follows it.
        text = re.sub(r"\r\n|\r(?!\Z)", "\n", text + decoder.decode(chunk))
        *whole, text = text.split("\n\n")
        if len(text) > MAX_BLOCK_CHARACTERS:
            raise InvalidReply("The stream brought an event without an end.", status=200, code="invalid_reply")
        yield from map(_parse, whole)
