"""Which messages a run would have: its sources, and what is chosen of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import TYPE_CHECKING, Any

from deadletter.contract import CAUSE_SHARDS, MAIN_DLQ, PARKED_LANE, Reason, parking_source
from deadletter.failure.failure import Failure
from deadletter.message.letter import compact_json
from deadletter.replay.plan import DISCARDED_LETTERS, belongs_to
from deadletter.replay.ticket import ReplayOutcome
from deadletter.routing.selection import Pick, Selection
from deadletter.rules.pattern import compile_pattern

from .app import DeployedPipeline
from .errors import Cause, Problem, aws_errors
from .letter_walk import FoundLetter, See, in_parts, letters_of_lane, look_into_queue
from .matching import FoundMessage, Matcher, holds, known_by_row
from .queue import depth
from .replay_runs import RunSwitch
from .selection import Choice
from .session import Here
from .words import count

if TYPE_CHECKING:
    from deadletter.failure.ledger import LedgerRow
    from deadletter.replay.names import Name


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """A source by its id in a plan: a queue with its URL, a lane of the waiting room, or the copies
    of discarded letters.

    A parking queue stands for all its parked letters: those that were moved into lane `parked`
    since, by a rescue or by another run, are its letters too.
    """

    id: str
    url: str | None = None
    lane: str | None = None

    @property
    def is_release(self) -> bool:
        """Whether automation has given its letters up."""
        given_up = (parking_source(""), DISCARDED_LETTERS)
        return self.lane == PARKED_LANE or self.id.startswith(given_up)

    @property
    def is_live(self) -> bool:
        """Whether runs of the schedule receive from it."""
        return self.url is not None and not self.is_release

    @property
    def name(self) -> str:
        """The source in words: "the DLQ", "parking queue default", "lane parked"."""
        if self.lane is not None:
            return f"waiting {self.lane}"
        if self.id == MAIN_DLQ:
            return "the DLQ"
        parking = self.id.removeprefix(parking_source(""))
        return f"parking queue {parking}" if parking != self.id else f"dedicated DLQ {self.id}"


def parked_sources(pipeline: DeployedPipeline) -> tuple[ReplaySource, ...]:
    """All parking queues, each with those of its letters that are in lane `parked`."""
    return tuple(
        ReplaySource(parking_source(id_), url=url) for id_, url in pipeline.parking.items()
    )


@dataclass(frozen=True, slots=True)
class ListedLetter:
    """A letter of a run: its name in the manifest, its outcome, and how often it came back."""

    name: Name
    outcome: ReplayOutcome
    returned: int = 0


def letters_of(switch: RunSwitch) -> Iterator[ListedLetter]:
    """Each letter of a run in order. Problem if it has no snapshot yet."""
    from deadletter.aws.run_letters import DynamoDBStatuses
    from deadletter.replay.manifest import Manifest, ShardProgress
    from deadletter.replay.names import PART

    session = switch.session
    manifest = Manifest(switch.objects)
    statuses = DynamoDBStatuses(
        session.aws.dynamodb,
        switch.app.messages_table,
        pipeline=switch.pipeline.name,
        run=switch.id,
        clock=session.clock,
    )
    with aws_errors():
        index = manifest.index()
    if index is None and not switch.before.is_live:
        raise Problem(f"What run {switch.id} took is not on record any more.", Cause.ABSENT)
    if index is None:
        raise Problem(
            f"Run {switch.id} has not taken its messages yet: it is {switch.before.state}. "
            f"This waits for it:\ndlq show {quote(switch.id)} --watch",
            Cause.FAILED,
        )
    for shard in range(len(index.shards)):
        with aws_errors():
            progress = ShardProgress.of(shard, statuses.read(shard))
        for part in range(index.parts(shard)):
            with aws_errors():
                names = manifest.part(shard, part)
            for offset, name in enumerate(names):
                position = part * PART + offset
                yield ListedLetter(name, progress.outcome(position), progress.returned(position))


MESSAGE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id that SQS gives."""

