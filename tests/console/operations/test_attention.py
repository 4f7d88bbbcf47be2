"""Each trouble that is seen has words and a command that exists, and all at once are few cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from console.operations.attention import attention, cards
from console.operations.causes import CauseRow
from console.operations.circuits import CircuitRow
from console.operations.pipeline_status import AlarmState, PipelineStatus
from console.operations.queue import QueueDepth
from console.operations.replay_runs import ReplayRow
from console.operations.watched import ManyCollisions, RunEnding, SeenTrouble, SourceStatus
from deadletter.replay.run import RunState
from deadletter.signals.figures import Count
from deadletter.signals.pages import PIPELINE_ALARMS, Alarm
from deadletter.signals.troubles import TROUBLES, Seen, TroubleKind, known_names
from tests.console.command_lines import parse
from tests.each_row import each_row

NOW = datetime(2026, 11, 23, 2, 10, tzinfo=UTC)
AN_HOUR_AGO = NOW - timedelta(hours=1)
KNOWN = known_names("deadletter", "orders")

SAYS_NO_COMMAND = {
    *(TroubleKind.LOOKED_AT, TroubleKind.UNREAD, TroubleKind.FOREIGN_ROWS),
    *(TroubleKind.OBSERVES, TroubleKind.NOTHING_MOVES),
}
"""To know, or about AWS which names its own remedy, and `dlq` may delete no row."""


NUMBERS = (
    *("seconds", "messages", "times", "looks", "most", "within", "edits", "starts", "rows"),
    *("collided", "ago"),
)
TEXTS = (
    *("function", "schedule", "table", "why", "step", "queue", "left", "url", "key", "rules"),
    *("rule", "uuid", "ours", "kept", "row", "item", "count", "run", "keys", "what", "source"),
    *("runs", "would"),
)
FACTS: Mapping[str, str | float] = {**dict.fromkeys(NUMBERS, 1_800), **dict.fromkeys(TEXTS, "x1")}
"""A value for each fact that some trouble has to have."""


def run(state: str, *, lost: bool = False) -> ReplayRow:
    return ReplayRow(
        "orders", "r1", state, 1, 1, 0, {}, 0, 1.0, None, None, None, "x", "ann", "parked",
        empty=False, restarts=0, lost=lost,
    )  # fmt: skip


def troubled() -> PipelineStatus:
    """A pipeline that has every trouble at once."""
    held = CircuitRow(
        "orders", "hooks/acme", "OPEN", AN_HOUR_AGO, None, 30.0, 1, 3, "OPEN", "ann", "down",
        AN_HOUR_AGO, None, False,
    )  # fmt: skip
    source = SourceStatus(
        "dlq", "https://queue", 0, 90, 60, 1,
        {str(Count.UNDECIDED): AN_HOUR_AGO + timedelta(minutes=30)},
        RunEnding(AN_HOUR_AGO, False, "no answer", "AccessDeniedException"),
    )  # fmt: skip
    empty, one = QueueDepth(0, 0, 0), QueueDepth(1, 0, 0)
    alarms = [AlarmState(f"deadletter-orders-{name}", AN_HOUR_AGO) for name in PIPELINE_ALARMS[:-1]]
    seen = [
        SeenTrouble(kind, card.page, AN_HOUR_AGO, FACTS, "x", None)
        for kind, card in TROUBLES.items()
    ]
    return PipelineStatus(
        name="orders", mode="enforce", fifo=False, main=empty, dlq=one, parking={"default": one},
        dedicated={}, oldest_message_seconds=None, waiting=(), places_not_counted=0,
        circuit=replace(held, key="orders", forced=None), alarms=alarms, held=[held],
        last_run={"failed": 1, "counts": {str(Count.ATTRIBUTE_RENAMED): 1}},
        misconfigured=[replace(held, key="orders#config", forced=None)],
        causes=[CauseRow("orders", "f1", "HELD", "E", AN_HOUR_AGO, None, None, None)],
        collisions=ManyCollisions(400, 30, ("body.at",), None), monitor_ran_at=AN_HOUR_AGO,
        seen=seen, sources=[source],
        runs=[run(RunState.HELD), run(RunState.BROKEN), run(RunState.WAITING_APPROVAL),
                 run(RunState.RUNNING, lost=True)],
        foreign_rows=[{"pk": "other#done#x", "sk": "claim"}],
    )  # fmt: skip


def test_a_pipeline_that_has_every_trouble_has_them_with_all_facts_of_their_words() -> None:
    found = list(attention(troubled(), NOW))
    assert {each.kind for each in found} == {
        *(TroubleKind.EXPIRES, TroubleKind.WATCH_SILENT, TroubleKind.RUN_FAILED),
        *(TroubleKind.CONFIGURATION, TroubleKind.CAUSE_DOMINATES, TroubleKind.CIRCUIT_HELD),
        *(TroubleKind.CIRCUIT_WAITS, TroubleKind.UNMOVED, TroubleKind.RENAMED),
        *(TroubleKind.COUNTED, TroubleKind.RUN_BROKEN, TroubleKind.RUN_HELD, TroubleKind.RUN_WAITS),
        *(TroubleKind.RUN_STOPPED, TroubleKind.FOREIGN_ROWS, TroubleKind.MANY_COLLIDE),
        *(TroubleKind.UNATTENDED, TroubleKind.LOOKED_AT),
    }
    for each in found:
        assert "{" not in each.says()
        assert each.repair(**KNOWN) or each.kind in SAYS_NO_COMMAND


def test_all_at_once_are_few_cards_and_each_page_is_on_one() -> None:
    status = troubled()
    found = list(cards("deadletter", status, attention(status, NOW), NOW))
    pages = [item.page for item in found if item.page]
    assert len(pages) == len(set(pages))
    assert {"DlqAge", "MessageAge", "DlqDepth"}.isdisjoint(pages)
    assert min(found, key=lambda item: item.urgency).page == Alarm.REDRIVE_STALLED
    assert len(found) < len(TROUBLES)


@each_row("kind", list(TroubleKind))
def test_the_words_of_a_trouble_hold_its_facts_and_its_command_is_one(kind: TroubleKind) -> None:
    seen = Seen(kind, FACTS)
    assert "{" not in seen.says()
    assert "[" not in seen.says()
    typed = seen.repair(**KNOWN)
    if typed is None:
        assert kind in SAYS_NO_COMMAND
        return
    assert all(len(line) <= 78 for line in typed.splitlines()), typed
    if typed.startswith("dlq "):
        parse(typed)
    else:
        assert typed.startswith(("aws ", "npx cdk deploy ")), typed


@each_row("kind", [kind for kind, card in TROUBLES.items() if "{why}" in card.says])
def test_what_aws_only_throttles_is_not_deployed_anew(kind: TroubleKind) -> None:
    throttled = "ThrottlingException for dynamodb:Query on deadletter-messages"
    seen = Seen(kind, {**FACTS, "why": throttled})
    assert "cdk deploy" not in (seen.repair(**KNOWN) or "")


def test_a_part_of_which_a_fact_is_unknown_is_left_out() -> None:
    held = Seen(TroubleKind.CIRCUIT_HELD, {"key": "orders", "until": "noon", "why": "[a] {b}"})
    assert held.says() == "circuit orders is held until noon: [a] {b}"


def ringing(*rings: Alarm, **more: object) -> PipelineStatus:
    """A pipeline in which these alarms ring and nothing else is wrong."""
    well = replace(
        troubled(), circuit=None, held=(), last_run=None, misconfigured=(), causes=(), parking={},
        collisions=None, monitor_ran_at=NOW, seen=(), sources=(), runs=(), foreign_rows=(),
        dlq=QueueDepth(0, 0, 0),
        alarms=[AlarmState(f"deadletter-orders-{name}", AN_HOUR_AGO) for name in rings],
    )  # fmt: skip
    return replace(well, **more)  # type: ignore[arg-type]  # fields of any type


@each_row("alarm", PIPELINE_ALARMS)
def test_a_page_whose_trouble_is_over_ends_by_itself_and_its_card_says_so(alarm: Alarm) -> None:
    status = ringing(alarm)
    [card] = cards("deadletter", status, attention(status, NOW), NOW)
    assert card.page == alarm
    # That old messages are gone is nothing that the watch sees.
    if alarm in (Alarm.DLQ_AGE, Alarm.MESSAGE_AGE):
        assert card.needs_person
        assert card.type == "dlq groups orders"
        return
    assert card.says.endswith(": what it rang for is over, and it ends by itself")
    assert (card.type, card.needs_person) == (None, False)


@each_row(
    "found",
    [
        [Seen(TroubleKind.UNREAD, {"what": "the DLQ", "why": "AccessDenied"})],
        [Seen(TroubleKind.WATCH_SILENT, {"ago": "5 min"})],
    ],
)
def test_a_page_is_not_over_where_something_could_not_be_seen(found: list[Seen]) -> None:
    status = ringing(Alarm.MESSAGE_EXPIRY, Alarm.RULE_TROUBLE)
    by_page = {card.page: card for card in cards("deadletter", status, found, NOW)}
    assert by_page["RuleTrouble"].needs_person
    assert by_page["RuleTrouble"].type == "dlq rules list --pipeline orders"


@each_row("mode", ["enforce", "observe"])
def test_nothing_but_its_consumer_moves_a_message_of_the_main_queue(mode: str) -> None:
    source = SourceStatus("main", "https://main", 0, None, 3_600, 0, {}, None)
    main = QueueDepth(1, 0, 0)
    status = ringing(Alarm.MESSAGE_EXPIRY, mode=mode, sources=[source], main=main)
    [card] = cards("deadletter", status, attention(status, NOW), NOW)
    assert card.kind == TroubleKind.EXPIRES_UNREAD
    assert "SQS deletes the oldest message in the main queue in 1 h 00 min" in card.says
    assert (card.type or "").startswith("aws sqs set-queue-attributes --queue-url https://main")


def test_runs_that_are_refused_are_deployed_and_those_that_fail_are_tried_again() -> None:
    facts = {"seconds": 400, "ago": 20, "why": "KMS.AccessDeniedException for sqs:ReceiveMessage"}
    assert Seen(TroubleKind.RUNS_FAIL, facts).repair(**KNOWN) == (
        "npx cdk deploy Deadletter-Orders --revert-drift"
    )
    failing = Seen(TroubleKind.RUNS_FAIL, {**facts, "why": "no answer"})
    assert failing.repair(**KNOWN) == 'dlq retry --auto -p orders --reason "repaired"'
