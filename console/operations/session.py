"""Where an operation looks: one app in one account and region."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, TypedDict
from uuid import uuid4

from . import app as apps
from .aws import Aws
from .deadline import Deadline, within
from .errors import aws_errors

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from deadletter.aws.cause_entries import DynamoDBCauseEntries
    from deadletter.aws.causes import DynamoDBCauses
    from deadletter.aws.circuits import DynamoDBCircuits
    from deadletter.aws.ledger import DynamoDBLedger
    from deadletter.aws.objects import S3RunObjects
    from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns
    from deadletter.aws.replay_tickets import DynamoDBTickets
    from deadletter.aws.waiting_room import DynamoDBLanes, DynamoDBWaitingRoom
    from deadletter.replay.run import ReplayRun


class AppLocation(TypedDict):
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
    what the person changes something with, as the audit table keeps it; `changes` are those that
    it has begun and recorded, in words, each with how it ended.
    """

    connect: Callable[[], Aws]
    app_name: str
    clock: Callable[[], float] = time.time
    say: Callable[[str], None] = lambda _: None
    pause: Callable[[float], None] = time.sleep
    via: str = "dlq"
    changes: dict[str, str] = field(default_factory=dict)

    @cached_property
    def aws(self) -> Aws:
        """The clients, connected at first use: work on files alone needs no region."""
        return self.connect()

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    @property
    def place(self) -> AppLocation:
        account = within(Deadline(), "The account (STS)", lambda: self.aws.account)
        return AppLocation(account=account, region=self.aws.region, app=self.app_name, at=self.now)

    def app(self, deadline: Deadline | None = None) -> apps.App:
        """The app as it is deployed; raises Problem if it is missing, or AWS does not answer."""
        what = "The app's parameters (Systems Manager)"
        return within(deadline or Deadline(), what, lambda: apps.find(self.aws, self.app_name))


@dataclass(frozen=True, slots=True)
class Here:
    """One pipeline of an app as a session reads it: its tables, its lanes and its objects."""

    session: Session
    app: apps.App
    pipeline: apps.DeployedPipeline

    @property
    def ledger(self) -> DynamoDBLedger:
        """The failure records, for reading."""
        from deadletter.aws.ledger import DynamoDBLedger

        return DynamoDBLedger(*self._table, self.session.clock, keep_seconds=0)

    @property
    def lanes(self) -> DynamoDBLanes:
        """The lanes of the waiting room, for looking."""
        from deadletter.aws.waiting_room import DynamoDBLanes

        return DynamoDBLanes(*self._table)

    @property
    def index(self) -> DynamoDBCauseEntries:
        """The index of causes."""
        from deadletter.aws.cause_entries import DynamoDBCauseEntries

        return DynamoDBCauseEntries(*self._table)

    @property
    def room(self) -> DynamoDBWaitingRoom:
        """The waiting room, for reading what is in it."""
        from deadletter.aws.waiting_room import DynamoDBWaitingRoom

        return DynamoDBWaitingRoom(
            client=self.session.aws.dynamodb,
            table=self.app.messages_table,
            s3=self.session.aws.s3,
            bucket=self.app.messages_bucket,
            pipeline=self.pipeline.name,
            fifo=self.pipeline.fifo,
            clock=self.session.clock,
        )

    @property
    def circuits(self) -> DynamoDBCircuits:
        """The circuits, for reading."""
        from deadletter.aws.circuits import DynamoDBCircuits

        return DynamoDBCircuits(
            self.session.aws.dynamodb, self.app.circuits_table, self.pipeline.name
        )

    @property
    def causes(self) -> DynamoDBCauses:
        """The causes that dominate."""
        from deadletter.aws.causes import DynamoDBCauses

        client, table = self.session.aws.dynamodb, self.app.circuits_table
        return DynamoDBCauses(client, table, self.pipeline.name, lambda: uuid4().hex)

    def runs(self, note_bad_row: Callable[[str], None] = lambda _: None) -> DynamoDBReplayRuns:
        """The items of its runs, one by one; `every_run` has all."""
        from deadletter.aws.replay_runs import DynamoDBReplayRuns

        return DynamoDBReplayRuns(*self._table, self.session.clock, note_bad_row)

    def every_run(self, note_bad_row: Callable[[str], None]) -> Sequence[ReplayRun]:
        """Its runs; a malformed one is noted by the name of its row, and left out."""
        with aws_errors():
            return self.runs(note_bad_row).all()

    @property
    def plans(self) -> DynamoDBReplayPlans:
        """The plans of its runs, as they are stored and as their executions read them."""
        from deadletter.aws.replay_runs import DynamoDBReplayPlans

        return DynamoDBReplayPlans(*self._table, self.session.clock)

    def tickets(self, run: str) -> DynamoDBTickets:
        """What a run noted of its letters when it sent them, or let them go."""
        from deadletter.aws.replay_tickets import DynamoDBTickets

        return DynamoDBTickets(
            self.session.aws.dynamodb,
            self.app.messages_table,
            pipeline=self.pipeline.name,
            run=run,
            clock=self.session.clock,
            in_parallel=lambda calls: [call() for call in calls],
        )

    def objects(self, run: str) -> S3RunObjects:
        """The objects of a run in the bucket."""
        from deadletter.aws.objects import S3RunObjects

        bucket = self.app.messages_bucket
        return S3RunObjects(self.session.aws.s3, bucket, self.pipeline.name, run)

    @property
    def _table(self) -> tuple[DynamoDBClient, str, str]:
        return self.session.aws.dynamodb, self.app.messages_table, self.pipeline.name