# Pages of the index of causes, and letters of one: two hundred thousand letters, and two minutes.
MOST_PAGES, _PAGE = 200, 1_000

# Letters of a lane whose origins are compared with the ledger's.
_MOST_WAITING = 20_000

_PARTS = 100


@dataclass(frozen=True, slots=True)
class CountedLetter:
    """A letter that a run would take, or leave out for the reason in `left_out`, by its `rule`.

    `cause` is the fingerprint of its last failure at `failed_at` (epoch seconds; None without
    one), in the consumer's `version`. `first_sent` is epoch milliseconds (in the ledger: of the
    first failure that it has), 0 if it is unknown. Empty texts are unknown. `business` is your own
    number of it, where it was received.
    """

    origin: str
    copy: str = ""
    cause: str = ""
    category: str = ""
    error_type: str = ""
    reason: str = ""
    first_sent: int = 0
    failed_at: float | None = None
    version: str = ""
    left_out: str = ""
    rule: str | None = None
    applied: bool = False
    group: str | None = None
    business: str | None = None


_MALFORMED, _BROKEN = "a malformed failure record", "not stored whole"


@dataclass(frozen=True, slots=True)
class Census:
    """The letters of a source, by whether a run would take them.

    `others` are letters that the selection does not match. `widened` are letters of FIFO groups
    that it matches in part. `broken` are items that hold no whole letter. `by_ledger` says that
    nothing was received: `in_queue` is then what SQS estimates. `is_whole` says that the source was
    read to its end.
    """

    taken: tuple[CountedLetter, ...] = ()
    left_out: tuple[CountedLetter, ...] = ()
    others: int = 0
    widened: int = 0
    broken: int = 0
    groups: tuple[str, ...] | None = None
    by_ledger: bool = False
    in_queue: int | None = None
    looked_at: int = 0
    not_given_back: int = 0
    is_whole: bool = True

    @property
    def saw_each(self) -> bool:
        """Whether a look at a FIFO queue has seen every letter, not the heads of groups alone."""
        is_complete = self.is_whole and not self.not_given_back
        return is_complete and self.looked_at >= (self.in_queue or 0)

    @property
    def without_reasons(self) -> Census:
        """The same where no reason leaves a letter out, but that nothing can be decided of it."""
        out = tuple(each for each in self.left_out if each.left_out == _MALFORMED)
        others = (each for each in self.left_out if each not in out)
        return replace(self, taken=(*self.taken, *others), left_out=out)


@dataclass(frozen=True, slots=True)
class StaysOut:
    """Messages that a person meant and no run takes, by the reason, with the rules of the pipeline
    that leave them out; and the ids that no message has.
    """

    left_out: Mapping[str, int] = field(default_factory=dict)
    not_found: Sequence[str] = ()
    rules: Sequence[str] = ()
    pipeline: str = ""

    @classmethod
    def of(
        cls, pipeline: str, counted: Sequence[Census], named: Mapping[str, Collection[str]]
    ) -> StaysOut:
        """What was counted and is not taken; `named` are the ids that were given, each with others
        of the same message.
        """
        out = [letter for each in counted for letter in each.left_out]
        there = set[str | None]()
        for letter in (*out, *(letter for each in counted for letter in each.taken)):
            there |= {letter.origin, letter.copy, letter.business}
        broken = Counter({_BROKEN: sum(each.broken for each in counted)})
        reasons = Counter(letter.left_out for letter in out) + broken
        not_found = [id_ for id_, ids in named.items() if there.isdisjoint(ids)]
        rules = sorted({letter.rule for letter in out if letter.rule})
        return cls(reasons, not_found, rules, pipeline)

    @property
    def facts(self) -> Mapping[str, Any]:
        """What answers say of it."""
        return {"left_out": dict(self.left_out), "not_found": tuple(self.not_found)}

    def says(self) -> Iterator[str]:
        """Which messages are not taken, why, and how that is lifted; what to type comes last."""
        if self.not_found:
            yield f"Not found: {', '.join(self.not_found)}."
        here = f"-p {quote(self.pipeline)}"
        lifts = "".join(f"\ndlq rules disable {quote(rule)} {here}" for rule in self.rules)
        left = sorted(self.left_out.items(), key=lambda each: each[0] == Reason.QUARANTINED)
        for reason, number in left:
            what = f"{count(number, 'message')} not included: {reason}"
            match reason:
                case Reason.QUARANTINED if lifts:
                    yield f"{what}, by {' and '.join(self.rules)}. It is lifted by{lifts}"
                case Reason.EXPIRED:
                    yield f"{what}: never sent; a longer message_ttl lifts that."
                case "SCHEMA":
                    yield f"{what}: the pipeline's JSON Schema does not take it; --edit does."
                case _:
                    yield f"{what}."


