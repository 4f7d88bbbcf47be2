"""What a person meant by a word that is no command: other tools' words, and slips.

A word that reads is never answered with a command that changes something, and a word that
sends never with one that removes. Nothing is executed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from .commands import BODIES, READER, policies_of


class Effect(IntEnum):
    """What a word or a command does, the harmless first."""

    READS = 0
    CHANGES = 1
    REMOVES = 2


@dataclass(frozen=True, slots=True)
class Meaning:
    """Words of one meaning, and the commands for it, the likeliest first."""

    effect: Effect
    words: str
    commands: tuple[str, ...]


_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

MEANINGS = [
    Meaning(Effect[each["effect"].upper()], each["words"], tuple(each["commands"]))
    for each in _DATA["meanings"]
]
"""What people type, and what they mean by it."""

SAYS: Mapping[str, str] = _DATA["says"]
"""Each command of MEANINGS in a few words."""

REMOVALS = frozenset(
    {"discard", "doctor --removal", "forget", "run abort", "run reject", "rules remove"}
)

OPTIONS = (
    ("--reason", "--why", "--because", "--comment"),
    ("--json", "--output", "--format"),
    ("--show-body", "--body", "--bodies"),
    ("--limit", "--max", "--count"),
    ("--expires", "--until-closed", "--until"),
)
"""Options of one meaning: a command that lacks one has another of them."""

# Commands for a word outside its group: more is a list, and that is `dlq --help`.
_AT_MOST = 3

_BY_WORD = {word: meaning for meaning in MEANINGS for word in meaning.words.split()}


def answer(
    typed: str, group: str, own: Iterable[str], whole: Callable[[str], str], then: str = ""
) -> str:
    """What to say of a word that is no command of `group` ("" for `dlq` itself).

    `own` are the group's commands; `whole` adds to one of them what has to be typed behind it.
    `then` is the next word: there are groups no more, of which it was a command.
    """
    says = f"No such command {typed!r}."
    found = [
        command if command in SAYS else f"{group} {whole(command.split()[-1])}".strip()
        for command in meant(typed, group, own, then)
    ]
    if not found:
        return says
    width = max(map(len, found))
    rows = (
        f"  dlq {command:{width}}  # {SAYS[command]}" if command in SAYS else f"  dlq {command}"
        for command in found
    )
    return "\n".join([f"{says} Did you mean:", *rows])


def meant(typed: str, group: str, own: Iterable[str], then: str = "") -> Sequence[str]:
    """The commands that a person may have meant: lines of SAYS, or names of the group's own."""
    word = typed.lower()
    for phrase in (f"{word}-{then.lower()}", word):
        if phrase in _BY_WORD:
            return _for(_BY_WORD[phrase], group)
    names = {name: f"{group} {name}".strip() for name in own}
    here = {name: Meaning(effect_of(full), name, (full,)) for name, full in names.items()}
    known = {**_BY_WORD, **here}
    slips, words = nearest(word, known)
    meanings = [known[other] for other in words]
    # The most harmless of what is equally near says how far the answer may go. A removal is
    # only for one slip in its very word.
    limit = min([each.effect for each in meanings], default=Effect.READS)
    limit = min(limit, Effect.CHANGES) if slips > 1 else limit
    for among in ([here[word] for word in words if word in here], meanings):
        found = dict.fromkeys(command for each in among for command in _for(each, group))
        if allowed := [command for command in found if effect_of(command) <= limit]:
            return allowed[:_AT_MOST]
    return ()


def _for(meaning: Meaning, group: str) -> Sequence[str]:
    """Those of the group itself, where it has some; else the likeliest of all."""
    here = [command for command in meaning.commands if command.startswith(f"{group} ")]
    return here or meaning.commands[:_AT_MOST]


def effect_of(command: str) -> Effect:
    """What a command does, by its words after `dlq`. A group alone only prints its help."""
    if command.endswith("--dry-run"):
        return Effect.READS
    words = [word for word in command.split() if word.isalpha() and word.islower()]
    names = {" ".join(words[:2]), *words[:1], command}
    if names & REMOVALS:
        return Effect.REMOVES
    needed = {policy for name in names for policy in policies_of(name)}
    return Effect.CHANGES if needed - {READER, BODIES} or "init" in names else Effect.READS


def options(typed: str, own: Iterable[str]) -> Sequence[str]:
    """The options of a command that a person may have meant by one that it lacks."""
    own = list(own)
    same = [option for group in OPTIONS if typed in group for option in group if option in own]
    return same or nearest(typed, own)[1]


def nearest(word: str, known: Iterable[str]) -> tuple[int, Sequence[str]]:
    """The fewest slips from `word` to a known one, and those so near: none that is far."""
    letters = len(word.lstrip("-"))
    limit = 0 if letters < 2 else 1 if letters < 6 else 2
    slips = {other: _slips(word, other) for other in known if abs(len(other) - len(word)) <= limit}
    least = min(slips.values(), default=0)
    return least, [other for other in slips if slips[other] == least <= limit]


def _slips(typed: str, meant: str) -> int:
    """Letters added, left out, mistaken, or swapped with their neighbour."""
    above: list[int] = []
    row = list(range(len(meant) + 1))
    for i, letter in enumerate(typed, 1):
        above, before, row = row, above, [i]
        for j, wanted in enumerate(meant, 1):
            best = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == meant[j - 2] and wanted == typed[i - 2]:
                best = min(best, before[j - 2] + 1)
            row.append(best)
    return row[-1]
