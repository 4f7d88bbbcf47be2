"""Letters of a held replay run, edited by a person: one, or all that a filter chooses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import run_lane
from deadletter.message.letter import Letter, compact_json, to_json
from deadletter.replay.edits import EditRefused, edited
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome

from . import deployed
from .adapter_errors import aws_errors
from .answer import Answer
from .audit import IntendedChange, RecordedChange, recorded
from .problem import Cause, Problem
from .redrive_function import request
from .replay_letters import ListedLetter, letters_of, objects_of
from .replay_runs import RunSwitch, person
from .words import count, duration

if TYPE_CHECKING:
    from deadletter.message.stamp import Stamp
    from deadletter.processing.idempotency import BusinessKey
    from deadletter.replay.edit_request import EditRequest
    from deadletter.settings.pipeline import Pipeline

SETTLED = timedelta(seconds=60)
"""After a hold, letters under way may take so long until they have arrived."""

_CHUNK = 50

Change = Callable[[Letter], Letter]
"""Gives a letter another body or other attributes, or raises EditRefused."""


@dataclass(frozen=True, slots=True)
class HeldLetter:
    """A letter in the custody of a run, as it would be sent now."""

    listed: ListedLetter
    letter: Letter
    stamp: Stamp
    place: tuple[str, str]


@dataclass(frozen=True, slots=True)
class DraftEdit:
    """An edit that is valid and not yet written, and what it means for idempotency."""

    edit: EditRequest
    applied: bool
    idempotency: str


@dataclass(frozen=True, slots=True)
class EditedLetter(Answer):
    """What `dlq replay edit` answers."""

    at: Annotated[datetime, "when it was written"]
    run: Annotated[str, "id of the run"]
    message_id: Annotated[str, "MessageId of the copy that is in custody"]
    origin: Annotated[str, "MessageId of its first life"]
    before: Annotated[str, "hash of body and attributes as they were"]
    after: Annotated[str, "hash of body and attributes as they are sent"]
    processed_before: Annotated[bool, "whether the ledger says that the original was processed"]
    idempotency: Annotated[str, "what the edit means for idempotency"]
    record: Annotated[str, "object of the run that keeps both versions, who and why"]


@dataclass(frozen=True, slots=True)
class MendedLetters(Answer):
    """What `dlq replay mend` answers."""

    at: Annotated[datetime, "when they were written"]
    run: Annotated[str, "id of the run"]
    dry_run: Annotated[bool, "whether nothing was written"]
    matched: Annotated[int, "letters in custody that the filter chooses"]
    mended: Annotated[int, "letters that were edited, or would be"]
    refused: Annotated[Mapping[str, int], "letters that were not edited, by the reason"]


class RunEditor:
    """Edits letters of a run that sends nothing now. Problem in any other state."""

    def __init__(self, switch: RunSwitch, why: str, *, accept_collision: bool = False) -> None:
        from deadletter.aws.router import LambdaRouter

        session = switch.session
        self.switch = switch
        self.run = switch.before
        self._must_be_still(self.run)
        self._why = why
        self._accept = accept_collision
        self._by = person(session)
        self._settings = deployed.settings(switch.pipeline)
        self._router = LambdaRouter(session.aws.lambda_, switch.pipeline.router_function)
        self._objects = objects_of(switch)

    def _must_be_still(self, run: ReplayRun) -> None:
        from deadletter.replay.edit_request import EDITABLE

        if run.state not in EDITABLE:
            raise Problem(
                f"Run {run.id} is {run.state}: its letters are edited while it is HELD. "
                f"Type dlq run hold {run.id} first, and dlq run resume {run.id} after.",
                Cause.FAILED,
            )
        quiet = self.switch.session.now.timestamp() - run.changed
        if run.state is RunState.HELD and quiet < SETTLED.total_seconds():
            left = duration(SETTLED.total_seconds() - quiet)
            raise Problem(
                f"Run {run.id} was held {duration(quiet)} ago: letters may still be under way. "
                f"Try again in {left}.",
                Cause.FAILED,
            )

    def one(self, id_: str) -> HeldLetter:
        """The letter with this id, of any of its copies; Problem if it is not in custody."""
        held = list(
            self.held(
                letter
                for letter in letters_of(self.switch)
                if id_ in (letter.name.copy, letter.name.origin)
            )
        )
        if not held:
            raise Problem(
                f"Run {self.run.id} has no letter {id_} in custody: it was sent, has ended, or "
                f"never belonged to it. dlq show {self.run.id} has the figures.",
                Cause.ABSENT,
            )
        return held[0]

    def held(self, letters: Iterator[ListedLetter]) -> Iterator[HeldLetter]:
        """Those of the letters that are in custody now, by their present copies."""
        return held_letters(self.switch, letters)

    def draft(self, held: HeldLetter, change: Change) -> DraftEdit:
        """The edit that changes a letter so. Raises EditRefused if it is not valid."""
        from deadletter.replay.edit_request import EditRequest

        wanted = change(held.letter)
        after = edited(held.letter, wanted.body, wanted.attributes)
        applied = self._checked(held, after)
        edit = EditRequest(
            run=self.run.id,
            generation=self.run.generation,
            place=held.place,
            shard=held.listed.name.shard,
            origin=held.stamp.origin,
            before=held.letter,
            after=after,
            accept=self._accept,
            by=self._by,
            because=self._why,
            at=self.switch.session.clock(),
        )
        before_key, after_key = (
            _key(self._settings, letter, held.stamp, self.switch.session.clock())
            for letter in (held.letter, after)
        )
        return DraftEdit(edit, applied, _idempotency(before_key, after_key, self._accept))

    def _checked(self, held: HeldLetter, after: Letter) -> bool:
        """Whether the original was processed; EditRefused if the run could not send the edit."""
        from deadletter.replay.names import key_hash
        from deadletter.routing.router import Question
        from deadletter.routing.selection import Selection

        question = Question(after, stamp=held.stamp)
        with aws_errors():
            picks = self._router.select([question], Selection(), release=True)
        pick = next((pick for pick in picks if pick.message_id == after.message_id), None)
        if pick is None:
            raise EditRefused("the router gives no answer about the edited letter")
        if pick.left_out in ("SCHEMA", "MALFORMED"):
            raise EditRefused(f"the pipeline would not take the edited letter: {pick.left_out}")
        if key_hash(pick.key or held.listed.name.origin) != held.listed.name.key:
            raise EditRefused(
                "it would change the ordering key, and the letter's place in the run with it"
            )
        if pick.applied and not self._accept:
            raise EditRefused(
                "the ledger says that the original was processed, so its effect may happen "
                "twice; if that is right, add --accept-collision"
            )
        return pick.applied

    def write_one(self, draft: DraftEdit) -> str:
        """Edits one letter, recorded; returns the name of the record with both versions.

        Raises EditRefused.
        """
        edit = draft.edit
        change = IntendedChange(
            "replay edit",
            self.switch.pipeline.name,
            f"letter {edit.origin} of run {self.run.id}",
            self._why,
            _facts(edit.before),
            _facts(edit.after),
        )
        with recorded(self.switch.session, self.switch.app, change) as record:
            name = self.ask(draft)
            for why in self.apply([name]).values():
                raise EditRefused(why)
            record.done({**_facts(edit.after), "record": name})
        return name

    def mending(self, letters: int) -> AbstractContextManager[RecordedChange]:
        """Records that many letters are edited; both versions of each are kept with the run."""
        change = IntendedChange(
            "replay mend",
            self.switch.pipeline.name,
            f"letters of run {self.run.id}",
            self._why,
            after={"letters": letters},
        )
        return recorded(self.switch.session, self.switch.app, change)

    def ask(self, draft: DraftEdit) -> str:
        """Stores what the function is to do, and both versions; returns the name of the record."""
        with aws_errors():
            self._objects.put(draft.edit.record, draft.edit.to_bytes())
        return draft.edit.record

    def apply(self, records: Sequence[str]) -> Mapping[str, str]:
        """Has the function carry out the edits in these records, at most MOST_EDITS.

        Returns why those that it refused did not take effect, by the record.
        """
        switch = self.switch
        answer = request(
            switch.session.aws,
            switch.pipeline,
            "edit",
            {"run": self.run.id, "records": list(records)},
            expects="edited",
            lost="letters may be edited already; look with --dry-run before you type it again",
        )
        if trouble := answer.get("trouble"):
            done = len(answer["edited"])
            raise Problem(
                f"{done} of {count(len(records), 'letter')} were edited, then: {trouble}. Look "
                "with --dry-run before you type it again.",
                Cause.UNREACHABLE,
            )
        return dict(answer["refused"])

    def answer(self, draft: DraftEdit, record: str) -> EditedLetter:
        """What was done to one letter."""
        session, edit = self.switch.session, draft.edit
        return EditedLetter(
            **session.place,
            at=session.now,
            run=self.run.id,
            message_id=edit.after.message_id,
            origin=edit.origin,
            before=letter_hash(edit.before),
            after=letter_hash(edit.after),
            processed_before=draft.applied,
            idempotency=draft.idempotency,
            record=record,
        )


def held_letters(switch: RunSwitch, letters: Iterator[ListedLetter]) -> Iterator[HeldLetter]:
    """Those of the letters that are in a run's custody now, by their present copies."""
    chunk: list[ListedLetter] = []
    for letter in letters:
        if letter.outcome in (ReplayOutcome.OPEN, ReplayOutcome.SENT):
            chunk.append(letter)
        if len(chunk) >= _CHUNK:
            yield from _read(switch, chunk)
            chunk = []
    yield from _read(switch, chunk)


