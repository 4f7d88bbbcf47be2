"""The headers by which a receiver recognizes a repeated webhook and verifies its sender."""

from __future__ import annotations

import base64
import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from deadletter.webhook.endpoint import read_row, refuse_secret_name
from deadletter.webhook.signing import BadSecret, BadSignature, Secret, headers, read_secret, verify
from deadletter.webhook.url_guard import read_url
from tests.each_row import each_row

OLD = "whsec_" + base64.b64encode(b"o" * 24).decode()
NEW = "whsec_" + base64.b64encode(bytes(range(64))).decode()
AT = 1_800_000_000.0
BODY = '{"name":"Žofie"}'.encode()


def test_the_signature_equals_the_standards_example() -> None:
    # Secret, id, time and body are from the tests of the standard's libraries.
    secret = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [secret])
    assert signed == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize("known", [OLD, NEW])
def test_a_receivers_library_accepts_a_signature_of_either_secret(known: str) -> None:
    """While a secret is replaced, the receiver needs only one of the two."""
    signed = headers("m1", time.time(), BODY, [read_secret(OLD), read_secret(NEW)])
    assert standardwebhooks.Webhook(known).verify(BODY, signed) == {"name": "Žofie"}
    assert signed["webhook-signature"].count("v1,") == 2


@given(st.binary(min_size=24, max_size=64), st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True))
def test_a_receivers_library_accepts_any_secret_and_id(key: bytes, webhook_id: str) -> None:
    text = f"whsec_{base64.b64encode(key).decode()}"
    signed = headers(webhook_id, time.time(), BODY, [read_secret(text)])
    assert standardwebhooks.Webhook(text).verify(BODY, signed)


def test_verify_accepts_a_signature_of_the_standards_library() -> None:
    signed = standardwebhooks.Webhook(NEW).sign(
        "m1", datetime.fromtimestamp(AT, UTC), BODY.decode()
    )
    given_ = {"webhook-id": "m1", "webhook-timestamp": str(int(AT)), "webhook-signature": signed}
    verify(given_, BODY, [read_secret(OLD), read_secret(NEW)], AT)


@each_row(
    ("change", "why"),
    [
        ({"webhook-id": "m2"}, "does not match any of the secrets"),
        ({"webhook-id": ""}, "missing or unreadable"),
        ({"webhook-timestamp": "1800000001"}, "does not match any of the secrets"),
        ({"webhook-timestamp": "1799999000"}, "more than 300 seconds"),
        ({"webhook-timestamp": "1e9"}, "missing or unreadable"),
        ({"webhook-timestamp": ""}, "missing or unreadable"),
        ({"webhook-signature": ""}, "does not match any of the secrets"),
        ({"webhook-signature": "v1,é v1, v2,x"}, "does not match any of the secrets"),
    ],
)
def test_headers_without_a_valid_signature_are_refused(change: dict[str, str], why: str) -> None:
    signed = headers("m1", AT, BODY, [read_secret(NEW)])
    verify(signed, BODY, [read_secret(NEW)], AT)
    with pytest.raises(BadSignature, match=why):
        verify({**signed, **change}, BODY, [read_secret(NEW)], AT)


@pytest.mark.parametrize("away", [-300, 300])
def test_a_timestamp_may_be_300_seconds_away_and_no_more(away: int) -> None:
    signed = headers("m1", AT, BODY, [read_secret(NEW)])
    verify(signed, BODY, [read_secret(NEW)], AT + away)
    with pytest.raises(BadSignature, match="more than 300 seconds"):
        verify(signed, BODY, [read_secret(NEW)], AT + away * 301 / 300)


def test_the_signature_of_another_body_or_secret_is_refused() -> None:
    signed = headers("m1", AT, BODY, [read_secret(NEW)])
    for body, secret in ((BODY + b" ", NEW), (BODY, OLD)):
        with pytest.raises(BadSignature):
            verify(signed, body, [read_secret(secret)], AT)
    with pytest.raises(BadSignature):
        verify(signed, BODY, [], AT)


@each_row(
    ("text", "why"),
    [
        ("", "starts with whsec_"),
        (base64.b64encode(b"o" * 24).decode(), "starts with whsec_"),
        ("whsec_", "24 to 64 bytes, not 0"),
        ("whsec_" + base64.b64encode(b"o" * 23).decode(), "24 to 64 bytes, not 23"),
        ("whsec_" + base64.b64encode(b"o" * 65).decode(), "24 to 64 bytes, not 65"),
        ("whsec_not base64 at all!", "base64"),
        ("whsec_žžžž", "base64"),
        (OLD + "\n", "base64"),
    ],
)
def test_an_invalid_secret_is_refused_without_being_quoted(text: str, why: str) -> None:
    with pytest.raises(BadSecret, match=why) as raised:
        read_secret(text)
    assert raised.value.__cause__ is None
    assert len(text) < 8 or text not in str(raised.value)


def test_a_secret_is_not_printed() -> None:
    assert repr(Secret(b"hunter2")) == "Secret()"


def test_without_a_secret_there_is_no_signature() -> None:
    assert "webhook-signature" not in headers("m1", AT, BODY, [])


PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()


def block(language: str) -> str:
    """The only block in that language of docs/webhooks.md."""
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


def test_the_receiver_in_the_docs_accepts_our_signature() -> None:
    here: dict[str, Any] = {"SECRET": NEW}
    exec(block("python"), here)  # noqa: S102 - our own page
    signed = headers("m1", time.time(), BODY, [read_secret(NEW)])
    assert here["receive"](signed, BODY) == {"name": "Žofie"}
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        here["receive"](signed, BODY + b" ")


def test_the_row_in_the_docs_is_an_endpoint() -> None:
    endpoint = read_row(json.loads(block("json")))
    assert read_url(endpoint.url)
    assert endpoint.enabled
    for name in endpoint.secrets:
        refuse_secret_name(name, "deadletter/webhooks/")
