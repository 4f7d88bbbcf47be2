"""The clients of a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.session import Session

from console.operations.aws import Aws
from deadletter.aws.wire.thin_client import ThinClient

CONFIG = """
[profile own]
region = eu-west-1
aws_access_key_id = AKIAOWN
aws_secret_access_key = secret
ca_bundle = /etc/own.pem

[profile plain]
region = eu-west-1
aws_access_key_id = AKIAPLAIN
aws_secret_access_key = secret
"""


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "config"
    file.write_text(CONFIG)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


def test_tables_are_read_by_the_thin_client() -> None:
    aws = Aws(Session(profile="plain"))
    assert isinstance(aws.dynamodb, ThinClient)
    assert not isinstance(aws.sqs, ThinClient)


@pytest.mark.parametrize(
    ("profile", "key", "bundle"), [("own", "AKIAOWN", "/etc/own.pem"), ("plain", "AKIAPLAIN", None)]
)
def test_the_thin_client_signs_and_trusts_as_the_profile_says(
    profile: str, key: str, bundle: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "deadletter.aws.clients.thin",
        lambda client, credentials, trusted: (credentials().access_key, trusted()),
    )
    made: Any = Aws(Session(profile=profile)).dynamodb
    assert made == (key, bundle)
