"""How an operation can end, and the sentence that explains a failure."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses. Scripts rely on the numbers: numbers are added, never changed."""

    DONE = 0
    ATTENTION = 1
    USAGE = 2
    UNREACHABLE = 3
    ABSENT = 4
    BUG = 5
    STOPPED = 130


MEANING = {
    Exit.DONE: "done",
    Exit.ATTENTION: "it ran, and something failed or needs a person; or you answered no",
    Exit.USAGE: "the command line is wrong",
    Exit.UNREACHABLE: "AWS is out of reach, or the credentials are missing, expired or refused",
    Exit.ABSENT: "what you named is not in this account and region",
    Exit.BUG: "a bug in dlq itself: --debug shows where",
    Exit.STOPPED: "stopped with Ctrl-C",
}


class Problem(Exception):
    """Why an operation failed: a sentence that ends with what to do about it."""

    def __init__(self, says: str, exit_status: Exit) -> None:
        super().__init__(says)
        self.says = says
        self.exit_status = exit_status
