"""What `dlq` says of a word that is no command: it names the right one, and runs nothing."""

from __future__ import annotations

import string
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

import pytest
import typer

from console.cli import commands, did_you_mean, main
from console.cli.did_you_mean import MEANINGS, SAYS, Effect, answer, effect_of, meant
from console.cli.exit import Exit
from tests.console.command_lines import parse
from tests.console.test_every_change_is_recorded import TYPED
from tests.each_row import each_row
from tools import commands_page

WORDS = {word: meaning for meaning in MEANINGS for word in meaning.words.split()}
ROOT: Any = typer.main.get_command(main.app)
GROUPS = ("", *commands.GROUPS)

RIGHT = {
    "retry ID": "resend, requeue, release, recall",
    "list": "ls, peek",
    "list -f text~TEXT": "search, find",
    "show ANYTHING": "get, view, describe, inspect, open, why, "
    "history, explain, rules explain, rules show, rules history, exlpain",
    "show ID --logs": "logs",
    "status --watch": "tail, watch",
    "list --in parked -f reason=POISON --look": "poison",
    "list --look --out FILE": "export",
    "retry ID --edit": "edit",
    "discard ID": "delete, drop, purge",
    "restore RUN": "undelete, undo",
    "rules add RULE_ID --action QUARANTINE -f tenant=ID": "quarantine, block",
    "circuit open": "pause, stop",
    "circuit release": "resume, circuit auto",
    "run abort RUN": "cancel, run cancel",
    "mute --for 2h": "ack, acknowledge",
    "doctor --removal": "uninstall, retire, retire-",
    "doctor --send-page": "page",
    "status": "observe, statsu",
    "endpoint add TENANT --dry-run": "endpoint check",
    "endpoint add TENANT": "endpoint enable",
    "endpoint add TENANT --url URL": "endpoint edit",
    "endpoint list": "endpoint show",
    "--version": "version",
    "list --in parked --look": "parked",
    "run hold RUN": "run stop",
    "rules remove RULE_ID": "rules delete, rules rm",
    "rules list": "rules ls",
    "rules add RULE_ID --action ACTION --replace": "rules edit",
    "rules undo RULE_ID": "rules enable x",
    "rules apply FILE": "rules import rules.json",
    "rules list --yaml": "rules export",
    "rules test --file FILE": "rules lint rules.json",
    "groups": "cause, cause list",
    "rules add RULE_ID --action QUARANTINE -f cause=ID": "cause park 9c1f08e2",
    "retry -f cause=ID": "cause retry 9c1f08e2",
    "circuit list": "circuit status",
    "retry": "retyr",
    "discard": "discrad",
    "endpoint add TENANT[/ENDPOINT]": "endpoint ad",
}
"""What a person may type, by the command that is meant; slips as well."""


def takes(line: str) -> None:
    """Raises if `dlq` does not take this command line."""
    # --version and --help end it at once.
    with suppress(typer.Exit):
        parse(line)


@each_row(("right", "words"), RIGHT.items())
def test_a_natural_word_is_answered_with_the_right_command(
    dlq: Any, right: str, words: str
) -> None:
    for typed in words.split(", "):
        _, _, lines = dlq(typed, ends=Exit.USAGE).stderr.partition("Did you mean:\n")
        first = lines.splitlines()[0].partition("  #")[0].strip()
        assert first == f"dlq {right}", typed
        takes(first)


@pytest.mark.parametrize("typed", ["resend", "retyr"])
def test_nothing_is_run_and_standard_output_stays_empty(
    cloud: Any, dlq: Any, functions: Any, typed: str
) -> None:
    cloud.deploy("orders")
    done = dlq("--json", *typed.split(), "orders", "--yes")
    assert (done.exit_code, done.stdout, functions.invoked) == (Exit.USAGE, "", [])


@each_row("command", SAYS)
def test_a_command_of_the_table_is_one_that_dlq_takes(command: str) -> None:
    takes(f"dlq {command}")


def test_a_word_has_one_meaning_and_each_of_its_commands_is_explained() -> None:
    assert len(WORDS) == sum(len(meaning.words.split()) for meaning in MEANINGS)
    assert {command for meaning in MEANINGS for command in meaning.commands} == set(SAYS)


@each_row("meaning", MEANINGS, ids=lambda meaning: meaning.words)
def test_a_word_that_reads_changes_nothing_and_one_that_sends_removes_nothing(meaning: Any) -> None:
    assert [command for command in meaning.commands if effect_of(command) > meaning.effect] == []


