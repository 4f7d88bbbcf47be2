"""Each view fits 80 columns whatever its answer holds, and each command stands alone on its line.

Answers are made from the types of their fields: a new verb, or a new field, needs no new case.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from random import Random
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from rich.cells import cell_len

from console.cli.commands import COMMANDS
from console.cli.help import TOPICS
from console.cli.output import Block, Line, printable, show
from console.operations.attention import Attention
from console.operations.grouping import By
from console.operations.life_place import Where
from console.operations.status import AppStatus
from deadletter.circuit.state import State
from deadletter.contract import Mode
from deadletter.replay.run import RunState
from deadletter.replay.ticket import ReplayOutcome
from tests.console.terminal import Terminal
from tools.commands_page import commands

COLUMNS = 80

NOW = datetime(2026, 11, 29, 16, 35, tzinfo=UTC)
UUID = "8f14e45f-ceea-467f-9575-2a8c1d6e2b11"
COMMAND = f"dlq retry {UUID} --pipeline {'p' * 28} --reason '{'because ' * 5}'"

ANSWERS = 15
"""Answers of each verb that are tried."""

ALONE = re.compile(r" *((dlq|aws|npx) \S|--\S)")
"""A command, or the next line of one that ends with a backslash."""

LONGEST = (
    "p" * 28,
    UUID,
    "tenant-" * 28 + "long",
    "its text " * 33 + "end",
    "a reason in words, over several lines of a terminal; " * 4,
    "界" * 28,
    "界" * 100,
    "e\u0301\u200b\u202e\x1b[2J\n" * 20,
    "4" * 10,
    "",
)
"""A name of 28 characters, a tenant of 200, an error's text of 300, wide and unseen ones."""

OF_TYPE: Mapping[Any, Sequence[Any]] = {
    bool: (True, False),
    int: (0, 1, 4_444_444_444),
    float: (0.0, 0.123456789, 4e9),
}

KNOWN: Mapping[str, Sequence[Any]] = {
    "where": [*Where],
    "mode": [*Mode],
    "state": [*RunState],
    "CircuitRow.state": [*State, "UNREADABLE"],
    "topic": [*TOPICS, ""],
    # A group by attempts has a number for a name.
    "by": [by for by in By if by is not By.ATTEMPTS],
    "counts": [dict.fromkeys((each.name for each in ReplayOutcome), 4_444_444_444)],
    "command": [COMMAND],
    "AuditLine.command": ["rules apply"],
    "fix": [COMMAND],
    "SeenTrouble.type": [COMMAND],
    "Attention.type": [COMMAND, f"aws lambda delete-it \\\n  --function-name {'f' * 80}"],
    "waits_for": [f"{'A person has to approve it. ' * 4}\n{COMMAND}\n{COMMAND}"],
    "pattern": [{"body": {"x" * 60: ["y" * 200]}}],
    "arn": ["a" * 200],
    "added": [[{"name": "p" * 28, "dlq": {"arn": "a" * 200}}]],
}
"""Values of fields that say more than their type does."""

hints_of = cache(get_type_hints)


class Longest(Random):
    """Makes answers as long as they can be, or empty; its texts are of two kinds."""

    def made(self, kind: Any, name: str = "") -> Any:
        """A value of a type; `name` is that of its field."""
        origin, inner = get_origin(kind), get_args(kind)
        if origin in (UnionType, Union):
            return None if self.random() < 0.2 else self.made(inner[0], name)
        if is_dataclass(kind):
            hints = hints_of(kind)
            names = [each.name for each in fields(kind)]
            return kind(
                **{each: self.made(hints[each], f"{kind.__name__}.{each}") for each in names}
            )
        if (known := KNOWN.get(name, KNOWN.get(name.rpartition(".")[2]))) is not None:
            return self.choice(known)
        if origin is tuple and ... not in inner:
            return tuple(map(self.made, inner))
        if origin is not None and issubclass(origin, Mapping):
            return {self.made(inner[0]): self.made(inner[1]) for _ in range(3)}
        if origin is not None:
            # A message is at one place at least.
            sizes = (1, 2, 5) if name == "ShownMessage.places" else (0, 2, 5)
            return [self.made(inner[0]) for _ in range(self.choice(sizes))]
        if kind is datetime:
            return NOW - timedelta(seconds=self.choice((0, 40, 9_000, 3_000_000, -700_000)))
        return self.choice(OF_TYPE.get(kind, self.texts))

    @cached_property
    def texts(self) -> Sequence[str]:
        return self.sample(LONGEST, 2)


VIEWS = {path: entry.callback.__wrapped__.__wrapped__.view for path, entry in commands().items()}

SUGGESTED = re.compile(rf"\b(dlq ({'|'.join(COMMANDS)})\b|(aws|npx|cdk) [a-z0-9-]+ [a-z-])")


def mistakes(blocks: Sequence[Block]) -> Iterator[str]:
    """Rows that are too wide, what is cut off, and commands that do not stand alone and whole."""
    typed = [each for each in blocks if isinstance(each, Line) and each.typed]
    text = shown(each for each in blocks if each not in typed)
    yield from (f"too wide: {row}" for row in text.splitlines() if cell_len(row) > COLUMNS)
    yield from {f"steers: {each!r}" for each in text if not (each.isprintable() or each == "\n")}
    words = " ".join(text.split())
    yield from (
        f"in a sentence: {words[at.start() - 20 :][:80]}" for at in SUGGESTED.finditer(words)
    )
    commands = [" " * each.indent + said(each) for each in typed]
    yield from (f"no command: {each}" for each in commands if not ALONE.match(each))
    if shown(typed).splitlines() != commands:
        yield f"wrapped: {commands}"
    cut = Counter("".join(map(said, blocks))) - Counter(text + "".join(commands))
    if set(cut) - {" "}:
        yield f"cut off: {cut}"


def said(block: Block) -> str:
    """The text of a block, as it can be printed."""
    rows = [block.parts] if isinstance(block, Line) else block.rows
    parts = (part for row in rows for part in row)
    return "".join(printable(part if isinstance(part, str) else part.text) for part in parts)


def shown(blocks: Iterable[Block]) -> str:
    screen = Terminal()
    show(blocks, screen)
    return screen.getvalue()


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_fits_and_each_command_stands_alone(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("NO_COLOR", "1")
    view = VIEWS[path]
    answers = (Longest(seed).made(view.verb.answer) for seed in range(ANSWERS))
    assert {row for answer in answers for row in mistakes([*view.show(answer)])} == set()


def test_one_trouble_of_several_pipelines_is_one_card_with_one_command() -> None:
    status: AppStatus = Longest(0).made(AppStatus)
    one = Attention("orders", None, "it stands still", "dlq doctor")
    cards = [one, replace(one, pipeline="bills"), replace(one, says="it is full")]
    lines = [*map(said, VIEWS["dlq status"].show(replace(status, attention=cards)))]
    first = lines.index("orders, bills  it stands still")
    assert lines[first + 1 :][:3] == ["dlq doctor", "orders  it is full", "dlq doctor"]
