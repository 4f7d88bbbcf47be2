"""The labelled lives of lives.txt, put into an account, and the next run of the pipeline."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

from deadletter.aws.clients import Clients
from deadletter.aws.wiring.judging import router_for
from deadletter.aws.wiring.moving import redriver_for
from deadletter.aws.wiring.world import World
from deadletter.circuit.state import State
from deadletter.contract import Category
from deadletter.failure.cause_index import about_letter
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from deadletter.rules.document import DocumentBuilder
from deadletter.rules.rulebook import read_rules
from deadletter.settings.pipeline import Pipeline, pipeline_from_json
from deadletter.settings.resources import Resources
from tests.console.conftest import BUCKET, TRUSTED, Cloud

ORIGIN, RUN = "8f14e45f-ceea-467f-9575-2a8c1d6e2b11", "0123456789abcdef"
BODY = {"tenantId": "acme", "endpoint": "acme/hooks", "kind": "bad"}
# A longer delay makes a letter wait outside of SQS, and each is drawn anew.
_BACKOFF = {"backoff": {"cap": 600}}
SETTINGS = {
    "consumer_library": True,
    "context": {"tenantId": "body.tenantId"},
    "circuit_key": "body.endpoint",
    "dedicated": ["vip"],
    "policy": _BACKOFF,
    "policies": {"gold": {"max_attempts": 10, **_BACKOFF}, "once": {"max_attempts": 1, **_BACKOFF}},
}

Life = Mapping[str, Any]


class Labelled(NamedTuple):
    """A life, where a person expects the next run to bring it, and what a record tells of that."""

    says: str
    life: Life
    label: str
    by_record: str


def _sections() -> Mapping[str, list[list[str]]]:
    text = Path(__file__).with_name("lives.txt").read_text()
    now = int(time.time())
    text = text.replace("GONE", str(now - 60)).replace("COMING", str(now + 86_400))
    sections: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        if line.startswith("= "):
            rows = sections.setdefault(line[2:], [])
        elif line and not line.startswith("#"):
            rows.append(line.split(" | "))
    return sections


def _labelled() -> Iterator[Labelled]:
    sections = _sections()
    for name, *labels in sections["expected"]:
        for (world, beside), label in zip(sections["worlds"], labels, strict=True):
            life = {**LIVES[name], **json.loads(beside)}
            yield Labelled(f"{name}, {world}", life, label, label)
    for says, name, beside, expected in sections["alone"]:
        label, _, by_record = expected.partition(" / ")
        yield Labelled(says, {**LIVES[name], **json.loads(beside)}, label, by_record or label)


LIVES: Mapping[str, Life] = {name: json.loads(life) for name, life in _sections()["lives"]}
LABELLED = list(_labelled())


def pipeline_of(settings: Mapping[str, Any]) -> Pipeline:
    return pipeline_from_json(json.dumps({"name": "orders", **settings}))


def play(cloud: Cloud, life: Life, home: str = "orders-dlq") -> str:
    """Deploys the life's pipeline, and puts its letter where the life has led it; its id."""
    settings = {**SETTINGS, **life.get("settings", {})}
    mode = str(settings.get("mode", "enforce"))
    cloud.deploy("orders", settings=settings, dedicated=["vip"], mode=mode)
    now, pipeline = time.time(), pipeline_of(settings)
    body = life.get("body", BODY)
    body = body if isinstance(body, str) else json.dumps(body)
    facts = {name: life[name] for name in ("attempt", "base") if name in life}
    if "run" in life:
        cloud.replay(ReplayRun(id=RUN, pipeline="orders", state=RunState(life["run"])))
        cloud.ticket(RUN, ORIGIN, "its copy", ReplayOutcome.UNKNOWN
                     if life["run"] == "DONE" else ReplayOutcome.SENT, at=now - 550)  # fmt: skip
        facts |= {"run": RUN, "ticket": "its copy"}
    first_sent = int(now - life.get("age", 600)) * 1000
    stamp = stamps.attribute(Stamp(ORIGIN, first_sent=first_sent, decision="REDRIVE", **facts))
    letter = Letter("its copy", body, {stamps.NAME: stamp},
                    {"SentTimestamp": str(first_sent), "SenderId": TRUSTED})  # fmt: skip
    if "lane" in life:
        due = now + 9_000 if life["lane"].startswith("circuit:") else now - 1
        held = Stamp(ORIGIN, first_sent=first_sent, decision="HOLD", **facts)
        cloud.admit(life["lane"], letter, held, due=due, because="waits")
    id_ = ORIGIN
    if not facts:
        id_ = cloud.letter(body, home)
    elif "lane" not in life:
        cloud.letter(body, home, **{stamps.NAME: str(stamp.value)})
    _has_failed(cloud, pipeline, id_, letter, life)
    _has_rules(cloud, pipeline, life)
    for key, state in life.get("circuits", {}).items():
        cloud.circuit("orders", key, State(state))
    return id_


