"""What `dlq` says is true, or says what it lacks: the rules of truth, one after the other."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.client import BaseClient

from console.cli.exit import Exit
from console.operations.replay_report import MEANING
from deadletter.aws import claims
from deadletter.aws.claims import DynamoDBClaims
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.contract import Category
from deadletter.failure.ledger import Recovery
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.processing.idempotency import BusinessKey
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import OUTSIDE, ReplayOutcome
from tests.console.conftest import Cloud, Dlq, FakeLambda, refusing, routed
from tests.console.lives import (
    LABELLED,
    LIVES,
    ORIGIN,
    SETTINGS,
    Labelled,
    in_queue,
    next_run,
    outcome,
    play,
)

IF_JSON = ", if its body is JSON (--look)"


def label_of(now: Mapping[str, Any] | None) -> str:
    """What show says will be decided, as a label."""
    if now is None:
        return "-"
    if now["held_back"]:
        return "stays"
    details = (now["queue"], now["waiting_for"], now["reason"])
    unless = IF_JSON if now["because"].endswith(IF_JSON) else ""
    return " ".join([now["action"], *filter(None, details)]) + unless


def told(dlq: Dlq, id_: str, *options: str) -> Any:
    result = dlq("show", id_, *options, "--json")
    if result.exit_code == Exit.ABSENT:
        return None
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["message"]["decision"]


@pytest.mark.parametrize("labelled", LABELLED, ids=lambda each: each.says)
def test_show_a_look_and_the_next_run_agree_with_the_pages(
    cloud: Cloud, dlq: Dlq, functions: FakeLambda, labelled: Labelled
) -> None:
    life, label = labelled.life, labelled.label
    id_, before = play(cloud, life), outcome(cloud)
    functions.configure("orders", **{**SETTINGS, **life.get("settings", {})})
    functions.routes = True

    by_record, looked = told(dlq, id_), told(dlq, id_, "--look")
    next_run(cloud, life)

    assert (label_of(by_record), label_of(looked)) == (labelled.by_record, label), by_record
    assert outcome(cloud) == (before if label == "stays" else label)


def test_the_lives_are_72_and_more() -> None:
    assert len(LABELLED) >= 72 + 50
    assert len({each.says for each in LABELLED}) == len(LABELLED)


def test_a_rule_on_a_cause_parks_its_messages_although_the_cause_is_held(
    cloud: Cloud, dlq: Dlq
) -> None:
    sudden = play(cloud, LIVES["sudden"])
    assert told(dlq, sudden)["action"] == "REDRIVE"
    said = ("--reason", "the producer is wrong", "--expires", "24h", "--yes")
    about = ("--action", "QUARANTINE", "-f", "cause=01234567")

    added = dlq("rules add lost", *about, *said)
    now = told(dlq, sudden)
    next_run(cloud, LIVES["sudden"])

    assert "Matches 1 of 1 message here now" in added.stdout, added.output
    assert (label_of(now), now["rule"]) == ("PARK QUARANTINED", "lost")
    assert outcome(cloud) == "PARK QUARANTINED"


def test_what_the_ledger_does_not_keep_is_not_guessed(cloud: Cloud, dlq: Dlq) -> None:
    fresh = play(cloud, LIVES["fresh"])
    cloud.rule("bad", action="QUARANTINE", pattern='{"body": {"kind": ["bad"]}}')

    assert told(dlq, fresh)["because"] == (
        "rule bad decides; it reads body.kind (--look): PARK by rule bad or REDRIVE"
    )
    untold = "can't be told: rule bad decides; it reads body.kind (--look)"
    dlq(f"show {fresh}", says=(untold, f"\n  dlq show {fresh} --look\n"))


def test_a_letter_whose_body_may_not_be_read_is_judged_as_it_waits(
    cloud: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed = play(cloud, LIVES["delayed"])
    monkeypatch.setattr(DynamoDBWaitingRoom, "content", refusing("GetItem"))

    now = told(dlq, delayed)
    said = (now["action"], now["by"], now["because"])
    assert said == ("REDRIVE", "failure record", "attempt 2, its delay is served")
    cloud.rule("stop", action="QUARANTINE", tenantId="acme")
    assert label_of(told(dlq, delayed)) == "PARK QUARANTINED"


def test_a_letter_in_a_dedicated_dlq_is_judged_as_the_runs_of_that_queue_do(
    cloud: Cloud, dlq: Dlq
) -> None:
    isolates = {"action": "DEDICATED_DLQ", "queue": "vip", "tenantId": "acme"}
    life = {**LIVES["fresh"], "rules": [isolates]}
    fresh = play(cloud, life, "orders-dlq-vip")

    assert label_of(told(dlq, fresh)) == "REDRIVE"
    cloud.letter("{}")
    assert told(dlq, fresh)["because"] == (
        "its queue decides: several of its DLQs hold messages (--look): DIVERT by rule r or REDRIVE"
    )

    next_run(cloud, life, "vip")
    assert in_queue(cloud, "orders-main") == 1


# DISCARDED is not PROCESSED, and PROCESSED needs a record.

ORDER = "A-4711"


def claimed(cloud: Cloud, text: str, *, done: bool = True, origin: str = ORIGIN) -> None:
    """What the consumer keeps of a message that it has processed, or tried."""
    kept = DynamoDBClaims(cloud.dynamodb, "messages", "orders", time.time, 86_400)
    claim = kept.claim(BusinessKey(text, "payload", origin=origin), "owner", time.time() + 60)
    assert kept.done(claim) if done else kept.withdraw(claim)


def message(dlq: Dlq, id_: str, *options: str) -> dict[str, Any]:
    result = dlq("show", id_, *options, "--json", ends=0)
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
    cloud.ledger().note_parked(ORIGIN, time.time(), "PERMANENT", "")

    found = message(dlq, ORDER)

    assert (found["message_id"], found["places"][0]["where"]) == (ORIGIN, "PARKED")
    assert found["processed"] == {
        "answer": "no",
        "says": "the consumer's entry of this business ID says that it was tried, and is not done",
    }
    assert [failure["error_type"] for failure in found["failures"]] == ["KeyError"]


def waits(cloud: Cloud, copy: str, lane: str = "circuit:bank") -> None:
    letter = Letter(copy, "{}", system={"SentTimestamp": "1000"})
    mark = Stamp(ORIGIN, attempt=1, first_sent=1000)
    cloud.admit(lane, letter, mark, due=time.time() + 600)


@pytest.mark.parametrize("done", [True, False])
def test_each_id_of_a_message_leads_to_the_same_entry(cloud: Cloud, dlq: Dlq, done: bool) -> None:
    cloud.deploy("bills", "orders", settings={"consumer_library": True})
    waits(cloud, "its copy")
    claimed(cloud, f"origin:{ORIGIN}", done=done)
    by_origin, by_copy = (message(dlq, id_)["processed"] for id_ in (ORIGIN, "its copy"))
    assert by_copy == by_origin
    assert by_origin["answer"] == ("yes" if done else "no")


def test_an_entry_of_another_id_that_can_not_be_read_is_said_to_be_unread(
    cloud: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("orders", settings={"consumer_library": True})
    waits(cloud, "its copy")
    reads = iter([claims.kept_claims, refusing("BatchGetItem")])
    monkeypatch.setattr(claims, "kept_claims", lambda *given: next(reads)(*given))
    assert message(dlq, "its copy")["processed"]["answer"] == "unknown"


def test_without_a_failure_record_none_is_said_to_end(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=SETTINGS | {"idempotency_key": "body.id"})
    waits(cloud, "its copy")
    dlq(f"show {ORIGIN}", says="unknown: no failure is on record; the consumer's entry")


@pytest.mark.parametrize(("tells", "answer"), [(True, "no"), (False, "unknown")])
def test_what_was_skipped_for_a_later_one_is_not_processed(
    cloud: Cloud, dlq: Dlq, tells: bool, answer: str
) -> None:
    cloud.deploy("orders", settings=SETTINGS)
    if tells:
        claimed(cloud, f"key:{ORDER}", done=False)
    else:
        before = DynamoDBClaims(cloud.dynamodb, "messages", "orders", lambda: 1_000.0, 2**32)
        before.claim(BusinessKey(f"key:{ORDER}", "payload", origin=ORIGIN), "owner", 1_060.0)
    cloud.failed("orders", ORIGIN)
    cloud.ledger().recovered(ORIGIN, 1, time.time(), Recovery.SUPERSEDED)

    found = message(dlq, ORDER)

    assert (found["places"][0]["where"], found["processed"]["answer"]) == ("SUPERSEDED", answer)
    assert "a later one of its ordering key was processed" in found["processed"]["says"]


def test_an_order_that_two_pipelines_know_is_asked_back(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("bills", "orders", settings=SETTINGS)
    claimed(cloud, f"key:{ORDER}")
    cloud.failed("bills", ORDER)
    refuses = f"  dlq show {ORDER} -p bills\n  dlq show {ORDER} -p orders\n"
    dlq(f"show {ORDER}", ends=2, refuses=refuses)
    assert message(dlq, ORDER, "-p", "orders")["processed"]["answer"] == "yes"


def test_a_look_is_for_the_id_that_was_typed(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=SETTINGS)
    claimed(cloud, "key:A 4711", done=False, origin="")
    look, _ = message(dlq, "A 4711")["steps"]
    assert look["command"] == "dlq show 'A 4711' --look"


def test_an_expired_entry_proves_nothing(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=SETTINGS)
    kept = DynamoDBClaims(cloud.dynamodb, "messages", "orders", lambda: 1_000.0, 60)
    assert kept.done(kept.claim(BusinessKey(f"key:{ORDER}", "p"), "owner", 1_060.0))

    dlq(f"show {ORDER}", ends=4)


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

    dlq(f"show {ORIGIN}", says=says)


def test_entries_that_can_not_be_read_are_said_to_be_unread(
    cloud: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("orders", settings={"consumer_library": True})
    cloud.failed("orders", ORIGIN)
    cloud.letter("{}")
    monkeypatch.setattr("console.operations.names._claims", refusing("BatchGetItem"))
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
        dlq(f"show {ORDER} --json", ends=0)
    assert asked == ["BatchGetItem"] * 5


# A place that was not searched is named, with what it costs.


def test_each_answer_names_what_was_not_searched_and_what_that_costs(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", settings=SETTINGS)
    cloud.failed("orders", ORIGIN)
    cloud.letter("{}")
    costs = (
        "ot searched: DLQs and parking queues; --look receives their messages",
        "adds 1 to each receive count",
        "ot searched: the main queue; a look there would count as a receive",
    )
    dlq(f"show {ORIGIN}", says=costs)
    dlq("show nothing", refuses=costs)


# Every act on a message is a line of it.


def test_each_act_of_a_rule_a_run_or_a_person_is_a_line(
    cloud: Cloud, dlq: Dlq, functions: Any
) -> None:
    cloud.deploy("orders", settings={"consumer_library": True}, context=["tenantId"])
    said = ("--reason", "prices are wrong", "--yes")
    now = time.time()
    cloud.failed("orders", ORIGIN, at=now - 900)
    cloud.failed("orders", ORIGIN, at=now - 600, attempt=1, sent_at=int(now - 700),
                 sent_because="attempt 1, backoff of 90 s")  # fmt: skip
    cloud.ledger().note_parked(ORIGIN, now - 500, "QUARANTINED", "stop")
    dlq("rules add stop -f tenant=a --action quarantine --expires never", *said, ends=0)
    dlq("rules disable stop", *said, ends=0)
    run = cloud.replay(
        ReplayRun(id="", pipeline="orders", state=RunState.RUNNING), who="user/ann", why="fixed"
    )
    cloud.ticket(run.id, ORIGIN, "its copy", ReplayOutcome.SENT, attempt=2)
    dlq("run hold", run.id, "--reason", "wait", ends=0)

    acts = [act["says"] for act in message(dlq, ORIGIN)["acts"]]

    expected = (
        "failed: no text (transient, first attempt",
        "sent back: attempt 1, backoff of 90 s",
        "failed: no text (transient, retry 1",
        "parked: QUARANTINED by rule stop",
        "rules add: rule stop by user/",
        "rules disable: rule stop by user/",
        f"run {run.id} by user/ann: fixed; sent",
        f"run hold: run {run.id} by user/",
    )
    at = [next(i for i, act in enumerate(acts) if act.startswith(each)) for each in expected]
    assert sorted(at[:4]) == at[:4]
    assert any("prices are wrong" in act for act in acts)
    dlq(f"show {ORIGIN}", says=expected)
    # Processed in the end, as its business ID says: nothing of that is forgotten.
    claimed(cloud, f"key:{ORDER}")
    assert [act["says"] for act in message(dlq, ORDER)["acts"]] == acts


# The latest word on a message is that of its latest record.


def parked_then(cloud: Cloud, fate: ReplayOutcome, **run: Any) -> None:
    """A message that was parked, and that a run has taken and sent, or let go, since."""
    cloud.deploy("orders", settings={"consumer_library": True})
    now = time.time()
    cloud.failed("orders", ORIGIN, at=now - 900)
    cloud.ledger().parked(ORIGIN, 1, now - 850, "PERMANENT")
    cloud.ledger().note_parked(ORIGIN, now - 800, "POISON", "")
    cloud.letter("{}")
    made = cloud.replay(ReplayRun(**{"id": "", "pipeline": "orders", "state": RunState.DONE} | run))
    attempt = 1 if fate in OUTSIDE else 2
    cloud.ticket(made.id, ORIGIN, "its copy", fate, attempt=attempt, at=now - 600)


@pytest.mark.parametrize(
    ("fate", "where"), [("UNKNOWN", "QUEUE"), ("DELIVERED", "QUEUE"), ("MISSING", "GONE")]
)
def test_a_run_whose_send_has_no_outcome_overrules_an_old_parking(
    cloud: Cloud, dlq: Dlq, fate: str, where: str
) -> None:
    parked_then(cloud, ReplayOutcome[fate], state=RunState.RUNNING)
    found = message(dlq, ORIGIN)
    assert (found["places"][0]["where"], found["processed"]["answer"]) == (where, "unknown")
    assert MEANING[fate] in found["places"][0]["says"]
    cloud.failed("orders", ORIGIN, attempt=2, at=time.time() - 300)
    assert message(dlq, ORIGIN)["places"][0]["run"] is None


@pytest.mark.parametrize("fate", ["STOPPED", "LEFT"])
def test_what_a_run_lets_go_unsent_is_where_automation_decides(
    cloud: Cloud, dlq: Dlq, fate: str
) -> None:
    parked_then(cloud, ReplayOutcome[fate], state=RunState.ABORTED, leave_to="schedule")
    found = message(dlq, ORIGIN)
    assert (found["places"][0]["where"], found["decision"]["action"]) == ("QUEUE", "REDRIVE")


@pytest.mark.parametrize("fate", ReplayOutcome.__members__)
def test_a_success_after_what_a_run_noted_is_said(cloud: Cloud, dlq: Dlq, fate: str) -> None:
    parked_then(cloud, ReplayOutcome[fate])
    cloud.ledger().recovered(ORIGIN, 3, time.time() - 100)
    assert message(dlq, ORIGIN)["processed"]["answer"] == "yes"


# Nothing is said to be absent that was not looked for.


@pytest.mark.parametrize("fate", ["SENT", "UNKNOWN", "RECOVERED"])
def test_a_message_that_only_a_run_knows_is_shown(cloud: Cloud, dlq: Dlq, fate: str) -> None:
    cloud.deploy("bills", "orders", settings={"consumer_library": True})
    run = cloud.replay(ReplayRun(id="", pipeline="orders", state=RunState.RUNNING))
    cloud.ticket(run.id, ORIGIN, "its copy", ReplayOutcome[fate])
    assert message(dlq, ORIGIN)["places"][0]["run"] == run.id


@pytest.mark.parametrize(
    ("target", "note"),
    [
        ("console.operations.life_record.MOST_WAITING", "only the first were looked at"),
        ("console.operations.life_record.LATEST_RUNS", "only the latest"),
        ("deadletter.aws.replay_tickets.DynamoDBTickets.of", "Runs could not be asked: "),
        ("console.operations.names._claims", "consumer's entries could not be read"),
    ],
)
def test_what_was_not_looked_at_whole_is_not_said_to_hold_nothing(
    cloud: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch, target: str, note: str
) -> None:
    cloud.deploy("orders", settings={"consumer_library": True})
    cloud.waiting("orders", "due", 3)
    for _ in range(2):
        cloud.replay(ReplayRun(id="", pipeline="orders", state=RunState.DONE), why=str(_))
    dlq("show nothing", ends=4, refuses=("no waiting message, ", "no run, "))
    monkeypatch.setattr(target, 1 if target.endswith(("G", "S")) else refusing("Query"))
    said = dlq("show nothing", ends=4, refuses=note).stderr
    assert "no waiting message" not in said
    assert "no run" not in said


@pytest.mark.parametrize(
    ("state", "destination", "next_"),
    [
        ("RUNNING", "main", "its run, to main, waits for: Nothing: it goes on"),
        ("RUNNING", "discard", "its run, to discard, waits for: Nothing: it goes on"),
        (
            "HELD",
            "main",
            "its run, to main, waits for: It is held: no reason given. Nothing is sent",
        ),
        (
            "BROKEN",
            "main",
            "its run, to main, waits for: A person: the sum of its outcomes is not all of it",
        ),
    ],
)
def test_what_comes_next_in_a_run_is_what_the_run_waits_for(
    cloud: Cloud, dlq: Dlq, state: str, destination: str, next_: str
) -> None:
    cloud.deploy("orders", settings={"consumer_library": True})
    made = ReplayRun(id="", pipeline="orders", state=RunState(state))
    run = cloud.replay(made, destination=destination)
    waits(cloud, "its copy", lane=f"run:{run.id}")
    assert message(dlq, ORIGIN)["next"].startswith(next_)


def test_what_a_run_has_sent_is_not_sent_next(cloud: Cloud, dlq: Dlq) -> None:
    parked_then(cloud, ReplayOutcome.SENT, state=RunState.RUNNING)
    assert message(dlq, ORIGIN)["next"] == "its outcome is awaited"


def test_a_run_whose_plan_is_forgotten_is_not_said_to_send(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings={"consumer_library": True})
    waits(cloud, "its copy", lane="run:0123456789abcdef")
    found = message(dlq, ORIGIN)
    assert found["next"] == "not known: nothing to decide by is on record"
    assert "There is no run '0123456789abcdef'" in " ".join(found["notes"])


def listed(dlq: Dlq, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(dlq("list", *arguments, "--json").stdout)
    return answer


def test_list_says_of_an_id_only_what_its_record_proves(cloud: Cloud, dlq: Dlq) -> None:
    parked_then(cloud, ReplayOutcome.UNKNOWN)
    cloud.failed("orders", "held")
    cloud.admit("circuit:bank", Letter("copy", "{}"), Stamp("held"), due=time.time() + 600)
    says = f"{ORIGIN} was parked as POISON, by its record. Its story:\ndlq show {ORIGIN}"
    assert listed(dlq, ORIGIN)["notes"][0] == says
    says = "held is not in what was searched. Its story:\ndlq show held"
    assert listed(dlq, "held", "--in", "dlq")["notes"][0] == says


def test_list_names_a_run_of_which_it_is_not_known_what_it_took(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings={"consumer_library": True})
    run = cloud.replay(ReplayRun(id="", pipeline="orders", state=RunState.DONE, messages=3))
    answer = listed(dlq, ORIGIN)
    unsearched = [(each["place"], each["messages"]) for each in answer["not_searched"]]
    assert (unsearched, answer["is_sure"]) == ([(f"run:{run.id}", 3)], False)


def test_the_times_of_a_time_line_say_their_zone(cloud: Cloud, dlq: Dlq) -> None:
    parked_then(cloud, ReplayOutcome.SENT)
    assert re.search(r"\nUTC +\n", dlq(f"show {ORIGIN}").stdout)


def test_a_retry_of_a_waiting_message_is_a_line_of_it(
    cloud: Cloud, dlq: Dlq, functions: FakeLambda
) -> None:
    routed(cloud, functions, SETTINGS, dedicated=["vip"])
    waits(cloud, "its copy")
    dlq("retry 'its copy' --yes --reason 'bank is back'", ends=0)
    assert any("bank is back" in act["says"] for act in message(dlq, ORIGIN)["acts"])


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("SKIPPED", "its handler found nothing to do"),
        ("FOUND", "by a process that ended before it said how"),
    ],
)
def test_a_success_is_said_as_its_record_has_it(
    cloud: Cloud, dlq: Dlq, how: str, says: str
) -> None:
    cloud.deploy("orders", settings={"consumer_library": True})
    cloud.failed("orders", ORIGIN)
    cloud.ledger().recovered(ORIGIN, 1, time.time(), Recovery[how])
    dlq(f"show {ORIGIN}", says=("processed yes: ", says))
