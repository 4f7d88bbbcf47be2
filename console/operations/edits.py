"""Edits of messages that a held run has: a patch of all, or one message by hand."""

from __future__ import annotations

import base64
import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from deadletter.contract import Body, run_lane
from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, Letter, compact_json, to_json
from deadletter.replay.edits import (
    EditRefused,
    checked_patch,
    edited,
    patched,
    to_text,
    typed_attribute,
)
from deadletter.replay.ticket import ReplayOutcome

from .audit import IntendedChange, recorded
from .errors import Cause, Problem, aws_errors
from .letter_walk import FoundLetter, in_parts
from .redrive import request
from .replay_census import ListedLetter, letters_of
from .replay_runs import RunSwitch, person
from .session import Here
from .words import count

if TYPE_CHECKING:
    from deadletter.message.stamp import Stamp
    from deadletter.processing.idempotency import BusinessKey
    from deadletter.replay.edit_request import EditRequest
    from deadletter.routing.selection import Pick
    from deadletter.settings.pipeline import Pipeline

_CHUNK = 50

# Lines of a difference that fit on a screen.
_MOST_LINES = 40

Change = Callable[[Letter], Letter]
"""Gives a message another body or other attributes, or raises EditRefused."""


@dataclass(frozen=True, slots=True)
class HeldLetter:
    """A letter in the custody of a run, as it would be sent now."""

    listed: ListedLetter
    letter: Letter
    stamp: Stamp
    place: tuple[str, str]


def patch(text: str) -> Change:
    """The change of each body by a JSON Patch (RFC 6902); Problem for anything else."""
    from deadletter.message.strict_json import Unreadable, read_json

    try:
        steps = checked_patch(read_json(text, exact=True))
    except (Unreadable, EditRefused) as error:
        raise Problem(f"--patch: {error}. See RFC 6902.", Cause.INPUT) from error
    return lambda letter: replace(letter, body=patched(letter.body, steps))


def document(letter: Letter) -> str:
    """A message as a person edits it: body and attributes as JSON, one member a line."""
    value = _value(letter.body)
    attributes = {
        name: f"{each.data_type}:{_plain(each)}"
        for name, each in sorted(letter.attributes.items())
        if name != stamps.NAME
    }
    # Numbers of a body keep the digits that their sender wrote.
    body = letter.body if value is _NO_JSON else value
    return f"{_indented({'body': body, 'attributes': attributes})}\n"


def from_document(text: str) -> Change:
    """The change that a person has written into `document`. Raises EditRefused."""
    from deadletter.message.strict_json import Unreadable, read_json

    try:
        wanted: Any = read_json(text, exact=True)
    except Unreadable as error:
        raise EditRefused(f"what was written is not JSON ({error})") from error
    match wanted:
        case {"body": body, "attributes": dict(typed)} if all(
            isinstance(each, str) for each in typed.values()
        ):
            attributes = dict(typed_attribute(f"{name}={each}") for name, each in typed.items())
        case _:
            raise EditRefused("what was written has no body, or no attributes as TYPE:VALUE")

    def change(letter: Letter) -> Letter:
        own = {name: each for name, each in letter.attributes.items() if name == stamps.NAME}
        return replace(letter, body=_body(letter.body, body), attributes={**own, **attributes})

    return change


_NO_JSON = object()


def _value(body: str) -> Any:
    """The value of a body with its numbers as they were written; _NO_JSON for another body."""
    from deadletter.message.strict_json import Unreadable, read_json

    try:
        return read_json(body, exact=True)
    except Unreadable:
        return _NO_JSON


def _body(before: str, value: Any) -> str:
    """The body with this value; what stays equal stays as it was written."""
    was = _value(before)
    if was is _NO_JSON:
        if not isinstance(value, str):
            raise EditRefused("the body was a text, and would be none")
        return value
    text = to_text(value)
    return before if text == to_text(was) else text


def _plain(attribute: Attribute) -> str:
    value = attribute.value
    return value if isinstance(value, str) else base64.b64encode(value).decode()


def _indented(value: Any) -> str:
    """JSON with one member a line, and each number as it was written."""
    match value:
        case dict() if value:
            members = ",\n".join(
                f"{json.dumps(key, ensure_ascii=False)}: {_indented(each)}"
                for key, each in value.items()
            )
        case list() if value:
            members = ",\n".join(map(_indented, value))
        case _:
            return to_text(value)
    inner = "\n".join(f"  {row}" for row in members.splitlines())
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{inner}\n{last}"


def difference(before: Letter, after: Letter) -> Iterator[str]:
    """What an edit changes, line by line."""
    rows = list(
        difflib.unified_diff(
            document(before).splitlines(), document(after).splitlines(), lineterm="", n=1
        )
    )[2:]
    yield from rows[:_MOST_LINES]
    if (more := len(rows) - _MOST_LINES) > 0:
        yield f"and {count(more, 'more line')}"


def tried(here: Here, found: FoundLetter, change: Change, accept: bool) -> tuple[Letter, str]:
    """The message as it would be sent, and what the edit means for idempotency.

    Raises EditRefused if a run could not send it.
    """
    from deadletter.message.stamp import Stamp

    wanted = change(found.letter)
    after = edited(found.letter, wanted.body, wanted.attributes)
    stamp, settings = found.stamp or Stamp(found.letter.message_id), here.pipeline.settings()
    is_text = settings.body is Body.JSON and _value(after.body) is _NO_JSON
    if is_text and after.body != found.letter.body:
        raise EditRefused("its body would still not be JSON")
    _checked(here, after, stamp, accept)
    before_key, after_key = (
        _key(settings, letter, stamp, here.session.clock()) for letter in (found.letter, after)
    )
    return after, _idempotency(before_key, after_key, accept)