def census(
    here: Here,
    source: ReplaySource,
    selection: Selection,
    *,
    look: bool = False,
    see: See | None = None,
) -> Census:
    """The letters of a source that a run with this selection would take; `see` gets each of them.

    A live DLQ is counted from the ledger unless `look` is given: receiving its letters would
    count against them. All of them are received where some that are meant are on no record.
    """
    if source.is_live and not look:
        counted = _by_ledger(here, source, selection)
        known = {each.origin for each in (*counted.taken, *counted.left_out)}
        unknown = set(filter(MESSAGE_ID.fullmatch, selection.ids)) - known
        knows_all = not unknown if selection.ids else len(known) >= (counted.in_queue or 0)
        if knows_all or selection.fingerprints or selection.pattern:
            return counted
    asked = _Asked(here, source, selection, see)
    if source.lane is not None:
        return asked.census(letters_of_lane(here, source.lane, asked.note_broken))
    assert source.url is not None, "a source is a queue or what messages wait for"
    trusted = here.pipeline.trusted_senders
    walk = look_into_queue(here.session, source.url, source.id, asked.see, trusted=trusted)
    # After the queue: another run may move a letter from there into the lane meanwhile.
    beside = letters_of_lane(here, PARKED_LANE, asked.note_broken) if source.is_release else ()
    return replace(
        asked.census(
            found for found in beside if belongs_to(source.id, found.home, here.pipeline.parking)
        ),
        looked_at=walk.looked_at,
        not_given_back=walk.not_given_back,
        is_whole=walk.is_whole,
        in_queue=depth(here.session.aws.sqs, source.url).visible,
    )


def census_of(
    here: Here, source: ReplaySource, selection: Selection, letters: Iterable[FoundLetter]
) -> Census:
    """Which of these letters a run with this selection would take."""
    return _Asked(here, source, selection).census(letters)


