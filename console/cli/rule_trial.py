"""`dlq rules test`: a rule tried without effect, and files of rules checked."""

from __future__ import annotations

from collections.abc import Iterator

from ..operations.rule_file import RuleFiles
from ..operations.rule_trial import TEST, RuleTrial, Tested
from ..operations.rules import about, matches_of
from ..operations.words import count, duration
from .list import not_searched
from .output import Block, Line, Styled, TextTable, line, said
from .verb import VerbView

_MAX_MISSED = 10  # rows of the table of missed fields


def _tested(answer: Tested) -> Iterator[Block]:
    if answer.files is not None:
        yield from _files(answer.files)
    if answer.trial is not None:
        yield from _trial(answer.trial)


def _trial(trial: RuleTrial) -> Iterator[Block]:
    yield line(
        Styled(f"About: {about(trial.pattern)}", "strong"),
        f" in pipeline {trial.pipeline}, account {trial.account}, {trial.region}",
    )
    if trial.on_record is not None:
        for text in matches_of([trial.on_record], trial.at):
            yield from said(text)
    for place in trial.tried:
        of = count(place.messages, "message")
        yield line(f"Would match {place.matched:,} of {of} of {place.place}.")
    if trial.takes_seconds is not None:
        late = (
            f"; {count(trial.expire, 'message')} would be too old by then" if trial.expire else ""
        )
        yield line(f"At its rate they take {duration(trial.takes_seconds)}{late}.")
    if trial.missed:
        yield Line()
        headings = (">MESSAGES", "FIELD OF THE PATTERN", "EXPECTED", "FOUND")
        rows = [(f"{each.messages:,}", each.path, each.expected, each.found)
                for each in trial.missed[:_MAX_MISSED]]  # fmt: skip
        yield TextTable(headings, rows)
        if (more := len(trial.missed) - _MAX_MISSED) > 0:
            yield line(f"and {count(more, 'more field')}: see --json")
    for note in trial.notes:
        yield line(Styled("Note: ", "alarm"), note)
    yield from not_searched(trial.not_searched, is_found=bool(trial.matching))


def _files(answer: RuleFiles) -> Iterator[Block]:
    """The mistakes in files, each on a line."""
    for mistake in answer.mistakes:
        rule = f": {mistake.rule_id}" if mistake.rule_id is not None else ""
        yield line(Styled(f"{mistake.file}{rule}", "strong"), f": {mistake.why}")
    summary = f"{count(answer.rules, 'rule')}, {count(len(answer.mistakes), 'mistake')}."
    yield line(Styled(summary, "alarm" if answer.mistakes else "good"))
    if answer.unchecked:
        yield line(f"Not checked without a cdk.json: {'; '.join(answer.unchecked)}.")


VIEWS = (VerbView(TEST, _tested, attention=lambda answer: answer.files and answer.files.mistakes),)
