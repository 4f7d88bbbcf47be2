"""The letters of a shard come in hand in their order: of each ordering key one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from deadletter.replay.lineup import RunLetter, RunStage, ShardLineup
from deadletter.replay.manifest import PartStatus, ShardProgress
from deadletter.replay.names import PART, Name, key_hash
from deadletter.replay.ticket import ReplayOutcome


def named(number: int, key: str = "") -> Name:
    origin = f"origin {number}"
    return Name(
        copy=f"c{number}", origin=origin, place=("pk", f"{number}"), key=key_hash(key or origin)
    )


class Shard:
    """A shard with these letters: a lineup of it, and how often a part was read."""

    def __init__(
        self,
        names: Sequence[Name],
        *,
        ordered: bool = True,
        most_keys: int = 10,
        status: dict[int, PartStatus] | None = None,
    ) -> None:
        self.names = names
        self.reads = 0
        self.progress = ShardProgress.of(0, status or {})
        self.lineup = ShardLineup(
            length=len(names),
            part=self.part,
            progress=self.progress,
            ordered=ordered,
            most_keys=most_keys,
        )

    def part(self, number: int) -> Sequence[Name]:
        self.reads += 1
        return self.names[number * PART : (number + 1) * PART]

    @property
    def in_hand(self) -> list[int]:
        return sorted(self.lineup.letters)

    def letter(self, position: int) -> RunLetter:
        return self.lineup.letters[position]

    def finish(self, position: int) -> None:
        self.progress.set(position, ReplayOutcome.RECOVERED)
        self.lineup.done(self.letter(position))


def test_of_each_key_one_letter_is_in_hand() -> None:
    shard = Shard([named(n, "a" if n < 3 else "b") for n in range(6)])
    shard.lineup.fill(100)
    assert shard.in_hand == [0, 3]
    assert not shard.lineup.is_exhausted
    shard.finish(0)
    assert shard.in_hand == [1, 3]
    for position in (1, 2, 3, 4, 5):
        shard.finish(position)
    assert shard.lineup.is_exhausted


def test_a_letter_that_comes_in_hand_is_not_read_sent_or_missed_yet() -> None:
    shard = Shard([named(7)])
    shard.lineup.fill(1)
    letter = shard.letter(0)
    place = '["pk", "7", null]'
    assert (letter.copy, letter.place, letter.stage) == ("c7", place, RunStage.UNREAD)
    counted = (letter.returns, letter.looks, letter.misses, letter.look_at, letter.known_at)
    assert not any(counted)
    assert (letter.ticket, letter.bound, letter.maybe_sent) == (None, None, False)


def test_letters_without_a_key_are_all_in_hand() -> None:
    shard = Shard([named(n) for n in range(4)])
    shard.lineup.fill(3)
    assert shard.in_hand == [0, 1, 2]
    shard.finish(1)
    shard.lineup.fill(3)
    assert shard.in_hand == [0, 2, 3]


def test_without_order_keys_do_not_matter() -> None:
    shard = Shard([named(n, "a") for n in range(3)], ordered=False)
    shard.lineup.fill(100)
    assert shard.in_hand == [0, 1, 2]


def test_a_resumed_shard_begins_with_what_has_no_end_yet() -> None:
    names = [named(n, "a" if n < 4 else "b") for n in range(8)]
    shard = Shard(names, status={0: PartStatus("rdsrrrrr", "00200000")})
    shard.lineup.fill(100)
    assert shard.in_hand == [2]
    assert shard.letter(2).returns == 2
    shard.finish(2)
    assert shard.lineup.is_exhausted


def test_no_more_keys_are_open_than_allowed() -> None:
    shard = Shard([named(n, f"key {n}") for n in range(5)], most_keys=2)
    shard.lineup.fill(100)
    assert shard.in_hand == [0, 1]
    shard.finish(0)
    shard.lineup.fill(100)
    assert shard.in_hand == [1, 2]


def test_a_stopped_key_does_not_go_on_and_others_do() -> None:
    shard = Shard([named(n, "a" if n < 3 else f"key {n}") for n in range(6)], most_keys=1)
    shard.lineup.fill(100)
    shard.lineup.stop(shard.letter(0))
    shard.lineup.fill(100)
    assert shard.in_hand == [3]
    assert shard.lineup.stopped_keys == 1


def test_a_letter_knows_its_predecessor_in_the_key() -> None:
    shard = Shard([named(0, "b"), named(1, "a"), named(2, "a")], status={0: PartStatus(" p", "00")})
    shard.lineup.fill(100)
    assert shard.in_hand == [0, 2]
    before = shard.lineup.before(shard.letter(2))
    assert before is not None
    assert before.copy == "c1"
    assert shard.lineup.before(shard.letter(0)) is None


def test_a_long_key_is_read_ahead_and_other_keys_do_not_wait_for_it() -> None:
    long = 3 * PART + 7
    names = [*[named(n, "long") for n in range(long)], *[named(long + n, "b") for n in range(2)]]
    shard = Shard(names)
    shard.lineup.fill(100)
    assert shard.in_hand == [0, long]
    for position in range(long):
        assert min(shard.in_hand) == position
        shard.finish(position)
    assert shard.in_hand == [long]
    assert shard.reads < 100