def _checked(here: Here, after: Letter, stamp: Stamp, accept: bool) -> Pick:
    """What the router says of an edited letter; EditRefused if a run could not send it."""
    from deadletter.aws.functions import LambdaRouter
    from deadletter.routing.router import Question
    from deadletter.routing.selection import Selection

    router = LambdaRouter(here.session.aws.lambda_, here.pipeline.router_function)
    with aws_errors():
        picks = router.select([Question(after, stamp=stamp)], Selection(), release=True)
    pick = next((pick for pick in picks if pick.message_id == after.message_id), None)
    if pick is None:
        raise EditRefused("no answer was given about the edited message")
    if pick.left_out:
        raise EditRefused(f"the pipeline would not take the edited message: {pick.left_out}")
    if pick.applied and not accept and not stamp.again:
        raise EditRefused(
            "it is on record that the original was processed, so its effect can happen twice; if "
            "that is right, add --accept-conflict"
        )
    return pick


def apply_to(switch: RunSwitch, change: Change, reason: str, accept: bool) -> Counter[str]:
    """Edits all messages of a run that sends nothing now, recorded.

    Returns why those were not edited that could not be, with their number. Both versions of each
    are kept with the run.
    """
    from deadletter.replay.edit_request import EDITABLE, MOST_EDITS

    session, run = switch.session, switch.read()
    if run.state not in EDITABLE:
        raise Problem(f"Run {run.id} is {run.state}: nothing was edited.", Cause.FAILED)
    editor = _Editor(switch, change, reason, accept)
    target = f"messages of run {run.id}"
    facts = {"messages": run.messages or 0}
    with recorded(
        session, switch.app, IntendedChange("retry", run.pipeline, target, reason, after=facts)
    ) as record:
        stored = map(editor.stored, held_letters(switch, letters_of(switch)))
        for records in in_parts(filter(None, stored), MOST_EDITS):
            editor.apply(records)
        record.done({"messages": editor.edited, **editor.hashes})
    return editor.refused


class _Editor:
    """Edits messages of one run, about fifty at a time."""

    def __init__(self, switch: RunSwitch, change: Change, reason: str, accept: bool) -> None:
        self._switch, self._change = switch, change
        self._reason, self._accept = reason, accept
        self._run = switch.read()
        self._objects = switch.objects
        self.refused: Counter[str] = Counter()
        self.edited = 0
        self.hashes: dict[str, str] = {}

    def stored(self, held: HeldLetter) -> str | None:
        """Stores what the function is to do with a message; None if the message refuses it."""
        try:
            edit = self._request(held)
        except EditRefused as error:
            self.refused[str(error)] += 1
            return None
        self.hashes = {"before": letter_hash(edit.before), "content": letter_hash(edit.after)}
        with aws_errors():
            self._objects.put(edit.record, edit.to_bytes())
        return edit.record

    def _request(self, held: HeldLetter) -> EditRequest:
        from deadletter.replay.edit_request import EditRequest
        from deadletter.replay.names import key_hash

        session, name = self._switch.session, held.listed.name
        wanted = self._change(held.letter)
        after = edited(held.letter, wanted.body, wanted.attributes)
        pick = _checked(self._switch.here, after, held.stamp, self._accept)
        if key_hash(pick.key or name.origin) != name.key:
            raise EditRefused(
                "it would change the ordering key, and the message's place in the run with it"
            )
        return EditRequest(
            run=self._run.id,
            generation=self._run.generation,
            place=held.place,
            shard=name.shard,
            origin=held.stamp.origin,
            before=held.letter,
            after=after,
            accept=self._accept,
            by=person(session),
            because=self._reason,
            at=session.clock(),
        )

    def apply(self, records: Sequence[str]) -> None:
        """Has the function carry out the edits in these records, at most MOST_EDITS."""
        answer: Mapping[str, Any] = request(
            self._switch.session.aws,
            self._switch.pipeline,
            "edit",
            {"run": self._run.id, "records": list(records)},
            expects="edited",
            lost="messages can be edited already; the run is held, and has sent nothing",
        )
        if trouble := answer.get("trouble"):
            raise Problem(
                f"{len(answer['edited'])} of {count(len(records), 'message')} were edited, then: "
                f"{trouble}. The run is held, and has sent nothing.",
                Cause.UNREACHABLE,
            )
        refused = dict(answer["refused"])
        self.refused.update(refused.values())
        self.edited += len(records) - len(refused)
        self._switch.session.say(f"{self.edited:,} messages edited")


def held_letters(switch: RunSwitch, letters: Iterator[ListedLetter]) -> Iterator[HeldLetter]:
    """Those of the letters that are in a run's custody now, by their present copies."""
    awaited = (each for each in letters if each.outcome in (ReplayOutcome.OPEN, ReplayOutcome.SENT))
    for chunk in in_parts(awaited, _CHUNK):
        yield from _read(switch, chunk)


def _read(switch: RunSwitch, letters: Sequence[ListedLetter]) -> Iterator[HeldLetter]:
    from deadletter.redrive.waiting_room import WaitingRoomEntry
    from deadletter.replay.lineup import letter_of, trails

    tickets, room = switch.here.tickets(switch.id), switch.here.room
    asked = [letter_of(letter.name, 0) for letter in letters]
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
            "The idempotency key changes: the edited message is one of its own, and is "
            "processed even if the original was."
        )
    if accepted:
        return (
            "The idempotency key stays the same, and you accept a conflict: the edited message is "
            "processed even if the original was."
        )
    if after.compared:
        return (
            "The idempotency key stays the same: if the original was processed, the edited "
            "message is parked for KEY_CONFLICT; --accept-conflict has it processed."
        )
    return (
        "The idempotency key stays the same: if the original was processed, the edited message is "
        "skipped."
    )
