"""Why a call failed. Which class is by the status; `code` says more, and codes may be added."""

from __future__ import annotations


class SlipwayError(Exception):
    """`status` is 0 where there was no reply."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.request_id = request_id
        """Names the reply in the service's logs."""
        self.retry_after = retry_after
        """Seconds after which another try may succeed, where the service said so."""

    @property
    def is_temporary(self) -> bool:
        """Whether the same call may succeed later."""
        return isinstance(self, (Unreachable, TimedOut, EmptyStream)) or self.status == 429 or self.status >= 500

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class Unreachable(SlipwayError):
    """The service could not be reached, or the connection was lost."""


class TimedOut(SlipwayError):
    """The service said nothing for too long."""


class EmptyStream(SlipwayError):
    """A stream ended in order, and brought no event."""


class InvalidReply(SlipwayError):
    """What came is not what this service says: is the address right?"""


class InvalidRequest(SlipwayError):
    """400, 413 and 415: the request cannot be what was meant."""


class NotAuthenticated(SlipwayError):
    """401: there is no such key."""


class PaymentRequired(SlipwayError):
    """402: the credits are used up, or a budget is."""


class Forbidden(SlipwayError):
    """403: the key may not do that."""


class NotFound(SlipwayError):
    """404: it is not there, or not the caller's."""


class Conflict(SlipwayError):
    """409: it cannot be done as things are, such as `turn_active`, or the key was used for another request."""


class RateLimited(SlipwayError):
    """429: later."""


class Unavailable(SlipwayError):
    """500 and above: another try may succeed."""


_BY_STATUS = {
    400: InvalidRequest,
    401: NotAuthenticated,
    402: PaymentRequired,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: InvalidRequest,
    415: InvalidRequest,
    429: RateLimited,
}


def refusal(status: int, code: str, message: str, *, request_id: str | None, retry_after: float | None) -> SlipwayError:
    if 300 <= status < 400:
        message = "The service redirects, which this client does not follow. Is its address right?"
        return InvalidReply(message, status=status, code="redirected", request_id=request_id)
    of = Unavailable if status >= 500 else _BY_STATUS.get(status, SlipwayError)
    return of(message, status=status, code=code, request_id=request_id, retry_after=retry_after)
