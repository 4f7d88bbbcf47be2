"""`dlq show` of a run that has ended, and `rerun`: each message is accounted for."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations.replay_report import MEANING
from deadletter.replay.names import Name, key_hash
from deadletter.replay.reconcile import RETURNED
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from tests.console.conftest import BUCKET, routed

RUN = "4f0c1b2a3d4e5f60"


def run(state: RunState = RunState.DONE, **facts: Any) -> ReplayRun:
    given = {"id": RUN, "pipeline": "orders", "state": state, "messages": 6, "created": 1.0}
    return ReplayRun(**{**given, "changed": 61.0, "by": "replay", **facts})


def name(origin: str, key: str = "", cause: str = "f1") -> Name:
    return Name(
        copy=f"copy-{origin}", origin=origin, place=(f"orders#message#{origin}", "message"),
        key=key_hash(key or origin), cause=cause, category="schema", tenant="acme",
    )  # fmt: skip


OUTCOMES = [
    (name("a"), ReplayOutcome.RECOVERED),
    (name("b"), ReplayOutcome.RECOVERED),
    (name("c", cause="f2"), ReplayOutcome.DUPLICATE),
    (name("d", "customer-7"), ReplayOutcome.PARKED),
    (name("e", "customer-7"), ReplayOutcome.QUARANTINED),
    (name("f"), ReplayOutcome.LEFT),
]

KEPT = {
    "run": RUN, "messages": 4, "counts": {"PARKED": 1, "RECOVERED": 3}, "unaccounted": 0,
    "returned": 2,
    "causes": [{"cause": "<script>", "category": "schema", "messages": 4,
                "counts": {"RECOVERED": 3, "PARKED": 1}}],
    "keys": [], "minutes": {"60": {"RECOVERED": 2}, "120": {"RECOVERED": 1, "PARKED": 1}},
}  # fmt: skip


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    return routed(cloud, functions, {"consumer_library": True})


def kept(cloud: Any, **changes: Any) -> None:
    cloud.s3.put_object(
        Bucket=BUCKET, Key=f"replay/orders/{RUN}/report.json", Body=json.dumps(KEPT | changes)
    )


def test_a_live_run_is_added_up_from_its_manifest(orders: Any, dlq: Any, tmp_path: Path) -> None:
    orders.replay(run(RunState.RUNNING))
    orders.snapshot(run(), [*OUTCOMES, (name("g"), ReplayOutcome.OPEN)])
    assert json.loads(dlq(f"show {RUN} --json").stdout)["outcomes"] is None
    done = dlq(f"show {RUN} --json --html", str(tmp_path / "page"), ends=Exit.DONE)
    account = json.loads(done.stdout)["outcomes"]
    assert account["counts"] == {
        "RECOVERED": 2, "DUPLICATE": 1, "PARKED": 1, "QUARANTINED": 1, "LEFT": 1, "OPEN": 1,
    }  # fmt: skip
    assert (account["messages"], account["final"], account["unaccounted"]) == (7, False, 0)
    sizes = [(row["name"], row["messages"]) for row in (*account["causes"], *account["keys"])]
    assert sizes == [("f1", 6), ("f2", 1), (key_hash("customer-7"), 2)]
    assert account["says"] == (
        "3 of 7 messages are done, 1 failed again, 1 parked by the run (failed again, or stopped "
        "by a rule), 1 still on the way, 1 set aside or left over. All of them are accounted for."
    )


def test_the_report_that_the_run_has_kept_counts(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    kept(orders)
    says = (
        "3 of 4 messages are done, 1 failed again. All of them are accounted for.",
        "PARKED 1 failed again, parked by the consumer",
        f"dlq retry --in run:{RUN} -f outcome=failed",
    )
    dlq(f"show {RUN}", ends=Exit.DONE, says=says)
    (first, _) = json.loads(dlq(f"show {RUN} --json").stdout)["outcomes"]["minutes"]
    assert first == {"at": "1970-01-01T00:01:00Z", "counts": {"RECOVERED": 2}}


def test_a_message_without_a_known_outcome_has_not_failed(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    kept(orders, messages=6, counts={"UNKNOWN": 5, "RECOVERED": 1}, causes=[])
    says = "1 of 6 messages are done, 5 sent, with no known outcome. All of them are accounted for."
    dlq(f"show {RUN}", ends=Exit.DONE, says=says)


def test_a_letter_without_an_outcome_is_an_alarm(orders: Any, dlq: Any) -> None:
    orders.replay(run(RunState.BROKEN))
    kept(orders, counts={"RECOVERED": 3}, unaccounted=1)
    says = "1 of 4 messages are unaccounted for: the run is BROKEN"
    dlq(f"show {RUN}", ends=Exit.ATTENTION, says=says)


def test_a_damaged_report_is_named(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.s3.put_object(Bucket=BUCKET, Key=f"replay/orders/{RUN}/report.json", Body="{")
    dlq(f"show {RUN}", ends=Exit.ATTENTION, says="is not what this dlq expects")


def test_a_run_without_a_snapshot_has_no_page(orders: Any, dlq: Any, tmp_path: Path) -> None:
    orders.replay(run(RunState.MOVING, messages=None))
    refuses = "has not taken its messages yet: it is MOVING"
    dlq(f"show {RUN} --html {tmp_path / 'page'}", ends=Exit.ATTENTION, refuses=refuses)


class Page(HTMLParser):
    """What a page refers to, and whether its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key in ("src", "href") and value]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_letters_without_an_outcome_are_named(orders: Any, dlq: Any) -> None:
    orders.replay(run(RunState.BROKEN))
    orders.snapshot(run(), [*OUTCOMES[:2], (name("lost"), ReplayOutcome.MISSING)])
    kept(orders, messages=3, counts={"RECOVERED": 2, "MISSING": 1}, unaccounted=1)
    says = ("Without an outcome:\n  lost\n", f"then park what is left:\n  dlq run abort {RUN}\n")
    dlq(f"show {RUN}", ends=Exit.ATTENTION, says=says)


def test_the_page_is_one_file_without_scripts_and_other_hosts(
    orders: Any, dlq: Any, tmp_path: Path
) -> None:
    orders.replay(run(because="<u>bold</u>", by="user/ann"), why="<img src=x>")
    kept(orders)
    path = tmp_path / "report.html"
    dlq(f"show {RUN} --html", str(path), ends=Exit.DONE, says=f"The page is {path}.")
    html = path.read_text()
    page = Page()
    page.feed(html)
    assert page.open == []
    assert page.links == []
    assert not {"script", "img", "link", "iframe", "u"} & set(page.tags)
    assert "http" not in html.replace("http-equiv", "")
    assert page.tags.count("svg") == 3
    assert "default-src &#x27;none&#x27;" in html or "default-src 'none'" in html
    assert "&lt;script&gt;" in html
    assert "3 of 4 messages are done" in html
    assert path.stat().st_mode & 0o077 == 0


def test_tries_that_came_back_have_the_name_that_the_run_gives_them() -> None:
    assert RETURNED in MEANING
