"""The diagnosis of exceptions: category, status, wait and fingerprint."""

from __future__ import annotations

import base64
import email.utils
import errno
import json
import socket
import urllib.error
import xml.etree.ElementTree as ET
from collections.abc import Callable
from email.message import Message
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.retries.standard import ThrottledRetryableChecker
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Json

from deadletter.contract import Blame, Category
from deadletter.failure.classify import Diagnosis, diagnose, retry_after
from deadletter.failure.signals import Permanent, Transient
from deadletter.message.letter import Attribute, Letter, NotALetter
from deadletter.message.strict_json import Unreadable
from deadletter.webhook.dispatcher import EndpointUnfit
from tests.each_row import each_row
from tests.failure.exceptions import caught
from tests.samples import NOW, json_values, letter

TRANSIENT, SCHEMA = Category.TRANSIENT, Category.SCHEMA
BUSINESS, INTEGRATION = Category.BUSINESS, Category.INTEGRATION


def make(name: str, *bases: type[BaseException], **attributes: Any) -> BaseException:
    """An exception of a class that a library could have."""
    written = {"__qualname__": f"make.<locals>.{name}", **attributes}
    return type(name, bases or (Exception,), written)("no words")


def of(error: BaseException, subject: Letter | None = None) -> Diagnosis:
    return diagnose(error, letter() if subject is None else subject, now=NOW)


def raised(error: BaseException, source: BaseException | None = None) -> BaseException:
    def throw() -> None:
        raise error from source

    return caught(throw)


def aws(status: int, code: str = "Some", **headers: str) -> BaseException:
    response = {
        "Error": {"Code": code},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
    }
    return make("ClientError", response=response)


STATUSES: list[tuple[int, Category]] = [
    (300, INTEGRATION),
    (400, INTEGRATION),
    (401, INTEGRATION),
    (403, INTEGRATION),
    (404, INTEGRATION),
    (407, INTEGRATION),
    (408, TRANSIENT),
    (409, INTEGRATION),
    (410, INTEGRATION),
    (422, INTEGRATION),
    (425, TRANSIENT),
    (429, TRANSIENT),
    (500, TRANSIENT),
    (503, TRANSIENT),
    (599, TRANSIENT),
]
CARRIERS: dict[str, Callable[[int], BaseException]] = {
    "status": lambda status: make("Answered", status=status),
    "status_code": lambda status: make("Answered", status_code=status),
    "code": lambda status: make("Answered", code=status),
    "response.status_code": lambda status: make(
        "HTTPError", response=SimpleNamespace(status_code=status)
    ),
    "response.status": lambda status: make("HTTPError", response=SimpleNamespace(status=status)),
    "botocore": aws,
    "urllib": lambda status: urllib.error.HTTPError("u", status, "m", Message(), None),
    "its cause": lambda status: raised(ValueError("x"), make("Answered", status=status)),
    "a group": lambda status: ExceptionGroup("two", [KeyError("x"), aws(status)]),
}


@each_row("carrier", CARRIERS)
def test_the_http_status_decides_the_category(carrier: str) -> None:
    found = [of(CARRIERS[carrier](status)) for status, _ in STATUSES]
    assert [(each.http_status, each.category) for each in found] == STATUSES


@each_row("odd", [None, True, "soon", "0503", 200, 0, 1006, -1, 5.5, 2**80])
def test_a_value_that_is_not_an_error_status_is_ignored(odd: Any) -> None:
    for name in ("status", "status_code", "code"):
        diagnosis = of(make("Odd", **{name: odd}))
        assert (diagnosis.category, diagnosis.http_status) == (TRANSIENT, None)


# What botocore itself tries again as throttling.
@each_row("code", ThrottledRetryableChecker._THROTTLED_ERROR_CODES)
def test_a_400_of_a_busy_aws_service_counts_as_429(code: str) -> None:
    diagnosis = of(aws(400, code))
    assert (diagnosis.category, diagnosis.http_status) == (TRANSIENT, 429)


