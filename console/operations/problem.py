"""Why an operation failed."""

from __future__ import annotations

from enum import Enum, auto


class Cause(Enum):
    """The kind of a problem."""

    INPUT = auto()
    """The caller asked for something that is not possible."""
    FAILED = auto()
    """It was tried and failed or was refused, or needs a person."""
    UNREACHABLE = auto()
    """AWS is out of reach, or the credentials are missing, expired or refused."""
    ABSENT = auto()
    """What the caller named is not in this account and region."""
    BUG = auto()
    """An error in this program."""


class Problem(Exception):
    """Why an operation failed: a sentence that ends with what to do about it."""

    def __init__(self, says: str, cause: Cause) -> None:
        super().__init__(says)
        self.says = says
        self.cause = cause


class Denied(Problem):
    """AWS refuses a call for want of a permission."""
