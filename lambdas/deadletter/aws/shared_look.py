"""The look at what all pipelines share, and the row that elects the watch that takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBClient, DynamoDBTable
from deadletter.aws.errors import member, ours
from deadletter.aws.queue import queue_state
from deadletter.aws.rows import part_of, readable
from deadletter.aws.table import absent, at_least, at_most, is_number, stored_number
from deadletter.contract import SHARED_ROW, Partition, rule_checker, rules_table
from deadletter.message.queue import QueueUnavailable
from deadletter.watch.observation import MAPPING_EVERY, TURN, SharedLook
from deadletter.watch.watch import RuleCheckUnavailable

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sqs import SQSClient

# As the partition of the rulebooks of all pipelines: in a policy, `*` would stand for any name.
_KEY = (Partition.LEASE.of(""), SHARED_ROW)


@dataclass(eq=False, repr=False)
class AppLook:
    """Asks once a minute for all watches of an app; Lambda every fifth minute.

    `failures` is the URL of the queue with the edits that the rule checker could not handle.
    """

    dynamodb: DynamoDBClient
    table: str
    functions: LambdaClient
    sqs: SQSClient
    app: str
    failures: str
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._table = DynamoDBTable(self.dynamodb, self.table)

    def __call__(self) -> SharedLook:
        """The newest look, another watch's or its own. Raises RuleCheckUnavailable."""
        now = self.clock()
        with ours(RuleCheckUnavailable):
            before = self._read(now)
            if now < before.turn_ends or not self._take(before, now):
                return before
            found = self._find_out(replace(before, turn_ends=now + TURN), now)
            self._table.change(_KEY, _stored(found))
        return found

    def _read(self, now: float) -> SharedLook:
        """The newest look. Of a row that no watch has written nothing is believed."""
        row = self._table.get(_KEY) or {}
        look = readable(partial(part_of, SharedLook), row, SharedLook())
        # No turn is longer, whatever the clocks of two watches differ by.
        is_ours = look.turn_ends < now + 2 * TURN and look.mapping_at < now + 2 * TURN
        return look if is_ours else SharedLook()

    def _take(self, before: SharedLook, now: float) -> bool:
        """Take the turn. False if another watch has taken it meanwhile."""
        return self._table.changed(
            _KEY,
            {"turn_ends": stored_number(now + TURN)},
            when=absent("turn_ends")
            | at_most("turn_ends", stored_number(now))
            | at_least("turn_ends", stored_number(now + 2 * TURN))
            | ~is_number("turn_ends"),
        )

    def _find_out(self, look: SharedLook, now: float) -> SharedLook:
        try:
            if now - look.mapping_at >= MAPPING_EVERY:
                late = why_edits_are_late(self.functions, self.app)
                look = replace(look, late=late, mapping_at=now)
            undelivered = queue_state(self.sqs, self.failures).depth.total
        except (RuleCheckUnavailable, QueueUnavailable) as error:
            return replace(look, failed=look.failed + 1, why=str(error))
        return replace(look, undelivered=undelivered, failed=0, why="")


def _stored(look: SharedLook) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str | int) else stored_number(value)
        for name, value in asdict(look).items()
    }


_READS = frozenset({"Enabled", "Enabling", "Creating", "Updating"})
_FAILED = ("PROBLEM", "FAILED")
"""What Lambda's word on the last batch of a stream begins with if the function failed."""


def why_edits_are_late(client: LambdaClient, app: str) -> str:
    """Why routers learn of an edit only with their next look; empty if they learn at once.

    Lambda knows the state of what feeds the checker. Raises RuleCheckUnavailable.
    """
    # The same function keeps the edits of endpoints: no router waits for these.
    function, rules = rule_checker(app), f":table/{rules_table(app)}/"
    with ours(RuleCheckUnavailable, "lambda", function):
        answer = client.list_event_source_mappings(FunctionName=function)
        fed = member(answer, "EventSourceMappings")
    mappings = [each for each in fed if rules in each["EventSourceArn"]]
    if not mappings:
        return f"no event source mapping feeds {function}"
    for mapping in mappings:
        if mapping["State"] not in _READS:
            return f"the event source mapping of {function} is {mapping['State']}"
        if mapping.get("LastProcessingResult", "").startswith(_FAILED):
            return f"{function} failed at its last batch of edits"
    return ""
