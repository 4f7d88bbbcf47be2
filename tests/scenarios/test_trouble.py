"""One trouble is one page: it rings within six minutes, and ends when the trouble is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from deadletter.message.letter import MAX_ATTRIBUTES
from tests.scenarios.account import MINUTE, Fault
from tests.scenarios.conftest import MakeStage
from tests.scenarios.figures import Figures
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.long

ACCESS_DENIED = "AccessDeniedException"
THROTTLED = "ProvisionedThroughputExceededException"

READS = frozenset({"get_item", "query", "batch_get_item"})
WRITES = frozenset({"put_item", "update_item", "delete_item", "transact_write_items"})
ROWS = READS | WRITES | {"batch_write_item"}


def names(word: str) -> Any:
    """Whether the arguments of a call name a key, a table or an index."""

    def about(arguments: Mapping[str, Any]) -> bool:
        return word in str(arguments)

    return about


def rows(word: str, code: str = ACCESS_DENIED, function: str = "-redrive") -> Fault:
    return Fault("dynamodb", ROWS, code, function, names(word))


TROUBLES: dict[str, Fault] = {
    "queue: receives denied": Fault(
        "sqs", frozenset({"receive_message"}), "AccessDenied", "-redrive"
    ),
    "queue: attributes denied": Fault(
        "sqs", frozenset({"get_queue_attributes"}), "AccessDenied", "-redrive"
    ),
    "journal: denied": rows("#journal"),
    "journal: throttled": rows("#journal", THROTTLED, ""),
    "lease: denied": rows("#lease"),
    "lease: throttled": rows("#lease", THROTTLED, ""),
    "room: denied": rows("#lanes"),
    "room: throttled": rows("#lanes", THROTTLED, ""),
    "circuits: denied": rows("-circuits"),
    "circuits: throttled": rows("-circuits", THROTTLED, ""),
    "messages table: throttled": rows("-messages", THROTTLED, ""),
    "router: rules denied": rows("-rules", ACCESS_DENIED, "-route"),
    "router: ledger denied": rows("#ledger", ACCESS_DENIED, "-route"),
    "main queue: sends denied": Fault(
        "sqs", frozenset({"send_message_batch", "send_message"}), "AccessDenied", "-redrive"
    ),
}

EXPECTED = "RedriveStalled"
# Runs have to fail for three minutes, and the alarm asks for three looks.
LATEST = 6.5
LASTS = 25

# A table that is throttled is the app's trouble first: one page, within LATEST. The pipeline's own
# comes after a quarter of an hour.
OF_THE_APP = ("lease: throttled", "messages table: throttled")
ITS_OWN = 15.0

# Troubles that only a letter shows: runs try again after 2, 4, 8 and 15 minutes.
SHOWN_BY_A_LETTER = ("router: ledger denied", "main queue: sends denied")


def most_receives(trouble: str) -> int:
    return 4 if trouble in SHOWN_BY_A_LETTER else 2


def latest_end(trouble: str) -> int:
    """Minutes after the trouble's end in which the page ends."""
    return 16 if trouble in SHOWN_BY_A_LETTER else 5


def play(stage: Stage, figures: Figures, trouble: str) -> None:
    """Let the trouble last while letters wait; the caller has begun it."""
    began = stage.account.elapsed / MINUTE
    # Without the consumer library the router reads rows only of letters without room for a stamp.
    stage.die(5, attributes=MAX_ATTRIBUTES if "ledger" in trouble else 0)
    before = {letter.message_id: letter.receive_count for letter in stage.held(stage.dlq)}
    stage.account.minutes(LASTS)
    received = max(
        letter.receive_count - before[letter.message_id] for letter in stage.held(stage.dlq)
    )
    pages = stage.pages()
    assert [alarm for _, alarm in pages] == [EXPECTED]
    assert stage.alarming() == [EXPECTED]
    late = pages[0][0] - began
    if trouble in OF_THE_APP:
        [of_app] = stage.pages_of_app()
        figures.worst("a page of the app after the trouble began", trouble, of_app - began, "min")
        assert of_app - began <= LATEST
        assert ITS_OWN < late <= ITS_OWN + LATEST
    else:
        assert late <= LATEST
    assert received <= most_receives(trouble)
    figures.worst("a page after the trouble began", trouble, late, "min")
    figures.worst("receives of a letter meanwhile", trouble, received, "")


