"""`dlq redrive now`: what it asks, what it starts, and what it shows of the report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore import exceptions

from console.cli import redrive
from console.cli.exit import Exit
from deadletter.redrive.redriver import LEASE_HELD

REPORT = {
    "ended_well": True,
    "pipeline": "orders",
    "source": "dlq",
    "stopped": "the source is empty",
    "received": 128,
    "decisions": {"REDRIVE": 1_100, "PARK:POISON": 8},
    "moved": 120,
    "failed": 0,
    "left": 8,
    "possible_duplicates": 0,
    "foreign_letters": 2,
    "counts": {"Redriven": 112},
    "refused_rules": {},
}
BUSY = {**REPORT, "stopped": LEASE_HELD, "received": 0, "moved": 0}


def asked(source: str, *, dry_run: bool) -> tuple[str, dict[str, Any]]:
    """A call of the function, as a person's."""
    return "orders-redrive", {"source": source, "dry_run": dry_run, "asked": True}


def test_without_a_terminal_nothing_is_started(cloud: Any, dlq: Any, functions: Any) -> None:
    cloud.deploy("orders")
    done = dlq("redrive", "now")
    assert done.exit_code == Exit.USAGE
    assert done.output == "Error: There is no terminal to ask at, so nothing was done: add --yes.\n"
    assert functions.invoked == []


