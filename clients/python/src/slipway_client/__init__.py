"""The API of Slipway for programs, on Python's own library alone."""

from . import types
from ._client import SlipwayClient
from ._errors import (
    Conflict,
    EmptyStream,
    Forbidden,
    InvalidReply,
    InvalidRequest,
    NotAuthenticated,
    NotFound,
    PaymentRequired,
    RateLimited,
    SlipwayError,
    TimedOut,
    Unavailable,
    Unreachable,
)
from ._operations import VERSION as __version__
from ._transport import Download

__all__ = [
    "Conflict",
    "Download",
    "EmptyStream",
    "Forbidden",
    "InvalidReply",
    "InvalidRequest",
    "NotAuthenticated",
    "NotFound",
    "PaymentRequired",
    "RateLimited",
    "SlipwayClient",
    "SlipwayError",
    "TimedOut",
    "Unavailable",
    "Unreachable",
    "__version__",
    "types",
]
