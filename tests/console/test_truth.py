"""What `dlq` says is true, or says what it lacks: the rules of truth, one after the other."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, cast

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.claims import DynamoDBClaims
from deadletter.aws.clients import Clients
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.aws.wiring.judging import router_for
from deadletter.aws.wiring.moving import redriver_for
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
from deadletter.processing.idempotency import BusinessKey
from deadletter.redrive.order import Order
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
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
    story.cloud.ticket(run.id, story.id, "its copy", ReplayOutcome.UNKNOWN, at=story.now - 550)
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
    """Where the letter goes by what show says."""
    if now["held_back"]:
        return before
    assert now["action"] != "UNKNOWN", now
    return {
        "REDRIVE": "orders-main",
        "PARK": "orders-parking-default",
        "DIVERT": f"orders-dlq-{now['queue']}",
        "HOLD": f"{now['waiting_for']}",
    }[now["action"]]


def told(dlq: Dlq, id_: str) -> Mapping[str, Any]:
    result = dlq("show", id_, "--json")
    assert result.exit_code == 0, result.output
    now: Mapping[str, Any] = json.loads(result.stdout)["message"]["decision"]
    return now


@pytest.mark.parametrize("rules", SETTINGS_OF_RULES)
@pytest.mark.parametrize("life", LIVES)
def test_the_next_run_does_what_show_says(
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


def test_a_rule_on_a_cause_parks_its_messages_although_the_cause_is_held(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", settings=SETTINGS, dedicated=["vip"])
    story = Story(cloud)
    sudden(story)
    assert told(dlq, story.id)["action"] == "REDRIVE"
    said = ("--reason", "the producer is wrong", "--expires", "24h", "--yes")
    about = ("--action", "QUARANTINE", "-f", f"cause={SUDDEN[:8]}")

    added = dlq("rules", "add", "lost", *about, *said)
    now = told(dlq, story.id)
    run_of(cloud, SETTINGS)

    assert "Matches 1 of 1 message here now" in added.stdout, added.output
    assert (now["action"], now["reason"], now["rule"]) == ("PARK", "QUARANTINED", "lost")
    assert where_it_is(cloud) == "orders-parking-default"


def test_what_the_ledger_does_not_keep_is_not_guessed(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=SETTINGS, dedicated=["vip"])
    story = Story(cloud)
    fresh(story)
    cloud.rule("bad", action="QUARANTINE", pattern='{"body": {"kind": ["bad"]}}')

    now = told(dlq, story.id)

    assert now["action"] == "UNKNOWN"
    assert now["because"] == (
        "rule bad decides; it reads body.kind (--look): PARK by rule bad or REDRIVE"
    )
    shown = dlq("show", story.id).output
    assert "can't be told: rule bad decides; it reads body.kind (--look)" in shown
    assert f"\n  dlq show {story.id} --look\n" in shown


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
    assert (now["action"], now["waiting_for"]) == (known if how != "none" else ("UNKNOWN", None))


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
        "REDRIVE", "failure record", "attempt 2, its delay is served",
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
        "its queue decides: several of its DLQs hold messages (--look): DIVERT by rule vip or "
        "REDRIVE",
    )

    run_of(cloud, SETTINGS, "vip")
    assert in_queue(cloud, "orders-main") == 1


# DISCARDED is not PROCESSED, and PROCESSED needs a record.

ORDER, ORIGIN = "A-4711", "8f14e45f-ceea-467f-9575-2a8c1d6e2b11"


def claimed(cloud: Cloud, text: str, *, done: bool = True, origin: str = ORIGIN) -> None:
    """What the consumer keeps of a message that it has processed, or tried."""
    claims = DynamoDBClaims(cloud.dynamodb, "letters", "orders", time.time, 86_400)
    claim = claims.claim(BusinessKey(text, "payload", origin=origin), "owner", time.time() + 60)
    assert claims.done(claim) if done else claims.withdraw(claim)


def message(dlq: Dlq, id_: str, *options: str) -> dict[str, Any]:
    result = dlq("show", id_, *options, "--json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)["message"]
    return answer


@pytest.mark.parametrize(
    ("typed", "text", "whose"),
    [(ORDER, f"key:{ORDER}", "this business ID"), (ORIGIN, f"origin:{ORIGIN}", "its ID")],
)
def test_an_order_that_succeeded_at_once_is_proved_by_its_entry(
    cloud: Cloud, dlq: Dlq, typed: str, text: str, whose: str
) -> None:
    cloud.deploy("bills", "orders", settings=SETTINGS)
    claimed(cloud, text)

    found = message(dlq, typed)

    assert (found["pipeline"], found["message_id"]) == ("orders", ORIGIN)
    assert found["processed"] == {
        "answer": "yes", "says": f"the consumer's entry of {whose} is done",
    }  # fmt: skip
    assert found["places"][0]["where"] == "PROCESSED"
    assert found["not_searched"] == []


def test_a_business_id_leads_to_the_failures_of_its_message(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=SETTINGS)
    claimed(cloud, f"key:{ORDER}", done=False)
    cloud.failed("orders", ORIGIN, error_type="KeyError", category=Category.SCHEMA)
    DynamoDBLedger(cloud.dynamodb, "letters", "orders", time.time, 86_400).note_parked(
        ORIGIN, time.time(), "PERMANENT", ""
    )

    found = message(dlq, ORDER)

    assert (found["message_id"], found["places"][0]["where"]) == (ORIGIN, "PARKED")
    assert found["processed"] == {
        "answer": "no",
        "says": "the consumer's entry of this business ID says that it was tried, and is not done",
    }
    assert [failure["error_type"] for failure in found["failures"]] == ["KeyError"]


def test_an_order_that_two_pipelines_know_is_asked_back(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("bills", "orders", settings=SETTINGS)
    claimed(cloud, f"key:{ORDER}")
    cloud.failed("bills", ORDER)
    done = dlq("show", ORDER)
    assert done.exit_code == 2
    assert f"  dlq show {ORDER} -p bills\n  dlq show {ORDER} -p orders\n" in done.stderr
    assert message(dlq, ORDER, "-p", "orders")["processed"]["answer"] == "yes"


def test_an_expired_entry_proves_nothing(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=SETTINGS)
    claims = DynamoDBClaims(cloud.dynamodb, "letters", "orders", lambda: 1_000.0, 60)
    assert claims.done(claims.claim(BusinessKey(f"key:{ORDER}", "p"), "owner", 1_060.0))

    assert dlq("show", ORDER).exit_code == 4


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"consumer_library": True}, "no: the consumer has no entry of its ID (kept "),
        ({"consumer_library": True, "idempotency_key": "body.id"}, "under its business ID"),
        ({}, "unknown: its consumer keeps no record"),
    ],
)
def test_without_a_record_of_success_it_is_not_said_to_be_processed(
    cloud: Cloud, dlq: Dlq, settings: Mapping[str, Any], says: str
) -> None:
    cloud.deploy("orders", settings=settings)
    cloud.failed("orders", ORIGIN)
    cloud.letter("{}")

    assert says in " ".join(dlq("show", ORIGIN).stdout.split())


def test_entries_that_can_not_be_read_are_said_to_be_unread(
    cloud: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("orders", settings={"consumer_library": True})
    cloud.failed("orders", ORIGIN)
    cloud.letter("{}")

    def refused(*_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": ""}}, "Batch")

    monkeypatch.setattr("console.operations.names._claims", refused)
    assert message(dlq, ORIGIN)["processed"] == {
        "answer": "unknown", "says": "the consumer's entries could not be read",
    }  # fmt: skip


def test_what_a_name_is_takes_five_keyed_reads(
    cloud: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("bills", "orders", settings=SETTINGS)
    claimed(cloud, f"key:{ORDER}")
    asked: list[str] = []
    real = BaseClient._make_api_call

    def counted(client: BaseClient, operation: str, members: dict[str, Any]) -> Any:
        if client.meta.service_model.service_name == "dynamodb":
            asked.append(operation)
        return real(client, operation, members)

    with monkeypatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", counted)
        patch.setattr("console.operations.message.shown", lambda *_: None)
        assert dlq("show", ORDER, "--json").exit_code == 0
    assert asked == ["BatchGetItem"] * 5


# A place that was not searched is named, with what it costs.


def test_each_answer_names_what_was_not_searched_and_what_that_costs(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", settings=SETTINGS)
    cloud.failed("orders", ORIGIN)
    cloud.letter("{}")
    shown, absent = dlq("show", ORIGIN).stdout, dlq("show", "nothing").stderr

    for text in (shown, absent):
        lines = " ".join(text.split())
        assert "ot searched: DLQs and parking queues; --look receives their messages" in lines
        assert "adds 1 to each receive count" in lines
        assert "ot searched: the main queue; a look there would count as a receive" in lines


# Every act on a message is a line of it.


def test_each_act_of_a_rule_a_run_or_a_person_is_a_line(
    cloud: Cloud, dlq: Dlq, functions: Any
) -> None:
    cloud.deploy("orders", settings={"consumer_library": True}, context=["tenantId"])
    said = ("--reason", "prices are wrong", "--yes")
    added = ("rules", "add", "stop", "-f", "tenant=a", "--action", "quarantine", *said)
    now = time.time()
    cloud.failed("orders", ORIGIN, at=now - 900)
    cloud.failed("orders", ORIGIN, at=now - 600, attempt=1, sent_at=int(now - 700),
                 sent_because="attempt 1, backoff of 90 s")  # fmt: skip
    ledger = DynamoDBLedger(cloud.dynamodb, "letters", "orders", time.time, 86_400)
    ledger.note_parked(ORIGIN, now - 500, "QUARANTINED", "stop")
    assert dlq(*added, "--expires", "never").exit_code == 0
    assert dlq("rules", "disable", "stop", *said).exit_code == 0
    run = cloud.replay(
        ReplayRun(id="", pipeline="orders", state=RunState.RUNNING), who="user/ann", why="fixed"
    )
    cloud.ticket(run.id, ORIGIN, "its copy", ReplayOutcome.SENT, attempt=2)
    assert dlq("run", "hold", run.id, "--reason", "wait").exit_code == 0

    acts = [act["says"] for act in message(dlq, ORIGIN)["acts"]]

    expected = (
        "failed: no text (transient, first attempt",
        "sent back: attempt 1, backoff of 90 s",
        "failed: no text (transient, retry 1",
        "parked: QUARANTINED by rule stop",
        "rules add: rule stop by user/",
        "rules disable: rule stop by user/",
        f"run {run.id} by user/ann: fixed; it was sent",
        f"run hold: run {run.id} by user/",
    )
    at = [next(i for i, act in enumerate(acts) if act.startswith(each)) for each in expected]
    assert sorted(at[:4]) == at[:4]
    assert any("prices are wrong" in act for act in acts)
    page = " ".join(dlq("show", ORIGIN).stdout.split())
    assert all(each in page for each in expected)
    # Processed in the end, as its business ID says: nothing of that is forgotten.
    claimed(cloud, f"key:{ORDER}")
    assert [act["says"] for act in message(dlq, ORDER)["acts"]] == acts