@pytest.mark.usefixtures("at_a_terminal")
def test_the_question_names_account_region_and_letters(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders")
    cloud.sqs.send_message(QueueUrl=cloud.urls["orders-dlq"], MessageBody="x")
    done = dlq("redrive", "now", "--json", answers="y\n")
    assert "App deadletter in account 123456789012, eu-west-1." in done.stderr
    assert "Start a run of orders that may move 1 letter out of the DLQ." in done.stderr
    assert functions.invoked == [
        ("orders-redrive", {"source": "dlq", "dry_run": False, "asked": True})
    ]
    assert json.loads(done.stdout)["pipeline"] == "orders"


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize("reply", ["n\n", "\n", "", "yesterday\n"])
def test_anything_but_yes_is_no(cloud: Any, dlq: Any, functions: Any, reply: str) -> None:
    cloud.deploy("orders")
    done = dlq("redrive", "now", answers=reply)
    assert done.exit_code == Exit.ATTENTION
    assert "Nothing was done." in done.stderr
    assert functions.invoked == []


@pytest.mark.usefixtures("at_a_terminal")
def test_the_question_says_that_an_observing_pipeline_moves_nothing(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders", mode="observe")
    assert "(observe: moves nothing)" in dlq("redrive", "now", answers="n\n").stderr


def test_a_dry_run_does_not_ask(cloud: Any, dlq: Any, functions: Any) -> None:
    cloud.deploy("orders")
    functions.report = REPORT
    done = dlq("redrive", "now", "--dry-run")
    assert done.exit_code == Exit.DONE
    assert functions.invoked == [
        ("orders-redrive", {"source": "dlq", "dry_run": True, "asked": True})
    ]
    assert "Dry run of orders" in done.stdout
    assert "Nothing was moved." in done.stdout


def test_the_report_is_shown_with_every_counter_known_or_not(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders")
    functions.report = REPORT
    lines = [" ".join(row.split()) for row in dlq("redrive", "now", "--yes").stdout.splitlines()]
    assert lines[:2] == [
        "Run of orders over dlq in account 123456789012, eu-west-1",
        "Ended because: the source is empty",
    ]
    for expected in ("moved 120", "foreign letters 2", "REDRIVE 1,100", "PARK:POISON 8"):
        assert expected in lines
    assert "COUNTS" in lines
    assert "REFUSED RULES" not in lines


def test_json_carries_the_report_untouched(cloud: Any, dlq: Any, functions: Any) -> None:
    cloud.deploy("orders")
    functions.report = REPORT
    assert json.loads(dlq("redrive", "now", "--yes", "--json").stdout) == {
        "schema": 1,
        "account": "123456789012",
        "region": "eu-west-1",
        "app": "deadletter",
        "pipeline": "orders",
        "source": "dlq",
        "dry_run": False,
        "report": REPORT,
    }


def test_letters_that_could_not_be_moved_make_the_exit_status_1(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders")
    functions.report = {**REPORT, "failed": 3}
    assert dlq("redrive", "now", "--yes").exit_code == Exit.ATTENTION


@pytest.mark.parametrize("metric", ["Undecided", "Unsendable", "BadRow"])
def test_letters_that_could_not_be_judged_make_the_exit_status_1(
    cloud: Any, dlq: Any, functions: Any, metric: str
) -> None:
    cloud.deploy("orders")
    functions.report = {**REPORT, "ended_well": True, "counts": {"Redriven": 112, metric: 1}}
    assert dlq("redrive", "now", "--yes").exit_code == Exit.ATTENTION


def test_a_dedicated_dlq_is_named_by_its_id(cloud: Any, dlq: Any, functions: Any) -> None:
    cloud.deploy("orders", dedicated=["tenant-a"])
    assert dlq("redrive", "now", "--yes", "--source", "tenant-a").exit_code == Exit.DONE
    assert functions.invoked == [
        ("orders-redrive", {"source": "tenant-a", "dry_run": False, "asked": True})
    ]


def test_an_unknown_source_is_answered_with_the_known_ones(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders", dedicated=["tenant-a"])
    done = dlq("redrive", "now", "--yes", "--source", "tenant-b")
    assert done.exit_code == Exit.ABSENT
    assert "has no source 'tenant-b': it has dlq, tenant-a." in done.stderr
    assert functions.invoked == []


def test_a_failed_function_is_quoted_and_the_place_of_its_letters_is_named(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders")
    functions.function_error = "Unhandled"
    functions.report = {
        "errorType": "Sandbox.Timedout",
        "errorMessage": "Task timed out after 60.00 seconds\x1b[2J" + "x" * 5_000,
        "stackTrace": ["secret"],
    }
    done = dlq("redrive", "now", "--yes", "--json")
    assert done.exit_code == Exit.ATTENTION
    assert done.stdout == ""
    assert "failed (Sandbox.Timedout: Task timed out after 60.00 seconds" in done.stderr
    assert "still in its queue" in done.stderr
    assert "secret" not in done.stderr
    assert "\x1b" not in done.stderr
    assert len(done.stderr) < 600


@pytest.mark.parametrize("answer", [b"", b"null", b"[1]", b"nonsense"])
def test_an_answer_without_a_report_is_refused(
    cloud: Any, dlq: Any, functions: Any, answer: bytes
) -> None:
    cloud.deploy("orders")
    functions.report = answer
    done = dlq("redrive", "now", "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert "answered no report" in done.stderr


NO_ROOM = exceptions.ClientError(
    {"Error": {"Code": "TooManyRequestsException", "Message": "Rate Exceeded."}}, "Invoke"
)


def test_a_function_that_is_busy_all_the_time_is_called_busy(
    cloud: Any, dlq: Any, functions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("orders")
    functions.raises = NO_ROOM
    monkeypatch.setattr(redrive, "pause", lambda _: None)
    done = dlq("redrive", "now", "--yes")
    assert done.exit_code == Exit.UNREACHABLE
    assert "another run is going on" in done.stderr


def test_after_a_timeout_the_run_may_still_be_going_on(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders")
    functions.raises = exceptions.ReadTimeoutError(endpoint_url="x")
    done = dlq("redrive", "now", "--yes")
    assert done.exit_code == Exit.UNREACHABLE
    assert "the run may still be going on" in done.stderr
    assert len(functions.invoked) == 1


def test_ctrl_c_stops_the_waiting_and_says_that_the_run_goes_on(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders")
    functions.raises = KeyboardInterrupt()
    done = dlq("redrive", "now", "--yes")
    assert done.exit_code == Exit.STOPPED
    assert "a run that is at work goes on to its end" in done.stderr


def test_an_app_with_several_pipelines_needs_a_pipeline_name(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders", "invoices")
    assert dlq("redrive", "now", "--yes").exit_code == Exit.USAGE
    assert functions.invoked == []
    assert dlq("redrive", "now", "--yes", "--pipeline", "invoices").exit_code == Exit.DONE
    assert functions.invoked[0][0] == "invoices-redrive"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            {
                "stopped": "the journal gave no answer",
                "trouble": "AccessDeniedException for dynamodb:Query on deadletter-letters",
            },
            "AccessDeniedException for dynamodb:Query on deadletter-letters: if it is a missing",
        ),
        ({"received": 10, "moved": 0}, "It received letters and moved none of them"),
    ],
)
def test_a_run_that_could_not_do_its_work_fails_and_says_what_to_do_next(
    cloud: Any, dlq: Any, functions: Any, more: dict[str, Any], says: str
) -> None:
    cloud.deploy("orders")
    functions.report = {**REPORT, **more, "ended_well": False}
    done = dlq("redrive", "now", "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert says in done.stdout
    assert "then type dlq redrive now --pipeline orders again." in done.stdout


def test_a_run_that_ended_well_is_a_success(cloud: Any, dlq: Any, functions: Any) -> None:
    cloud.deploy("orders")
    functions.report = {**REPORT, "ended_well": True, "moved": 0}
    assert dlq("redrive", "now", "--yes").exit_code == Exit.DONE


@pytest.mark.parametrize("busy", [{"report": BUSY}, {"raises": NO_ROOM}])
def test_a_run_waits_until_another_has_ended(
    cloud: Any, dlq: Any, functions: Any, monkeypatch: pytest.MonkeyPatch, busy: dict[str, Any]
) -> None:
    cloud.deploy("orders")
    vars(functions).update(busy)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            vars(functions).update(report=REPORT, raises=None)

    monkeypatch.setattr(redrive, "pause", pause)
    done = dlq("redrive", "now", "--yes", "--json")
    assert done.exit_code == Exit.DONE
    assert json.loads(done.stdout)["report"]["moved"] == REPORT["moved"]
    assert (len(functions.invoked), pauses) == (4, [10] * 3)


def test_a_run_that_finds_others_at_work_all_the_time_is_no_success(
    cloud: Any, dlq: Any, functions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("orders")
    functions.report = BUSY
    pauses: list[float] = []
    monkeypatch.setattr(redrive, "pause", pauses.append)
    done = dlq("redrive", "now", "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert "Nothing was done: other runs were at work all the time." in done.stdout
    assert sum(pauses) >= 15 * 60
    # It does not pause once more for a run that it no longer starts.
    assert len(functions.invoked) == len(pauses) + 1


def test_a_dry_run_says_which_letters_would_go_where_when_and_why(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders")
    letters = [
        {"message_id": "m-1", "action": "REDRIVE", "delay": 90, "because": "attempt 2 of 6"},
        {"message_id": "m-2", "action": "PARK", "reason": "POISON", "because": "failed alike"},
        {"message_id": "m-3", "action": "HOLD", "lane": "due", "due": 1_790_000_000.0,
         "because": "attempt 3 of 6"},
    ]  # fmt: skip
    functions.report = {**REPORT, "letters": letters * 8}
    shown = dlq("redrive", "now", "--dry-run").stdout
    rows = [" ".join(row.split()) for row in shown.splitlines()]
    assert "m-1 REDRIVE after 1 min attempt 2 of 6" in rows
    assert "m-2 PARK POISON failed alike" in rows
    assert "m-3 HOLD due 21 Sep 14:13 UTC attempt 3 of 6" in rows
    assert "and 4 more letters: add --json" in rows
