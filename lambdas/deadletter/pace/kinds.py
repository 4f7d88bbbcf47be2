"""The kinds of messages that one dependency fails while it serves all others: a sick minority.

A kind is a value that messages share: one of the pipeline's context, a short text in the body, or
the class of their body's length. It is named by its field and 24 bits of its value: no value is
stored.

Counted are first receives of the last KEPT_COUNTS x COUNT_SECONDS, failures of all their kinds
and successes of the kinds that are known to fail, by processes that know of a failure. A kind is
sick if FAILURES or more of its messages failed, SICK_SHARE of all, while the rest, which has none
of the sick kinds of this field, is well. Of several fields the one counts that explains most.

A sick kind is tried once in TRY_SECONDS; HEALED successes in a row end that. All other messages of
the kind are hidden. They do not vote for the circuit, and are not counted.

All times are epoch seconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from random import Random
from typing import Any

COUNT_SECONDS = 60.0
"""Seconds that one count of a kind covers."""

KEPT_COUNTS = 3
"""Counts that decide: as long as the breaker's window at least, whose failures they explain."""

FAILURES, SICK_SHARE = 4, 0.8

WELL, WELL_SHARE = 5, 0.6
"""Successes of the rest, and their share, that show a dependency which works."""

CHANCE = 0.0001
"""A kind that failed no more often than the rest would fail so often in a row with this chance."""

EXPLAINING = 2
"""Failures of each kind that explain, before a kind is found, why the circuit stays closed."""

MOST_SICK = 16
"""More kinds are no minority. Their row stays small, and each is tried often enough."""

MOST_IN_A_ROW = 20
"""So many failures in a row are no minority's: the others had their turn."""

TRY_SECONDS, HEALED = 15.0, 2

HIDDEN = (100.0, 200.0)
"""Seconds that a message of a sick kind is hidden."""

SKEW_SECONDS = 10.0
"""By which the clocks of two machines may differ. A time further ahead is a wrong row's."""

_LONGEST_GAP = max(TRY_SECONDS, MOST_SICK) + SKEW_SECONDS

MOST_KINDS = 10
"""Kinds of one message."""

SHORT_TEXT, FEW_TEXTS = 18, 4
"""Characters of a text in a body, and texts of a list, that may be a kind. Most ids and times are
longer: each is another one."""

MOST_COUNTED, MOST_ADDED, MOST_REMOVED = 40, 16, 12
"""Counts in a row, and in one write: DynamoDB takes 4 KB of an expression. Processes that write
at once may add some more."""

MOST_SINGLES = 3
"""Kinds of one field that failed once: more are ids, and the next takes the place of one."""

_FIELD = re.compile(r"[A-Za-z0-9_]{1,32}")
_KIND = re.compile(r"[0-9a-f]{6}_[A-Za-z0-9_]{1,16}")
_NO_WORD = re.compile(r"[^A-Za-z0-9_]")

ALL = ""
"""Stands for all messages that are counted, of whatever kind."""

Seen = Mapping[str, tuple[int, int]]
"""Failures and successes by kind, and those of ALL."""


@dataclass(frozen=True, slots=True)
class KindCount:
    """First receives of one kind in COUNT_SECONDS."""

    kind: str
    number: int
    failed: int
    good: int


@dataclass(frozen=True, slots=True)
class SickKind:
    """A kind that is slowed: when it may be tried again, and successes in a row."""

    kind: str
    next_try: float
    good: int = 0


