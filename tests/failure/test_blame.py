"""Who is to blame for a failure: the dependency, its configuration, or neither."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker
from hypothesis import given
from hypothesis import strategies as st

from deadletter.contract import Blame, Category
from deadletter.failure import codes
from deadletter.failure.blame import blame_and_speakers, own_blame, teams_word
from deadletter.failure.classify import diagnose
from deadletter.failure.foreign import chain_of
from deadletter.failure.signals import Permanent
from tests.each_row import each_row
from tests.failure.blame_cases import BODY, CASES
from tests.failure.exceptions import aws, fake, from_none, raised
from tests.samples import NOW, letter

DEPENDENCY, CONFIGURATION, NEITHER = Blame.DEPENDENCY, Blame.CONFIGURATION, Blame.NEITHER


def judged(error: BaseException, **said: Any) -> Blame:
    return blame_and_speakers(chain_of(error), teams_word(**said))[0]


WRONG_YET = {
    "teradata login": (DEPENDENCY, Category.TRANSIENT),
    "teradata object": (DEPENDENCY, Category.TRANSIENT),
    "hana connection": (NEITHER, Category.TRANSIENT),
    "hana login": (NEITHER, Category.TRANSIENT),
}
"""What databases with numbers of their own are judged as: wrongly, but none of them is parked."""


def test_a_failure_speaks_of_what_its_library_says() -> None:
    found = {case.name: diagnose(case.build(), letter(BODY), now=NOW) for case in CASES}
    assert {name: (each.blame, each.category) for name, each in found.items()} == {
        **{case.name: (case.blame, case.category) for case in CASES},
        **WRONG_YET,
    }


def test_the_cases_are_many_and_have_names_of_their_own() -> None:
    names = {case.name for case in CASES}
    assert len(names) == len(CASES)
    assert {case.blame for case in CASES} == set(Blame)
    described = sum(case.source != "" for case in CASES)
    page = (Path(__file__).parents[2] / "docs/consumer-reference.md").read_text()
    assert f"Of {described} failures that the libraries' documentation describes, all but" in page
    assert f"all but {len(WRONG_YET)} are decided rightly" in page


RETRIED_BY_BOTOCORE = [
    *ThrottledRetryableChecker._THROTTLED_ERROR_CODES,
    *TransientRetryableChecker._TRANSIENT_ERROR_CODES,
]


@each_row("code", RETRIED_BY_BOTOCORE)
@each_row("status", [400, 403, None])
def test_what_botocore_tries_again_speaks_against_the_dependency(
    code: str, status: int | None
) -> None:
    diagnosis = diagnose(aws(code, status), letter(), now=NOW)
    assert (diagnosis.blame, diagnosis.category) == (DEPENDENCY, Category.TRANSIENT)


# The chain.


def test_the_nearest_exception_that_says_anything_speaks() -> None:
    timeout, duplicate = TimeoutError(), fake("psycopg.errors.UniqueViolation", sqlstate="23505")
    refused = fake("shop.Refused", status=401)
    assert judged(raised(ValueError("x"), cause=raised(timeout, cause=duplicate))) is DEPENDENCY
    assert judged(raised(duplicate, cause=raised(TimeoutError(), cause=refused))) is NEITHER
    assert judged(raised(RuntimeError("x"), during=raised(refused, cause=TimeoutError()))) is (
        CONFIGURATION
    )


def test_what_was_being_handled_is_looked_at_unless_the_handler_says_from() -> None:
    assert judged(raised(KeyError("x"), during=TimeoutError())) is DEPENDENCY
    assert judged(from_none(KeyError("x"), TimeoutError())) is NEITHER
    cause = raised(KeyError("y"), cause=IndexError("z"))
    error = raised(RuntimeError("x"), during=TimeoutError())
    error.__cause__ = cause
    assert judged(error) is NEITHER


def test_a_circle_of_causes_ends() -> None:
    first, second = KeyError("x"), fake("psycopg.OperationalError < psycopg.Error", "x")
    first.__cause__, second.__cause__ = second, first
    assert judged(first) is DEPENDENCY
    third, fourth = KeyError("x"), ValueError("y")
    third.__context__, fourth.__context__ = fourth, third
    assert judged(third) is NEITHER


def test_at_most_twenty_exceptions_are_read() -> None:
    deepest: BaseException = TimeoutError()
    for _ in range(19):
        deepest = raised(KeyError("x"), cause=deepest)
    assert judged(deepest) is DEPENDENCY
    assert judged(raised(KeyError("x"), cause=deepest)) is NEITHER
    assert judged(ExceptionGroup("g", [KeyError("x")] * 30 + [TimeoutError()])) is NEITHER


def test_each_exception_of_a_chain_has_its_distance_from_the_raised_one() -> None:
    group = ExceptionGroup("g", [KeyError("x"), raised(ValueError("y"), cause=TimeoutError())])
    chain = chain_of(raised(RuntimeError("z"), cause=group))
    assert [(type(link.error), link.depth) for link in chain] == [
        (RuntimeError, 0),
        (ExceptionGroup, 1),
        (KeyError, 2),
        (ValueError, 2),
        (TimeoutError, 3),
    ]


def test_a_cause_that_is_kept_twice_is_read_once() -> None:
    deepest: BaseException = TimeoutError()
    for _ in range(15):
        deepest = raised(fake("shop.Wrapper", reason=deepest, orig=deepest), cause=deepest)
    assert judged(deepest) is DEPENDENCY


def test_a_permanent_failure_of_an_own_class_says_nothing_whatever_its_status() -> None:
    unfit = fake("shop.Unfit", category=Category.BUSINESS, status=503)
    assert judged(unfit) is NEITHER
    assert judged(fake("shop.Unfit", category=Category.TRANSIENT, status=503)) is DEPENDENCY


def test_a_failure_by_neither_is_recorded_under_its_own_name() -> None:
    duplicate = fake("psycopg.errors.UniqueViolation", sqlstate="23505")
    diagnosis = diagnose(raised(duplicate, during=TimeoutError()), letter(), now=NOW)
    assert (diagnosis.blame, diagnosis.error_type) == (NEITHER, "UniqueViolation")


# The team's word.


class WarehouseBusy(Exception):
    """A class of a team."""


class StillPacking(WarehouseBusy):
    """A class of a team."""


def test_a_team_says_which_errors_count_against_the_dependency() -> None:
    assert judged(WarehouseBusy()) is NEITHER
    for said in (WarehouseBusy, (KeyError, WarehouseBusy), [WarehouseBusy], {WarehouseBusy}):
        assert judged(WarehouseBusy(), dependency_errors=said) is DEPENDENCY
        assert judged(StillPacking(), dependency_errors=said) is DEPENDENCY
        assert judged(IndexError("x"), dependency_errors=said) is NEITHER


def test_a_team_says_which_errors_are_ignored() -> None:
    assert judged(TimeoutError(), ignored_errors=TimeoutError) is NEITHER
    assert judged(ConnectionResetError(), ignored_errors=TimeoutError) is DEPENDENCY
    said = {"dependency_errors": WarehouseBusy, "ignored_errors": StillPacking}
    assert judged(StillPacking(), **said) is NEITHER
    assert judged(WarehouseBusy(), **said) is DEPENDENCY


def test_a_function_says_it_of_each_exception_of_the_chain() -> None:
    def busy(error: BaseException) -> object:
        return error.args == ("busy",)

    assert judged(ValueError("busy"), dependency_errors=busy) is DEPENDENCY
    assert judged(raised(KeyError("x"), cause=ValueError("busy")), dependency_errors=busy) is (
        DEPENDENCY
    )
    assert judged(ValueError("x"), dependency_errors=busy) is NEITHER


def test_the_teams_word_counts_before_what_the_library_knows() -> None:
    error = raised(fake("shop.Refused", status=404), cause=WarehouseBusy())
    assert judged(error) is NEITHER
    assert judged(error, dependency_errors=WarehouseBusy) is DEPENDENCY
    assert judged(raised(TimeoutError(), cause=WarehouseBusy()), ignored_errors=WarehouseBusy) is (
        NEITHER
    )


def test_a_function_that_fails_says_nothing() -> None:
    def broken(error: BaseException) -> bool:
        raise RuntimeError("a mistake of the team")

    assert judged(KeyError("x"), dependency_errors=broken, ignored_errors=broken) is NEITHER
    assert judged(TimeoutError(), dependency_errors=broken, ignored_errors=broken) is DEPENDENCY


@each_row("option", ["dependency_errors", "ignored_errors"])
@each_row(
    "wrong", ["Timeout", None, 503, int, (int,), ("Timeout",), [TimeoutError()], TimeoutError()]
)
def test_another_kind_of_word_is_refused_with_what_is_allowed(option: str, wrong: Any) -> None:
    with pytest.raises(TypeError) as refusal:
        teams_word(**{option: wrong})
    assert str(refusal.value) == (
        f"{option} is {wrong!r}; allowed: an exception class, a tuple of them, or a function of "
        f"one exception that returns True or False, such as {option}=(WarehouseBusy,)"
    )


def test_what_a_team_blames_on_the_dependency_does_not_park_the_letter() -> None:
    unfit = fake("jsonschema.ValidationError", "x", instance={"orderId": "o-17"})
    subject = letter('{"orderId": "o-17"}')
    assert diagnose(unfit, subject, now=NOW).category is Category.SCHEMA
    word = teams_word(dependency_errors=type(unfit))
    diagnosis = diagnose(unfit, subject, now=NOW, team=word)
    assert (diagnosis.blame, diagnosis.category) == (DEPENDENCY, Category.TRANSIENT)
    # The handler's own verdict on the message stays.
    word = teams_word(dependency_errors=Permanent)
    assert diagnose(Permanent("x"), subject, now=NOW, team=word).category is Category.BUSINESS


# Foreign code.


class Hostile(Exception):
    """An exception whose attributes fail."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_an_exception_whose_attributes_fail_says_nothing() -> None:
    assert judged(Hostile()) is NEITHER


