"""A message's page: one time line from sent to its end, with what comes next."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from deadletter.circuit.state import State
from deadletter.contract import circuit_lane
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from tests.console.cli.test_show import COPY, LIBRARY, ORIGIN, discard, failed, wait
from tests.console.conftest import Cloud, FakeLambda, routed
from tests.console.test_truth import claimed
from tests.console.web.conftest import Browser

Opened = Callable[..., Browser]

SENT = {"RETRY", "EDIT", "DISCARD"}


def in_its_queue(cloud: Cloud) -> None:
    failed(cloud, at=time.time() - 900)


def waits_for_a_circuit(cloud: Cloud) -> None:
    cloud.circuit("orders", "orders", State.OPEN)
    failed(cloud, at=time.time() - 40, attempt=2)
    wait(cloud, circuit_lane("orders"), because="circuit orders is OPEN", sender="orders-api")


def waits_for_its_time(cloud: Cloud) -> None:
    failed(cloud, at=time.time() - 40, attempt=2)
    wait(cloud, "due", because="attempt 2, backoff of 90 s")


def parked_by_the_retry(cloud: Cloud) -> None:
    in_its_queue(cloud)
    cloud.ledger().note_parked(ORIGIN, time.time() - 60, "QUARANTINED", "stop-acme")


def parked_by_the_consumer(cloud: Cloud) -> None:
    in_its_queue(cloud)
    cloud.ledger().parked(ORIGIN, 0, time.time() - 60, "PERMANENT")


def processed(cloud: Cloud) -> None:
    in_its_queue(cloud)
    cloud.recovered("orders", ORIGIN)


def processed_at_once(cloud: Cloud) -> None:
    claimed(cloud, f"origin:{ORIGIN}")


def gone(cloud: Cloud) -> None:
    in_its_queue(cloud)
    cloud.ledger().leave_index(ORIGIN)


def discarded(cloud: Cloud) -> None:
    in_its_queue(cloud)
    discard(cloud)


def discarded_without_a_copy(cloud: Cloud) -> None:
    in_its_queue(cloud)
    discard(cloud, kept=False)


def of_a_run(fate: ReplayOutcome) -> Callable[[Cloud], None]:
    def in_a_run(cloud: Cloud) -> None:
        in_its_queue(cloud)
        run = ReplayRun(id="0123456789abcdef", pipeline="orders", state=RunState.RUNNING)
        cloud.ticket(cloud.replay(run).id, ORIGIN, COPY, fate)

    in_a_run.__name__ = f"a run: {fate.name}"
    return in_a_run


# The last two lines of each time line, and what a person may do there.
ENDS: list[tuple[Callable[[Cloud], None], str, str, str, set[str]]] = [
    (in_its_queue, "QUEUE", "In a queue, which SQS can't be asked about",
     "goes back to the main queue after ", SENT),
    (waits_for_a_circuit, "WAITING", "circuit orders to close. (circuit orders is OPEN) Due ",
     "waits for circuit orders to close until ", SENT),
    (waits_for_its_time, "WAITING", "(attempt 2, backoff of 90 s) Due ",
     "goes back to the main queue after 0 s", SENT),
    (parked_by_the_retry, "PARKED", "Parked as QUARANTINED", "nothing by itself", SENT),
    (parked_by_the_consumer, "PARKED", "Parked as PERMANENT", "nothing by itself", SENT),
    (processed, "PROCESSED", "says that it was processed.", "nothing: it is processed", set()),
    (processed_at_once, "PROCESSED", "says that it was processed.", "nothing: it is processed",
     set()),
    (gone, "GONE", "It no longer fails", "nothing: no queue is known to hold it", set()),
    (discarded, "DISCARDED", "Discarded by user/ann", "nothing by itself", {"RESTORE"}),
    (discarded_without_a_copy, "DISCARDED", "No copy of it is kept.", "nothing by itself", set()),
    (of_a_run(ReplayOutcome.SENT), "RUN", "its outcome is awaited. Run 0123",
     "its outcome is awaited", set()),
    (of_a_run(ReplayOutcome.RECOVERED), "PROCESSED", "processed by the consumer. Run 0123",
     "nothing: it is processed", set()),
    (of_a_run(ReplayOutcome.DUPLICATE), "PROCESSED", "processed before. Run 0123",
     "nothing: it is processed", set()),
    (of_a_run(ReplayOutcome.SUPERSEDED), "SUPERSEDED", "a later one of its key was processed. Run",
     "nothing: a later one of its ordering key is processed", set()),
    (of_a_run(ReplayOutcome.PARKED), "PARKED", "by the consumer. Run 0123",
     "nothing by itself", SENT),
    (of_a_run(ReplayOutcome.QUARANTINED), "PARKED", "by the run. Run 0123",
     "nothing by itself", SENT),
    (of_a_run(ReplayOutcome.LEFT), "PARKED", "ended early. Run 0123", "nothing by itself", SENT),
    (of_a_run(ReplayOutcome.RESTORED), "PARKED", "parked again. Run 0123",
     "nothing by itself", SENT),
    (of_a_run(ReplayOutcome.UNKNOWN), "QUEUE", "no outcome in time. Run 0123",
     "is parked as RUN_FAILED: it came back from run 0123456789abcdef", SENT),
    (of_a_run(ReplayOutcome.STOPPED), "QUEUE", "an open circuit. Run 0123",
     "goes back to the main queue after ", SENT),
]  # fmt: skip


def line_of(text: str) -> list[str]:
    """The time line: a text a line."""
    listed = text.partition('<ol class="line">')[2].partition("</ol>")[0]
    items = re.findall(r"<li[^>]*>(.*?)</li>", listed, re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", item)).split()) for item in items]


@pytest.mark.parametrize(
    ("end", "where", "now", "next_", "acts"), ENDS, ids=[row[0].__name__ for row in ENDS]
)
def test_the_time_line_ends_with_where_it_is_and_what_comes_next(
    cloud: Cloud, functions: FakeLambda, opened: Opened, end: Any, where: str, now: str,
    next_: str, acts: set[str],
) -> None:  # fmt: skip
    routed(cloud, functions, LIBRARY)
    end(cloud)
    text = opened(acts=True).get(f"m/{ORIGIN}").text
    *before, last, following = line_of(text)
    assert re.search(r'<p class="lead"><span class="chip[^>]*>(\w+)<', text)[1] == where  # type: ignore[index]
    assert last.startswith("now ")
    assert now in last
    assert following.startswith(f"next {next_}")
    # What happened is there once.
    assert len(before) == len(set(before))
    offered = {"Retry": "RETRY", "Edit and send": "EDIT", "Discard": "DISCARD",
               "Restore": "RESTORE"}  # fmt: skip
    assert {word for name, word in offered.items() if f">{name}</button>" in text} == acts


def test_the_time_line_begins_with_who_sent_it_and_when(cloud: Cloud, opened: Opened) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    waits_for_a_circuit(cloud)
    sent, *rest = line_of(opened().get(f"m/{ORIGIN}").text)
    assert sent.endswith(" sent by orders-api")
    assert not any(" sent " in each for each in rest)


def test_a_failure_says_in_which_version_of_the_consumer(cloud: Cloud, opened: Opened) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    failed(cloud, at=time.time() - 900, version="4.2")
    [failure, *_] = line_of(opened().get(f"m/{ORIGIN}").text)
    assert "no answer (transient, version 4.2, first attempt, receive 1)" in failure