class _Asked:
    """Letters that the router is asked about, a hundred at a time; their bodies are not kept."""

    def __init__(
        self, here: Here, source: ReplaySource, selection: Selection, see: See | None = None
    ) -> None:
        from deadletter.aws.functions import LambdaRouter

        aws, pipeline = here.session.aws, here.pipeline
        self._router = LambdaRouter(aws.lambda_, pipeline.router_function)
        self._here, self._source, self._see = here, source, see
        self._home = source.id if source.id in pipeline.dedicated else MAIN_DLQ
        # The groups of a plan are found by asking about each letter.
        self._selection = replace(selection, groups=None)
        self._chosen: list[CountedLetter] = []
        self._others: list[CountedLetter] = []
        self._broken = 0
        self._matcher = Matcher(Choice(), pipeline.settings(), here.session.now)
        self._waiting: list[FoundLetter] = []
        self._bytes = 0
        self._seen: set[str] = set()

    def see(self, found: FoundLetter) -> None:
        from deadletter.redrive.run_limits import MAX_REQUEST
        from deadletter.routing.router import Question
        from deadletter.routing.wire import question_to_json

        if found.letter.message_id in self._seen:
            return
        self._seen.add(found.letter.message_id)
        size = len(compact_json(question_to_json(Question(found.letter)))) + 1
        if self._waiting and (len(self._waiting) >= _PARTS or self._bytes + size > MAX_REQUEST):
            self._ask()
        self._waiting.append(found)
        self._bytes += size

    def note_broken(self, items: int) -> None:
        """Count items of a lane; from where those of lane `parked` came is not known."""
        parking = self._here.pipeline.parking
        if self._source.url is None or belongs_to(self._source.id, "", parking):
            self._broken += items

    def census(self, letters: Iterable[FoundLetter]) -> Census:
        """The letters that were seen, and these, with their last failures on record.

        On FIFO a run takes whole groups: of each group with a letter that it would take. What a
        restore brings back joins none.
        """
        from deadletter.failure.ledger import NO_ROW

        for found in letters:
            self.see(found)
        self._ask()
        groups: set[str] | None = None
        if self._here.pipeline.fifo and not self._source.id.startswith(DISCARDED_LETTERS):
            groups = {each.group for each in self._chosen if not each.left_out and each.group}
        joined = [each for each in self._others if each.group in (groups or ())]
        meant = [*self._chosen, *joined]
        origins = sorted({each.origin for each in meant})
        rows = ledger_rows(self._here, origins)
        known = [_failed(each, rows.get(each.origin, NO_ROW).last) for each in meant]
        return Census(
            taken=tuple(each for each in known if not each.left_out),
            left_out=tuple(each for each in known if each.left_out),
            others=len(self._others) - len(joined),
            widened=len(joined),
            broken=self._broken,
            groups=None if groups is None else tuple(sorted(groups)),
        )

    def _ask(self) -> None:
        """Asks about the letters that wait."""
        from deadletter.routing.router import Question
        from deadletter.settings.json_fields import BadSettings

        if not self._waiting:
            return
        questions = [
            Question(found.letter, home=self._home, stamp=found.stamp) for found in self._waiting
        ]
        try:
            with aws_errors():
                picks = self._router.select(
                    questions, self._selection, release=self._source.is_release
                )
        except BadSettings as error:
            raise Problem(f"These messages can't be chosen so: {error}.", Cause.INPUT) from error
        by_id = {pick.message_id: pick for pick in picks}
        for found in self._waiting:
            pick = by_id.get(found.letter.message_id)
            if pick is None:
                if not self._selection.ids or found.ids & set(self._selection.ids):
                    copy = found.letter.message_id
                    origin = found.stamp.origin if found.stamp else copy
                    self._chosen.append(CountedLetter(origin, copy, left_out=_MALFORMED))
                continue
            letter = _counted(found, pick)
            if pick.chosen and self._selection.pattern:
                letter = replace(letter, business=self._business_id(found))
            if self._see is not None and pick.chosen and not pick.left_out:
                self._see(found)
            (self._chosen if pick.chosen else self._others).append(letter)
        self._here.session.say(f"{len(self._seen):,} messages counted")
        self._waiting, self._bytes = [], 0

    def _business_id(self, found: FoundLetter) -> str | None:
        letter = FoundMessage("", found.home, "", letter=found.letter, stamp=found.stamp)
        return self._matcher.business_id(letter)


def _counted(found: FoundLetter, pick: Pick) -> CountedLetter:
    return CountedLetter(
        origin=pick.stamp.origin,
        copy=pick.message_id,
        cause=pick.cause,
        category=pick.category,
        reason=pick.stamp.reason or "",
        first_sent=pick.stamp.first_sent,
        left_out=pick.left_out,
        rule=pick.rule,
        applied=pick.applied,
        group=found.letter.group,
    )


def ledger_rows(here: Here, origins: Sequence[str]) -> Mapping[str, LedgerRow]:
    """The ledger's rows of these origins, as far as there are any."""
    ledger = here.ledger
    rows: dict[str, LedgerRow] = {}
    with aws_errors():
        for part in in_parts(origins, _PARTS):
            rows.update(ledger.rows(part))
    return rows


def _failed(letter: CountedLetter, last: Failure | None) -> CountedLetter:
    if last is None:
        return letter
    return replace(
        letter,
        cause=letter.cause or last.fingerprint,
        category=letter.category or str(last.category),
        error_type=last.error_type,
        failed_at=last.at,
        version=last.version,
    )