@dataclass(frozen=True, slots=True)
class SickKinds:
    """The sick kinds of one dependency; `turn` grows with each write."""

    turn: int = 0
    kinds: tuple[SickKind, ...] = ()

    def of(self, kinds: Collection[str]) -> tuple[str, ...]:
        """Those of these kinds that are sick."""
        return tuple(each.kind for each in self.kinds if each.kind in kinds)

    def _with(self, kinds: Iterable[SickKind]) -> SickKinds:
        return SickKinds(self.turn + 1, tuple(kinds))

    @property
    def _gap(self) -> float:
        return max(TRY_SECONDS, float(len(self.kinds)))

    def and_found(self, kinds: Collection[str], now: float) -> SickKinds | None:
        """With further kinds; None if none is new, or they are too many."""
        known = {each.kind for each in self.kinds}
        new = [SickKind(kind, now + TRY_SECONDS) for kind in kinds if kind not in known]
        if not new or len(known) + len(new) > MOST_SICK:
            return None
        return self._with([*self.kinds, *new])

    def tried(self, kinds: Collection[str], now: float) -> SickKinds | None:
        """After a message of these kinds was tried; None if that is not due, or none is sick."""
        sick = [each for each in self.kinds if each.kind in kinds]
        if not sick or any(0 < each.next_try - now <= _LONGEST_GAP for each in sick):
            return None
        return self._with(
            replace(each, next_try=now + self._gap) if each.kind in kinds else each
            for each in self.kinds
        )

    def showed(self, kinds: Collection[str], *, is_good: bool) -> SickKinds | None:
        """After a try of these kinds has ended; None if that changes nothing."""
        after = [
            replace(each, good=each.good + 1 if is_good else 0) if each.kind in kinds else each
            for each in self.kinds
        ]
        left = [each for each in after if each.good < HEALED]
        return None if tuple(left) == self.kinds else self._with(left)


NONE_SICK = SickKinds()


def kinds_of(document: Mapping[str, Any], size: int) -> tuple[str, ...]:
    """The kinds of a message with this document, whose body has so many characters."""
    context, body = document.get("context", {}), document.get("body")
    kinds = {kind_of(f"c_{name}", str(value)): None for name, value in context.items()}
    kinds[kind_of("size", str(len(str(size))))] = None
    texts = set(map(str, context.values()))
    for name, value in body.items() if isinstance(body, Mapping) else ():
        if len(kinds) >= MOST_KINDS:
            break
        text = _short(value)
        # A name that is no word may be a value itself.
        if text is not None and text not in texts and _FIELD.fullmatch(name):
            kinds[kind_of(f"b_{name}", text)] = None
    return tuple(kinds)[:MOST_KINDS]


def kind_of(field: str, value: str) -> str:
    """The name of a kind: 24 bits of its value, and its field."""
    text = f"{field}\0{value}".encode("utf-8", "surrogatepass")
    return f"{blake2b(text, digest_size=3).hexdigest()}_{_NO_WORD.sub('_', field)[:16]}"


def field_of(kind: str) -> str:
    """The field of a kind."""
    return kind.partition("_")[2]


def is_kind(text: str) -> bool:
    """Whether a text is the name of a kind, or ALL."""
    return text == ALL or _KIND.fullmatch(text) is not None


def _short(value: Any) -> str | None:
    if isinstance(value, list):
        texts = value if len(value) <= FEW_TEXTS else ()
        return ",".join(texts) if texts and all(map(_is_short, texts)) else None
    return value if _is_short(value) else None


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= SHORT_TEXT