def _read(switch: RunSwitch, letters: Sequence[ListedLetter]) -> Iterator[HeldLetter]:
    from deadletter.aws.replay_tickets import DynamoDBTickets
    from deadletter.aws.waiting_room import DynamoDBWaitingRoom
    from deadletter.redrive.waiting_room import WaitingRoomEntry
    from deadletter.replay.lineup import RunLetter
    from deadletter.replay.outcomes import room_place, trails

    if not letters:
        return
    session, app, pipeline = switch.session, switch.app, switch.pipeline
    tickets = DynamoDBTickets(
        session.aws.dynamodb,
        app.letters_table,
        pipeline=pipeline.name,
        run=switch.id,
        clock=session.clock,
        in_parallel=lambda tasks: [task() for task in tasks],
    )
    room = DynamoDBWaitingRoom(
        dynamodb=session.aws.dynamodb,
        table=app.letters_table,
        s3=session.aws.s3,
        bucket=app.letters_bucket,
        pipeline=pipeline.name,
        fifo=pipeline.fifo,
        clock=session.clock,
    )
    asked = [
        RunLetter(letter.name, 0, letter.name.copy, room_place(letter.name.place))
        for letter in letters
    ]
    lane = run_lane(switch.id)
    with aws_errors():
        by_copy = {
            trail.copy: (letter, trail.place)
            for letter, trail in zip(letters, trails(asked, tickets), strict=True)
        }
        contents = room.read(
            [
                WaitingRoomEntry(copy, place, lane, letter.name.shard, 0.0)
                for copy, (letter, place) in by_copy.items()
            ],
            0.0,
        )
    for received in contents.letters:
        listed, place = by_copy[received.letter.message_id]
        if received.stamp is not None:
            partition, sort = json.loads(place)[:2]
            yield HeldLetter(listed, received.letter, received.stamp, (partition, sort))