def recover(stage: Stage, figures: Figures, trouble: str) -> None:
    """The trouble is over: the page ends, no untrue one rings, and the letters go back."""
    waited = 0.0
    while stage.alarming():
        stage.account.minutes(1)
        waited += 1
        assert waited <= latest_end(trouble)
    figures.worst("the page ends after the trouble", trouble, waited, "min")
    stage.account.minutes(20)
    first, *more = [alarm for _, alarm in stage.pages()]
    assert first == EXPECTED
    # The next try comes when the letters are about half an hour old, from when on that is a page.
    assert more in ([], ["MessageAge"]) if trouble in SHOWN_BY_A_LETTER else not more
    assert not stage.held(stage.dlq)
    assert len(stage.held(stage.main)) == 5


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_is_unavailable_pages_once(
    deployed: MakeStage, figures: Figures, trouble: str
) -> None:
    stage = deployed("enforce-1m")
    stage.account.minutes(15)
    with stage.account.fault(TROUBLES[trouble]):
        if "rules" in trouble:
            # Without an edit the routers go on with the rules that they have.
            stage.add_rule("other", tenantId="nobody", action="DEFAULT")
        play(stage, figures, trouble)
    recover(stage, figures, trouble)


@pytest.mark.parametrize("role", ["route", "redrive"])
def test_a_function_without_concurrency_pages_once(
    deployed: MakeStage, figures: Figures, role: str
) -> None:
    stage = deployed("enforce-1m")
    stage.account.minutes(15)
    stage.account.throttled.add(stage.function(role))
    play(stage, figures, f"{role}: throttled")
    stage.account.throttled.clear()
    recover(stage, figures, f"{role}: throttled")


def test_a_watch_without_concurrency_pages_once(deployed: MakeStage, figures: Figures) -> None:
    """Its silence is the page: RedriveStalled takes a minute without data for a bad one."""
    stage = deployed("enforce-1m")
    # The minutes that the deployment has written are over.
    stage.account.minutes(30)
    began = stage.account.elapsed / MINUTE
    stage.account.throttled.add(stage.function("watch"))
    stage.account.minutes(LASTS)
    [(at, alarm)] = stage.pages()
    assert alarm == EXPECTED
    late = at - began
    figures.worst("a page after the trouble began", "watch: throttled", late, "min")
    assert late <= LATEST
    stage.account.throttled.clear()
    stage.account.minutes(6)
    assert stage.alarming() == []
    assert len(stage.pages()) == 1


def test_a_watch_that_never_starts_pages_within_twenty_minutes(
    deployed: MakeStage, figures: Figures
) -> None:
    """A new pipeline whose schedule may not start it, or whose function does not load."""
    stage = deployed("enforce-1m")
    stage.account.throttled.add(stage.function("watch"))
    stage.account.minutes(60)
    [(at, alarm)] = stage.pages()
    assert alarm == EXPECTED
    assert at <= 21
    figures.worst("a page after the deployment", "a watch that never starts", at, "min")
    assert stage.alarming() == [EXPECTED]


def test_a_deleted_schedule_of_the_redriver_pages_once(
    deployed: MakeStage, figures: Figures
) -> None:
    stage = deployed("enforce-1m")
    stage.account.minutes(15)
    redrive = stage.function("redrive")
    schedules = list(stage.account.schedules)
    stage.account.schedules = [each for each in schedules if each.function != redrive]
    play(stage, figures, "schedule of the redriver: deleted")
    stage.account.schedules = schedules
    recover(stage, figures, "schedule of the redriver: deleted")
