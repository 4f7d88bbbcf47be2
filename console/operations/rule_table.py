"""The rules table, as people read it, and plan and make changes, several at the same time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import EVERY_PIPELINE, RULES
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.rule import COLUMNS, VERDICT, Rule
from deadletter.rules.rulebook import RuleBook, read_rules
from deadletter.settings.pipeline import Pipeline

from . import item
from .app import App
from .audit import MAX_REASON, IntendedChange, recorded
from .aws import Aws
from .errors import Cause, Problem, aws_errors
from .session import Session

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from deadletter.aws.table import Condition

NOTES = ("reason", "ticket", "created_by")
"""Columns for people: why the rule exists, and who wrote it."""


Columns = Mapping[str, Any]

Key = tuple[str, str]
"""The pipeline, or `*` for all, and the id of a rule."""


@dataclass(frozen=True)
class RuleRevision:
    """A rule before a change and after it; no columns are a rule that is not there."""

    pipeline: Annotated[str, "its pipeline, or `*` for all"]
    rule_id: Annotated[str, "id of the rule"]
    before: Annotated[Columns | None, "its columns before; null if it is new"]
    after: Annotated[Columns | None, "its columns now; null if it is gone"]

    @property
    def key(self) -> Key:
        return self.pipeline, self.rule_id

    @property
    def name(self) -> str:
        """The rule in a sentence."""
        return f"rule {self.rule_id} of {everywhere(self.pipeline)}"

    @property
    def did(self) -> str:
        """What is done to it, in a word."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        off = self.after.get("enabled") is False and self.before.get("enabled") is not False
        return "disabled" if off else "changed"

    @property
    def line(self) -> str:
        """The rule and each column that differs, as in a list of changes."""
        sign = {"added": "+", "removed": "-"}.get(self.did, "~")
        return f"{sign} {self.pipeline}/{self.rule_id}  {'; '.join(self.differs)}".rstrip()

    @property
    def differs(self) -> Sequence[str]:
        """Each column that differs, in words, if the rule stays."""
        stays = self.before is not None and self.after is not None
        return list(column_changes(self.before or {}, self.after or {})) if stays else []


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A rule in the table: its columns as JSON-ready data, and exactly as the table has them."""

    columns: Columns
    row: Mapping[str, Any]

    @staticmethod
    def of(row: Mapping[str, Any]) -> StoredRule:
        return StoredRule(item.jsonable(dict(row)), row)

    @property
    def pipeline(self) -> str:
        return str(self.columns["pipeline"])

    @property
    def rule_id(self) -> str:
        return str(self.columns["rule_id"])

    @property
    def key(self) -> Key:
        return self.pipeline, self.rule_id

    @property
    def image(self) -> Columns:
        """Its columns in the form to keep and to compare."""
        return canonical(self.columns)


class RuleTable:
    """The rules of an app. Every write is conditional on what the writer last read."""

    def __init__(self, dynamodb: DynamoDBClient, name: str) -> None:
        from deadletter.aws.dynamodb import DynamoDBTable

        self._table = DynamoDBTable(dynamodb, name, RULES)

    def read(self) -> Sequence[StoredRule]:
        """All rules, also those of unknown pipelines, by pipeline and id."""
        with aws_errors():
            return sorted(map(StoredRule.of, self._table.scan()), key=lambda rule: rule.key)

    def of_id(self, rule_id: str, keys: Sequence[str]) -> Sequence[StoredRule]:
        """The rules with this id under these keys: pipelines, or `*`. Reads no other rule."""
        from deadletter.aws.table import equals

        is_it = equals(RULES.sort, rule_id)
        with aws_errors():
            rows = [row for key in dict.fromkeys(keys) for row in self._table.query(key, is_it)]
        return [*map(StoredRule.of, rows)]

    def write(
        self, change: RuleRevision, over: StoredRule | None, *, disables: bool = False
    ) -> bool:
        """Makes a change, if the rule is as it was read: `over`; False if it is not.

        One that `disables` a rule is also made if the rule has changed, but not if it is gone.
        """
        from deadletter.aws.errors import Conflict
        from deadletter.aws.table import absent, present

        is_same = absent(RULES.sort) if over is None else _unchanged(over, change.after or {})
        try:
            with aws_errors():
                if change.after is None:
                    self._table.delete(change.key, is_same)
                elif disables:
                    columns = {"enabled": False, "reason": change.after["reason"]}
                    self._table.change(change.key, item.exact(columns), when=present(RULES.sort))
                else:
                    self._table.put(item.exact(_typed(change.after)), is_same)
        except Conflict:
            return False
        return True


def table(aws: Aws, name: str) -> RuleTable:
    """The rules table of that name."""
    return RuleTable(aws.dynamodb, name)


def book(rules: Sequence[Columns], settings: Pipeline) -> RuleBook:
    """The rules among these that apply to a pipeline, as its router reads them."""
    return read_rules(
        [rule for rule in rules if rule.get("pipeline") in (settings.name, EVERY_PIPELINE)],
        settings,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePlan:
    """Changes of rules that are not made yet, and what a person is told of them.

    stored  what was read of rules: a rule that has changed since is left alone
    says    what would happen, as sentences
    noted   what follows the reason in the column `reason` of each rule; None leaves it as it is
    """

    command: str
    app: App
    changes: Sequence[RuleRevision]
    stored: Sequence[StoredRule]
    says: Sequence[str] = ()
    noted: str | None = None

    def make(self, session: Session, reason: str) -> Sequence[RuleRevision]:
        """Makes the changes that no other person's change forbids; returns those.

        Each change is recorded, and all of them before the first is made.
        """
        rules = table(session.aws, self.app.rules_table)
        there = {row.key: row for row in self.stored}
        made = []
        with ExitStack() as records:
            begun = []
            for change in (self._because(change, reason) for change in self.changes):
                intended = IntendedChange(
                    f"rules {self.command}", change.pipeline, target(change.rule_id), reason,
                    change.before, change.after,
                )  # fmt: skip
                record = records.enter_context(recorded(session, self.app, intended))
                begun.append((change, record))
            for change, record in begun:
                if rules.write(change, there.get(change.key), disables=self.command == "disable"):
                    made.append(change)
                    record.done()
                else:
                    record.failed("RuleTableChange")
        return made

    def _because(self, change: RuleRevision, reason: str) -> RuleRevision:
        if self.noted is None or change.after is None:
            return change
        text = f"{reason}{self.noted}"
        text = text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 1]}…"
        return replace(change, after=canonical({**change.after, "reason": text}))


# Mistakes that an error names; `dlq rules test --file` names all.
_MOST_MISTAKES = 3


def check(
    app: App,
    stored: Sequence[StoredRule],
    changes: Sequence[RuleRevision],
    *,
    is_back: bool = False,
) -> None:
    """Problem if a pipeline would refuse a rule after the changes that it does not refuse now.

    A rule that comes back as it was (`is_back`) may end another rule of its id, as it did.
    """
    if not app.pipelines:
        raise Problem("The app has no pipeline yet: deploy one.", Cause.ABSENT)
    touched = {change.key for change in changes}
    others = [row.columns for row in stored if row.key not in touched]
    after = [*others, *(change.after for change in changes if change.after is not None)]
    mistakes = []
    for pipeline in app.pipelines:
        if {change.pipeline for change in changes} & {pipeline.name, EVERY_PIPELINE}:
            terms = pipeline.rule_terms()
            refused = Counter(book(after, terms).refused) - Counter(book(others, terms).refused)
            mistakes += [
                f"rule {each.rule_id} would be INVALID in {pipeline.name}: {each.why}"
                for each in refused
                if not (is_back and each.is_namesake)
            ]
    refuse(mistakes)


def refuse(mistakes: Sequence[str]) -> None:
    """Problem if there are mistakes, which names the first of them."""
    if mistakes:
        more = len(mistakes) - _MOST_MISTAKES
        texts = [*mistakes[:_MOST_MISTAKES], *([f"and {more} more"] if more > 0 else [])]
        raise Problem(f"Nothing was written: {'; '.join(texts)}.", Cause.FAILED)


def canonical(columns: Columns) -> dict[str, Any]:
    """The columns of a rule in a fixed order: the form to keep and to compare.

    The verdict is left out, and a pattern typed as text is parsed.
    """
    first = ("pipeline", "rule_id", "action")
    context = sorted(columns.keys() - COLUMNS - VERDICT)
    of_rule = (column.name for column in fields(Rule))
    rest = (name for name in (*of_rule, "breadth") if name not in first and name not in VERDICT)
    names = (*first, *context, *rest, *NOTES)
    rule = {name: columns[name] for name in names if name in columns}
    if isinstance(pattern := rule.get("pattern"), str):
        with suppress(Unreadable):
            rule["pattern"] = read_json(pattern)
    return rule


_MAX_VALUE = 120  # characters of one value in a list of changes


def column_changes(before: Columns, after: Columns) -> Iterator[str]:
    """Each column that differs, in words; both sides are in canonical form."""
    for column in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(column), after.get(column)
        if old != new:
            yield f"{column}: {_value(old)} -> {_value(new)}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."


def target(rule_id: str) -> str:
    """A rule as the audit table names it."""
    return f"rule {rule_id}"


def everywhere(key: str) -> str:
    """The pipelines of a rule with this key, in words."""
    return "every pipeline" if key == EVERY_PIPELINE else key


def _typed(columns: Columns) -> Columns:
    """The columns as a person types them: the pattern as text."""
    pattern = columns.get("pattern")
    if not isinstance(pattern, dict):
        return columns
    return {**columns, "pattern": json.dumps(pattern, ensure_ascii=False)}


def _unchanged(rule: StoredRule, new: Columns) -> Condition:
    """The condition that a rule, its verdict aside, has not changed."""
    from deadletter.aws.table import unchanged

    old = {name: value for name, value in rule.row.items() if name not in VERDICT}
    # A known column that was added since is a change too.
    return unchanged(old, sorted({*old, *new, *COLUMNS}))
