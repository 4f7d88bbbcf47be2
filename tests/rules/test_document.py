"""One letter as the document that rules are matched against."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.contract import ENDPOINT_KEY, Category
from deadletter.message import stamp as stamps
from deadletter.message.envelope import QueueTraits, seal
from deadletter.message.letter import Attribute, Letter
from deadletter.message.stamp import Stamp, initial_stamp
from deadletter.rules.document import Document, DocumentBuilder
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.webhook.endpoint import DEFAULT_ENDPOINT
from tests.each_row import each_row
from tests.samples import NOW, failed, letter, letters, texts

PIPELINE = Pipeline(
    "orders",
    context={
        "tenantId": "body.tenantId",
        "region": "attributes.region",
        "group": "system.MessageGroupId",
    },
)


def build(original: Letter, pipeline: Pipeline = PIPELINE, mark: Stamp | None = None) -> Document:
    return DocumentBuilder(pipeline).build(original, mark or initial_stamp(original), None, NOW)


def test_a_document_holds_every_field_for_rules() -> None:
    original = letter(
        '{"tenantId": "a", "amount": 5}',
        attributes={
            "region": Attribute("String", "eu"),
            "count": Attribute("Number.int", "7"),
            "blob": Attribute("Binary", b"x"),
            stamps.NAME: stamps.attribute(Stamp("origin", 1)),
        },
        MessageGroupId="g",
        SenderId="AROAREDRIVER:x",
    )
    mark = Stamp("origin", 2, 1_789_999_990_000, "AIDAPRODUCER")
    last = failed(http_status=503, category=Category.INTEGRATION)
    document = DocumentBuilder(PIPELINE).build(original, mark, last, NOW)
    assert document == Document(
        {
            "pipeline": "orders",
            "context": {"tenantId": "a", "region": "eu", "group": "g"},
            "body": {"tenantId": "a", "amount": 5},
            "attributes": {"region": "eu", "count": 7},
            "system": {
                "SentTimestamp": "1789999000000",
                "SenderId": "AIDAPRODUCER",
                "MessageGroupId": "g",
            },
            "redrive": {"attempt": 2, "age_seconds": 10},
            "failure": {
                "category": "integration",
                "blame": "dependency",
                "error_type": "KeyError",
                "http_status": 503,
                "fingerprint": "f1",
            },
        }
    )


def test_rules_see_an_attribute_of_our_name_under_the_same_other_name_in_all_lives() -> None:
    own = Attribute("String", "yes")
    first = letter(attributes={stamps.NAME: own})
    mark = replace(initial_stamp(first), attempt=1)
    sent = seal(first, mark, QueueTraits())
    second = letter(message_id="m2", attributes=dict(sent.attributes))
    for life, carried in ((first, None), (second, mark)):
        assert build(life, mark=carried).value["attributes"] == {"Redrive-original": "yes"}


def test_a_letter_without_a_recorded_failure_has_none_in_its_document() -> None:
    assert "failure" not in build(letter()).value
    last = failed()
    value = DocumentBuilder(PIPELINE).build(letter(), initial_stamp(letter()), last, NOW).value
    assert "http_status" not in value["failure"]


def test_an_unreadable_body_is_left_out_of_the_document() -> None:
    document = build(letter("{", attributes={"region": Attribute("String", "eu")}))
    assert document.unreadable == "not JSON at line 1 column 2"
    assert "body" not in document.value
    assert document.value["context"] == {"region": "eu"}


@each_row("body", ["null", "5", '"text"', "[1]", "true"])
def test_a_body_may_be_any_json_value(body: str) -> None:
    document = build(letter(body))
    assert document.unreadable is None
    assert "body" in document.value


@each_row(
    ("tenant", "context"),
    [
        ('"a"', {"tenantId": "a"}),
        ("5", {"tenantId": 5}),
        ("1.5", {"tenantId": 1.5}),
        ("false", {"tenantId": False}),
        ('""', {"tenantId": ""}),
        ("null", {}),
        ('["a"]', {}),
        ('{"id": "a"}', {}),
    ],
)
def test_context_is_text_a_number_or_a_boolean(tenant: str, context: dict[str, Any]) -> None:
    assert build(letter(f'{{"tenantId": {tenant}}}')).value["context"] == context


@each_row(
    ("attribute", "value"),
    [
        (Attribute("Number", "7"), 7),
        (Attribute("Number", "-1.5e3"), -1500.0),
        (Attribute("Number.int", "007"), "007"),
        (Attribute("Number", "NaN"), "NaN"),
        (Attribute("Number", "1e999"), "1e999"),
        (Attribute("Number", "true"), "true"),
        (Attribute("Number", "9" * 5_000), "9" * 5_000),
        (Attribute("String", "7"), "7"),
        (Attribute("String.Number", "7"), "7"),
    ],
)
def test_a_number_attribute_is_a_number_if_json_has_it(attribute: Attribute, value: Any) -> None:
    assert build(letter(attributes={"a": attribute})).value["attributes"] == {"a": value}


@each_row(
    ("path", "body"),
    [
        ("abs(body.x)", '{"x": "text"}'),
        ("ceil(to_number(body.x))", '{"x": "1e999"}'),
        ("floor(to_number(body.x))", '{"x": "nan"}'),
        ("sort(body.x)[0]", '{"x": [1, "a"]}'),
        ("max_by(body.x, &a).a", '{"x": [{"a": 1}, {"a": "b"}]}'),
        ("join(',', body.x)", '{"x": [1]}'),
        ("body.x[::0]", '{"x": [1]}'),
        ("avg(body.x)", '{"x": []}'),
        ("length(body)", "5"),
        ("body.x.y.z", '{"x": 5}'),
    ],
)
def test_a_path_that_fails_on_a_body_leaves_that_context_out(path: str, body: str) -> None:
    pipeline = replace(PIPELINE, context={"odd": path, "region": "attributes.region"})
    document = build(letter(body, attributes={"region": Attribute("String", "eu")}), pipeline)
    assert document.value["context"] == {"region": "eu"}
    assert document.unreadable is None


_FUNCTIONS = (
    "abs avg ceil floor keys length max min reverse sort sum to_number to_string type values"
)
_ARGUMENTS = ("body.a", "body", "to_number(body.a)")
_BUILDERS = [
    DocumentBuilder(replace(PIPELINE, context={"x": f"{function}({argument})"}))
    for function in _FUNCTIONS.split()
    for argument in _ARGUMENTS
]


@given(st.sampled_from(_BUILDERS), letters, texts)
def test_building_a_document_never_raises(
    builder: DocumentBuilder, original: Letter, number: str
) -> None:
    odd = ('{"a": "1e999"}', '{"a": [1e308, 1e308]}', f'{{"a": "1e{number}"}}')
    for body in (original.body, f'{{"a": {original.body}}}', *odd):
        builder.build(replace(original, body=body), initial_stamp(original), None, NOW)


@each_row(
    ("endpoint", "key"),
    [
        ('"https://a"', "https://a"),
        ("5", "5"),
        ("null", None),
        ("[]", None),
        # A key that DynamoDB refuses would make the circuits unreadable for the whole batch.
        ('""', None),
        (f'"{"x" * 512}"', "x" * 512),
        (f'"{"x" * 513}"', None),
        (f'"{"é" * 257}"', None),
        # One of our own keys: the letter has the pipeline's circuit.
        ('"a#config"', None),
        ('"dependency/payments"', None),
        ('"#causes"', None),
        ('"a#b"', "a#b"),
        # It would stand as a command of its own below what people are told.
        (r'"acme\ndlq discard --all"', None),
        (r'"acme\u2028aws s3 rm"', None),
    ],
)
def test_the_circuit_key_is_valid_as_a_stored_key(endpoint: str, key: str | None) -> None:
    pipeline = replace(PIPELINE, circuit_key="body.endpoint")
    assert build(letter(f'{{"endpoint": {endpoint}}}'), pipeline).circuit_key == key


def test_the_circuit_key_may_be_a_context() -> None:
    pipeline = replace(PIPELINE, circuit_key="context.tenantId")
    assert build(letter(), pipeline).circuit_key == "a"
    assert build(letter()).circuit_key is None


@each_row(
    ("body", "key"),
    [
        ('{"tenantId": "acme"}', f"acme/{DEFAULT_ENDPOINT}"),
        ('{"tenantId": "acme", "endpointId": "eu"}', "acme/eu"),
        ('{"tenantId": "acme", "endpointId": 7}', "acme/7"),
        ('{"tenantId": "acme", "endpointId": ""}', "acme/"),
        # The dispatcher posts none of these: they have no endpoint.
        ('{"endpointId": "eu"}', None),
        ('{"tenantId": 7}', None),
        ("no JSON", None),
    ],
)
def test_a_message_for_the_webhook_has_the_circuit_of_its_endpoint(
    body: str, key: str | None
) -> None:
    context = {"tenantId": "body.tenantId", "endpointId": "body.endpointId"}
    pipeline = Pipeline("orders", context=context, circuit_key=ENDPOINT_KEY)
    assert build(letter(body), pipeline).circuit_key == key


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"context": {"tenantId": "body."}}, "context.tenantId: 'body.' is not a JMESPath"),
        ({"circuit_key": "a b"}, "circuit_key: 'a b' is not a JMESPath expression"),
        ({"context": {"x": ""}}, "context.x: '' is not a JMESPath expression"),
    ],
)
def test_an_invalid_path_is_refused_before_any_letter(changes: Any, why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        DocumentBuilder(replace(PIPELINE, **changes))
