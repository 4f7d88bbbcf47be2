"""Keeps book of what handlers did beside the consumer that is being tested.

The promises: an effect is repeated only where a fault explains it; a message leaves its
queue only if it was processed, skipped or parked; a claim is changed by its owner alone and
never forgotten; nobody is kept waiting by a claim for ever.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from deadletter.aws.table import Compared, Condition, Joined
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.testing.fakes import MemoryDynamoDB
from tests.simulation.scheduler import Process, Scheduler
from tests.simulation.stage import REDRIVER
from tests.tables import LETTERS


class Broken(BaseException):
    """A promise of the product does not hold in this schedule.

    No Exception: what is being tested must not take it for a handler's failure.
    """


@dataclass(eq=False)
class Effect:
    """One effect, and the faults that its process had had when it happened.

    `closed` is how many it had when it went on to its next message.
    """

    process: Process
    faults: int
    closed: int | None = None

    @property
    def excused(self) -> bool:
        """Whether its end was struck, or its process held up: only then may it be repeated."""
        until = self.process.faults if self.closed is None else self.closed
        return until > self.faults or self.process.pauses > 0


class Effects:
    """What handlers did to each message; `keyed` says that messages carry a business key.

    With `parks_collisions` only one of the messages with a key may have an effect.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        dynamodb: MemoryDynamoDB,
        *,
        keyed: bool,
        parks_collisions: bool,
    ) -> None:
        self._scheduler = scheduler
        self._dynamodb = dynamodb
        self._keyed = keyed
        self._parks_collisions = parks_collisions
        self._by_key: defaultdict[Hashable, set[Hashable]] = defaultdict(set)
        self._effects: defaultdict[Hashable, list[Effect]] = defaultdict(list)
        self._latest: dict[Process, Effect] = {}
        self._skipped: set[Hashable] = set()
        self._parked: defaultdict[str, list[Process]] = defaultdict(list)
        self._claims: dict[str, Mapping[str, Any]] = {}
        self.repeated = 0
        self.spared = 0
        self.parked_by_consumers = 0

    def begun(self, process: Process) -> None:
        """A handler was called: whatever its process had in hand before is over."""
        latest = self._latest.pop(process, None)
        if latest is not None:
            latest.closed = process.faults

    def had(self, process: Process, letter: Letter) -> None:
        """The handler has had its effect."""
        identity = self._identity(letter)
        for earlier in self._effects[identity]:
            if not earlier.excused:
                raise Broken(
                    f"{process.name} repeats {letter.message_id} after"
                    f" {earlier.process.name}, and no fault explains it"
                )
            self.repeated += 1
        self._check_rivals(process, letter, identity)
        effect = self._latest[process] = Effect(process, process.faults)
        self._effects[identity].append(effect)

    def _check_rivals(self, process: Process, letter: Letter, identity: Hashable) -> None:
        """Of two messages with one key only one has an effect, unless a fault explains it.

        A process that was struck may not know that the pipeline's first day is over.
        """
        if not (self._keyed and self._parks_collisions):
            return
        key = (_again(letter), json.loads(letter.body).get("key"))
        for rival in self._by_key[key] - {identity}:
            excused = process.faults or any(effect.excused for effect in self._effects[rival])
            if not excused:
                raise Broken(f"{process.name} processes {letter.message_id} beside its rival")
        self._by_key[key].add(identity)

    def skipped(self, letter: Letter) -> None:
        """The handler said that there was nothing to do."""
        self._skipped.add(self._identity(letter))

    def parked(self, process: Process, copy: str, mark: stamps.Stamp | None) -> None:
        """A consumer's send of a letter to the parking lot was taken."""
        if (
            mark is None
            or mark.decision != "PARK"
            or mark.reason not in ("PERMANENT", "KEY_CONFLICT")
        ):
            raise Broken(f"{process.name} parks {copy} and does not say why")
        for earlier in self._parked[copy]:
            if not earlier.faults:
                raise Broken(f"{process.name} parks {copy} after {earlier.name}")
        self._parked[copy].append(process)
        self.parked_by_consumers += 1

    def acknowledged(self, letter: Letter, handled_now: bool) -> None:
        """A message is about to leave its queue."""
        identity, copy = self._identity(letter), letter.message_id
        if self._effects[identity] or identity in self._skipped:
            self.spared += not handled_now
            return
        if not self._parked[copy]:
            raise Broken(f"{copy} is acknowledged and was neither processed nor parked")

    def claimed(self, process: Process, name: str, options: Mapping[str, Any]) -> None:
        """A row among the claims was written."""
        key = options.get("Key") or options.get("Item") or {}
        partition = key.get("pk", {}).get("S", "")
        if "#done#" not in partition:
            return
        place = {"pk": key["pk"], "sk": key["sk"]}
        row = self._dynamodb.get_item(TableName=LETTERS, Key=place, ConsistentRead=True).get("Item")
        before = self._claims.get(partition)
        if row is None:
            raise Broken(f"{process.name} forgets a claim")
        self._claims[partition] = dict(row)
        if before is None:
            return
        live = before["status"]["S"] == "CLAIMED" and (
            float(before["until"]["N"]) > self._scheduler.now
        )
        if before["payload"] != row["payload"] and (live or before["status"]["S"] == "DONE"):
            raise Broken(f"{process.name} puts another message into the place of one")
        if before["status"]["S"] == "DONE" and row["status"] != before["status"]:
            raise Broken(f"{process.name} forgets what was done")
        # A claim gives the row another owner; its end does not.
        is_claim = "Item" in options or "Adds" in options
        owner = wanted(options.get("When")).get("own", before["own"]["S"])
        if not is_claim and owner != before["own"]["S"]:
            raise Broken(f"{process.name} changes the claim of another")

    def check_end(self) -> None:
        """No message waits for an owner who is gone, and no claim was lost."""
        now = self._scheduler.now
        rows = {item["pk"]["S"]: item for item in self._dynamodb.items(LETTERS)}
        for partition in self._claims:
            if partition not in rows:
                raise Broken("a claim is gone before its time")
            row = rows[partition]
            if row["status"]["S"] == "CLAIMED" and float(row["until"]["N"]) > now + 60:
                raise Broken("a claim stands although its owner is gone")

    def _identity(self, letter: Letter) -> Hashable:
        """What the producer takes for one message, found without the code under test."""
        ours = (stamps.NAME, stamps.KEPT_NAME)
        theirs = {name: item for name, item in letter.attributes.items() if name not in ours}
        # A person has repeated a run, and given its letters a new key.
        again = _again(letter)
        content = (again, letter.body, tuple(sorted(theirs.items(), key=lambda pair: pair[0])))
        if self._keyed:
            # The key is in the body.
            return content
        mark = letter.attributes.get(stamps.NAME)
        is_ours = letter.sender.startswith(REDRIVER)
        origin = json.loads(mark.value)["origin"] if mark and is_ours else letter.message_id
        return (origin, *content)


def _again(letter: Letter) -> str:
    """The run that has given a letter a new key; empty for all others."""
    mark = letter.attributes.get(stamps.NAME)
    if mark is None or not letter.sender.startswith(REDRIVER):
        return ""
    accepted = json.loads(mark.value).get("accept") or ""
    return str(accepted) if accepted.startswith(stamps.AGAIN) else ""


def wanted(condition: Condition | None) -> dict[str, Any]:
    """The attributes that a condition wants to equal a value, in any part of it."""
    match condition:
        case Joined(_, parts):
            return {name: value for part in parts for name, value in wanted(part).items()}
        case Compared("=", str(name), (value,)):
            return {name: value}
    return {}