class Unreadable(dict[str, Any]):
    """An answer that cannot be read."""

    def get(self, *_: Any) -> Any:
        raise RuntimeError


def nested(levels: int) -> Any:
    return {"error": nested(levels - 1)} if levels else {"type": "overloaded_error"}


def test_an_answer_is_read_as_far_as_it_can_be() -> None:
    lineage = "anthropic.APIStatusError < anthropic.APIError"
    assert judged(fake(lineage, body=Unreadable())) is NEITHER
    assert judged(fake(lineage, body=nested(3))) is DEPENDENCY
    assert judged(fake(lineage, body=nested(4))) is NEITHER
    body = b'{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}'
    http_error = "googleapiclient.errors.HttpError"
    for content, blame in ((body, DEPENDENCY), (body[:-1], CONFIGURATION), (b"[" * 9**5, None)):
        error = fake(http_error, content=content, resp=SimpleNamespace(status=403))
        assert judged(error) is (blame or CONFIGURATION)
    large = body[:-1] + b" " * 65_536 + b"}"
    error = fake(http_error, content=large, resp=SimpleNamespace(status=403))
    assert judged(error) is CONFIGURATION
    # Another class may call anything its body.
    assert judged(fake("shop.Refused", body=nested(1), status=403)) is CONFIGURATION


