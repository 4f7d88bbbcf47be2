"""Each edit of the rules table is checked, announced if refused, and recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.rules.checker import (
    CheckedBatch,
    CheckUnavailable,
    RuleChecker,
    RuleEdit,
    RuleFinding,
    RuleRefusal,
    RuleStatus,
    RuleVerdict,
    check,
    pipeline_from_terms,
)
from deadletter.rules.rule import COLUMNS, VERDICT, read_rule
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row
from tests.rules.rule_items import ACTIONS
from tests.samples import NOW

ORDERS = Pipeline("orders", context={"tenantId": ""}, dedicated=("slow",), message_ttl=60.0)
REFUNDS = Pipeline("refunds", context={"customer": ""})
PIPELINES = {"orders": ORDERS, "refunds": REFUNDS}
UNKNOWN_ACTION = f"is unknown; allowed are {ACTIONS}"


def rule(**columns: Any) -> dict[str, Any]:
    keys = {"pipeline": "orders", "rule_id": "r", "tenantId": "a", "action": "HOLD"}
    return {**keys, **columns}


def edit(
    new: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None = None,
    sequence: str = "1",
    pipeline: str = "orders",
) -> RuleEdit:
    return RuleEdit(sequence, f"event-{sequence}", NOW, pipeline, "r", old, new)


def judged(new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> RuleFinding:
    return check(edit(new, old, pipeline=new["pipeline"]), PIPELINES, NOW)


def verdict(finding: RuleFinding) -> tuple[str, str | None]:
    assert finding.verdict is not None
    return finding.verdict.status, finding.verdict.reason


def written(finding: RuleFinding, item: Mapping[str, Any]) -> dict[str, Any]:
    """The item with the verdict written onto it."""
    assert finding.verdict is not None
    columns = {"status": str(finding.verdict.status), "checked_at": finding.verdict.at}
    if finding.verdict.reason is not None:
        columns["status_reason"] = finding.verdict.reason
    if finding.verdict.version is not None:
        columns["version"] = finding.verdict.version
    return {**{name: value for name, value in item.items() if name not in VERDICT}, **columns}


# The verdict.


def test_a_valid_rule_gets_its_verdict_and_no_announcement() -> None:
    finding = judged(rule())
    assert finding.verdict == RuleVerdict(
        "orders",
        "r",
        rule(),
        tuple(sorted(COLUMNS - rule().keys())),
        RuleStatus.VALID,
        None,
        "2026-09-21T14:13:20+00:00",
        read_rule(rule(), ORDERS).version,
    )
    assert finding.refusal is None


BROAD = {
    "pipeline": "orders",
    "rule_id": "r",
    "action": "HOLD",
    "pattern": '{"pipeline": ["orders"]}',
}


def test_a_broad_rule_is_invalid_when_it_is_typed_and_valid_if_it_was() -> None:
    assert verdict(judged(BROAD))[0] == "INVALID"
    # Typed over a narrow one in the console, which keeps the verdict of before.
    valid = {"status": "VALID", "checked_at": "before"}
    assert verdict(judged({**BROAD, **valid}, {**rule(), **valid}))[0] == "INVALID"
    # It was valid before the word was asked for: another reason is no edit of what it does.
    edited = judged({**BROAD, **valid, "reason": "another"}, {**BROAD, **valid})
    status, note = verdict(edited)
    assert status == "VALID"
    assert note is not None
    assert "breadth = all" in note


def test_a_broad_shadow_rule_is_judged_anew_when_it_is_enforced() -> None:
    shadow = {**BROAD, "mode": " Shadow "}
    row = written(judged(shadow), shadow)
    assert row["status"] == "VALID"
    assert verdict(judged({**row, "mode": "enforce"}, row))[0] == "INVALID"
    # Back again: nothing of it acts.
    assert check(edit({**row, "ticket": "T"}, row), PIPELINES, NOW).verdict is None


def test_what_the_author_of_a_valid_rule_should_know_is_on_its_row() -> None:
    assert verdict(judged(rule(tenantId="acme*"))) == (
        "VALID",
        "* has no special meaning in tenantId: use a pattern with wildcard, or a list",
    )


def test_an_invalid_rule_gets_the_reason_and_is_announced() -> None:
    finding = judged(rule(action="PURGE"))
    assert verdict(finding) == ("INVALID", f"action 'PURGE' {UNKNOWN_ACTION}")
    assert finding.refusal == RuleRefusal("orders", "r", f"action {UNKNOWN_ACTION}", ("orders",))


@each_row(
    "columns",
    [
        {"action": "s3cret"},
        {"mode": "s3cret"},
        {"queue": "s3cret", "action": "DEDICATED_DLQ"},
        {"policy": "s3cret"},
        {"priority": "s3cret"},
        {"delay_seconds": "s3cret", "action": "DELAYED_REDRIVE"},
        {"delay_seconds": 8_101, "action": "DELAYED_REDRIVE"},
        {"enabled": "s3cret"},
        {"expires_at": "s3cret"},
        {"action": "THROTTLE", "rate": "s3cret"},
        {"max_matches": "s3cret"},
        {"reason": "s3cret" * 1000},
        {"tenantId": ["s3cret"]},
        {"other": "s3cret"},
        {"pattern": "s3cret"},
        {"pattern": {"body": {"x": "s3cret"}}},
        {"pattern": {"body": {"x": [{"prefix": {"s3cret": 1}}]}}},
        {"pattern": {"s3cret": []}},
    ],
)
def test_an_announcement_contains_no_value_of_the_rule(columns: dict[str, Any]) -> None:
    refusal = judged(rule(**columns)).refusal
    assert refusal is not None
    assert "s3cret" not in json.dumps(asdict(refusal))
    assert "8101" not in refusal.reason


def test_a_rule_of_an_unknown_pipeline_is_announced_under_a_star() -> None:
    finding = judged(rule(pipeline="order"))
    why = "no pipeline is named 'order'; did you mean orders? there are orders, refunds"
    assert verdict(finding) == ("INVALID", why)
    gist = "no pipeline has this name; there are orders, refunds"
    assert finding.refusal == RuleRefusal("order", "r", gist, ("*",))
    alone = check(edit(rule(), pipeline="orders"), {}, NOW)
    assert verdict(alone)[1] == "no pipeline is named 'orders'; there are none"


def test_a_rule_for_all_pipelines_is_checked_against_each() -> None:
    everywhere = {"body": {"x": [1]}}
    fine = rule(pipeline="*", pattern=everywhere)
    del fine["tenantId"]
    assert verdict(judged(fine)) == ("VALID", None)
    nowhere = judged({**fine, "action": "PURGE"})
    assert verdict(nowhere)[1] == f"action 'PURGE' {UNKNOWN_ACTION}"
    assert nowhere.refusal is not None
    assert nowhere.refusal.refused_by == ("orders", "refunds")
    somewhere = judged(rule(pipeline="*"))
    assert str(verdict(somewhere)[1]).startswith("in refunds: unknown field 'tenantId'; allowed")
    assert somewhere.refusal is not None
    assert somewhere.refusal.refused_by == ("refunds",)
    differently = judged(rule(pipeline="*", queue="fast", action="DEDICATED_DLQ"))
    assert str(verdict(differently)[1]).startswith("in orders, refunds: queue 'fast' is unknown")


@each_row(
    ("columns", "note"),
    [
        ({"expires_at": Decimal(int(NOW) + 1)}, None),
        ({"expires_at": Decimal(int(NOW))}, "it ended 2026-09-21 14:13 UTC, and matches nothing"),
        ({"expires_at": "2026-09-20T02:00+02:00"},
         "it ended 2026-09-20 00:00 UTC, and matches nothing"),
        ({"expires_at": "9999-12-31T23:59:59-01:00"}, None),
        ({"expires_at": "0001-01-01T00:00+02:00"},
         "it ended 0001-01-01 00:00 UTC, and matches nothing"),
        ({"expires_at": " 2026-09-23 "}, "expires_at has no zone: it means 2026-09-23 00:00 UTC"),
    ],
)  # fmt: skip
def test_a_rule_that_does_nothing_now_is_valid_and_its_row_says_so(
    columns: dict[str, Any], note: str | None
) -> None:
    """As for the router and `dlq rules list`: it is understood, and matches nothing."""
    finding = judged(rule(**columns))
    assert verdict(finding) == ("VALID", note)
    assert finding.refusal is None


def test_a_verdict_is_short_and_does_not_change_the_next_check() -> None:
    finding = judged(rule(**{"x" * 60_000: "y"}))
    item = written(finding, rule())
    assert len(item["status_reason"]) <= 1000
    assert judged({**item, "extra": "z" * 40_000}, item).verdict is not None
    assert judged(item).verdict is not None


# When a verdict is written.


@pytest.mark.parametrize("item", [rule(), rule(action="PURGE"), rule(pipeline="order")])
def test_the_record_of_our_own_write_needs_no_action(item: dict[str, Any]) -> None:
    first = judged(item)
    assert judged(written(first, item), item) == RuleFinding()


def test_an_edit_with_an_unchanged_verdict_writes_nothing() -> None:
    before = written(judged(rule()), rule())
    finding = judged({**before, "tenantId": "b"}, before)
    assert finding.verdict is None
    assert finding.change is not None


def test_a_second_mistake_with_the_same_reason_is_announced_again() -> None:
    broken = rule(action="PURGE")
    before = written(judged(broken), broken)
    finding = judged({**before, "tenantId": "b"}, before)
    assert finding.verdict is None
    assert finding.refusal is not None


def test_a_verdict_typed_by_hand_is_corrected() -> None:
    lie = rule(action="PURGE", status="VALID")
    assert verdict(judged(lie, rule(action="PURGE")))[0] == "INVALID"
    assert verdict(judged(rule(status="VALID", status_reason="left over"))) == ("VALID", None)


def test_a_write_is_conditional_on_every_judged_or_missing_column() -> None:
    finding = judged(rule(status="INVALID", status_reason="old", checked_at="then")).verdict
    assert finding is not None
    assert finding.judged == rule()
    assert "queue" in finding.absent
    assert not VERDICT & {*finding.judged, *finding.absent}


def test_an_item_with_very_many_columns_gets_a_writable_verdict() -> None:
    finding = judged(rule(**{f"a{number:04}": "x" for number in range(2_000)})).verdict
    assert finding is not None
    # A condition has at most 4 KB.
    assert len(finding.judged) <= 62
    assert len(finding.absent) <= 60
    assert finding.judged["rule_id"] == "r"


def test_a_condition_names_sixty_columns_of_each_kind_and_the_keys() -> None:
    """A condition has at most 4 KB."""
    many = {f"a{number:04}": "x" for number in range(100)}
    finding = judged(rule(**many)).verdict
    assert finding is not None
    assert len(finding.judged) == 62
    context = {f"c{number:04}": "" for number in range(100)}
    wide = {"orders": replace(ORDERS, context=context)}
    refused = check(edit(rule()), wide, NOW).verdict
    assert refused is not None
    assert len(refused.absent) == 60


def test_a_verdict_of_1000_characters_is_not_cut() -> None:
    frame = len("no pipeline is named ''; there are orders, refunds")
    for length, reason_length in ((1_000, 1_000), (1_001, 1_000)):
        name = "p" * (length - frame)
        reason = verdict(judged(rule(pipeline=name)))[1]
        assert reason is not None
        assert len(reason) == reason_length
        assert reason.endswith("refunds" if length == 1_000 else "refun…")


Step = st.sampled_from(
    [
        {"action": "HOLD"},
        {"action": "PURGE"},
        {"typo": "x"},
        {"typo": None},
        {"queue": "dlq"},
        {"queue": None},
        {"status": "VALID"},
        {"status_reason": "made up"},
    ]
)


@given(st.lists(st.tuples(Step, st.booleans()), min_size=1, max_size=8))
def test_the_item_ends_with_the_right_verdict_in_any_order_of_events(
    steps: list[tuple[dict[str, Any], bool]],
) -> None:
    # A table with its stream: each write leaves a record, and records are read in order.
    item, records = rule(), [edit(rule())]
    looked = writes = 0

    def put(new: dict[str, Any]) -> None:
        nonlocal item
        records.append(edit(new, item))
        item = new

    def look() -> None:
        nonlocal looked, writes
        finding = check(records[looked], PIPELINES, NOW).verdict
        looked += 1
        if finding is None:
            return
        same = all(item.get(name) == value for name, value in finding.judged.items())
        if same and not any(name in item for name in finding.absent):
            writes += 1
            put(written(RuleFinding(verdict=finding), item))

    for columns, then_look in steps:
        changed = {**item, **columns}
        put({name: value for name, value in changed.items() if value is not None})
        if then_look and looked < len(records):
            look()
    while looked < len(records):
        look()
        assert writes <= 2 * (len(steps) + 1)
    content = {name: value for name, value in item.items() if name not in VERDICT}
    expected = check(edit(content), PIPELINES, NOW)
    assert (item["status"], item.get("status_reason")) == verdict(expected)


# The history.


def test_a_change_is_recorded_with_the_old_and_the_new_item() -> None:
    old = rule(status="VALID", checked_at="then")
    finding = judged(rule(action="PURGE", status="VALID"), old)
    assert finding.change == edit(rule(action="PURGE"), rule())


def test_a_deleted_rule_is_recorded_and_not_checked() -> None:
    gone = edit(None, rule())
    assert check(gone, PIPELINES, NOW) == RuleFinding(gone)


def test_the_history_keeps_only_the_length_of_a_very_long_item() -> None:
    finding = judged(rule(pattern="x" * 200_000))
    assert finding.change is not None
    assert finding.change.new is not None
    assert finding.change.new.keys() == {"too_long"}


def test_the_history_keeps_an_item_of_128_kilobytes() -> None:
    """Old and new go into one item of at most 400 KB."""
    room = 131_072 - len(str(rule(pattern="")))
    kept, cut = (judged(rule(pattern="x" * length)).change for length in (room, room + 1))
    assert kept is not None
    assert kept.new == rule(pattern="x" * room)
    assert cut is not None
    assert cut.new == {"too_long": 131_073}


# The terms.


def test_terms_are_read_as_a_pipeline() -> None:
    terms = {"context": ["a"], "dedicated": ["slow"], "policies": ["gold"], "max_delay": 60}
    pipeline = pipeline_from_terms("orders", terms)
    assert (pipeline.name, pipeline.message_ttl, pipeline.dedicated) == ("orders", 60.0, ("slow",))
    assert (set(pipeline.context), set(pipeline.policies)) == ({"a"}, {"gold"})


@each_row(
    "data",
    [
        None,
        [],
        {},
        {"context": ["a"], "dedicated": [], "policies": []},
        {"context": [1], "dedicated": [], "policies": [], "max_delay": 1},
        {"context": "ab", "dedicated": [], "policies": [], "max_delay": 1},
        {"context": [], "dedicated": [], "policies": [], "max_delay": "1"},
    ],
)
def test_malformed_terms_are_refused(data: Any) -> None:
    with pytest.raises(BadSettings, match="orders is registered without terms"):
        pipeline_from_terms("orders", data)


# The checker.


@dataclass
class World:
    """The checker's ports; each call of a port that is named in `down` fails."""

    now: Mapping[str, Pipeline] = field(default_factory=lambda: PIPELINES)
    earlier: Mapping[str, Pipeline] | None = None
    overtaken: bool = False
    down: set[str] = field(default_factory=set)
    done: list[Any] = field(default_factory=list)
    versions: list[tuple[str, str]] = field(default_factory=list)
    forgotten: list[tuple[list[str], str, str | None]] = field(default_factory=list)
    stored: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def pipelines(self, *, fresh: bool = False) -> Mapping[str, Pipeline]:
        self._ask("terms")
        return self.now if fresh or self.earlier is None else self.earlier

    def keep(self, change: RuleEdit) -> None:
        self._ask("history")
        self.done.append(change)

    def write(self, verdict: RuleVerdict) -> bool:
        self._ask("table")
        self.done.append(verdict)
        return not self.overtaken

    def forget(self, pipelines: Iterable[str], rule_id: str, keep: str | None) -> None:
        self._ask("counts")
        self.forgotten.append((list(pipelines), rule_id, keep))

    def of(self, rule_id: str, keys: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        self._ask("table")
        return {key: self.stored[key] for key in keys if key in self.stored and rule_id == "r"}

    def under(self, key: str) -> Sequence[Mapping[str, Any]]:
        self._ask("table")
        return []

    def announce(self, refusal: RuleRefusal) -> None:
        self._ask("bus")
        self.done.append(refusal)

    def check(self, *edits: RuleEdit) -> CheckedBatch:
        checker = RuleChecker(
            terms=self,
            verdicts=self,
            history=self,
            announcer=self,
            versions=Versions(self),
            counts=self,
            namesakes=self,
            clock=lambda: NOW,
        )
        return checker.check(edits)

    def _ask(self, whom: str) -> None:
        if whom in self.down:
            raise CheckUnavailable(whom)


def test_a_refused_rule_is_recorded_written_and_announced_in_this_order() -> None:
    world = World()
    checked = world.check(edit(rule(action="PURGE")))
    assert [type(action) for action in world.done] == [RuleEdit, RuleVerdict, RuleRefusal]
    assert checked == CheckedBatch((world.done[2],))


def test_an_overtaken_edit_is_recorded_and_not_announced() -> None:
    world = World(overtaken=True)
    assert world.check(edit(rule(action="PURGE"))) == CheckedBatch(())
    assert [type(action) for action in world.done] == [RuleEdit, RuleVerdict]


def test_a_rule_is_refused_only_against_fresh_terms() -> None:
    world = World(earlier={"refunds": REFUNDS})
    assert world.check(edit(rule())) == CheckedBatch(())
    assert [action.status for action in world.done if isinstance(action, RuleVerdict)] == ["VALID"]


@dataclass
class Versions:
    """The port of versions of the same world."""

    world: World

    def write(self, pipeline: str, version: str) -> None:
        self.world._ask("versions")
        self.world.versions.append((pipeline, version))


def test_each_edit_gives_the_rules_another_version_even_if_it_is_not_judged() -> None:
    world = World()
    made = edit(rule())
    for down in ("history", "table", "bus"):
        world.down = {down}
        world.check(made)
    assert world.versions == [("orders", made.event_id)] * 3
    world.check(edit(rule(), old=None, pipeline="*", sequence="2"))
    assert world.versions[-1][0] == "*"


def test_a_verdict_that_the_checker_wrote_itself_gives_the_rules_no_other_version() -> None:
    world = World()
    judged = {**rule(), "status": "VALID", "checked_at": "now"}
    world.check(edit(judged, old=rule()))
    assert world.versions == []
    assert world.forgotten == []


VERSION = read_rule(rule(), PIPELINES["orders"]).version


@pytest.mark.parametrize(
    ("old", "new", "forgotten"),
    [
        (None, rule(), []),
        (rule(), None, [(["orders"], "r", None)]),
        (rule(action="QUARANTINE"), rule(), [(["orders"], "r", VERSION)]),
        # It may be corrected.
        (rule(), rule(action="PURGE"), []),
    ],
    ids=["new", "removed", "edited", "mistyped"],
)
def test_the_counts_of_versions_that_are_gone_are_removed(
    old: Any, new: Any, forgotten: Sequence[Any]
) -> None:
    world = World()
    world.check(edit(new, old=old))
    assert world.forgotten == forgotten


def test_the_counts_of_a_rule_of_all_pipelines_are_removed_in_each() -> None:
    world = World()
    world.check(edit(None, old=rule(), pipeline="*"))
    assert world.forgotten == [(sorted(PIPELINES), "r", None)]


@each_row("down", ["terms", "versions", "history", "table", "bus"])
def test_a_batch_stops_at_the_edit_that_could_not_be_finished(down: str) -> None:
    world = World()
    first, second = (edit(rule(action="PURGE"), sequence=number) for number in ("1", "2"))
    [refusal] = world.check(first).refusals
    world.down = {down}
    assert world.check(second, replace(first, sequence="3")) == CheckedBatch((), "2", down)
    world.down = set()
    # A second check has the same result.
    assert world.check(second).refusals == (refusal,)