def test_what_counts_as_a_change_is_what_the_audit_records() -> None:
    changes = {path for path in commands_page.commands() if effect_of(path[4:]) > Effect.READS}
    # `init` writes a file here, and `doctor` changes something with an option alone.
    assert changes - {"dlq init"} == set(TYPED) - {"dlq doctor"}
    assert effect_of("doctor --send-page") == Effect.CHANGES
    removals = {path for path in commands_page.commands() if effect_of(path[4:]) == Effect.REMOVES}
    assert {path.split()[-1] for path in removals} == {
        *("abort", "discard", "forget", "reject", "remove")
    }


def names(group: str) -> list[str]:
    entry = ROOT.get_command(None, group) if group else ROOT
    return list(entry.list_commands(None))


def slip(word: str, random: Random) -> str:
    at = random.randrange(len(word))
    letter = random.choice(string.ascii_lowercase)
    return random.choice(
        [
            word[:at] + word[at + 1 :],
            word[:at] + letter + word[at:],
            word[:at] + letter + word[at + 1 :],
            word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :],
        ]
    )


@cache
def six_slips(word: str) -> list[str]:
    random = Random(word)
    return [slip(word, random) for _ in range(6)]


@pytest.fixture(autouse=True, scope="module")
def _two_words_are_compared_once() -> Iterator[None]:
    """The groups differ in their own commands alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(did_you_mean, "_slips", cache(did_you_mean._slips))
        yield


@pytest.mark.parametrize("group", GROUPS)
def test_no_slip_turns_reading_into_a_change_or_sending_into_a_removal(group: str) -> None:
    own = names(group)
    effects = {word: meaning.effect for word, meaning in WORDS.items()}
    effects |= {name: effect_of(f"{group} {name}") for name in own}
    wrong = {
        (word, typed, command)
        for word, effect in sorted(effects.items())
        for typed in six_slips(word)
        if typed not in effects
        for command in meant(typed, group, own)
        if effect_of(command) > effect
    }
    assert wrong == set()


@each_row("group", GROUPS)
def test_a_removal_is_named_only_for_its_own_word_or_one_slip_in_it(group: str) -> None:
    random, own = Random(34), names(group)
    removing = {word for word, meaning in WORDS.items() if meaning.effect == Effect.REMOVES}
    removing |= {name for name in own if effect_of(f"{group} {name}") == Effect.REMOVES}
    for word in sorted(removing):
        typed = slip(slip(word, random), random)
        if any(effect_of(command) == Effect.REMOVES for command in meant(typed, group, own)):
            assert any(_one_slip(typed, known) for known in removing), (word, typed)


def _one_slip(typed: str, word: str) -> bool:
    """Whether the two are equal but for one letter, or for two that changed places."""
    ends = {(typed[:at], typed[at:]) for at in range(len(typed) + 1)}
    near = {a + b[1:] for a, b in ends} | {a + c + b for a, b in ends for c in word}
    near |= {a + c + b[1:] for a, b in ends for c in word}
    near |= {a + b[1::-1] + b[2:] for a, b in ends if len(b) > 1}
    return word in near


@pytest.mark.parametrize("group", GROUPS)
def test_an_answer_fits_a_terminal_of_80_columns(group: str) -> None:
    for word in WORDS:
        assert max(map(len, answer(word, group, names(group), str).splitlines())) <= 80, word


@pytest.mark.parametrize("typed", ["xyzzy", "8f14e45f-ceea-467f-9575-2a8c1d6e2b11", "\x1b[2J"])
def test_a_word_that_is_like_no_other_gets_no_guess_and_controls_nothing(
    dlq: Any, typed: str
) -> None:
    done = dlq(typed, ends=Exit.USAGE)
    assert done.stderr.endswith(f"No such command {typed!r}.\n")


@pytest.mark.parametrize(
    ("typed", "option"),
    [
        ("rules disable x --why y", "--reason"),
        ("run hold 4f0c --why y", "--reason"),
        ("list --max 3", "--limit"),
        ("circuit open --until-closed", "--expires"),
        ("status --output json", "--json"),
        ("list --show-body", "--body"),
        ("status --pipelin orders", "--pipeline"),
    ],
)
def test_an_option_of_another_name_is_answered_with_ours(dlq: Any, typed: str, option: str) -> None:
    done = dlq(*typed.split(), ends=Exit.USAGE)
    assert done.stderr.endswith(f"(Possible options: {option})\n")