ODD = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.lists(st.integers())
NAMES = ["status", "code", "sqlstate", "pgcode", "errno", "smtp_code", "recipients", "rcvd"]
NAMES += [
    "body",
    "content",
    "errors",
    "response",
    "reply_code",
    "orig",
    "last_attempt",
    "untried",
    "category",
    "reason",
]
CLASSES = ["OperationalError", "SMTPDataError", "error_perm", "PyMongoError", "ConnectionClosed"]
CLASSES += ["Fault", "RedisError", "error", "KafkaException"]


@given(st.sampled_from(CLASSES), st.dictionaries(st.sampled_from(NAMES), ODD), st.lists(ODD))
def test_judging_an_exception_never_raises(
    name: str, attributes: dict[str, Any], arguments: list[Any]
) -> None:
    for library in ("odd", "openai", "googleapiclient", "elasticsearch"):
        assert own_blame(fake(f"{library}.{name}", *arguments, **attributes)) in (None, *Blame)


def test_each_name_says_one_thing() -> None:
    """A name in two lists would be judged by the last."""
    listed = [name for word in codes.NAMED.values() for name in word]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("error", "blame"),
    [
        # A mistake in a call is one, whatever its class is called.
        (fake("shop.TimeoutTooLong < ValueError", "x"), NEITHER),
        (fake("shop.RateLimitMissing < KeyError", "x"), NEITHER),
        (fake("shop.InvalidCredentials < ValueError", "x"), CONFIGURATION),
        # A message may hold what a driver's text looks like.
        (
            fake(
                "pyodbc.DataError < pyodbc.DatabaseError < pyodbc.Error",
                "22018",
                "[22018] Conversion failed for '(40613) (SQLx)'. (245) (SQLExecDirectW)",
            ),
            NEITHER,
        ),
        (
            fake(
                "snowflake.connector.errors.ProgrammingError < snowflake.connector.errors.Error",
                "100038 (22018): 'Failed to connect to DB: Incorrect username or password'",
                errno=100_038,
                sqlstate="22018",
            ),
            NEITHER,
        ),
        (fake("imaplib.error", b"SELECT failed: [UNAVAILABLE] is no mailbox"), NEITHER),
        # The code of the process is no status.
        (SystemExit(503), NEITHER),
    ],
    ids=["timeout", "limit", "credentials", "odbc", "snowflake", "imap", "exit"],
)
def test_a_name_or_a_number_alone_may_mislead(error: BaseException, blame: Blame) -> None:
    assert judged(error) is blame