def number_of(moment: float) -> int:
    """The number of the count that a moment belongs to."""
    return int(moment // COUNT_SECONDS)


def both(one: Seen, other: Seen) -> Seen:
    """The sum of what was seen."""
    total = dict(one)
    for kind, (failed, good) in other.items():
        before = total.get(kind, (0, 0))
        total[kind] = (before[0] + failed, before[1] + good)
    return total


def any_fails(counts: Sequence[KindCount], now: float) -> bool:
    """Whether failures are counted that decide now."""
    present = number_of(now)
    return any(count.failed and abs(present - count.number) < KEPT_COUNTS for count in counts)


def found(counts: Sequence[KindCount], closed_at: float, now: float) -> tuple[str, ...]:
    """The sick kinds: those of one field that explain the failures, and hardly by chance."""
    failed, good = _recent(counts, closed_at, now)
    explaining = _explaining(failed, good, FAILURES)
    if explaining is None:
        return ()
    kinds, rest_bad = explaining
    return tuple(kind for kind in kinds if rest_bad ** failed[kind] <= CHANCE)


def explains(counts: Sequence[KindCount], closed_at: float, now: float) -> bool:
    """Whether a few kinds explain the failures, though they are too few to find them yet."""
    return _explaining(*_recent(counts, closed_at, now), EXPLAINING) is not None


def _recent(
    counts: Sequence[KindCount], closed_at: float, now: float
) -> tuple[Counter[str], Counter[str]]:
    """Failures and successes by kind; what was counted before the circuit closed was an outage."""
    failed, good = Counter[str](), Counter[str]()
    for count in counts:
        # One ahead, because clocks differ.
        recent = -1 <= number_of(now) - count.number < KEPT_COUNTS
        if recent and count.number * COUNT_SECONDS >= closed_at:
            failed[count.kind] += count.failed
            good[count.kind] += count.good
    return failed, good


def _explaining(
    failed: Counter[str], good: Counter[str], least: int
) -> tuple[tuple[str, ...], float] | None:
    """The kinds of the field that explains most failures, and the share of the rest that failed.

    None if no field explains them.
    """
    ill: dict[str, list[str]] = {}
    for kind, number in failed.items():
        if kind and number >= least and number >= SICK_SHARE * (number + good[kind]):
            ill.setdefault(field_of(kind), []).append(kind)
    explaining: dict[int, tuple[tuple[str, ...], float]] = {}
    for kinds in ill.values():
        explained = sum(failed[kind] for kind in kinds)
        rest_good = good[ALL] - sum(good[kind] for kind in kinds)
        rest = rest_good + max(0, failed[ALL] - explained)
        is_well = rest_good >= WELL and rest_good >= WELL_SHARE * rest
        if is_well and len(kinds) <= MOST_SICK:
            # Few that are well are little evidence (the rule of succession).
            share = 1 - (rest_good + 1) / (rest + 2)
            explaining.setdefault(explained, (tuple(kinds), share))
    return explaining[max(explaining)] if explaining else None


def to_write(
    seen: Mapping[int, Seen], row: Sequence[KindCount], now: float
) -> tuple[tuple[KindCount, ...], tuple[KindCount, ...]]:
    """The counts to add to a row, and those to remove from it; none is in both.

    `seen` is by the number of the count. Outdated counts go; if there is no room for another, the
    oldest goes as well.
    """
    kept: dict[_Place, int] = {}
    gone: dict[_Place, KindCount] = {}
    fails = Counter[str]()
    for count in row:
        place = count.number, count.kind
        if abs(number_of(now) - count.number) < KEPT_COUNTS and (count.failed or count.good):
            kept[place] = count.failed
            fails[count.kind] += count.failed
        else:
            gone[place] = count
    # What may leave for another: not what is added to in the same write.
    others = {
        (count.number, count.kind): count
        for count in row
        if count.kind not in seen.get(count.number, ())
    }
    added: list[KindCount] = []
    for number, kinds in seen.items():
        for kind, (failed, good) in sorted(kinds.items(), key=_rank):
            place = number, kind
            if place in gone or (kind and not failed and not fails[kind]):
                continue
            if kind and place not in kept:
                leaves = _leaving(kind, fails, kept)
                if leaves is not None:
                    if leaves not in others or len(gone) >= MOST_REMOVED:
                        # Another write makes room.
                        continue
                    gone[leaves] = others[leaves]
                    fails[leaves[1]] -= kept.pop(leaves)
            fails[kind] += failed
            kept[place] = kept.get(place, 0) + failed
            added.append(KindCount(kind, number, failed, good))
    return tuple(added[:MOST_ADDED]), tuple(gone.values())[:MOST_REMOVED]


_Place = tuple[int, str]
"""The number of a count, and its kind."""


def _rank(seen: tuple[str, tuple[int, int]]) -> tuple[bool, int]:
    """ALL first, then the kinds with most failures."""
    kind, (failed, _) = seen
    return kind != ALL, -failed


def _leaving(kind: str, fails: Mapping[str, int], kept: Mapping[_Place, int]) -> _Place | None:
    """The count that leaves to make room for one of this kind; None if there is room."""
    if not fails.get(kind):
        field = field_of(kind)
        singles = [place for place in kept if fails[place[1]] == 1 and field_of(place[1]) == field]
        if len(singles) >= MOST_SINGLES:
            return singles[int(kind[:6], 16) % len(singles)]
    if len(kept) < MOST_COUNTED:
        return None
    # The oldest, and of these the one with fewest failures.
    known = [place for place in kept if place[1]]
    return min(known, key=lambda each: (each[0], kept[each]), default=None)


def hidden_for(random: Random) -> float:
    """Seconds that a message of a sick kind is hidden."""
    return random.uniform(*HIDDEN)