def letter_hash(letter: Letter) -> str:
    """Sixteen hexadecimal digits for a body and all attributes: their names, types and values."""
    data = to_json(letter)
    content = compact_json([data["body"], sorted(data["attributes"].items())])
    return blake2b(content, digest_size=8).hexdigest()


def _facts(letter: Letter) -> dict[str, str | int]:
    """A letter as the audit table keeps it: nothing of what it says."""
    names = len(letter.attributes)
    return {"content": f"hash {letter_hash(letter)}", "attributes": names, "size": letter.size}


def _key(settings: Pipeline, letter: Letter, stamp: Stamp, now: float) -> BusinessKey:
    """The idempotency key that the consumer library would give a letter."""
    from deadletter.processing.idempotency import Identity
    from deadletter.rules.document import DocumentBuilder

    document = DocumentBuilder(settings).build(letter, stamp, None, now)
    return Identity(settings).key_of(letter, stamp, document.value)


def _idempotency(before: BusinessKey, after: BusinessKey, accepted: bool) -> str:
    """What an edit means for idempotency, in a sentence."""
    if before.text != after.text:
        return (
            "The idempotency key changes: the edited letter is a message of its own, and is "
            "processed even if the original was."
        )
    if accepted:
        return (
            "The idempotency key stays the same, and you accept a collision: the edited letter is "
            "processed even if the original was."
        )
    if after.compared:
        return (
            "The idempotency key stays the same: if the original was processed, the edited letter "
            "is parked for COLLISION; --accept-collision has it processed."
        )
    return (
        "The idempotency key stays the same: if the original was processed, the edited letter is "
        "skipped."
    )
