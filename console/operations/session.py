"""Where an operation looks: one app in one account and region."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, TypedDict

from . import app as apps
from .aws import Aws
from .deadline import Deadline, within


class Place(TypedDict):
    """The first fields of every answer."""

    account: str
    region: str
    app: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Answer:
    """Where an operation looked, and when. The fields of an answer are its JSON keys: a promise."""

    account: Annotated[str, "AWS account id"]
    region: Annotated[str, "AWS region"]
    app: Annotated[str, "name of the app"]
    at: Annotated[datetime, "when it was read or changed"]


@dataclass(frozen=True)
class Session:
    """One app in one account and region. `clock` is in epoch seconds.

    `say` is told now and then how far a long look is, and `pause` waits between two looks. `via` is
    what the person changes something with, as the audit table keeps it.
    """

    connect: Callable[[], Aws]
    app_name: str
    clock: Callable[[], float] = time.time
    say: Callable[[str], None] = lambda _: None
    pause: Callable[[float], None] = time.sleep
    via: str = "dlq"

    @cached_property
    def aws(self) -> Aws:
        """The clients, connected at first use: work on files alone needs no region."""
        return self.connect()

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    @property
    def place(self) -> Place:
        account = within(Deadline(), "The account (STS)", lambda: self.aws.account)
        return Place(account=account, region=self.aws.region, app=self.app_name, at=self.now)

    def app(self, deadline: Deadline | None = None) -> apps.App:
        """The app as it is deployed; raises Problem if it is missing, or AWS does not answer."""
        what = "The app's parameters (Systems Manager)"
        return within(deadline or Deadline(), what, lambda: apps.find(self.aws, self.app_name))
