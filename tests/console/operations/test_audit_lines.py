"""Rows of the audit table become one line for each change."""

from __future__ import annotations

from typing import Any

from console.operations.audit_trail import WITHIN, AuditLine, lines
from tests.each_row import each_row

RULE = {"pipeline": "orders", "rule_id": "r", "action": "HOLD", "tenantId": "a"}
OFF = {**RULE, "enabled": False, "reason": "noise"}


def begun(at: float, command: str = "rules add", name: str = "1", **facts: Any) -> dict[str, Any]:
    return {
        "pk": "#by#AROA:ann", "sk": f"{at}#{name}", "pipeline": "orders", "happened": at,
        "command": command, "target": "rule r", "who": "arn:aws:sts::1:assumed-role/On/ann",
        **facts,
    }  # fmt: skip


def ended(row: dict[str, Any], at: float, outcome: str = "done", **facts: Any) -> dict[str, Any]:
    kept = {name: row[name] for name in ("pk", "pipeline")}
    return {**kept, "sk": f"{row['sk']}#end", "happened": at, "outcome": outcome, **facts}


def streamed(
    at: float, old: Any = None, new: Any = None, name: str = "1", rule: str = "r"
) -> dict[str, Any]:
    images = {"old": old, "new": new}
    return {
        "pk": f"orders#{rule}", "sk": f"2026#{name}", "pipeline": "orders", "happened": at,
        "event_id": name, "rule_id": rule, "at": "2026-11-23T00:00:00+00:00",
        **{side: image for side, image in images.items() if image is not None},
    }  # fmt: skip


def said(found: list[AuditLine]) -> list[tuple[str, str, str]]:
    return [(line.command, line.via, line.outcome) for line in found]


def test_a_change_by_dlq_and_its_row_in_the_history_of_rules_are_one_line() -> None:
    row = begun(100.5, after=RULE)
    verdict = {"status": "VALID", "checked_at": "now"}
    found = lines([ended(row, 101.0), row, streamed(100, new={**RULE, **verdict})])
    assert said(found) == [("rules add", "dlq", "done")]
    [line] = found
    assert (line.before, line.after) == (None, RULE)
    assert line.ended is not None
    assert line.ended.timestamp() == 101.0


def test_a_pattern_typed_as_text_is_the_same_pattern() -> None:
    row = begun(100.5, after={**RULE, "pattern": {"body": {"x": [1]}}})
    typed = {**RULE, "pattern": '{"body": {"x": [1]}}'}
    assert said(lines([row, streamed(100, new=typed)])) == [("rules add", "dlq", "unknown")]


def test_a_rule_that_was_edited_while_it_was_disabled_is_still_disabled_by_dlq() -> None:
    row = begun(100.5, "rules disable", before=RULE, after=OFF)
    ticket = {"ticket": "OPS-1"}
    history = [streamed(100, RULE, {**RULE, **ticket}, "1"),
               streamed(100, {**RULE, **ticket}, {**OFF, **ticket}, "2")]  # fmt: skip
    assert said(lines([row, ended(row, 101.0), *history])) == [
        ("rules disable", "dlq", "done"),
        ("rules edit", "outside dlq", "done"),
    ]


@each_row(
    "history",
    [
        streamed(100 + WITHIN + 1, new=RULE),
        streamed(100 - WITHIN - 1, new=RULE),
        streamed(100, new={**RULE, "action": "QUARANTINE"}),
        streamed(100, old=RULE),
        streamed(100, new=RULE, rule="another"),
        {**streamed(100, new=RULE), "pipeline": "*"},
    ],
    ids=["too late", "too early", "another rule book", "a removal", "another id", "of all"],
)
def test_another_change_of_a_rule_is_a_line_of_its_own(history: dict[str, Any]) -> None:
    found = lines([begun(100.0, after=RULE), history])
    assert sorted(line.via for line in found) == ["dlq", "outside dlq"]
    [outside] = [line for line in found if line.via == "outside dlq"]
    assert (outside.who, outside.why, outside.outcome) == (None, "", "done")


def test_one_row_of_the_history_is_used_for_one_change_and_the_nearest_is_taken() -> None:
    rows = [begun(100.0, name="1", after=RULE), begun(200.0, name="2", after=RULE)]
    assert said(lines([*rows, streamed(199, new=RULE)]))[0] == ("rules add", "dlq", "unknown")
    once = streamed(101, new=RULE, name="1"), streamed(201, new=RULE, name="2")
    assert len(lines([*rows, *once])) == 2
    assert len(lines([*rows, *once, streamed(140, new=RULE, name="3")])) == 3


def test_a_change_that_failed_has_made_nothing_in_the_history() -> None:
    row = begun(100.0, after=RULE)
    failed = ended(row, 100.2, "failed", error="AccessDeniedException")
    found = lines([row, failed, streamed(100, new=RULE)])
    assert [(line.via, line.outcome, line.error) for line in found] == [
        ("dlq", "failed", "AccessDeniedException"),
        ("outside dlq", "done", None),
    ]


def test_without_an_end_the_outcome_is_unknown_and_with_one_it_says_what_came_of_it() -> None:
    row = begun(100.0, "circuit open", target="circuit orders", after={"forced": "OPEN"})
    [line] = lines([row])
    assert (line.outcome, line.ended, line.after) == ("unknown", None, {"forced": "OPEN"})
    [line] = lines([row, ended(row, 100.1, after={"state": "OPEN"})])
    assert (line.outcome, line.after) == ("done", {"state": "OPEN"})


def test_ends_belong_to_their_own_beginning_and_the_newest_line_is_first() -> None:
    first = begun(100.0, "retry", "1", target="cause x")
    second = begun(100.0, "retry", "2", target="cause x")
    third = {**second, "pk": "#by#AROA:bob"}
    found = lines([first, second, third, ended(second, 101.0)])
    assert {(line.command, line.outcome) for line in found} == {
        ("retry", "unknown"),
        ("retry", "done"),
        ("retry", "unknown"),
    }
    later = begun(300.0, "retry", "9", target="source dlq")
    assert lines([first, later])[0].command == "retry"


def test_who_calls_himself_by_another_name_is_named_by_the_id_that_iam_has_checked() -> None:
    row = begun(100.0, who="arn:aws:sts::1:assumed-role/On/bob")
    [line] = lines([row])
    assert line.user_id == "AROA:ann"
    assert line.who == "AROA:ann, who calls itself arn:aws:sts::1:assumed-role/On/bob"
    [line] = lines([{**row, "pk": "#by#AIDA", "who": "arn:aws:iam::1:user/bob"}])
    assert line.who == "arn:aws:iam::1:user/bob"
