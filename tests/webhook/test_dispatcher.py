"""Messages are delivered to the endpoints of the registry, and to nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from deadletter.circuit.state import Circuit, OutcomeCounts
from deadletter.contract import Body, Category
from deadletter.failure.classify import diagnose
from deadletter.failure.failure import Failure
from deadletter.failure.ledger import AboutLetter, Recovery
from deadletter.failure.signals import Permanent, Transient
from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, Letter, to_event
from deadletter.message.stamp import Stamp
from deadletter.processing.batch import Consumer
from deadletter.processing.delivery import Delivery, Reader
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.webhook import Webhook
from deadletter.webhook.dispatcher import (
    Dispatcher,
    EndpointUnfit,
    webhook_id,
)
from deadletter.webhook.endpoint import (
    LONGEST_PAUSE_SECONDS,
    PAUSES_END,
    BadEndpoint,
    Endpoint,
    RegistryUnavailable,
    SecretsUnavailable,
    SecretUnusable,
)
from deadletter.webhook.http import AnswerTimeout, HttpResponse, NoAnswer
from deadletter.webhook.signing import Secret, read_secret, verify
from deadletter.webhook.url_guard import Destination, UrlRefused
from tests.each_row import each_row
from tests.samples import NOW, REDRIVER, letter

ARN = "arn:aws:sqs:eu-west-1:123456789012:orders"
PIPELINE = Pipeline(
    "orders", context={"tenantId": "body.tenantId", "endpointId": "body.endpointId"}
)
URL = "https://hooks.example.com/a"
SECRETS = {
    name: "whsec_" + base64.b64encode(name.encode() * 6).decode() for name in ("old!", "new!")
}
HOOKS = Endpoint("a", "default", URL, secrets=("new!",))


@dataclass
class Registry:
    """A registry of endpoints in memory, with the changes written to it."""

    endpoints: list[Endpoint] = field(default_factory=lambda: [HOOKS])
    raises: Exception | None = None
    read_only: bool = False
    written: list[tuple[Any, ...]] = field(default_factory=list)

    def find(self, tenant: str, endpoint: str) -> Endpoint | None:
        if self.raises is not None:
            raise self.raises
        for row in self.endpoints:
            if (row.tenant, row.endpoint) == (tenant, endpoint):
                return row
        return None

    def disable(self, endpoint: Endpoint, because: str, at: float) -> bool:
        return self._write("disable", endpoint.endpoint, because, at)

    def throttle(self, endpoint: Endpoint, until: float, status: int, at: float) -> bool:
        return self._write("throttle", endpoint.endpoint, until, status, at)

    def _write(self, *what: Any) -> bool:
        if self.read_only:
            raise RegistryUnavailable("ThrottlingException")
        self.written.append(what)
        return True


@dataclass
class Store:
    """Secrets in memory."""

    raises: Exception | None = None

    def read(self, name: str) -> Secret:
        if self.raises is not None:
            raise self.raises
        return read_secret(SECRETS[name])


@dataclass
class Wire:
    """The posts that were made; each answer is a status, a response or an error to raise."""

    answers: list[int | HttpResponse | Exception] = field(default_factory=list)
    posted: list[tuple[Destination, bytes, Mapping[str, str]]] = field(default_factory=list)

    def __call__(self, to: Destination, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
        self.posted.append((to, body, headers))
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, Exception):
            raise answer
        return HttpResponse(answer) if isinstance(answer, int) else answer


def message(letter: Letter, pipeline: Pipeline = PIPELINE) -> Delivery:
    record = to_event(letter, receipt_handle="h", source_arn=ARN)
    return Reader(pipeline, frozenset({REDRIVER}), lambda: NOW).read(record)


def dispatcher(
    wire: Wire,
    registry: Registry | None = None,
    *,
    store: Store | None = None,
    webhook: Webhook | None = None,
    body: Body = Body.JSON,
    clock: Callable[[], float] = lambda: NOW,
) -> Dispatcher:
    return Dispatcher(
        body=body,
        webhook=webhook or Webhook(),
        registry=registry or Registry(),
        secrets=store or Store(),
        post=wire,
        clock=clock,
    )


def failed(
    letter: Letter, wire: Wire | None = None, registry: Registry | None = None, **more: Any
) -> Failure:
    """The failure of delivering a letter, with its text before redaction."""
    with pytest.raises((Permanent, Transient, EndpointUnfit)) as raised:
        dispatcher(wire or Wire(), registry, **more).deliver(message(letter))
    diagnosis = diagnose(raised.value, letter, now=NOW)
    return Failure(
        at=NOW,
        attempt=0,
        category=diagnosis.category,
        error_type=diagnosis.error_type,
        message=str(raised.value),
        http_status=diagnosis.http_status,
        blame=diagnosis.blame,
    )


def test_a_message_is_posted_byte_for_byte_with_its_webhook_id() -> None:
    wire = Wire()
    body = '{"tenantId": "a",  "name": "Žofie"}'
    dispatcher(wire).deliver(message(letter(body)))
    [(to, posted, headers)] = wire.posted
    assert to == Destination("hooks.example.com", 443, "/a")
    assert posted == body.encode()
    signature = headers["webhook-signature"]
    assert headers == {
        "content-type": "application/json",
        "user-agent": "deadletter",
        "webhook-id": "m1",
        "webhook-timestamp": str(int(NOW)),
        "webhook-signature": signature,
        "webhook-attempt": "1",
    }
    verify(headers, posted, [read_secret(SECRETS["new!"])], NOW)


def test_a_re_driven_message_keeps_the_id_of_its_first_life() -> None:
    wire = Wire()
    attributes = {stamps.NAME: stamps.attribute(Stamp("first", 2, 1))}
    redriven = letter(message_id="m9", attributes=attributes, SenderId=REDRIVER)
    forged = letter(message_id="m9", attributes=attributes)
    for sample in (redriven, forged):
        dispatcher(wire).deliver(message(sample))
    assert [headers["webhook-id"] for _, _, headers in wire.posted] == ["first", "m9"]


def test_a_receiver_learns_that_a_message_comes_from_a_replay_run() -> None:
    wire = Wire()
    attributes = {stamps.NAME: stamps.attribute(Stamp("first", 2, 1, run="0123456789abcdef"))}
    replayed = letter(message_id="m9", attributes=attributes, SenderId=REDRIVER)
    forged = letter(message_id="m9", attributes=attributes)
    for sample in (replayed, forged, letter()):
        dispatcher(wire).deliver(message(sample))
    runs = [headers.get("webhook-replay") for _, _, headers in wire.posted]
    assert runs == ["0123456789abcdef", None, None]


def test_a_run_that_is_no_plain_word_is_no_header() -> None:
    wire = Wire()
    attributes = {stamps.NAME: stamps.attribute(Stamp("first", 2, 1, run="a\r\nx: y"))}
    dispatcher(wire).deliver(message(letter(attributes=attributes, SenderId=REDRIVER)))
    [(_, _, headers)] = wire.posted
    assert "webhook-replay" not in headers


def test_each_attempt_has_its_own_time_and_the_same_id() -> None:
    wire, times = Wire(), iter([NOW, NOW, NOW + 60, NOW + 60, NOW + 60, NOW + 60])
    webhooks = dispatcher(wire, clock=lambda: next(times))
    webhooks.deliver(message(letter()))
    webhooks.deliver(message(letter()))
    first, second = (headers for _, _, headers in wire.posted)
    assert first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 60
    assert first["webhook-signature"] != second["webhook-signature"]


KEYED = replace(PIPELINE, idempotency_key="body.orderId")


def test_with_a_business_key_every_copy_of_a_message_has_one_id() -> None:
    body = '{"tenantId": "a", "orderId": "o-77"}'
    sent = webhook_id(message(letter(body), KEYED))
    again = webhook_id(message(letter(body, message_id="m2"), KEYED))
    redriven = letter(
        body,
        message_id="m3",
        attributes={stamps.NAME: stamps.attribute(Stamp("m1", 4, 1))},
        SenderId=REDRIVER,
    )
    assert sent == again == webhook_id(message(redriven, KEYED))
    assert "o-77" not in sent
    assert sent == message(letter(body), KEYED).key.beside(None).digest


def test_another_message_with_the_same_business_key_has_another_id() -> None:
    """With the same id its receiver would drop it as a duplicate of the first."""
    first_id = webhook_id(message(letter('{"tenantId": "a", "orderId": 1}'), KEYED))
    second_id = webhook_id(message(letter('{"tenantId": "a", "orderId": 1, "v": 2}'), KEYED))
    assert first_id != second_id


def test_without_a_business_key_the_id_is_the_origin_id() -> None:
    assert webhook_id(message(letter(), KEYED)) == "m1"
    # An origin id that a producer writes into the body is not used.
    forged = letter('{"tenantId": "a", "orderId": "origin:m2"}')
    assert webhook_id(message(forged, KEYED)) not in ("m2", "origin:m2")


@each_row("status", [200, 201, 202, 204, 299])
def test_only_status_2xx_is_success(status: int) -> None:
    registry = Registry()
    dispatcher(Wire([status]), registry).deliver(message(letter()))
    assert registry.written == []


@each_row("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_a_retryable_status_is_transient(status: int) -> None:
    failure = failed(letter(), Wire([status]))
    assert failure.category is Category.TRANSIENT
    assert failure.http_status == status
    assert failure.message == f"the endpoint answered {status}"


@each_row("status", [100, 199, 300, 301, 304, 307, 400, 401, 404, 410, 422, 499, 600, 999])
def test_every_other_status_needs_a_person(status: int) -> None:
    failure = failed(letter(), Wire([status]))
    assert failure.category is Category.INTEGRATION
    assert failure.message.startswith(f"the endpoint answered {status}")


def test_status_410_disables_the_endpoint() -> None:
    registry = Registry()
    failure = failed(letter(), Wire([410]), registry)
    assert registry.written == [("disable", "default", "it answered 410", NOW)]
    assert (failure.category, failure.http_status) == (Category.INTEGRATION, 410)
    assert failure.message == "the endpoint answered 410, and is disabled"
    assert failed(letter(), Wire([410]), Registry(read_only=True)) == failure


class Throttled:
    """A dispatcher whose endpoint asked for a pause, with a clock."""

    def __init__(self, answer: HttpResponse, registry: Registry | None = None) -> None:
        self.now, self.wire = NOW, Wire([answer])
        self.registry = registry or Registry()
        self.dispatcher = dispatcher(self.wire, self.registry, clock=lambda: self.now)
        with pytest.raises(Transient) as raised:
            self.dispatcher.deliver(message(letter()))
        self.first = raised.value

    def again(self, after: float) -> Transient | None:
        self.now = NOW + after
        try:
            self.dispatcher.deliver(message(letter()))
        except Transient as error:
            return error
        return None


@each_row("read_only", [False, True])
@each_row(
    ("status", "header", "pause"),
    [
        (429, None, 30),
        (502, None, 30),
        (504, "nonsense", 30),
        (429, "120", 120),
        (503, "7", 7),
        (500, "7", 7),
        (408, "7", 7),
        (429, "0", 1),
        (429, "-5", 30),
        (503, "Mon, 21 Sep 2026 14:15:20 GMT", 1_790_000_120 - NOW),
        (503, "Mon, 21 Sep 2020 14:15:20 GMT", 1),
        (429, "9" * 40, 3600),
        (429, "Mon, 21 Sep 9999 14:15:20 GMT", 3600),
    ],
)
def test_an_endpoint_that_asks_for_a_pause_is_paused(
    status: int, header: str | None, pause: float, read_only: bool
) -> None:
    """The registry tells all workers; if it cannot be written, this worker still pauses."""
    throttled = Throttled(HttpResponse(status, header), Registry(read_only=read_only))
    assert (throttled.first.status, throttled.first.retry_after) == (status, pause)
    written = [] if read_only else [("throttle", "default", NOW + pause, status, NOW)]
    assert throttled.registry.written == written
    held = throttled.again(pause - 0.5)
    assert held is not None
    assert (held.status, held.retry_after) == (status, 0.5)
    assert len(throttled.wire.posted) == 1
    assert throttled.registry.written == written
    assert throttled.again(pause) is None
    assert len(throttled.wire.posted) == 2


@pytest.mark.parametrize(
    "answer", [HttpResponse(503), HttpResponse(500, "soon"), HttpResponse(408)]
)
def test_an_endpoint_that_asks_for_no_pause_is_called_again(answer: HttpResponse) -> None:
    throttled = Throttled(answer)
    assert throttled.first.retry_after is None
    assert throttled.registry.written == []
    assert throttled.again(0.1) is None


def test_a_pause_that_another_worker_recorded_is_kept() -> None:
    wire = Wire()
    asked = replace(HOOKS, throttled_until=NOW + 20, throttled_by=503)
    failure = failed(letter(), wire, Registry([asked]))
    assert failure.message == "not posted: the endpoint answered 503 and is paused"
    assert failure.http_status == 503
    assert wire.posted == []


def test_a_recorded_pause_without_its_status_counts_as_too_many_requests() -> None:
    """A person who pauses an endpoint writes only the time."""
    failure = failed(letter(), registry=Registry([replace(HOOKS, throttled_until=NOW + 20)]))
    assert failure.http_status == 429


def test_a_pause_that_no_worker_writes_is_none() -> None:
    """In milliseconds it would end in 55,000 years, an hour at a time."""
    wire = Wire([200, 200])
    for until in (NOW * 1000, NOW + PAUSES_END + 1):
        registry = Registry([replace(HOOKS, throttled_until=until)])
        dispatcher(wire, registry).deliver(message(letter()))
    assert len(wire.posted) == 2
    longest = replace(HOOKS, throttled_until=NOW + LONGEST_PAUSE_SECONDS)
    assert failed(letter(), registry=Registry([longest])).http_status == 429


def test_a_paused_endpoint_does_not_pause_another() -> None:
    wire = Wire([429, 200])
    webhooks = dispatcher(wire, Registry([HOOKS, replace(HOOKS, tenant="b")]))
    with pytest.raises(Transient):
        webhooks.deliver(message(letter()))
    webhooks.deliver(message(letter('{"tenantId": "b"}')))


def test_pauses_that_are_over_are_forgotten_and_the_others_are_kept() -> None:
    """One new endpoint a second, each paused for 30 seconds: only this worker knows of them."""
    now = [NOW]
    registry = Registry(
        [replace(HOOKS, tenant=str(number)) for number in range(450)], read_only=True
    )
    wire = Wire([429] * 450)
    webhooks = dispatcher(wire, registry, clock=lambda: now[0])

    def post(number: int) -> None:
        with pytest.raises(Transient):
            webhooks.deliver(message(letter(json.dumps({"tenantId": str(number)}))))

    kept = []
    for number in range(450):
        now[0] += 1
        post(number)
        kept.append(len(webhooks._pauses))
        post(max(0, number - 29))
        assert len(wire.posted) == number + 1
    assert max(kept) == 200


def test_an_opaque_body_that_is_not_json_is_posted() -> None:
    pipeline = Pipeline("orders", body=Body.OPAQUE, context={"tenantId": "attributes.tenant"})
    csv = letter("a;b\n1;2", attributes={"tenant": Attribute("String", "a")})
    wire = Wire()
    dispatcher(wire, body=Body.OPAQUE).deliver(message(csv, pipeline))
    [(_, posted, headers)] = wire.posted
    assert posted == b"a;b\n1;2"
    assert headers["content-type"] == "application/octet-stream"


UNREADABLE = "the body cannot be read: "
TOO_LONG = "a number too long to read"


@each_row(
    ("body", "category", "why"),
    [
        ("{", Category.SCHEMA, UNREADABLE + "not JSON"),
        ("", Category.SCHEMA, UNREADABLE + "not JSON"),
        ("[" * 10_000, Category.SCHEMA, UNREADABLE + "nested too deep"),
        (f'{{"tenantId": {"9" * 5000}}}', Category.SCHEMA, UNREADABLE + TOO_LONG),
        ('{"tenantId": 1e999}', Category.SCHEMA, UNREADABLE + "a number too large to read"),
        ('{"tenantId": NaN}', Category.SCHEMA, UNREADABLE + "NaN is not JSON"),
        ('{"tenantId": "\\ud800"}', Category.SCHEMA, UNREADABLE + "half of a surrogate pair"),
        (
            '{"tenantId": "a", "tenantId": "b"}',
            Category.SCHEMA,
            UNREADABLE + "a key appears twice in one object",
        ),
        ("{}", Category.SCHEMA, "the message names no tenant"),
        ("[]", Category.SCHEMA, "the message names no tenant"),
        ("null", Category.SCHEMA, "the message names no tenant"),
        ('{"tenantId": 5}', Category.SCHEMA, "the message names no tenant"),
        ('{"tenantId": ["a"]}', Category.SCHEMA, "the message names no tenant"),
        ('{"tenantId": ""}', Category.INTEGRATION, "the tenant has no such endpoint"),
        ('{"tenantId": "b"}', Category.INTEGRATION, "the tenant has no such endpoint"),
        (
            '{"tenantId": "a", "endpointId": "other"}',
            Category.INTEGRATION,
            "the tenant has no such endpoint",
        ),
        (
            '{"tenantId": "a", "endpointId": "off"}',
            Category.INTEGRATION,
            "the endpoint is disabled",
        ),
        (
            '{"tenantId": "a", "endpointId": "plain"}',
            Category.INTEGRATION,
            "the endpoint's URL is refused: the URL is plain http, not https",
        ),
        (
            '{"tenantId": "a", "endpointId": "inside"}',
            Category.INTEGRATION,
            "the endpoint's URL is refused: the URL's host is not a public address",
        ),
        (
            '{"tenantId": "a", "endpointId": "bare"}',
            Category.INTEGRATION,
            "the endpoint has no secret to sign with",
        ),
    ],
)  # fmt: skip
def test_a_message_without_an_endpoint_is_not_posted(
    body: str, category: Category, why: str
) -> None:
    registry = Registry()
    registry.endpoints += [
        replace(HOOKS, endpoint="off", enabled=False),
        replace(HOOKS, endpoint="plain", url="http://hooks.example.com"),
        replace(HOOKS, endpoint="inside", url="https://169.254.169.254/latest/meta-data/"),
        replace(HOOKS, endpoint="bare", secrets=()),
    ]
    wire = Wire()
    failure = failed(letter(body), wire, registry)
    assert (failure.category, failure.message) == (category, why)
    assert wire.posted == []


def test_the_destination_comes_from_the_registry_not_from_the_message() -> None:
    wire = Wire()
    body = '{"tenantId": "a", "endpointId": "https://evil.example.com", "url": "https://evil"}'
    assert failed(letter(body), wire).category is Category.INTEGRATION
    assert wire.posted == []


@pytest.mark.parametrize(
    ("raised", "category", "message_"),
    [
        (
            RegistryUnavailable("ThrottlingException"),
            Category.TRANSIENT,
            "the endpoint registry gave no answer",
        ),
        (
            BadEndpoint("url must be text"),
            Category.INTEGRATION,
            "the endpoint's row is invalid: url must be text",
        ),
    ],
)
def test_a_message_fails_if_its_endpoint_is_unavailable_or_invalid(
    raised: Exception, category: Category, message_: str
) -> None:
    failure = failed(letter(), registry=Registry(raises=raised))
    assert (failure.category, failure.message) == (category, message_)


@pytest.mark.parametrize(
    ("raised", "category"),
    [
        (SecretsUnavailable("InternalServiceError"), Category.TRANSIENT),
        (SecretUnusable("Secrets Manager answers X"), Category.INTEGRATION),
    ],
)
def test_nothing_is_posted_without_all_its_secrets(raised: Exception, category: Category) -> None:
    wire = Wire()
    assert failed(letter(), wire, store=Store(raised)).category is category
    assert wire.posted == []


def test_while_a_secret_is_replaced_both_sign() -> None:
    wire = Wire()
    endpoint = replace(HOOKS, secrets=("new!", "old!"))
    dispatcher(wire, Registry([endpoint])).deliver(message(letter()))
    [(_, body, headers)] = wire.posted
    assert len(headers["webhook-signature"].split(" ")) == 2
    for secret in SECRETS.values():
        verify(headers, body, [read_secret(secret)], NOW)


@pytest.mark.parametrize(
    ("raised", "category", "explained"),
    [
        (AnswerTimeout("the endpoint did not answer in time"), Category.TRANSIENT, True),
        (NoAnswer("no connection: ConnectionRefusedError"), Category.TRANSIENT, True),
        (NoAnswer("the endpoint's certificate is not valid: x"), Category.TRANSIENT, True),
        (UrlRefused("the host stands for an address of ours"), Category.INTEGRATION, False),
    ],
)
def test_an_unreachable_endpoint_is_no_fault_of_the_message(
    raised: Exception, category: Category, explained: bool
) -> None:
    failure = failed(letter(), Wire([raised]))
    assert failure.category is category
    assert failure.explained_by_dependency is explained


def test_a_sandbox_posts_to_this_machine_without_tls_and_signature() -> None:
    wire = Wire()
    here = Registry([Endpoint("a", "default", "http://127.0.0.1:8080/a")])
    dispatcher(wire, here, webhook=Webhook(allow_loopback=True)).deliver(message(letter()))
    [(to, _, headers)] = wire.posted
    assert to.loopback
    assert "webhook-signature" not in headers
    assert failed(letter(), Wire(), here).category is Category.INTEGRATION


def test_another_port_needs_the_setting() -> None:
    there = Registry([replace(HOOKS, url="https://hooks.example.com:8443/")])
    assert failed(letter(), registry=there).category is Category.INTEGRATION
    dispatcher(Wire(), there, webhook=Webhook(ports=(443, 8443))).deliver(message(letter()))


def test_no_error_quotes_the_message_or_the_url() -> None:
    secret = "hunter2"
    bodies = [f'{{"{secret}"', f'{{"tenantId": "{secret}"}}', f'{{"tenantId": ["{secret}"]}}']
    bodies += [f'{{"tenantId": "a", "endpointId": "{secret}"}}']
    endpoint = replace(HOOKS, url=f"https://hooks.example.com:1/{secret}")
    attributes = {"a": Attribute("String", secret)}
    for body in [*bodies, '{"tenantId": "a"}']:
        with pytest.raises((Permanent, Transient, EndpointUnfit)) as raised:
            dispatcher(Wire(), Registry([endpoint])).deliver(
                message(letter(body, attributes=attributes))
            )
        assert secret not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (404, '{"tenantId": "a", "x": "the endpoint answered"}', "the endpoint answered 404"),
        (500, '{"tenantId": "a", "x": "the endpoint answered"}', "the endpoint answered 500"),
        (200, '{"x": "the message names no tenant"}', "the message names no tenant"),
    ],
)
def test_the_dispatchers_own_words_stay_readable_though_a_message_has_them_too(
    status: int, body: str, why: str
) -> None:
    """Words of a foreign error that are in the message are redacted; ours quote nothing."""
    sample = letter(body)
    with pytest.raises((Permanent, Transient, EndpointUnfit)) as raised:
        dispatcher(Wire([status])).deliver(message(sample))
    assert diagnose(raised.value, sample, now=NOW).message == why


@dataclass
class Around:
    """The ports of a consumer around the handler: ledger, circuits, queue."""

    failures: dict[str, Failure] = field(default_factory=dict)
    outcomes: list[tuple[str, int, int]] = field(default_factory=list)

    def failed(
        self, origin: str, failure: Failure, about: AboutLetter | None = None, *, anew: bool = False
    ) -> None:
        self.failures[origin] = failure

    def recovered(
        self, origin: str, attempt: int, at: float, how: Recovery = Recovery.PROCESSED
    ) -> bool:
        return True

    def parked(self, origin: str, attempt: int, at: float, reason: str) -> None:
        raise AssertionError("no message of a run is parked here")

    def stored_stamp(self, message_id: str) -> Stamp | None:
        return None

    def read(self, keys: Sequence[str], *, lagging: bool = False) -> Mapping[str, Circuit]:
        return {key: Circuit(key) for key in keys}

    def report(self, key: str, outcomes: OutcomeCounts, known: Circuit | None = None) -> None:
        self.outcomes.append((key, outcomes.good, outcomes.bad))

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        return 0


def test_a_failed_message_does_not_stop_the_others() -> None:
    """A batch in the consumer library: bad bodies, bad rows, a pause, a dead endpoint."""
    registry = Registry()
    registry.endpoints += [
        replace(HOOKS, endpoint="off", enabled=False),
        replace(HOOKS, endpoint="inside", url="https://[::ffff:127.0.0.1]/"),
        replace(HOOKS, endpoint="paused", throttled_until=NOW + 9, throttled_by=429),
        replace(HOOKS, endpoint="gone"),
    ]
    bodies = {
        "json": "{", "deep": "[" * 10_000, "digits": f'{{"a": {"9" * 5000}}}', "nan": "NaN",
        "surrogate": '"\\ud800"', "keys": '{"tenantId": "a", "tenantId": "a"}',
        "tenant": '{"tenantId": "b"}', "good1": '{"tenantId": "a"}',
        **{name: json.dumps({"tenantId": "a", "endpointId": name})
           for name in ("off", "inside", "paused", "gone")},
        "good2": '{"tenantId": "a"}',
    }  # fmt: skip
    around: Any = Around()
    wire = Wire([200, 410, 200])
    consumer = Consumer(
        pipeline=PIPELINE,
        handle=dispatcher(wire, registry).deliver,
        log=around,
        claims=None,
        circuits=around,
        outcomes=around,
        queue=around,
        parking={},
        trusted_senders=frozenset({REDRIVER}),
        clock=lambda: NOW,
        random=Random(1),
        new_id=lambda: "t",
        pause=around,
    )
    records = [
        to_event(letter(body, message_id=name), receipt_handle="h", source_arn=ARN)
        for name, body in bodies.items()
    ]
    handled = consumer.process(records, deadline=NOW + 60)
    assert set(handled.failed) == set(bodies) - {"good1", "good2"}
    assert {name: str(failure.category) for name, failure in around.failures.items()} == {
        **dict.fromkeys(["json", "deep", "digits", "nan", "surrogate", "keys"], "schema"),
        **dict.fromkeys(["tenant", "off", "inside", "gone"], "integration"),
        "paused": "transient",
    }
    assert len(wire.posted) == 3
    # A delivery without a request is no outcome of the dependency, nor is a 410.
    assert around.outcomes == [("orders", 2, 0)]
