"""What a handler itself says of a message: never, not now, or nothing to do."""

from __future__ import annotations

from inspect import isasyncgen, isawaitable, isgenerator

from deadletter.failure.failure import PERMANENT, Category


class Permanent(Exception):
    """The message can never succeed as it is: no further receive is spent on it.

    `category` is BUSINESS (the business refuses it) or SCHEMA (its form is wrong);
    `status` is the HTTP status that says so, if one did. Raises ValueError for another
    category: a dependency that refuses us is no fault of the message.
    """

    def __init__(
        self, why: str = "", *, category: Category = Category.BUSINESS, status: int | None = None
    ) -> None:
        if category not in PERMANENT:
            allowed = " or ".join(sorted(PERMANENT))
            raise ValueError(f"a permanent failure is {allowed}, not {category}")
        super().__init__(why)
        self.category = Category(category)
        self.status = status


class Transient(Exception):
    """The message may succeed later, in `retry_after` seconds if somebody said so."""

    def __init__(
        self, why: str = "", *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(why)
        self.status = status
        self.retry_after = retry_after


class Skip(Exception):
    """There is nothing to do for this message: it is acknowledged as if it had been processed."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)


def reject_deferred_result(result: object) -> None:
    """Raise TypeError for what a handler returns that has not begun: nothing has happened yet."""
    if isawaitable(result) or isgenerator(result) or isasyncgen(result):
        # A coroutine that is dropped says so on the error output.
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise TypeError("a handler that is asynchronous or yields does nothing when it is called")


def is_message_failure(error: BaseException) -> bool:
    """Whether what a handler raised ends its message, and not the whole process.

    SystemExit is how argparse refuses an argument; the error of a cancelled task is no
    Exception. Whoever interrupts the process means all of it.
    """
    # Its class is asyncio's, which takes long to import where nobody needs it.
    cancelled = any(one.__name__ == "CancelledError" for one in type(error).__mro__)
    return cancelled or isinstance(error, Exception | SystemExit)
