"""A verb is a command: its request has the options, and a change is planned and agreed to."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from console.cli import asking
from console.cli.command import plain_typer
from console.cli.output import Block, line
from console.cli.verb import VerbView, add
from console.operations.session import Answer, Session
from console.operations.verbs import Asked, Verb


class FakeAws:
    """The account that the answers name."""

    account, region, caller, user_id = "111122223333", "eu-west-1", "ann", "AIDA"


@dataclass(frozen=True, kw_only=True)
class TossRequest:
    """Which stones to throw, how fast, and how far."""

    stones: Annotated[tuple[str, ...], Asked("The stones.", metavar="[STONE]...")] = ()
    marks: Annotated[tuple[str, ...], Asked("Marked so.", ("--mark", "-m"), "MARK")] = ()
    speed: Annotated[float | None, Asked("How fast.", ("--speed",), "N", least=1, most=9)] = None
    far: Annotated[bool, Asked("Out of sight: they can't be found again.", ("--far",))] = False


@dataclass(frozen=True, kw_only=True)
class WatchRequest:
    """Whether to look again and again."""

    check: Annotated[bool, Asked("Exit with 1 if there is one.", ("--check",))] = False
    watch: Annotated[bool, Asked("Look again and again.", ("--watch",))] = False


@dataclass(frozen=True)
class Tossed(Answer):
    """What was thrown."""

    said: Annotated[str, "what happened"]


@dataclass
class Stones:
    """What the verb has done."""

    done: list[str] = field(default_factory=list)

    def prepare(self, _session: Session, request: TossRequest) -> TossRequest:
        self.done.append("prepared")
        return request

    def commit(self, session: Session, plan: TossRequest, why: str) -> Tossed:
        said = f"{', '.join(plan.stones)} {plan.marks} {plan.speed} because {why}"
        self.done.append(said)
        return Tossed(**session.place, said=said)


def question(plan: TossRequest) -> Iterator[str]:
    yield f"Throw {len(plan.stones)} stones."


def show(answer: Tossed) -> Iterable[Block]:
    yield line(answer.said)


@pytest.fixture
def stones(monkeypatch: pytest.MonkeyPatch) -> Stones:
    monkeypatch.setattr("console.operations.aws.connect", lambda *_: FakeAws())
    return Stones()


def typed(verb: Verb, line: str, *more: str, answers: str = "", **how: Any) -> Result:
    """What a command line of this verb alone says."""
    app = plain_typer()
    add(app, VerbView(verb, show, **how))
    return CliRunner().invoke(app, [*line.split(), *more], input=answers, prog_name="dlq")


def options(verb: Verb) -> set[str | None]:
    app = plain_typer()
    add(app, VerbView(verb, show))
    return {each.name for each in typer.main.get_command(app).params}


def tossing(stones: Stones, **more: Any) -> Verb:
    facts: dict[str, Any] = {
        "name": "toss", "says": "Throw stones.", "request": TossRequest,
        "examples": ["dlq toss a b"], "change": "A throw", "prepare": stones.prepare,
        "question": question, "commit": stones.commit, "severe": lambda request: request.far,
    }  # fmt: skip
    return Verb(**{**facts, **more})


def toss(stones: Stones, line: str, *more: str, answers: str = "") -> Result:
    return typed(tossing(stones), line, *more, answers=answers)


def test_the_fields_of_a_request_are_arguments_and_options(stones: Stones) -> None:
    help_page = toss(stones, "--help").output
    for text in ("[STONE]...", "-m, --mark MARK", "Throw stones."):
        assert text in help_page
    done = toss(stones, "a b -m x --mark y --speed 3 --reason fun --yes")
    assert done.output == "a, b ('x', 'y') 3.0 because fun\n"
    assert toss(stones, "a --speed 10 --reason fun --yes").exit_code == 2


def test_what_repeats_can_stand_in_a_file(stones: Stones, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("a\n\n b\n")
    (tmp_path / "pattern").write_text('{"body": {}}')
    line = f"@{tmp_path / 'ids'} c -m match=@{tmp_path / 'pattern'} --reason fun --yes"
    done = toss(stones, line)
    assert done.output == "a, b, c ('match={\"body\": {}}',) None because fun\n"


def test_a_dry_run_prepares_and_commits_nothing(stones: Stones) -> None:
    done = toss(stones, "a --dry-run --json")
    assert json.loads(done.stdout)["would"] == ["Throw 1 stones."]
    assert stones.done == ["prepared"]


def test_a_change_needs_a_reason_and_a_yes(stones: Stones, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "A throw needs a reason" in toss(stones, "a --yes").output
    assert stones.done == []
    assert "add --yes" in toss(stones, "a --reason fun").output
    monkeypatch.setattr(asking, "interactive", lambda: True)
    assert "Nothing was done." in toss(stones, "a --reason fun", answers="n\n").output
    assert stones.done == ["prepared", "prepared"]
    done = toss(stones, "a", answers="for fun\ny\n")
    assert "Throw 1 stones." in done.output
    assert stones.done[-1] == "a () None because for fun"


def test_what_can_not_be_undone_needs_the_apps_name(stones: Stones) -> None:
    refused = toss(stones, "a --far --reason fun --yes")
    assert "This can't be undone" in refused.output
    assert stones.done == ["prepared"]
    toss(stones, "a --far --reason fun --confirm deadletter")
    assert stones.done[-1] == "a () None because fun"


def test_a_verb_that_reads_answers_at_once(stones: Stones) -> None:
    def read(session: Session, request: TossRequest) -> Tossed:
        return Tossed(**session.place, said=f"{len(request.stones)} stones")

    verb = Verb(name="count", says="Count.", request=TossRequest, examples=["dlq count"], read=read)
    assert typed(verb, "a b").output == "2 stones\n"
    assert options(verb).isdisjoint({"reason", "yes", "dry_run", "confirm"})


def test_an_answer_that_was_watched_is_not_shown_again(stones: Stones) -> None:
    def read(session: Session, _: WatchRequest) -> Tossed:
        return Tossed(**session.place, said="a stone")

    def watch(read: Callable[[], Tossed]) -> Tossed:
        sys.stdout.write(f"watched: {read().said}\n")
        return read()

    verb = Verb(name="look", says="Look.", request=WatchRequest, examples=["dlq look"], read=read)
    how: Any = {"watch": watch, "check": lambda answer: bool(answer.said)}
    assert typed(verb, "--watch", **how).output == "watched: a stone\n"
    looked = typed(verb, "", **how)
    assert (looked.output, looked.exit_code) == ("a stone\n", 0)
    assert typed(verb, "--check", **how).exit_code == 1


def test_a_change_without_a_reason_or_a_question_has_neither_option(stones: Stones) -> None:
    def asks(plan: TossRequest) -> Iterator[str]:
        return question(plan) if plan.stones else iter(())

    verb = tossing(stones, change="", reasoned=False, question=asks, plans=False, severe=None)
    assert "add --yes" in typed(verb, "a").output
    assert typed(verb, "").exit_code == 0
    assert options(verb).isdisjoint({"reason", "dry_run"})


def test_whether_a_reason_is_needed_can_depend_on_the_request(stones: Stones) -> None:
    change = {True: "A throw", False: ""}
    verb = tossing(stones, change=lambda request: change[request.far], question=None, severe=None)
    assert "A throw needs a reason" in typed(verb, "--far").output
    assert typed(verb, "a").exit_code == 0
