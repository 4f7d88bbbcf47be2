"""Delivering to the endpoints that a registry names, and to nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter import stamp as stamps
from deadletter.letter import Attribute, Letter, to_event
from deadletter.settings import Pipeline
from deadletter.stamp import Stamp
from deadletter.webhook import Dispatcher, Endpoint, Outcome, Undeliverable, refuse_url
from tests.domain.samples import NOW, REDRIVER, letter

ARN = "arn:aws:sqs:eu-west-1:123456789012:orders"
PIPELINE = Pipeline(
    "orders", context={"tenantId": "body.tenantId", "endpointId": "body.endpointId"}
)
URL = "https://hooks.example.com/a"


@dataclass
class Registry:
    """Endpoints in memory."""

    endpoints: list[Endpoint] = field(default_factory=lambda: [Endpoint("a", "default", URL)])
    down: bool = False

    def find(self, tenant: str, endpoint: str) -> Endpoint | None:
        if self.down:
            raise Undeliverable("the endpoint registry gave no answer: Throttling")
        for one in self.endpoints:
            if (one.tenant, one.endpoint) == (tenant, endpoint):
                return one
        return None


@dataclass
class Wire:
    """What was posted; the answers are statuses, or None for no answer at all."""

    answers: list[int | None] = field(default_factory=list)
    posted: list[tuple[str, bytes, Mapping[str, str]]] = field(default_factory=list)

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        self.posted.append((url, body, headers))
        status = self.answers.pop(0) if self.answers else 200
        if status is None:
            raise Undeliverable("the endpoint did not answer in time")
        return status


def dispatch(
    *records: Letter | dict[str, Any],
    wire: Wire | None = None,
    registry: Registry | None = None,
    fifo: bool = False,
    allow_loopback: bool = False,
) -> list[Outcome]:
    dispatcher = Dispatcher(
        pipeline=replace(PIPELINE, fifo=fifo),
        registry=registry or Registry(),
        post=wire or Wire(),
        trusted_senders=frozenset({REDRIVER}),
        allow_loopback=allow_loopback,
        clock=lambda: NOW,
    )
    return dispatcher.dispatch(
        [
            to_event(one, receipt_handle="h", source_arn=ARN) if isinstance(one, Letter) else one
            for one in records
        ]
    )


def test_a_message_is_posted_byte_for_byte_with_its_lasting_id() -> None:
    wire = Wire()
    body = '{"tenantId": "a",  "name": "Žofie"}'
    assert dispatch(letter(body), wire=wire) == [Outcome("m1")]
    headers = {"content-type": "application/json", "webhook-id": "m1", "webhook-attempt": "1"}
    assert wire.posted == [(URL, body.encode(), headers)]


def test_a_re_driven_message_keeps_the_id_of_its_first_life() -> None:
    wire = Wire()
    attributes = {stamps.NAME: stamps.attribute(Stamp("first", 2, 1))}
    dispatch(letter(message_id="m9", attributes=attributes, SenderId=REDRIVER), wire=wire)
    forged = letter(message_id="m9", attributes=attributes)
    dispatch(forged, wire=wire)
    assert [headers["webhook-id"] for _, _, headers in wire.posted] == ["first", "m9"]
    assert [headers["webhook-attempt"] for _, _, headers in wire.posted] == ["3", "1"]


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_two_hundreds_alone_are_success(status: int) -> None:
    assert dispatch(letter(), wire=Wire([status])) == [Outcome("m1")]


@pytest.mark.parametrize("status", [100, 199, 300, 301, 304, 400, 410, 429, 500, 503, 999])
def test_everything_else_is_failure(status: int) -> None:
    expected = [Outcome("m1", f"the endpoint answered {status}")]
    assert dispatch(letter(), wire=Wire([status])) == expected


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("{", "the body cannot be read: not JSON at line 1 column 2"),
        ("{}", "the message names no tenant"),
        ('{"tenantId": 5}', "the message names no tenant"),
        ('{"tenantId": "b"}', "the tenant has no such endpoint, or it is disabled"),
        (
            '{"tenantId": "a", "endpointId": "other"}',
            "the tenant has no such endpoint, or it is disabled",
        ),
        (
            '{"tenantId": "a", "endpointId": "off"}',
            "the tenant has no such endpoint, or it is disabled",
        ),
        ('{"tenantId": "a", "endpointId": "bad"}', "the endpoint's URL is not a plain https URL"),
    ],
)
def test_a_message_without_a_destination_is_not_posted(body: str, why: str) -> None:
    registry = Registry()
    registry.endpoints += [
        Endpoint("a", "off", URL, enabled=False),
        Endpoint("a", "bad", "http://hooks.example.com"),
    ]
    wire = Wire()
    assert dispatch(letter(body), wire=wire, registry=registry) == [Outcome("m1", why)]
    assert wire.posted == []


def test_the_destination_is_the_registrys_word_and_not_the_messages() -> None:
    wire = Wire()
    body = '{"tenantId": "a", "endpointId": "https://evil.example.com", "url": "https://evil"}'
    [outcome] = dispatch(letter(body), wire=wire)
    assert outcome.failure is not None
    assert wire.posted == []


def test_one_failure_leaves_the_others_of_its_batch_alone() -> None:
    batch = [letter(message_id=str(number)) for number in range(3)]
    found = dispatch(*batch, wire=Wire([200, None, 200]))
    why = "the endpoint did not answer in time"
    assert found == [Outcome("0"), Outcome("1", why), Outcome("2")]


def test_a_registry_that_is_down_is_a_failure_of_the_message() -> None:
    [outcome] = dispatch(letter(), registry=Registry(down=True))
    assert outcome.failure == "the endpoint registry gave no answer: Throttling"


def test_a_record_that_is_no_letter_fails_alone() -> None:
    odd = {"messageId": "odd", "body": None}
    assert dispatch(odd, letter()) == [
        Outcome("odd", "a message whose body is not text"),
        Outcome("m1"),
    ]
    # An id that is not there makes Lambda take the whole batch for failed, which is right.
    assert dispatch({})[0].message_id == "None"


GROUP_STOPPED = "an earlier message of its group failed"


def test_on_fifo_the_first_failure_stops_its_group_and_no_other() -> None:
    batch = [
        letter(message_id=f"{group}{number}", MessageGroupId=group)
        for number in range(3)
        for group in "gh"
    ]
    wire = Wire([200, 200, 500])
    found = dispatch(*batch, wire=wire, fifo=True)
    assert [one.message_id for one in found if one.failure] == ["g1", "g2"]
    assert found[4].failure == GROUP_STOPPED
    assert len(wire.posted) == 5


def test_on_fifo_a_record_that_is_no_letter_stops_its_group_too() -> None:
    odd = {"messageId": "odd", "body": None, "attributes": {"MessageGroupId": "g"}}
    found = dispatch(odd, letter(MessageGroupId="g"), fifo=True)
    assert found[1] == Outcome("m1", GROUP_STOPPED)


def test_on_a_fair_queue_a_tenants_failure_stops_nobody() -> None:
    batch = [letter(message_id=str(number), MessageGroupId="g") for number in range(2)]
    found = dispatch(*batch, wire=Wire([500, 200]))
    assert [one.failure is None for one in found] == [False, True]


PLAIN = "the endpoint's URL is not a plain https URL"
UNREADABLE = "the endpoint's URL cannot be read"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", PLAIN),
        ("hooks.example.com", PLAIN),
        ("//hooks.example.com", PLAIN),
        ("http://hooks.example.com", PLAIN),
        ("ftp://hooks.example.com", PLAIN),
        ("file:///etc/passwd", PLAIN),
        ("javascript:alert(1)", PLAIN),
        ("https://", PLAIN),
        ("https:///path", PLAIN),
        ("https://:443/", PLAIN),
        ("https://user@hooks.example.com", PLAIN),
        ("https://user:pass@hooks.example.com", PLAIN),
        ("https://:pass@hooks.example.com", PLAIN),
        ("https://@hooks.example.com", PLAIN),
        ("https://hooks.example.com/#fragment", PLAIN),
        ("http://127.0.0.1", PLAIN),
        ("https://[::1", UNREADABLE),
        ("https://[hooks.example.com]", UNREADABLE),
        ("https://hooks.example.com:port", UNREADABLE),
        ("https://hooks.example.com:99999", UNREADABLE),
        ("https://hooks.example.com\u2100", UNREADABLE),
    ],
)
def test_a_url_that_nothing_is_ever_posted_to(url: str, why: str) -> None:
    with pytest.raises(Undeliverable) as found:
        refuse_url(url, allow_loopback=False)
    assert str(found.value) == why


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com",
        "HTTPS://hooks.example.com:8443/a/b?c=d",
        "https://hooks.example.com/a%20b",
    ],
)
def test_a_plain_https_url_is_posted_to(url: str) -> None:
    refuse_url(url, allow_loopback=False)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1:8080/a", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:8080", True),
        ("http://localhost:8080", True),
        ("http://LOCALHOST", True),
        ("http://10.0.0.1", False),
        ("http://169.254.169.254/latest", False),
        ("http://localhost.example.com", False),
        ("http://2130706433", False),
        ("http://0.0.0.0", False),
        ("ftp://127.0.0.1", False),
    ],
)
def test_a_sandbox_may_post_to_loopback_and_to_nothing_else_in_the_clear(
    url: str, allowed: bool
) -> None:
    wire = Wire()
    registry = Registry([Endpoint("a", "default", url)])
    [outcome] = dispatch(letter(), wire=wire, registry=registry, allow_loopback=True)
    assert (outcome.failure is None) is allowed
    assert len(wire.posted) == allowed


@given(st.text() | st.text().map("https://{}".format))
def test_no_url_does_more_than_be_refused(url: str) -> None:
    with suppress(Undeliverable):
        refuse_url(url, allow_loopback=True)


def test_no_reason_quotes_the_message() -> None:
    secret = "hunter2"
    attributes = {"a": Attribute("Binary", b"x")}
    broken = to_event(letter(attributes=attributes), receipt_handle="h", source_arn=ARN)
    broken["messageAttributes"]["a"]["binaryValue"] = f"{secret} é"
    bodies = [f'{{"{secret}"', f'{{"tenantId": "{secret}"}}', f'{{"tenantId": ["{secret}"]}}']
    for outcome in dispatch(broken, *map(letter, bodies)):
        assert outcome.failure is not None
        assert secret not in outcome.failure
