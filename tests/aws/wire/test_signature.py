"""Signatures are those of botocore, byte by byte."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from deadletter.aws.wire.learned import UNSIGNED, Signer, lines_of

MOMENT = datetime(2026, 11, 23, 19, 30, tzinfo=UTC)

words = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0189-_.~:/ $", max_size=40)
names = st.from_regex(r"[xX]-[aA]mz-[a-z]{1,8}", fullmatch=True)
keys = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


def botocores(
    signer: Signer,
    secret: str,
    token: str | None,
    moment: datetime,
    url: str,
    headers: dict[str, str],
    body: bytes,
) -> tuple[str, dict[str, str]]:
    """The header Authorization that botocore makes, and the headers that it signed."""
    request = AWSRequest("POST", url, headers=headers, data=body)
    auth: Any = SigV4Auth(Credentials("AKID", secret, token), signer.service, signer.region)
    with patch("botocore.auth.get_current_datetime", lambda: moment):
        auth.add_auth(request)
    signed = {name.lower(): str(value) for name, value in auth.headers_to_sign(request).items()}
    signed.pop("authorization", None)
    return str(request.headers["Authorization"]), signed


@given(
    secret=keys,
    token=st.none() | keys,
    seconds=st.integers(0, 10**8),
    segment=words,
    headers=st.dictionaries(names, words, max_size=4),
    body=st.binary(max_size=50),
    service=st.sampled_from(["sqs", "dynamodb", "lambda"]),
)
def test_a_signature_is_the_one_that_botocore_makes(
    secret: str,
    token: str | None,
    seconds: int,
    segment: str,
    headers: dict[str, str],
    body: bytes,
    service: str,
) -> None:
    signer, moment = Signer("cn-north-1", service), MOMENT + timedelta(seconds=seconds)
    path = "/" + quote(segment.strip("/. "), safe="")
    lowered = {name.lower(): value for name, value in headers.items()}
    theirs, signed = botocores(
        signer, secret, token, moment, f"https://aws.test:8443{path}", lowered, body
    )
    text = moment.strftime("%Y%m%dT%H%M%SZ")
    ours = signer.authorization(
        ("AKID", secret), text, quote(path, safe="/~"), lines_of(signed), body
    )
    assert ours == theirs


def test_the_headers_that_are_not_signed_are_those_of_botocore() -> None:
    from botocore.auth import SIGNED_HEADERS_BLACKLIST

    assert set(SIGNED_HEADERS_BLACKLIST) | {"authorization"} == UNSIGNED


def test_another_secret_and_another_day_have_keys_of_their_own() -> None:
    """Credentials are renewed while a function lives, and a function lives past midnight."""
    signer = Signer("eu-west-1", "sqs")
    for secret, day in (("one", "20261123"), ("two", "20261123"), ("two", "20261124")):
        again = Signer("eu-west-1", "sqs")
        lines = lines_of({"host": "aws.test"})
        arguments = (("AKID", secret), f"{day}T000000Z", "/", lines, b"{}")
        assert signer.authorization(*arguments) == again.authorization(*arguments)
        assert list(signer._keys) == [(secret, day)]
