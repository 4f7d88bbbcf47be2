"""What `dlq explain` says of a letter is what the next run does with it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.clients import Clients
from deadletter.aws.replay_tickets import DynamoDBTickets
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.aws.wiring.redrive import redriver_for
from deadletter.aws.wiring.route import router_for
from deadletter.aws.wiring.world import World
from deadletter.circuit.state import State
from deadletter.contract import LedgerKeeps, circuit_lane
from deadletter.failure.about_letter import about_letter
from deadletter.failure.causes import FailedTry, Second
from deadletter.failure.failure import Blame, Category
from deadletter.failure.ledger import AboutLetter
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome, Ticket
from deadletter.routing.decision import DUE, Hold
from deadletter.settings.pipeline import pipeline_from_json
from deadletter.settings.resources import Resources
from tests.console.conftest import BUCKET, TRUSTED, Cloud, Dlq

TENANT, ENDPOINT, SUDDEN = "acme", "acme/hooks", "0123456789abcdef"
BODY = json.dumps({"tenantId": TENANT, "endpoint": ENDPOINT, "kind": "bad"})
SETTINGS = {
    "consumer_library": True,
    "context": {"tenantId": "body.tenantId"},
    "circuit_key": "body.endpoint",
    "dedicated": ["vip"],
    # A longer delay makes a letter wait outside of SQS, and each is drawn anew.
    "policy": {"backoff": {"cap": 600}},
}
ABOUT = AboutLetter({"tenantId": TENANT}, ENDPOINT, len(BODY))


class Story:
    """One letter, put where its life has led it, with what the ledger keeps of that."""

    def __init__(self, cloud: Cloud, about: AboutLetter = ABOUT) -> None:
        self.cloud, self.now, self.id = cloud, time.time(), ""
        self._about = about

    def in_dlq(self, **stamp: Any) -> None:
        """The letter in the DLQ: in its first life, or sent back with this stamp."""
        if not stamp:
            self.id = self.cloud.letter(BODY)
            return
        self.id = "8f14e45f-ceea-467f-9575-2a8c1d6e2b11"
        facts = {"first_sent": int(self.now - 600) * 1000, "decision": "REDRIVE", **stamp}
        value = stamps.attribute(Stamp(self.id, **facts)).value
        self.cloud.letter(BODY, **{stamps.NAME: str(value)})

    def waits(self, lane: str, **stamp: Any) -> None:
        """The letter in a lane of the waiting room, and due."""
        self.id = "8f14e45f-ceea-467f-9575-2a8c1d6e2b11"
        facts = {"first_sent": int(self.now - 600) * 1000, "decision": "HOLD", **stamp}
        sent_back = Stamp(self.id, **{**facts, "decision": "REDRIVE"})
        letter = Letter(
            "its copy", BODY, {stamps.NAME: stamps.attribute(sent_back)},
            {"SentTimestamp": str(facts["first_sent"]), "SenderId": TRUSTED},
        )  # fmt: skip
        due = self.now - 1 if lane == DUE else self.now + 9_000
        order = Order(ReceivedLetter(letter, "", 0.0), Hold(lane, due, "waits"),
                      Stamp(self.id, **facts))  # fmt: skip
        assert self.cloud._room("orders", self.cloud.s3).admit([order])

    def failed(self, attempt: int = 0, **facts: Any) -> None:
        said: dict[str, Any] = {
            "at": self.now - 500 + attempt, "attempt": attempt, "error_type": "ReadTimeout",
            "fingerprint": f"print-{attempt}", "category": Category.TRANSIENT, "circuit": "",
        }  # fmt: skip
        self.cloud.failed("orders", self.id, self._about, **(said | facts))


def fresh(story: Story) -> None:
    story.in_dlq()
    story.failed()


def third(story: Story) -> None:
    story.in_dlq(attempt=2)
    for attempt in range(3):
        story.failed(attempt)


def wrong(story: Story) -> None:
    story.in_dlq()
    story.failed(category=Category.SCHEMA)


def poison(story: Story) -> None:
    story.in_dlq(attempt=2)
    for attempt in range(3):
        story.failed(attempt, fingerprint="same")


def exhausted(story: Story) -> None:
    story.in_dlq(attempt=6)
    for attempt in range(7):
        story.failed(attempt)


def outage(story: Story) -> None:
    story.in_dlq(attempt=1)
    story.failed(0)
    story.failed(1, dependency_down=True)


def misconfigured(story: Story) -> None:
    story.in_dlq(attempt=7, base=7)
    for attempt in range(8):
        story.failed(attempt, blame=Blame.CONFIGURATION)


def back_from_a_run(story: Story) -> None:
    """A replay run has sent it, and has ended since."""
    run = story.cloud.replay(
        ReplayRun(id="0123456789abcdef", pipeline="orders", state=RunState.DONE)
    )
    story.in_dlq(attempt=1, run=run.id, ticket="its copy")
    tickets = DynamoDBTickets(
        story.cloud.dynamodb, "letters", pipeline="orders", run=run.id, clock=time.time,
        in_parallel=lambda calls: [call() for call in calls],
    )  # fmt: skip
    tickets.put([Ticket(
        run=run.id, origin=story.id, copy="its copy", shard=0, position=0, attempt=1,
        at=story.now - 550, fate=ReplayOutcome.UNKNOWN,
    )])  # fmt: skip
    story.failed(0)
    story.failed(1)


def old(story: Story) -> None:
    story.in_dlq(attempt=1, first_sent=int(story.now - 30 * 86_400) * 1000)
    story.failed(0, at=story.now - 30 * 86_400 + 1)
    story.failed(1)


def sudden(story: Story) -> None:
    """It has failed for the cause of nearly all failures, and is not parked for it."""
    story.in_dlq()
    store = DynamoDBCauses(story.cloud.dynamodb, "circuits", "orders", lambda: "token")
    now = int(story.now)
    store.count([Second(now - 1_800, 100)], now - 1_800)
    letters = tuple(FailedTry(SUDDEN, "ValidationError", letter) for letter in range(25))
    store.count([Second(now, 25, letters)], now)
    story.failed(category=Category.SCHEMA, fingerprint=SUDDEN, at=story.now)


def delayed(story: Story) -> None:
    story.waits(DUE, attempt=1)
    story.failed(0)
    story.failed(1)


def held(story: Story) -> None:
    story.waits(circuit_lane(ENDPOINT), attempt=1)
    story.failed(1, dependency_down=True)


LIVES = (
    *(fresh, third, wrong, poison, exhausted, outage),
    *(misconfigured, back_from_a_run, old, sudden, delayed, held),
)


def nothing(cloud: Cloud) -> None:
    """Neither a rule nor a circuit."""


def of_tenant(cloud: Cloud) -> None:
    cloud.rule("stop", action="QUARANTINE", pattern='{"context": {"tenantId": ["acme"]}}')


def apart(cloud: Cloud) -> None:
    cloud.rule("vip", action="DEDICATED_DLQ", queue="vip",
               pattern='{"body": {"tenantId": ["acme"]}, "redrive": {"attempt": [0]}}')  # fmt: skip


def of_error(cloud: Cloud) -> None:
    cloud.rule("hold", action="HOLD", pattern='{"failure": {"error_type": ["ReadTimeout"]}}')


def endpoint_down(cloud: Cloud) -> None:
    cloud.circuit("orders", ENDPOINT, State.OPEN)


def all_down(cloud: Cloud) -> None:
    cloud.circuit("orders", "orders", State.OPEN)


SETTINGS_OF_RULES = (nothing, of_tenant, apart, of_error, endpoint_down, all_down)

OF_A_FRESH_LETTER = {
    nothing: "orders-main",
    of_tenant: "orders-parking-default",
    apart: "orders-dlq-vip",
    of_error: "rule:hold",
    endpoint_down: circuit_lane(ENDPOINT),
    all_down: "orders-dlq",
}
"""Where the run brings a letter that has failed once."""


def run_of(cloud: Cloud, settings: Mapping[str, Any], home: str = "dlq") -> None:
    """The next run of a queue, as its function runs it."""
    pipeline = pipeline_from_json(json.dumps({"name": "orders", **settings}))
    resources = Resources(
        main_url=cloud.urls["orders-main"], dlq_url=cloud.urls["orders-dlq"],
        parking={"default": cloud.urls["orders-parking-default"]},
        dedicated={"vip": cloud.urls["orders-dlq-vip"]}, letters_table="letters",
        letters_bucket=BUCKET, rules_table="rules", circuits_table="circuits",
        trusted_senders=(TRUSTED,),
    )  # fmt: skip
    clients = Clients(cloud.sqs, cloud.sqs, cloud.dynamodb, cloud.dynamodb, cloud.s3,
                      cast(Any, None))  # fmt: skip
    world = World(time.time, lambda _: None, iter(map(str, range(10**6))).__next__, Random(1))
    redriver = redriver_for(
        pipeline, resources, clients, world, router=router_for(pipeline, resources, clients, world),
        in_parallel=lambda calls: [call() for call in calls], home=home,
    )  # fmt: skip
    report = redriver.run(time.time() + 120)
    assert report.ended_well, report


def where_it_is(cloud: Cloud) -> str:
    """The queue or the lane that holds the letter."""
    places = [queue for queue in cloud.urls if in_queue(cloud, queue)]
    for item in cloud.dynamodb.scan(TableName="letters")["Items"]:
        if "lane" in item:
            _, lane, _ = item["lane"]["S"].split("|")
            places.append(lane)
    [place] = places
    return place


def in_queue(cloud: Cloud, queue: str) -> int:
    names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
    answer = cloud.sqs.get_queue_attributes(QueueUrl=cloud.urls[queue], AttributeNames=names)
    return sum(map(int, answer["Attributes"].values()))


def said(now: Mapping[str, Any], before: str) -> str:
    """Where the letter goes by what explain says."""
    if now["held_back"]:
        return before
    assert now["action"] != "UNKNOWN", now
    return {
        "REDRIVE": "orders-main",
        "PARK": "orders-parking-default",
        "DIVERT": f"orders-dlq-{now['queue']}",
        "HOLD": f"{now['lane']}",
    }[now["action"]]


def told(dlq: Dlq, id_: str) -> Mapping[str, Any]:
    result = dlq("explain", id_, "--json")
    assert result.exit_code == 0, result.output
    now: Mapping[str, Any] = json.loads(result.stdout)["now"]
    return now


@pytest.mark.parametrize("rules", SETTINGS_OF_RULES)
@pytest.mark.parametrize("life", LIVES)
def test_the_next_run_does_what_explain_says(
    cloud: Cloud, dlq: Dlq, life: Callable[[Story], None], rules: Callable[[Cloud], None]
) -> None:
    cloud.deploy("orders", settings=SETTINGS, dedicated=["vip"])
    story = Story(cloud)
    life(story)
    rules(cloud)
    before = where_it_is(cloud)

    now = told(dlq, story.id)
    run_of(cloud, SETTINGS)

    assert said(now, before) == where_it_is(cloud), now
    if life is fresh:
        # Each rule and circuit decides: one that is refused would make all say the same.
        assert where_it_is(cloud) == OF_A_FRESH_LETTER[rules]


def test_what_the_ledger_does_not_keep_is_not_guessed(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=SETTINGS, dedicated=["vip"])
    story = Story(cloud)
    fresh(story)
    cloud.rule("bad", action="QUARANTINE", pattern='{"body": {"kind": ["bad"]}}')

    now = told(dlq, story.id)

    assert now["action"] == "UNKNOWN"
    assert now["because"] == (
        "it is PARK by rule bad or REDRIVE, and the ledger can't tell: bodies and attributes are "
        "not kept"
    )
    shown = dlq("explain", story.id).output
    assert "If it were judged now: UNKNOWN" in shown
    assert f"dlq rules explain {story.id} --pipeline orders" in shown


def test_a_rule_on_the_body_that_changes_nothing_leaves_the_answer(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=SETTINGS, dedicated=["vip"])
    story = Story(cloud)
    wrong(story)
    cloud.rule("later", action="DELAYED_REDRIVE", delay_seconds=60,
               pattern='{"body": {"kind": ["bad"]}}')  # fmt: skip
    assert (told(dlq, story.id)["action"], told(dlq, story.id)["reason"]) == ("PARK", "PERMANENT")


@pytest.mark.parametrize("how", ["plain", "hashed", "none"])
def test_the_circuit_of_an_endpoint_is_found_as_far_as_the_ledger_names_it(
    cloud: Cloud, dlq: Dlq, how: str
) -> None:
    settings = {**SETTINGS, "ledger": how}
    cloud.deploy("orders", settings=settings, dedicated=["vip"])
    kept = about_letter({"tenantId": TENANT}, ENDPOINT, len(BODY), LedgerKeeps(how), "orders")
    story = Story(cloud, kept)
    fresh(story)
    assert told(dlq, story.id)["action"] == "REDRIVE"
    endpoint_down(cloud)

    now = told(dlq, story.id)

    known = ("HOLD", "circuit:acme/hooks")
    assert (now["action"], now["lane"]) == (known if how != "none" else ("UNKNOWN", None))


def test_a_letter_whose_body_may_not_be_read_is_judged_as_it_waits(
    cloud: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("orders", settings=SETTINGS, dedicated=["vip"])
    story = Story(cloud)
    delayed(story)

    def refused(*_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": ""}}, "GetItem")

    monkeypatch.setattr(DynamoDBWaitingRoom, "content", refused)

    now = told(dlq, story.id)
    assert (now["action"], now["by"], now["because"]) == (
        "REDRIVE", "ledger", "attempt 2, its delay is served",
    )  # fmt: skip
    of_tenant(cloud)
    assert told(dlq, story.id)["action"] == "PARK"


def test_a_letter_in_a_dedicated_dlq_is_judged_as_the_runs_of_that_queue_do(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", settings=SETTINGS, dedicated=["vip"])
    story = Story(cloud)
    apart(cloud)
    story.id = cloud.letter(BODY, "orders-dlq-vip")
    story.failed()

    now = told(dlq, story.id)
    assert now["action"] == "REDRIVE"
    cloud.letter("{}")
    doubtful = told(dlq, story.id)
    assert (doubtful["action"], doubtful["because"]) == (
        "UNKNOWN",
        "it is DIVERT by rule vip or REDRIVE, and the ledger can't tell: several of its DLQs hold "
        "letters",
    )

    run_of(cloud, SETTINGS, "vip")
    assert in_queue(cloud, "orders-main") == 1
