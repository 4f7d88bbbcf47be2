"""The exceptions by which a handler judges a message: permanent, transient or to be skipped."""

from __future__ import annotations

from inspect import isasyncgen, isawaitable, isgenerator

from deadletter.contract import Category


class Permanent(Exception):
    """The message can never succeed as it is, so it is not received again.

    `category` is BUSINESS (the business refuses it) or SCHEMA (its form is wrong);
    `status` is the HTTP status behind it, if there is one. Raises ValueError for another
    category: a refusal by a dependency is not the message's fault.
    """

    def __init__(
        self, why: str = "", *, category: Category = Category.BUSINESS, status: int | None = None
    ) -> None:
        permanent = sorted(each for each in Category if each.course.is_permanent)
        if category not in permanent:
            raise ValueError(f"a permanent failure is {' or '.join(permanent)}, not {category}")
        super().__init__(why)
        # Loaded with the first error: each function would pay for it at its start.
        from deadletter.failure.literals import note_literals

        note_literals(self)
        self.category = Category(category)
        self.status = status


class Transient(Exception):
    """The message may succeed later: after `retry_after` seconds, if that is known."""

    def __init__(
        self, why: str = "", *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(why)
        # Loaded with the first error: each function would pay for it at its start.
        from deadletter.failure.literals import note_literals

        note_literals(self)
        self.status = status
        self.retry_after = retry_after


class DependencyOpen(Transient):
    """The circuit of a named dependency is open: the message waits, and uses no attempt.

    `circuit` is the key of that circuit.
    """

    plain = True
    untried = True

    def __init__(self, name: str, circuit: str, *, retry_after: float) -> None:
        super().__init__(f"the circuit of the dependency {name} is open", retry_after=retry_after)
        self.circuit = circuit


class Skip(Exception):
    """The message needs no work: it is acknowledged as if it had been processed."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        # Loaded with the first error: each function would pay for it at its start.
        from deadletter.failure.literals import note_literals

        note_literals(self)


class OutOfTime(Exception):
    """The function is about to end, and its handler of a message was cancelled.

    `ended` says that the handler has ended by it; else it may go on.
    """

    def __init__(self, *, ended: bool) -> None:
        super().__init__("the handler was cancelled because the function was about to end")
        self.ended = ended


def reject_deferred_result(result: object) -> None:
    """Raises TypeError for a coroutine or a generator: the handler has not done its work yet."""
    if isawaitable(result) or isgenerator(result) or isasyncgen(result):
        # A coroutine that is never awaited or closed prints a warning.
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise TypeError(
            "the handler has done no work: it returned a coroutine or a generator; allowed: a plain"
            " function, or an async one where deadletter.consumer calls it itself"
        )


def is_message_failure(error: BaseException) -> bool:
    """True if an error of a handler fails its message, and not the whole process.

    SystemExit counts, because argparse raises it for a wrong argument, and so does the error
    of a cancelled task, which is not an Exception. An interrupt ends the process.
    """
    # Compared by name: importing asyncio for its class would take long.
    cancelled = any(kind.__name__ == "CancelledError" for kind in type(error).__mro__)
    return cancelled or isinstance(error, Exception | SystemExit)
