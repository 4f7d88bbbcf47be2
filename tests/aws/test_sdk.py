"""The clients of our functions are those that boto3 would make."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from deadletter.aws.clients import _CONFIG, client_of, session

SERVICES = ("sqs", "dynamodb", "s3", "lambda", "stepfunctions")


@pytest.mark.parametrize(
    ("region", "fips"), [("eu-west-1", "false"), ("us-gov-west-1", "true"), ("cn-north-1", "false")]
)
def test_clients_have_the_endpoints_and_the_calls_of_boto3s(
    region: str, fips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", fips)
    session.cache_clear()
    their_session = boto3.Session()
    for service in SERVICES:
        ours = client_of(service, config=_CONFIG.config())
        make: Any = their_session.client
        theirs = make(service, config=_CONFIG.config())
        assert ours.meta.endpoint_url == theirs.meta.endpoint_url
        assert ours.meta.region_name == theirs.meta.region_name
        assert ours.meta.method_to_api_mapping == theirs.meta.method_to_api_mapping
    session.cache_clear()
