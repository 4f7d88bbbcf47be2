"""How `dlq` ends: its exit statuses, and what it says where packages are missing."""

from __future__ import annotations

from enum import IntEnum

from ..operations.errors import Cause, Problem

DISTRIBUTION = "deadletter"
"""The name under which pip installs `dlq`."""

PAGE_NEEDS = "The page needs more packages: pip install 'deadletter[ui]'."
"""What `dlq ui` and `dlq show --html` say where the extra `ui` is missing."""


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

_BY_CAUSE = {
    Cause.INPUT: Exit.USAGE,
    Cause.FAILED: Exit.ATTENTION,
    Cause.UNREACHABLE: Exit.UNREACHABLE,
    Cause.ABSENT: Exit.ABSENT,
    Cause.BUG: Exit.BUG,
}


def exit_status(problem: Problem) -> Exit:
    """The exit status of a command that ends with this problem."""
    return _BY_CAUSE[problem.cause]
