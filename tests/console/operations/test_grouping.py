"""Letters in groups: their order, their trend, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.operations.grouping import (
    UNKNOWN,
    By,
    Trend,
    entry_of,
    grouped,
    shape,
    size_class,
    without_stale,
)
from console.operations.groups import step_for
from deadletter.contract import Blame
from deadletter.failure.cause_index import CauseEntry
from deadletter.failure.classify import diagnose
from deadletter.failure.ledger import AboutLetter
from deadletter.message.letter import Attribute, Letter
from deadletter.signals.causes import Explanation
from deadletter.webhook.dispatcher import EndpointUnfit
from deadletter.webhook.endpoint import DISABLED, NO_SUCH_ENDPOINT
from tests.each_row import each_row
from tests.samples import NOW

ENTRY = CauseEntry("a", "f1", NOW - 30, NOW - 60, category="transient", error_type="KeyError")


def text(value: str) -> Attribute:
    return Attribute("String", value)


def letters(*ages: float, **changes: Any) -> list[CauseEntry]:
    """Letters that failed first so many seconds ago."""
    return [
        replace(ENTRY, **{"origin": f"{changes}{n}", "first_at": NOW - age, **changes})
        for n, age in enumerate(ages)
    ]


def test_the_largest_cause_is_first_and_says_since_when_it_fails() -> None:
    small, large = letters(10, fingerprint="f2"), letters(100, 90, 80)
    first, second = grouped([*small, *large], By.CAUSE, NOW)
    assert (first.name, first.messages, second.name, second.messages) == ("f1", 3, "f2", 1)
    assert (first.oldest.first_at, first.newest.seen) == (NOW - 100, NOW - 30)
    assert first.newest in large


def test_a_letter_without_a_fingerprint_is_grouped_by_its_error() -> None:
    names = [group.name for group in grouped(letters(1, fingerprint=""), By.CAUSE, NOW)]
    assert names == ["KeyError"]


@each_row(
    ("recent", "before", "trend"),
    [
        (12, 10, Trend.FLAT),
        (13, 10, Trend.RISING),
        (8, 10, Trend.FLAT),
        (7, 10, Trend.FALLING),
        (1, 0, Trend.RISING),
        (0, 1, Trend.FALLING),
    ],
)
def test_a_fifth_more_or_fewer_new_letters_in_ten_minutes_are_a_trend(
    recent: int, before: int, trend: Trend
) -> None:
    found = letters(*[599.0] * recent, *[600.0] * before, 1_200.0)
    [group] = grouped(found, By.CAUSE, NOW)
    assert (group.recent, group.before, group.trend) == (recent, before, trend)


@each_row(
    ("by", "changes", "name"),
    [
        (By.CATEGORY, {}, "transient"),
        (By.TENANT, {"about": AboutLetter({"tenantId": "t-1"})}, "t-1"),
        (By.TENANT, {}, UNKNOWN),
        (By.TYPE, {"about": AboutLetter({"messageType": "order"})}, "order"),
        (By.ENDPOINT, {"about": AboutLetter(endpoint="t-1/default")}, "t-1/default"),
        (By.STATUS, {"http_status": 503}, "503"),
        (By.SIZE, {"about": AboutLetter(size=1_024)}, "1 to 4 KiB"),
        (By.AGE, {"first_at": NOW - 7_200}, "1 to 6 h"),
        (By.ATTEMPTS, {"attempt": 2}, "3"),
    ],
)
def test_letters_are_grouped_by_whatever_they_say(
    by: By, changes: dict[str, Any], name: str
) -> None:
    [group] = grouped([replace(ENTRY, **changes)], by, NOW)
    assert group.name == name


def test_numbers_of_attempts_are_in_their_order() -> None:
    entries = [replace(ENTRY, attempt=attempt) for attempt in (10, 1, 1, 1, 0, 10)]
    assert [group.name for group in grouped(entries, By.ATTEMPTS, NOW)] == ["1", "2", "11"]


def test_classes_of_sizes_and_ages_are_in_their_order() -> None:
    ages = letters(9 * 86_400, 60, 60, 7_200, 7_200, 7_200)
    assert [group.name for group in grouped(ages, By.AGE, NOW)] == ["< 1 h", "1 to 6 h", "> 7 d"]
    assert [size_class(size) for size in (0, 4_096, 300 * 1_024)] == [
        "< 1 KiB", "4 to 16 KiB", "> 256 KiB",
    ]  # fmt: skip


def test_only_the_causes_of_which_rows_are_unread_are_at_least_so_large() -> None:
    found = [*letters(1, 2), *letters(1, fingerprint="f2")]
    at_least = {g.name: g.is_at_least for g in grouped(found, By.CAUSE, NOW, {"f1"})}
    assert at_least == {"f1": True, "f2": False}
    assert [group.is_at_least for group in grouped(found, By.CATEGORY, NOW, {"f1"})] == [True]


def test_a_letter_that_sqs_has_dropped_counts_only_if_it_waits_outside_of_queues() -> None:
    old = replace(ENTRY, origin="old", seen=NOW - 100)
    waits = replace(old, origin="waits")
    kept, stale = without_stale([ENTRY, old, waits], NOW - 50, {"waits"})
    assert ([entry.origin for entry in kept], stale) == (["a", "waits"], 1)


CIRCUITS = "dlq circuit list --pipeline orders"
LOGS, SHOW = "dlq show a --logs --pipeline orders", "dlq show a --pipeline orders"
CHECK, BY_TENANT = "dlq endpoint add t-1/e-1 --dry-run", "dlq groups orders --by tenant"
DOWN = {"blame": Blame.DEPENDENCY}


@each_row(
    ("changes", "cause", "command", "of_an_endpoint"),
    [
        (DOWN, Explanation.DOWN, CIRCUITS, CIRCUITS),
        ({"fingerprint": ""}, Explanation.DOWN, CIRCUITS, CIRCUITS),
        ({**DOWN, "http_status": 429}, Explanation.BUSY, CIRCUITS, CIRCUITS),
        ({**DOWN, "error_type": "ThrottlingException"}, Explanation.BUSY, CIRCUITS, CIRCUITS),
        ({**DOWN, "http_status": 500}, Explanation.FAILS, BY_TENANT, BY_TENANT),
        ({**DOWN, "error_type": "gaierror"}, Explanation.DNS, LOGS, CHECK),
        ({**DOWN, "error_type": "SSLError"}, Explanation.TLS, LOGS, CHECK),
        ({"blame": Blame.CONFIGURATION}, Explanation.REFUSES, SHOW, CHECK),
        ({"category": "schema"}, Explanation.UNREADABLE, SHOW, SHOW),
        ({}, Explanation.OTHER, LOGS, LOGS),
        ({"category": ""}, Explanation.UNRECORDED, "dlq doctor orders", "dlq doctor orders"),
    ],
)
def test_the_next_command_and_its_meaning_are_those_of_the_cause(
    changes: dict[str, Any], cause: Explanation, command: str, of_an_endpoint: str
) -> None:
    for endpoint, expected in (("", command), ("t-1/e-1", of_an_endpoint)):
        entry = replace(ENTRY, about=AboutLetter(endpoint=endpoint), **changes)
        [group] = grouped([entry], By.CAUSE, NOW)
        step = step_for(group, By.CAUSE, "orders", "")
        assert (step.command, step.effect) == (expected, cause.value.means)


@pytest.mark.parametrize(
    ("why", "command"),
    [
        (NO_SUCH_ENDPOINT, "dlq endpoint add 't 1/e-1' --url \"<url>\""),
        (DISABLED, "dlq endpoint add 't 1/e-1'"),
    ],
)
def test_an_endpoint_that_is_missing_or_off_is_added_or_switched_on(why: str, command: str) -> None:
    """As the dispatcher raises it and the ledger keeps it: it blames neither."""
    said = diagnose(EndpointUnfit(why), None, now=NOW)
    entry = replace(
        ENTRY, category=str(said.category), blame=said.blame, error_type=said.error_type,
        words=said.message, about=AboutLetter(endpoint="t 1/e-1"),
    )  # fmt: skip
    [group] = grouped([entry], By.CAUSE, NOW)
    assert step_for(group, By.CAUSE, "orders", "").command == command
    [unnamed] = grouped([replace(entry, about=AboutLetter())], By.CAUSE, NOW)
    assert "endpoint" not in step_for(unnamed, By.CAUSE, "orders", "").command


def test_of_another_dimension_the_next_command_explains_a_sample() -> None:
    [group] = grouped([ENTRY], By.TENANT, NOW)
    command = step_for(group, By.TENANT, "orders", "").command
    assert command == "dlq show a --pipeline orders"
    bare = step_for(group, By.TENANT, None, "queue:their-dlq")
    assert bare.command == "dlq list --look --body --in queue:their-dlq"


@each_row(
    ("body", "words"),
    [
        ('{"b": 1, "a": {"secret": 2}}', "object with a, b"),
        ("{}", "object {}"),
        ("[1]", "JSON list"),
        ("7", "JSON value"),
        ("null", "JSON value"),
        ("hello", "text"),
        (" ", "empty"),
        ("[" * 100_000, "text"),
    ],
)
def test_the_shape_of_a_body_has_none_of_its_values(body: str, words: str) -> None:
    assert shape(body) == words


def test_a_message_of_an_aws_services_dlq_says_its_own_cause() -> None:
    lambdas = Letter("m", "{}", {"ErrorCode": text("200"), "ErrorMessage": text("timed out")})
    rule = Letter("m", "{}", {"ERROR_CODE": text("NO_PERMISSIONS")})
    first, second = (entry_of(letter, None, None, NOW) for letter in (lambdas, rule))
    assert (first.error_type, first.words) == ("200", "timed out")
    assert (second.error_type, second.words) == ("NO_PERMISSIONS", "")


def test_a_bare_message_is_asked_for_its_tenant_and_type_by_their_usual_names() -> None:
    letter = Letter("m", '{"tenant_id": "t-1"}', {"type": text("order")})
    about = entry_of(letter, None, None, NOW).about
    assert about.context == {"tenantId": "t-1", "messageType": "order"}
    assert about.size == len(letter.body)