def _has_failed(cloud: Cloud, pipeline: Pipeline, id_: str, letter: Letter, life: Life) -> None:
    now = time.time()
    mark = stamps.initial_stamp(letter)
    document = DocumentBuilder(pipeline).build(letter, mark, None, now)
    about = about_letter(document.value["context"], document.circuit_key or "", letter.size,
                         pipeline.ledger, "orders")  # fmt: skip
    for attempt, said in enumerate(life["failures"]):
        facts = {"category": "transient", "ago": 500 - attempt, **said}
        cloud.failed("orders", id_, about, **{
            "at": now - facts.pop("ago"), "attempt": attempt, "error_type": "ReadTimeout",
            "fingerprint": f"print-{attempt}", **facts, "category": Category(facts["category"]),
        })  # fmt: skip
    if life.get("sudden"):
        cloud.sudden(life["failures"][0]["fingerprint"])


def _has_rules(cloud: Cloud, pipeline: Pipeline, life: Life) -> None:
    rows = [{"pipeline": "orders", "rule_id": "r", **row} for row in life.get("rules", ())]
    for row in rows:
        cloud.rule(**{**row, "pattern": json.dumps(row["pattern"])} if "pattern" in row else row)
    if "matched" in life:
        keys = [rule.counts_key for rule in read_rules(rows, pipeline).rules.values()]
        cloud.ledger().count_matches(dict.fromkeys(keys, life["matched"]))


def next_run(cloud: Cloud, life: Life, home: str = "dlq") -> None:
    """The next run of a queue, as its function runs it."""
    pipeline = pipeline_of({**SETTINGS, **life.get("settings", {})})
    resources = Resources(
        main_url=cloud.urls["orders-main"], dlq_url=cloud.urls["orders-dlq"],
        parking={"default": cloud.urls["orders-parking-default"]},
        dedicated={"vip": cloud.urls["orders-dlq-vip"]}, messages_table="messages",
        messages_bucket=BUCKET, rules_table="rules", circuits_table="circuits",
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
    for item in cloud.dynamodb.scan(TableName="messages")["Items"]:
        if "lane" in item:
            _, lane, _ = item["lane"]["S"].split("|")
            places.append(lane)
    [place] = places
    return place


def in_queue(cloud: Cloud, queue: str) -> int:
    names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
    answer = cloud.sqs.get_queue_attributes(QueueUrl=cloud.urls[queue], AttributeNames=names)
    return sum(map(int, answer["Attributes"].values()))


def outcome(cloud: Cloud) -> str:
    """Where the letter is, in the words of a label."""
    place = where_it_is(cloud)
    if place.startswith("orders-dlq-"):
        return f"DIVERT {place.removeprefix('orders-dlq-')}"
    if place != "orders-parking-default":
        return "REDRIVE" if place == "orders-main" else f"HOLD {place}"
    answer = cloud.sqs.receive_message(QueueUrl=cloud.urls[place], MessageAttributeNames=["All"])
    [parked] = answer["Messages"]
    value = parked["MessageAttributes"][stamps.NAME]["StringValue"]
    return f"PARK {json.loads(value)['reason']}"
