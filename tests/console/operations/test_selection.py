"""One grammar says which messages a command means."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from console.operations.errors import Problem
from console.operations.places import PLACE_KINDS, place
from console.operations.selection import Choice, ChosenPlace, choice, compiled, term
from deadletter.contract import Reason
from deadletter.routing.selection import Selection
from deadletter.rules.pattern import compile_pattern
from tests.each_row import each_row

NOW = datetime(2026, 11, 29, 6, 30, tzinfo=UTC)


def pattern(*terms: str) -> Any:
    """The pattern of terms which the router can tell."""
    selection, beside = compiled(choice(terms=terms), NOW)
    assert beside == ()
    return selection.pattern


@each_row(
    ("typed", "made"),
    [
        (["tenant=cedar"], {"context": {"tenantId": ["cedar"]}}),
        (["tenant=cedar,elm"], {"context": {"tenantId": ["cedar", "elm"]}}),
        (["tenant=42"], {"context": {"tenantId": ["42", 42]}}),
        (["tenant!=cedar"], {"context": {"tenantId": [{"anything-but": ["cedar"]}]}}),
        (["error~Time*out"], {"failure": {"error_type": [{"wildcard": "*Time\\*out*"}]}}),
        (["category=TRANSIENT"], {"failure": {"category": ["transient"]}}),
        (["status=503,504"], {"failure": {"http_status": [503, 504]}}),
        (["status>499"], {"failure": {"http_status": [{"numeric": [">", 499]}]}}),
        (
            ["status<600", "status>499"],
            {"failure": {"http_status": [{"numeric": [">", 499, "<", 600]}]}},
        ),
        (["age>2h"], {"redrive": {"age_seconds": [{"numeric": [">", 7_200]}]}}),
        (["cause=9C1F08E2"], {"failure": {"fingerprint": [{"prefix": "9c1f08e2"}]}}),
        (["body.order.id=A-4711"], {"body": {"order": {"id": ["A-4711"]}}}),
        (["body.amount=0"], {"body": {"amount": ["0", 0]}}),
        (["body.paid=true"], {"body": {"paid": ["true", True]}}),
        (["attribute.kind=order"], {"attributes": {"kind": ["order"]}}),
        (["field.region=eu"], {"context": {"region": ["eu"]}}),
        (['match={"body": {"a": [1]}}'], {"body": {"a": [1]}}),
        (
            ["tenant=cedar", "status=503", "error=Busy"],
            {
                "context": {"tenantId": ["cedar"]},
                "failure": {"http_status": [503], "error_type": ["Busy"]},
            },
        ),
    ],
)
def test_terms_become_a_pattern_of_the_rules_own_language(typed: list[str], made: Any) -> None:
    assert pattern(*typed) == made
    compile_pattern(made)


def test_what_is_in_a_text_is_found_as_it_was_typed() -> None:
    found = compile_pattern(pattern("error~*\\"))
    assert found.matches({"failure": {"error_type": "a*\\b"}})
    assert not found.matches({"failure": {"error_type": "a\\b"}})


def test_ids_reasons_and_times_have_fields_of_their_own() -> None:
    chosen = choice(["a", "b", "a"], ["parked"], ["reason=poison", "since=2h", "until=2026-11-29"])
    selection, beside = compiled(chosen, NOW)
    assert selection == Selection(
        ids=("a", "b"),
        reasons=(Reason.POISON,),
        since=NOW.timestamp() - 7_200,
        until=datetime(2026, 11, 29, tzinfo=UTC).timestamp(),
    )
    assert beside == ()


def test_what_only_records_know_is_left_to_them() -> None:
    selection, beside = compiled(choice(terms=["text~timed out", "tenant=cedar"]), NOW)
    assert selection.pattern == {"context": {"tenantId": ["cedar"]}}
    assert [str(each) for each in beside] == ["text~timed out"]


@each_row(
    ("typed", "found"),
    [
        ("parked", ChosenPlace(PLACE_KINDS["parked"])),
        ("parked:billing", ChosenPlace(PLACE_KINDS["parked"], "billing")),
        ("dedicated", ChosenPlace(PLACE_KINDS["dedicated"])),
        ("circuit:hooks/acme", ChosenPlace(PLACE_KINDS["circuit"], "hooks/acme")),
        ("queue:https://sqs/1/q", ChosenPlace(PLACE_KINDS["queue"], "https://sqs/1/q")),
        ("time", ChosenPlace(PLACE_KINDS["time"])),
    ],
)
def test_a_place_is_read_and_written_alike(typed: str, found: ChosenPlace) -> None:
    assert place(typed) == found
    assert str(found) == typed


@each_row(
    ("typed", "says"),
    [
        ("tenant", "'tenant' is no condition: write KEY=VALUE"),
        ("tenat=cedar", "There is no key 'tenat'. Did you mean tenant? Allowed: tenant, cause,"),
        ("body=1", "There is no key 'body'."),
        ("tenant=", "'tenant=' has an empty value."),
        ("tenant=a,,b", "has an empty value."),
        ("tenant>3", "'tenant>3': tenant takes = != ~, and not >."),
        ("status~5", "status takes = != < >, and not ~."),
        ("status=many", "'many' is not a number."),
        ("status=true", "'true' is not a number."),
        ("status>1,2", "> takes one value."),
        ("age>long", "'long' is not a length of time"),
        ("reason=POISSON", "There is no reason 'POISSON'. Did you mean POISON?"),
        ("category=transent", "There is no category 'transent'. Did you mean transient?"),
        ("since=never", "'never' is no time: write how long ago"),
        ("match={", "match= is not readable: not JSON at line 1 column 2"),
        ("match=[1]", "match= takes a JSON object"),
        ('match={"body": {"a": [{"prefix": 1}]}}', "These messages can't be chosen so: pattern:"),
    ],
)
def test_a_term_that_is_not_understood_is_a_sentence(typed: str, says: str) -> None:
    with pytest.raises(Problem) as refused:
        compiled(choice(terms=[typed]), NOW)
    assert says in refused.value.says


@each_row(
    ("typed", "says"),
    [
        ("parkd", "There is no place 'parkd'. Did you mean parked? Allowed: main, dlq,"),
        ("run", "'run' needs a name: run:NAME."),
        ("circuit:", "'circuit:' needs a name: circuit:NAME."),
        ("main:x", "'main:x': main takes no name."),
    ],
)
def test_a_place_that_is_not_understood_is_a_sentence(typed: str, says: str) -> None:
    with pytest.raises(Problem) as refused:
        place(typed)
    assert says in refused.value.says


@each_row("terms", [["tenant=a", "tenant=b"], ["status>1", "status>2"], ["error=A", "error~B"]])
def test_two_conditions_on_one_key_are_one_with_commas(terms: list[str]) -> None:
    with pytest.raises(Problem, match="write one, with commas for or"):
        pattern(*terms)


def test_all_and_a_filter_exclude_each_other() -> None:
    assert choice(places=[place("parked")], everything=True).everything
    with pytest.raises(Problem, match="exclude each other"):
        choice(terms=["tenant=a"], everything=True)


def test_a_choice_is_written_as_it_can_be_typed() -> None:
    chosen = choice(["A-4711"], [place("circuit:a b")], ["error~timed out", "status>499"])
    assert chosen.typed() == "A-4711 --in 'circuit:a b' -f 'error~timed out' -f 'status>499'"
    assert Choice(everything=True).typed() == "--all"
    assert str(term(" status > 499 ")) == "status>499"