@each_row(
    ("error", "recorded"),
    [
        (TimeoutError(), "Timeout"),
        (make("ReadTimeout", OSError), "Timeout"),
        (make("ConnectTimeoutError"), "Timeout"),
        (make("DeadlineExceeded"), "Timeout"),
        (make("Mine", TimeoutError), "Timeout"),
        (ConnectionRefusedError(), "ConnectionRefused"),
        (ConnectionResetError(), "ConnectionRefused"),
        (BrokenPipeError(), "ConnectionRefused"),
        (make("EndpointConnectionError"), "ConnectionRefused"),
        (make("ConnectError"), "ConnectionRefused"),
        (make("RequestTimedOut"), "Timeout"),
        (make("ClientConnectorError"), "ConnectionRefused"),
        (make("MaxRetryConnectionError"), "ConnectionRefused"),
        (socket.gaierror(-2, "name or service not known"), "ConnectionRefused"),
        (OSError(errno.EHOSTUNREACH, "no route"), "ConnectionRefused"),
        (OSError(errno.ENETUNREACH, "no network"), "ConnectionRefused"),
        (OSError(errno.EHOSTDOWN, "no host"), "ConnectionRefused"),
        (urllib.error.URLError(ConnectionRefusedError(111, "refused")), "ConnectionRefused"),
        (raised(RuntimeError("x"), TimeoutError()), "Timeout"),
        (raised(Transient("x"), TimeoutError()), "Timeout"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_call_without_an_answer_is_explained_by_the_dependency(
    error: BaseException, recorded: str
) -> None:
    diagnosis = of(error)
    assert (diagnosis.category, diagnosis.error_type, diagnosis.http_status) == (
        TRANSIENT,
        recorded,
        None,
    )
    assert diagnosis.blame is Blame.DEPENDENCY


def test_the_number_of_a_driver_is_no_part_of_the_message() -> None:
    assert of(Exception(1213, "connection refused")).message == "connection refused"


@each_row("name", ["not a name", "Fähler"])
def test_a_class_whose_name_may_be_a_text_is_an_exception(name: str) -> None:
    assert of(make(name)).error_type == "Exception"


def test_a_status_counts_before_a_timeout_in_the_same_chain() -> None:
    diagnosis = of(raised(aws(404), TimeoutError()))
    assert (diagnosis.error_type, diagnosis.http_status) == ("ClientError", 404)


@each_row(
    "error",
    [
        KeyError("orderId"),
        ValueError("x"),
        OSError(errno.ENOSPC, "full"),
        KeyboardInterrupt(),
        RecursionError(),
        make("Mine"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_unknown_exception_is_transient(error: BaseException) -> None:
    diagnosis = of(raised(error))
    assert (diagnosis.category, diagnosis.error_type) == (TRANSIENT, type(error).__name__)


def test_the_handlers_own_verdict_comes_first() -> None:
    refused = aws(503)
    assert of(raised(Permanent("x"), refused)).category is BUSINESS
    diagnosis = of(Permanent("x", category=SCHEMA, status=422))
    assert (diagnosis.category, diagnosis.http_status) == (SCHEMA, 422)
    diagnosis = of(raised(Transient("x", status=404, retry_after=7), Unreadable("x")))
    assert (diagnosis.category, diagnosis.http_status, diagnosis.retry_after) == (
        TRANSIENT,
        404,
        7.0,
    )
    assert of(raised(ValueError("x"), Permanent("y"))).category is BUSINESS
    assert of(ExceptionGroup("g", [KeyError("x"), Permanent("y")])).category is BUSINESS


# Parsers and validators.


@pytest.mark.parametrize("error", [NotALetter("x"), Unreadable("x")], ids=["letter", "body"])
def test_a_letter_that_cannot_be_read_blames_the_schema(error: BaseException) -> None:
    assert of(error).category is SCHEMA
    assert diagnose(error, None, now=NOW).category is SCHEMA
    assert of(raised(RuntimeError("x"), error)).category is SCHEMA


@each_row(
    "error",
    [
        ET.ParseError("x"),
        make("ValidationError", ValueError),
        make("SchemaValidationError"),
        make("DecodeError"),
        make("InvalidEventSource"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_parsers_error_that_does_not_say_what_it_refused_is_tried_again(
    error: BaseException,
) -> None:
    """An answer of a dependency fails in the same way, and then every message does."""
    assert of(error).category is TRANSIENT
    assert diagnose(error, None, now=NOW).category is TRANSIENT


class Order(BaseModel):
    """A pydantic model that a handler may use."""

    count: int
    note: str = ""


def refused_by(validator: str, data: Any) -> BaseException:
    """The error of a validator, with the data that it refused."""
    if validator == "pydantic":
        return caught(lambda: Order.model_validate(data))
    if validator == "pydantic, of text":
        return caught(lambda: Order.model_validate_json(json.dumps(data)))
    return make("ValidationError", **{validator: data})


VALIDATORS = ["pydantic", "pydantic, of text", "instance", "value", "data"]
ORDER = {"count": "many", "note": 'Größe " 5', "lines": [{"sku": "a-1", "weight": 1.50}]}


@each_row("validator", VALIDATORS)
@each_row("ascii_only", [True, False])
@each_row("nested", [False, True])
def test_a_validator_that_refuses_data_of_the_letter_blames_the_schema(
    validator: str, ascii_only: bool, nested: bool
) -> None:
    body = json.dumps(ORDER, ensure_ascii=ascii_only)
    if nested:
        body = json.dumps({"Message": body}, ensure_ascii=ascii_only)
    error = refused_by(validator, ORDER)
    assert diagnose(error, letter(body), now=NOW).category is SCHEMA
    encoded = base64.b64encode(json.dumps(ORDER).encode()).decode()
    assert diagnose(error, letter(encoded), now=NOW).category is SCHEMA


@each_row("validator", VALIDATORS)
@each_row("answer", [{"error": "overloaded"}, {"count": "overloaded"}])
def test_a_validator_that_refuses_an_answer_of_the_dependency_is_transient(
    validator: str, answer: Any
) -> None:
    """During an outage every letter meets such an answer, and must not be parked for it."""
    error = refused_by(validator, answer)
    assert diagnose(error, letter('{"count": 1}'), now=NOW).category is TRANSIENT


ENDLESS: list[Any] = []
ENDLESS += [ENDLESS, ENDLESS]


@each_row("odd", [None, 1, 8, "", {}, [], object(), {1: {2: (b"", None)}}, ENDLESS])
def test_data_that_is_not_the_letters_is_no_schema_failure(odd: Any) -> None:
    body = json.dumps({"orderId": 7, "meta": {}, "lines": [], "note": None})
    assert diagnose(make("ValidationError", data=odd), letter(body), now=NOW).category is TRANSIENT


class Incomparable:
    """Data of a foreign class that can't be compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]


def test_data_that_cannot_be_compared_is_no_schema_failure() -> None:
    error = make("ValidationError", instance=Incomparable(), absolute_path=["orderId"])
    assert diagnose(error, letter('{"orderId": 7}'), now=NOW).category is TRANSIENT


@pytest.mark.parametrize("answer", [{}, {"orderId": None}, {"meta": {}}, {"lines": []}])
def test_an_empty_answer_of_a_dependency_is_not_the_letters_fault(answer: Any) -> None:
    """Such pieces are in many messages too."""
    error = caught(lambda: Order.model_validate(answer))
    body = json.dumps({"orderId": 7, "meta": {}, "lines": [], "note": None})
    assert diagnose(error, letter(body), now=NOW).category is TRANSIENT


@each_row(
    ("body", "refused", "category"),
    [
        # The whole message, and a part of it, at its place.
        ({"note": "x"}, {"note": "x"}, SCHEMA),
        ({}, {}, SCHEMA),
        ({"count": "many"}, {"count": "many"}, SCHEMA),
        ({"detail": {"count": None}}, {"count": None}, SCHEMA),
        ({"count": -1.5, "meta": {}}, {"count": -1.5}, SCHEMA),
        ({"Message": '{"count": "many"}'}, {"count": "many"}, SCHEMA),
        # The same word at another place, and a message of which the answer repeats a part.
        ({"size": "many"}, {"count": "many"}, TRANSIENT),
        ({"note": "x", "count": 1}, {"note": "x"}, TRANSIENT),
        ({"count": 1}, {"count": "many"}, TRANSIENT),
    ],
)
def test_a_validation_is_the_letters_fault_if_it_was_given_a_part_of_the_letter(
    body: Any, refused: Any, category: Category
) -> None:
    error = caught(lambda: Order.model_validate(refused))
    assert diagnose(error, letter(json.dumps(body)), now=NOW).category is category


def test_a_validation_that_refused_the_letter_and_more_is_not_the_letters_fault() -> None:
    error = caught(lambda: Order.model_validate({"count": "many", "note": 5}))
    assert diagnose(error, letter('{"count": "many", "note": "x"}'), now=NOW).category is TRANSIENT
    assert diagnose(error, letter('{"count": "many", "note": 5}'), now=NOW).category is SCHEMA


@pytest.mark.parametrize(("layers", "category"), [(2, SCHEMA), (3, TRANSIENT)])
def test_documents_are_read_three_deep(layers: int, category: Category) -> None:
    body = json.dumps(ORDER)
    for _ in range(layers):
        body = json.dumps({"Message": body})
    error = make("ValidationError", instance=ORDER)
    assert diagnose(error, letter(body), now=NOW).category is category


@each_row(
    ("place", "category"),
    [
        ({"absolute_path": ["lines", 0, "sku"]}, SCHEMA),
        ({"path": ["data", "lines", 0, "sku"]}, SCHEMA),
        ({"path": ["data", "lines", 1, "sku"]}, TRANSIENT),
        ({"path": ["lines", 0, "sku", "deeper"]}, TRANSIENT),
        ({"path": "lines"}, TRANSIENT),
        ({"path": "lines.0.sku"}, SCHEMA),
        # A validator of one value gives no place.
        ({}, SCHEMA),
    ],
)
def test_a_single_value_is_the_letters_only_at_its_place(
    place: dict[str, Any], category: Category
) -> None:
    error = make("ValidationError", value="a-1", **place)
    body = json.dumps({"lines": [{"sku": "a-1"}]})
    assert diagnose(error, letter(body), now=NOW).category is category


def test_a_model_of_the_whole_record_refuses_the_letter() -> None:
    class Record(BaseModel):
        body: Json[Order]

    for body in ('{"count": "many"}', "{oops", "{}"):
        error = caught(lambda body=body: Record.model_validate({"body": body, "messageId": "m"}))
        assert diagnose(error, letter(body), now=NOW).category is SCHEMA
        assert diagnose(error, letter('{"count": 1}'), now=NOW).category is TRANSIENT


def test_what_was_only_being_handled_does_not_park_the_letter() -> None:
    def retry_later() -> None:
        try:
            raise Permanent("not for us")
        except Permanent:
            raise KeyError("fallback")  # noqa: B904

    assert of(caught(retry_later)).category is TRANSIENT

    def retry_the_wrapped() -> None:
        try:
            raise RuntimeError("wrapped") from Permanent("not for us")
        except RuntimeError:
            raise KeyError("fallback")  # noqa: B904

    assert of(caught(retry_the_wrapped)).category is TRANSIENT
    assert of(raised(KeyError("x"), Permanent("not for us"))).category is BUSINESS


@each_row(
    ("body", "parsed", "category"),
    [
        ("{oops", "{oops", SCHEMA),
        ("", "", SCHEMA),
        (json.dumps({"Message": '{"a": "b", "c": oops}'}), '{"a": "b", "c": oops}', SCHEMA),
        # A dependency that is down answers with an error page, with nothing, or with a word.
        ("{}", "<html><body>502 Bad Gateway</body></html>", TRANSIENT),
        ("{}", "", TRANSIENT),
        ('{"state": "OK}"}', "OK}", TRANSIENT),
    ],
)
def test_invalid_json_blames_the_letter_only_if_the_letter_contains_it(
    body: str, parsed: str, category: Category
) -> None:
    error = caught(lambda: json.loads(parsed))
    assert of(error, letter(body)).category is category
    assert diagnose(error, None, now=NOW).category is TRANSIENT


def test_a_document_in_an_attribute_belongs_to_the_letter() -> None:
    subject = letter(
        "{}", attributes={"a": Attribute("String", "{"), "b": Attribute("Binary", b"\xff")}
    )
    assert of(caught(lambda: json.loads("{")), subject).category is SCHEMA
    assert of(caught(lambda: b"\xff".decode()), subject).category is SCHEMA
    assert of(caught(lambda: b"\xfe".decode()), subject).category is TRANSIENT
    assert of(caught(lambda: b"\xff".decode()), letter("/w==")).category is SCHEMA


DEEP, LONG = "[" * 100_000, "[" + "1" * 5_000 + "]"


@pytest.mark.parametrize("body", [DEEP, LONG], ids=["deep", "long"])
def test_a_body_that_python_cannot_parse_is_the_letters_fault(body: str) -> None:
    error = caught(lambda: json.loads(body))
    assert type(error) in (RecursionError, ValueError)
    assert of(error, letter(body)).category is SCHEMA
    # The same error with another letter is a bug, or the answer of a dependency.
    for other in ("{}", "no JSON at all", LONG if body is DEEP else DEEP):
        assert of(error, letter(other)).category is TRANSIENT
    assert of(raised(ValueError("x")), letter(body)).category is TRANSIENT


# Retry-After.


@each_row(
    ("header", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        (email.utils.formatdate(NOW + 90, usegmt=True), 90.0),
        (email.utils.formatdate(NOW + 90), 90.0),
        (email.utils.formatdate(NOW - 90, usegmt=True), 0.0),
        ("9" * 60, 14 * 86_400.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 14 * 86_400.0),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("²", None),
        ("Mon, 99 Foo 20000 99:99:99 GMT", None),
        ("x" * 2**20, None),
        # No more than 64 characters are read.
        ("7".rjust(64), 7.0),
        ("7".rjust(65), None),
    ],
)
def test_a_retry_after_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds
    assert of(aws(503, **{"retry-after": header})).retry_after == seconds
    headers = {"Retry-After": header}
    response = SimpleNamespace(status_code=429, headers=headers)
    assert of(make("HTTPError", response=response)).retry_after == seconds
    assert of(make("HTTPError", code=429, headers=headers)).retry_after == seconds


@given(st.text())
def test_reading_a_retry_after_never_raises(header: str) -> None:
    seconds = retry_after(header, NOW)
    assert seconds is None or seconds >= 0


def test_a_permanent_failure_has_no_retry_after() -> None:
    assert of(aws(404, **{"retry-after": "5"})).retry_after is None


@each_row("odd", [float("nan"), float("inf"), -1, "5", True])
def test_an_invalid_wait_of_the_handler_is_ignored(odd: Any) -> None:
    assert of(Transient("x", retry_after=odd)).retry_after is None
    assert of(Transient("x", retry_after=2**2_000)).retry_after == 14 * 86_400


# Message and fingerprint.


def declined(amount: int) -> None:
    raise RuntimeError(f"the card of order {amount} was declined")


def refused(amount: int) -> None:
    raise RuntimeError(f"the card of order {amount} was declined")


def test_the_fingerprint_is_type_message_and_place() -> None:
    diagnosis = of(caught(lambda: declined(1)))
    assert diagnosis.message == "the card of order … was declined"
    assert len(diagnosis.fingerprint) == 16
    assert of(caught(lambda: declined(99))).fingerprint == diagnosis.fingerprint
    others = [
        of(caught(lambda: refused(1))),
        of(raised(RuntimeError("the card of order 1 was lost"))),
        of(RuntimeError("the card of order 1 was declined")),
        of(make("Mine", RuntimeError)),
    ]
    assert len({diagnosis.fingerprint, *(other.fingerprint for other in others)}) == 5


def test_at_one_place_a_fingerprint_differs_by_type_and_by_message() -> None:
    def fail(error: BaseException) -> str:
        return of(raised(error)).fingerprint

    lost = fail(RuntimeError("the card was lost"))
    assert fail(ValueError("the card was lost")) != lost
    assert fail(RuntimeError("the card was declined")) != lost
    # Some libraries write the same message with another case.
    assert fail(RuntimeError("The card was LOST")) == lost
    # The parts are not joined to one word.
    card, cardl = type("Card", (Exception,), {}), type("Cardl", (Exception,), {})
    assert fail(card("lost")) != fail(cardl("ost"))


def test_a_deployment_does_not_change_a_fingerprint() -> None:
    code = "def work():\n    raise KeyError('x')\n"
    prints = set()
    for path, text in (("/var/task/a.py", code), ("/opt/b.py", "\n\n" + code)):
        names: dict[str, Any] = {"__name__": "app"}
        exec(compile(text, path, "exec"), names)  # noqa: S102 - the same code, deployed elsewhere
        prints.add(of(caught(names["work"])).fingerprint)
    assert len(prints) == 1


def test_a_diagnosis_holds_no_content_of_the_letter() -> None:
    subject = letter('{"name": "swordfish"}')
    diagnosis = of(ValueError("no swordfish for '12'"), subject)
    assert diagnosis.message == "no … for …"
    assert (
        diagnosis.fingerprint == of(ValueError("no plaice for 5"), letter('"plaice"')).fingerprint
    )


class Hostile(Exception):
    """An exception whose every attribute raises."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    def __getattribute__(self, name: str) -> Any:
        if name in ("status", "status_code", "code", "response", "headers", "reason"):
            raise RuntimeError(name)
        return super().__getattribute__(name)


def test_diagnosing_a_hostile_exception_never_raises() -> None:
    diagnosis = of(raised(Hostile()))
    assert (diagnosis.category, diagnosis.error_type, diagnosis.message) == (
        TRANSIENT,
        "Hostile",
        "",
    )
    odd = type("not a name " * 10_000, (Exception,), {})
    assert of(odd()).error_type == "Exception"
    assert len(of(make("A" * 500)).error_type) == 80
    circle = ValueError("x")
    circle.__cause__ = circle
    assert of(circle).category is TRANSIENT
    headers = SimpleNamespace(get=lambda name: 1 / 0)
    assert of(make("E", status=503, headers=headers)).retry_after is None


@given(json_values, json_values)
@example({"Code": []}, None)
def test_diagnosing_any_response_never_raises(response: Any, headers: Any) -> None:
    for answer in (response, {"ResponseMetadata": response}, {"Error": response}):
        diagnosis = of(make("E", response=answer, headers=headers, status=response))
        assert diagnosis.retry_after is None or diagnosis.retry_after >= 0


def test_the_cost_of_a_diagnosis_is_bounded() -> None:
    error: BaseException = TimeoutError("x" * 2**20)
    for _ in range(5_000):
        error = raised(RuntimeError("word " * 10), error)
    assert of(error).category is TRANSIENT
    assert of(raised(ValueError("word " * 2**18)), letter("x" * 2**20)).message


def test_a_text_of_our_own_without_data_is_not_redacted() -> None:
    """Redacted, it would be useless on call, and differ from letter to letter."""
    diagnosis = diagnose(EndpointUnfit("the endpoint answered 422", status=422), None, now=NOW)
    assert (diagnosis.message, diagnosis.http_status) == ("the endpoint answered 422", 422)


@pytest.mark.parametrize(("status", "read"), [(299, None), (300, 300), (599, 599), (600, None)])
def test_a_status_that_is_no_refusal_is_not_read(status: int, read: int | None) -> None:
    assert of(aws(status)).http_status == read


def test_the_first_cause_with_a_category_counts() -> None:
    refused = raised(Permanent("no"))
    assert of(raised(make("ReadTimeout"), refused)).category is TRANSIENT
    assert of(raised(make("Declared", category=Category.BUSINESS))).category is BUSINESS


@pytest.mark.parametrize(
    ("document", "category"),
    [
        ("{sixteen letters", SCHEMA),
        ("{fifteen letter", TRANSIENT),
        (" {fifteen letter ", TRANSIENT),
    ],
)
def test_a_short_document_inside_a_body_shows_nothing(document: str, category: Category) -> None:
    error = json.JSONDecodeError("no words", document, 0)
    assert of(error, letter(f"before\n{document}\nafter")).category is category
    assert of(error, letter(document)).category is SCHEMA


def test_a_document_in_an_escaped_text_is_found_if_it_is_whole() -> None:
    document = '{"a": 1, "b": nothing}'
    error = json.JSONDecodeError("no words", document, 0)
    assert of(error, letter(json.dumps({"log": ["x", document]}))).category is SCHEMA
    # An answer that repeats a message breaks off, perhaps where a word does.
    assert of(error, letter(json.dumps({"log": f"{document} and more"}))).category is TRANSIENT


def test_an_error_that_names_no_document_does_not_blame_the_letter() -> None:
    nothing = json.JSONDecodeError("no words", "", 0)
    nothing.doc = None  # type: ignore[assignment]  # as a foreign parser leaves it
    assert of(nothing, letter("")).category is TRANSIENT
    empty = UnicodeDecodeError("utf-8", b"", 0, 1, "no words")
    assert of(empty, letter("")).category is TRANSIENT


def test_a_date_in_another_zone_is_that_moment() -> None:
    moment = email.utils.parsedate_to_datetime("Wed, 21 Oct 2026 09:28:00 +0200").timestamp()
    assert retry_after("Wed, 21 Oct 2026 09:28:00 +0200", moment - 60) == 60.0
    assert retry_after("Wed, 21 Oct 2026 07:28:00 GMT", moment - 60) == 60.0


def test_a_header_may_be_a_number() -> None:
    headers: dict[str, Any] = {"Retry-After": 7}
    assert of(make("Busy", headers=headers)).retry_after == 7.0
    headers = {"Retry-After": True}
    assert of(make("Busy", headers=headers)).retry_after is None


@pytest.mark.parametrize(
    "error",
    [
        make("HTTPError", status=429),
        Transient("later", status=429),
        aws(400, code="ThrottlingException"),
        aws(400, code="ProvisionedThroughputExceededException"),
        *(aws(400, code) for code in ThrottledRetryableChecker._THROTTLED_ERROR_CODES),
        aws(503, code="SlowDown"),
        make("RateLimitError"),
        make("RpcError", code=lambda _: SimpleNamespace(name="RESOURCE_EXHAUSTED")),
        aws(503, **{"retry-after": "2"}),
    ],
    ids=repr,
)
def test_a_dependency_that_wants_fewer_requests_is_throttled_and_not_down(error: Any) -> None:
    diagnosis = of(error)
    assert diagnosis.blame is Blame.DEPENDENCY
    assert diagnosis.throttled


@pytest.mark.parametrize(
    "error",
    [
        make("HTTPError", status=503),
        make("HTTPError", status=500, headers={"Retry-After": "2"}),
        aws(503, code="ServiceUnavailable"),
        ConnectionRefusedError("refused"),
        TimeoutError(),
        Transient("later", retry_after=5),
        ValueError("429"),
        make("HTTPError", status=404),
    ],
    ids=repr,
)
def test_a_dependency_that_gives_no_sign_of_a_limit_is_not_throttled(error: Any) -> None:
    assert not of(error).throttled


def test_a_named_limit_behind_an_error_that_has_another_reason_is_no_throttle() -> None:
    error = make("HTTPError", status=503)
    error.__context__ = make("RateLimitError")
    assert not of(error).throttled
