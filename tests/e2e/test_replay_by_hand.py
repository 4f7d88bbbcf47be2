"""What a person does to letters of a replay run, and what their endpoint then got."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandbox.server import Sandbox
from tests.e2e.deployed import Deployed
from tests.e2e.receiver import Receiver
from tests.e2e.replay_pipeline import BY_GROUP, BY_KEY

# Ordering keys whose letters the endpoint takes, and letters of each.
GOOD, LETTERS = 10, 4

# The longest that nothing moves: a failed letter waits a minute for its third try.
STANDSTILL = 240.0

# From an order's number to the proof that it was processed, edited.
THREE_COMMANDS = 30.0

BECAUSE = ("--reason", "a test", "--yes")
SEVERELY = ("--reason", "a test", "--confirm", "deadletter")


class Replayed:
    """A pipeline with an order, a tenant of one test, and what its endpoint has got."""

    def __init__(self, deployed: Deployed, receiver: Receiver, folder: Path) -> None:
        self.deployed = deployed
        self.tenant = f"h-{uuid.uuid4().hex[:8]}"
        self._posts = receiver.posts[self.tenant]
        self._folder = folder
        self.mended = False
        self.is_fifo = deployed.url("Dlq").endswith(".fifo")
        receiver.judges[self.tenant] = self._status
        deployed.register(self.tenant, receiver.url(self.tenant))

    def _status(self, body: bytes) -> int:
        # A refusal of this one order: a busy endpoint's 503 would be no try of the run's few.
        return 422 if json.loads(body)["price"] is None and not self.mended else 200

    def send(
        self, key: str, place: int, price: int | None, queue: str = "Dlq", **attributes: Any
    ) -> str:
        """Put a letter into a queue. Returns its MessageId."""
        # A key of its own: to its consumer, a key of another test is past these places already.
        body = {"tenantId": self.tenant, "key": f"{key} of {self.tenant}", "place": place}
        id_ = f"{self.tenant}-{key}-{place}"
        text = json.dumps({**body, "price": price, "id": id_})
        in_group = {"MessageGroupId": key, "MessageDeduplicationId": id_} if self.is_fifo else {}
        return self.deployed.send(text, queue, MessageAttributes=attributes, **in_group)

    def got(self, key: str, *, taken: bool | None = None) -> list[tuple[int, int | None]]:
        """Place and price of each POST of a key: those that were taken, or refused, or all."""
        return [
            (body["place"], body["price"])
            for post in list(self._posts)
            if taken is None or taken == (post.status < 300)
            if (body := json.loads(post.body))["key"] == f"{key} of {self.tenant}"
        ]

    def taken(self) -> Counter[tuple[str, int]]:
        """How often each letter was taken."""
        bodies = [json.loads(post.body) for post in list(self._posts) if post.status < 300]
        return Counter((body["key"].partition(" of ")[0], body["place"]) for body in bodies)

    def dlq(self, *words: str) -> Any:
        return self.deployed.dlq(*words, "--pipeline", self.deployed.name)

    def start(self, *options: str) -> str:
        """Start a run of everything in the DLQ. Returns its id."""
        choice = ("retry", "--in", "dlq", "--all", "--rate", "40", "--hold", *options)
        [started] = self.dlq(*choice, *BECAUSE)["runs"]
        run = str(started["run"])
        self.resume(run)
        return run

    def resume(self, run: str) -> None:
        """Let a run go on that is held, without waiting for its end."""
        self.deployed.dlq("run", "resume", run, *BECAUSE)

    def run(self, run: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.dlq("show", run)["run"]["run"]
        return shown

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        return self.deployed.until(condition, what, standstill=STANDSTILL)

    def until_run(self, run: str, condition: Callable[[dict[str, Any]], Any], what: str) -> None:
        """Wait for a run; what comes back from it is brought to it by the redriver."""

        def reached() -> bool:
            shown = self.run(run)
            # So few messages are a step of the canary: a planned failure holds the run.
            if shown["state"] == "HELD":
                self.resume(run)
            if shown["state"] not in ("PLANNED", "MOVING"):
                self.deployed.redrive()
            return bool(condition(shown))

        self.until(reached, what)

    def until_done(self, run: str, letters: int) -> dict[str, Any]:
        """Wait for the end of a run that loses none of its letters. Returns its report."""
        self.until_run(run, lambda shown: shown["empty"], "the run has ended")
        report: dict[str, Any] = self.dlq("show", run)["outcomes"]
        assert (report["run"]["state"], report["unaccounted"]) == ("DONE", 0), report
        assert sum(report["counts"].values()) == report["messages"] == letters
        return report

    def objects(self, run: str) -> Mapping[str, str]:
        """What the bucket keeps of a run, by name."""
        s3, bucket = self.deployed.aws("s3"), self.deployed.app["messages_bucket"]
        prefix = f"replay/{self.deployed.name}/{run}/"
        found = s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
        return {
            entry["Key"].removeprefix(prefix): s3.get_object(Bucket=bucket, Key=entry["Key"])[
                "Body"
            ]
            .read()
            .decode(errors="replace")
            for entry in found
        }


@pytest.fixture
def replayed(
    sandbox: Sandbox,
    aws: Callable[[str], Any],
    outputs: Mapping[str, str],
    receiver: Receiver,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Replayed:
    """By an ordering key, unless a test asks for another pipeline."""
    name = getattr(request, "param", BY_KEY["name"])
    deployed = Deployed(sandbox, aws, outputs, str(name))
    return Replayed(deployed, receiver, tmp_path)


def send_good(replayed: Replayed) -> list[tuple[str, int]]:
    """Letters that their endpoint takes, all keys mixed."""
    letters = [(f"good-{key}", place + 1) for place in range(LETTERS) for key in range(GOOD)]
    for key, place in letters:
        replayed.send(key, place, 5)
    return letters


def test_a_key_stops_at_a_failed_letter(replayed: Replayed) -> None:
    letters = send_good(replayed)
    for place, price in ((1, None), (2, 5), (3, 5)):
        replayed.send("stopped", place, price)
    run = replayed.start("--stop-on-failure")

    # Each try has failed, and all other keys are at their end.
    def stands_still(shown: Mapping[str, Any]) -> bool:
        refused = len(replayed.got("stopped", taken=False))
        return refused >= 3 and shown["counts"].get("RECOVERED") == len(letters)

    replayed.until_run(run, stands_still, "the key stands still")
    # What is behind the failed letter was never sent.
    assert set(replayed.got("stopped")) == {(1, None)}
    replayed.deployed.dlq("run", "abort", run, *BECAUSE)
    replayed.until_run(run, lambda shown: shown["empty"], "the run has ended")


def test_an_order_is_edited_sent_and_proved_by_three_commands_in_half_a_minute(
    replayed: Replayed, tmp_path: Path
) -> None:
    order = f"A-{uuid.uuid4().hex[:8]}"
    # It names no tenant: a run parks it.
    sent = replayed.deployed.send(
        json.dumps({"id": order, "key": f"k of {replayed.tenant}", "place": 1, "price": 5})
    )

    def is_parked() -> bool:
        replayed.deployed.redrive()
        listed = replayed.dlq("list", "--in", "parked", "--look", "--limit", "100")["messages"]
        return sent in {letter["message_id"] for letter in listed}

    replayed.until(is_parked, "the order is parked")
    patch = tmp_path / "patch.json"
    patch.write_text(json.dumps([{"op": "add", "path": "/tenantId", "value": replayed.tenant}]))

    began = time.monotonic()
    [place] = replayed.dlq("show", order)["message"]["places"]
    answer = replayed.dlq("retry", order, "--patch", str(patch), *BECAUSE)
    proof = replayed.dlq("show", order)["message"]["processed"]
    took = time.monotonic() - began

    assert place["where"] == "PARKED", place
    [ended] = answer["runs"]
    assert (ended["state"], ended["counts"]["RECOVERED"]) == ("DONE", 1)
    assert proof["answer"] == "yes", proof
    assert took <= THREE_COMMANDS, took
    assert replayed.got("k") == [(1, 5)]


def test_letters_are_edited_before_any_is_sent(replayed: Replayed, tmp_path: Path) -> None:
    ids = [replayed.send("edited", place, None) for place in (1, 2)]
    patch = tmp_path / "patch.json"
    patch.write_text(json.dumps([{"op": "replace", "path": "/price", "value": 7}]))
    answer = replayed.dlq("retry", *ids, "--in", "dlq", "--patch", str(patch), *BECAUSE)
    [started] = answer["runs"]
    report = replayed.until_done(str(started["run"]), 2)
    assert report["counts"] == {"RECOVERED": 2}
    # One version of each letter, the edited one.
    assert sorted(replayed.got("edited")) == [(1, 7), (2, 7)]
    # What it was is kept, with who changed it and why.
    kept = [name for name in replayed.objects(str(started["run"])) if name.startswith("edits/")]
    assert len(kept) == 2


def test_a_rerun_takes_the_letters_that_failed_and_no_other(replayed: Replayed) -> None:
    letters = send_good(replayed)
    failing = [("late", 1), ("later", 1)]
    for key, place in failing:
        replayed.send(key, place, None)
    report = replayed.until_done(replayed.start(), len(letters) + 2)
    counts = report["counts"]
    assert counts == {"RECOVERED": len(letters), "QUARANTINED": 2}
    assert [replayed.got(key) for key, _ in failing] == [[(1, None)] * 3] * 2
    run = report["run"]["run"]

    replayed.mended = True
    answer = replayed.dlq("retry", "--in", f"run:{run}", "-f", "outcome=failed", *BECAUSE)
    assert [started["counted"] for started in answer["runs"]] == [2]
    for started in answer["runs"]:
        again = replayed.until_done(str(started["run"]), 2)
        assert again["counts"] == {"RECOVERED": 2}
    assert replayed.taken() == dict.fromkeys([*letters, *failing], 1)


@pytest.mark.parametrize("replayed", [BY_KEY["name"], BY_GROUP["name"]], indirect=True)
def test_processed_letters_are_processed_once_more_under_a_new_key(
    replayed: Replayed,
) -> None:
    letters = [(f"again-{place % 3}", place) for place in range(12)]
    for key, place in letters:
        replayed.send(key, place, 5)
    first = replayed.until_done(replayed.start(), len(letters))
    assert first["counts"] == {"RECOVERED": len(letters)}
    assert replayed.taken() == dict.fromkeys(letters, 1)

    def repeated() -> dict[str, Any]:
        run = first["run"]["run"]
        words = ("retry", "--in", f"run:{run}", "--again", "--rate", "40", *BECAUSE)
        [started] = replayed.dlq(*words)["runs"]
        assert started["counted"] == 12
        return replayed.until_done(str(started["run"]), len(letters))

    assert repeated()["counts"] == {"RECOVERED": len(letters)}
    assert replayed.taken() == dict.fromkeys(letters, 2)
    for key in {key for key, _ in letters}:
        in_order = [(place, 5) for each, place in letters if each == key]
        assert replayed.got(key) == in_order * 2


def test_a_discarded_letter_is_kept_comes_back_and_its_neighbours_stay_parked(
    replayed: Replayed,
) -> None:
    chosen, *others = [replayed.send("parked", place, 5, "ParkingLot") for place in (1, 2, 3)]

    def parked() -> set[str]:
        listed = replayed.dlq("list", "--in", "parked", "--look", "--limit", "100")["messages"]
        return {str(letter["message_id"]) for letter in listed} & {chosen, *others}

    assert parked() == {chosen, *others}
    answer = replayed.dlq("discard", chosen, *BECAUSE)
    [started] = answer["runs"]
    run = str(started["run"])
    report = replayed.until_done(run, 1)
    assert report["counts"] == {"DISCARDED": 1}
    kept = [text for name, text in replayed.objects(run).items() if name.startswith("discarded/")]
    assert len(kept) == 1
    assert f"{replayed.tenant}-parked-1" in kept[0]
    assert parked() == set(others)
    assert replayed.got("parked") == []

    place = replayed.dlq("show", chosen)["message"]["places"][0]
    assert (place["where"], place["run"], place["because"]) == ("DISCARDED", run, "a test")
    assert place["kept"].startswith("s3://")
    answer = replayed.dlq("restore", run, *BECAUSE)
    [started] = answer["runs"]
    report = replayed.until_done(str(started["run"]), 1)
    assert report["counts"] == {"RESTORED": 1}
    assert parked() == {chosen, *others}
    assert not [name for name in replayed.objects(run) if name.startswith("discarded/")]
    shown = replayed.dlq("show", chosen, "--body")["message"]
    assert json.dumps(shown["body"]) in kept[0]
    remove(replayed, [chosen, *others])


def remove(replayed: Replayed, letters: Sequence[str]) -> None:
    """Leave nothing to the next test; without an export this time."""
    answer = replayed.dlq("discard", *letters, "--no-copy", *SEVERELY)
    for started in answer["runs"]:
        run = str(started["run"])
        replayed.until_run(run, lambda shown: shown["empty"], "the rest is discarded")
        assert not [name for name in replayed.objects(run) if name.startswith("discarded/")]
