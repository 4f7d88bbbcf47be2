"""`dlq retry`: messages are sent again, edited before if a person says so."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from deadletter.replay.edits import EditRefused

from ..operations import edits
from ..operations.errors import Cause, Problem
from ..operations.redrive import ended_badly, figures
from ..operations.retry import VERB, Retried, RetryPlan, with_edit
from ..operations.session import Session
from ..operations.words import count
from . import run
from .output import Block, Styled, line, typed


def _ask(session: Session, plan: RetryPlan) -> RetryPlan:
    """Opens the message in an editor, if that was asked for."""
    if plan.edit is None or plan.edit.found is None:
        return plan
    try:
        change = edits.from_document(_by_editor(edits.document(plan.edit.found.letter)))
        return with_edit(session, plan, change)
    except EditRefused as error:
        raise Problem(f"Nothing was done: {error}.", Cause.FAILED) from error


def _by_editor(text: str) -> str:
    """The text as a person has changed it in an editor, in a file that only they read."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "message.json")
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*command, str(path)], check=False)  # their editor
        except OSError as error:
            raise Problem(
                f"The editor {command[0]} can't be started: {error.strerror}; set EDITOR.",
                Cause.INPUT,
            ) from error
        after = path.read_text(encoding="utf-8")
    if done.returncode:
        raise EditRefused("the editor ended with an error")
    if after == text:
        raise EditRefused("it changes nothing")
    return after


def _attention(answer: Retried) -> bool:
    amiss = bool(answer.not_edited) or any(map(ended_badly, answer.reports))
    return amiss or run.needs_person(answer)


def _show(answer: Retried) -> Iterator[Block]:
    yield from run.show_ended(answer)
    if answer.due:
        yield line(f"{count(answer.due, 'message')} due now: the next automatic run decides anew.")
        yield from typed(f"dlq retry --auto -p {quote(answer.pipeline)}")
    for report in answer.reports:
        yield from _report(report)
    for why, number in answer.not_edited.items():
        yield line(Styled("! ", "alarm"), f"{count(number, 'message')} not edited: {why}.")
    if answer.not_edited:
        yield line("Nothing was sent: the run is held. Resumed, it sends all as they are now.")


def _report(report: Mapping[str, Any]) -> Iterator[Block]:
    """What a run of the automatic retry has done, figure by figure."""
    yield line(f"The run ended because: {report.get('stopped') or 'it gave no reason'}.")
    if report.get("ended_well") is not True:
        trouble = report.get("trouble") or "its log says why"
        yield line(Styled("It could not do its work: ", "alarm"), str(trouble))
    for figure in figures(report):
        yield line(figure, indent=2)


VIEWS = (run.view_of_runs(VERB, _show, _attention, ask=_ask),)
