"""Every sentence about a trouble names the next command, and the command exists."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from console.operations.attention import attention
from console.operations.cards import URGENCY, cards
from console.operations.causes import CauseRow
from console.operations.circuits import CircuitRow
from console.operations.collisions import ManyCollisions
from console.operations.queue import QueueDepth
from console.operations.replay_runs import ReplayRow
from console.operations.status import AlarmState, CircuitStatus, PipelineStatus
from console.operations.watched import RunEnding, SeenTrouble, SourceStatus
from deadletter.replay.run import RunState
from deadletter.signals.figures import Count
from deadletter.signals.pages import PIPELINE_ALARMS
from deadletter.signals.troubles import TROUBLES, Seen, TroubleKind
from tests.console.command_lines import parse
from tests.each_row import each_row

NOW = datetime(2026, 11, 23, 2, 10, tzinfo=UTC)
AN_HOUR_AGO = NOW - timedelta(hours=1)

SAYS_NO_COMMAND = {"LOOKED", "UNREAD", "FOREIGN"}
"""One is to know, one is about AWS and names its own remedy, and `dlq` may delete no row."""


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
        SeenTrouble(kind, card.page, AN_HOUR_AGO, "x", "dlq status")
        for kind, card in TROUBLES.items()
    ]
    return PipelineStatus(
        name="orders", mode="enforce", fifo=False, main=empty, dlq=one, parking={"default": one},
        dedicated={}, oldest_letter_seconds=None, waiting=(), lanes_not_counted=0,
        circuit=CircuitStatus("OPEN", None), alarms=alarms, held=[held],
        last_run={"failed": 1, "counts": {str(Count.ATTRIBUTE_RENAMED): 1}},
        misconfigured=[replace(held, key="orders#config", forced=None)],
        causes=[CauseRow("orders", "f1", "HELD", "E", AN_HOUR_AGO, None, None, None)],
        collisions=ManyCollisions(400, 30, ("body.at",), None), watch_ran_at=AN_HOUR_AGO,
        seen=seen, sources=[source],
        replays=[run(RunState.HELD), run(RunState.BROKEN), run(RunState.WAITING_APPROVAL),
                 run(RunState.RUNNING, lost=True)],
        foreign_rows=[{"pk": "other#done#x", "sk": "claim"}],
    )  # fmt: skip


def test_every_trouble_has_a_command_that_exists() -> None:
    kinds = set()
    for item in attention("deadletter", [troubled()], NOW):
        kinds.add(item.kind)
        assert item.type or item.kind in SAYS_NO_COMMAND, item.says
        if (item.type or "").startswith("dlq "):
            parse(str(item.type))
    assert kinds >= set(URGENCY) - {"UNREAD", "SILENT"}


def test_all_at_once_are_few_cards_and_each_page_is_on_one() -> None:
    found = list(cards(attention("deadletter", [troubled()], NOW)))
    pages = [item.page for item in found if item.page]
    assert len(pages) == len(set(pages))
    assert {"DlqAge", "MessageAge", "DlqDepth"}.isdisjoint(pages)


@each_row("kind", list(TroubleKind))
def test_the_words_of_a_trouble_hold_its_facts_and_its_command_is_one(kind: TroubleKind) -> None:
    card = TROUBLES[kind]
    seen = Seen(kind, card.example)
    assert "{" not in seen.says()
    typed = seen.repair(app="deadletter", pipeline="orders", stack="S", shared="T")
    assert all(len(line) <= 78 for line in typed.splitlines()), typed
    if typed.startswith("dlq "):
        parse(typed)
    else:
        assert typed.startswith(("aws ", "cdk deploy ")), typed