def must_look(pipeline: DeployedPipeline, source: ReplaySource, selection: Selection) -> bool:
    """Whether the letters of a live DLQ have to be received: the ledger can't tell which are meant.

    It keeps failures, and neither bodies nor FIFO groups, nor which of several DLQs it was.
    """
    if not source.is_live:
        return False
    if pipeline.fifo or pipeline.dedicated or selection.reasons:
        return True
    return selection.since is not None or selection.until is not None or not _tells(selection)


_IN_LEDGER = ("failure.", "redrive.attempt")


def _tells(selection: Selection) -> bool:
    """Whether the ledger keeps all that a pattern reads."""
    if not selection.pattern:
        return True
    fields = compile_pattern(selection.pattern).fields
    return all(field.name.startswith(_IN_LEDGER) for field in fields)


def _by_ledger(here: Here, source: ReplaySource, selection: Selection) -> Census:
    """The letters with a failure that were not processed or parked since, nor wait elsewhere."""
    assert source.url is not None, "a live source is a queue"
    elsewhere = _waiting_origins(here)
    settings = here.pipeline.settings()
    too_old = here.session.clock() - settings.message_ttl
    taken: list[CountedLetter] = []
    left_out: list[CountedLetter] = []
    others = 0
    is_whole = True
    takes_all = frozenset(selection.include) >= frozenset(Reason)
    pattern = compile_pattern(selection.pattern) if selection.pattern else None
    for known in _failing(here):
        if known is None:
            is_whole = False
            break
        origin, row = known
        last = row.last
        is_meant = origin not in elsewhere and (not selection.ids or origin in selection.ids)
        if row.unreadable and is_meant:
            left_out.append(CountedLetter(origin, left_out=_MALFORMED))
        if last is None or _is_over(row, last) or origin in elsewhere:
            continue
        if not _matches(selection, origin, last) or not (
            pattern is None or holds(pattern, known_by_row(row, row.attempt, settings))
        ):
            others += 1
            continue
        # It was sent before it failed first.
        first = int(row.failures[0].at * 1000) if row.failures else 0
        letter = _failed(CountedLetter(origin, first_sent=first), last)
        if first and first / 1000 <= too_old and not takes_all:
            left_out.append(replace(letter, left_out=Reason.EXPIRED))
        else:
            taken.append(letter)
    return Census(
        tuple(taken),
        tuple(left_out),
        others=others,
        by_ledger=True,
        in_queue=depth(here.session.aws.sqs, source.url).visible,
        is_whole=is_whole,
    )


def _is_over(row: LedgerRow, last: Failure) -> bool:
    """Whether the letter recovered or was parked after its last failure."""
    recovered = row.recovered_at is not None and row.recovered_at >= last.at
    return recovered or row.is_parked or row.ended_attempt == last.attempt


def _matches(selection: Selection, origin: str, last: Failure) -> bool:
    return (not selection.ids or origin in selection.ids) and (
        not selection.fingerprints or last.fingerprint in selection.fingerprints
    )


def _failing(here: Here) -> Iterator[tuple[str, LedgerRow] | None]:
    """Each letter in the index of causes, with its row; None at last if there are too many.

    A letter leaves the index when it is processed, parked or thrown away. Rows that a version
    without the index wrote are not in it.
    """
    pages, entries = 0, here.index
    for shard in range(CAUSE_SHARDS):
        after: Mapping[str, Any] | None = None
        while pages < MOST_PAGES:
            with aws_errors():
                page = entries.page(shard, _PAGE, (), after=after)
            pages += 1
            origins = [entry.origin for entry in page.entries]
            yield from ledger_rows(here, origins).items()
            here.session.say(f"{pages * _PAGE:,} records of causes read, at most")
            after = page.last
            if after is None:
                break
        else:
            yield None
            return


def _waiting_origins(here: Here) -> Collection[str]:
    """The origins of the letters in the waiting room."""
    lanes = here.lanes
    origins: set[str] = set()
    with aws_errors():
        for lane in lanes.lanes():
            waiting = lanes.look(lane.name, _MOST_WAITING)
            origins.update(letter.stamp.origin for letter in waiting if letter.stamp)
    return origins
