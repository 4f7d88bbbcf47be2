"""Where a function runs, and where its calls go: as botocore says it, in ordinary environments."""

from __future__ import annotations

from datetime import UTC

import botocore.session
import pytest
from botocore.endpoint_provider import EndpointProvider

from deadletter.aws.wire.whereabouts import Keys, Whereabouts, whereabouts_from
from tests.aws.wire.test_thin_client import NOW
from tests.each_row import each_row

LAMBDA = {
    "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
    "AWS_LAMBDA_FUNCTION_NAME": "redrive",
    "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
    "AWS_REGION": "eu-west-1",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "AKID",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_SESSION_TOKEN": "token",
    "AWS_XRAY_DAEMON_ADDRESS": "169.254.100.1:2000",
    "PATH": "/usr/bin",
    "MAIN_URL": "https://sqs.eu-west-1.amazonaws.com/111122223333/orders",
}


def whereabouts(**changed: str) -> Whereabouts | None:
    return whereabouts_from({**LAMBDA, **changed}, lambda: NOW.replace(tzinfo=UTC).timestamp())


def test_lambdas_environment_says_all() -> None:
    found = whereabouts()
    assert found is not None
    assert found.keys == Keys("AKID", "secret", "token")
    assert found.now() == NOW
    assert found.origin("sqs") == "https://sqs.eu-west-1.amazonaws.com"


def test_secrets_are_not_shown() -> None:
    shown = repr(whereabouts())
    assert "secret" not in shown
    assert "token" not in shown


@each_row(
    "changed",
    [
        {"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.2/"},
        {"AWS_CREDENTIAL_EXPIRATION": "2026-11-23T20:00:00Z"},
        {"AWS_SECRET_ACCESS_KEY": ""},
        {"AWS_USE_FIPS_ENDPOINT": "true"},
        {"AWS_USE_DUALSTACK_ENDPOINT": "true"},
        {"AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:4566/prefix"},
        {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566/prefix"},
        {"AWS_ACCOUNT_ID": "111122223333"},
        {"AWS_PROFILE": "team"},
        {"AWS_MAX_ATTEMPTS": "7"},
        {"HTTPS_PROXY": "http://proxy:3128"},
        {"https_proxy": "http://proxy:3128"},
        {"AWS_DEFAULT_REGION": "us-iso-east-1"},
        {"AWS_DEFAULT_REGION": "eusc-de-east-1"},
        {"AWS_DEFAULT_REGION": ""},
    ],
    ids=lambda changed: "=".join(next(iter(changed.items()))),
)
def test_another_environment_is_botocores_business(changed: dict[str, str]) -> None:
    assert whereabouts(**changed) is None


def test_certificates_are_those_that_botocore_would_trust() -> None:
    usual, own = whereabouts(), whereabouts(AWS_CA_BUNDLE="/own", REQUESTS_CA_BUNDLE="/other")
    other = whereabouts(REQUESTS_CA_BUNDLE="/other")
    assert [found and found.bundle for found in (usual, own, other)] == ["", "/own", "/other"]


def test_an_endpoint_of_ones_own_is_that_of_all_services() -> None:
    found = whereabouts(AWS_ENDPOINT_URL="http://127.0.0.1:4566/")
    assert found is not None
    assert found.origin("lambda") == "http://127.0.0.1:4566"


def test_the_endpoint_of_one_service_comes_before_that_of_all() -> None:
    found = whereabouts(AWS_ENDPOINT_URL="http://all", AWS_ENDPOINT_URL_SQS="http://sqs:4566/")
    assert found is not None
    assert found.origin("sqs") == "http://sqs:4566"
    assert found.origin("lambda") == "http://all"
    alone = whereabouts(AWS_ENDPOINT_URL_SQS="http://sqs:4566")
    assert alone is not None
    assert alone.origin("dynamodb") == "https://dynamodb.eu-west-1.amazonaws.com"


def test_the_trace_is_the_one_of_the_moment() -> None:
    environment = dict(LAMBDA)
    found = whereabouts_from(environment, lambda: 0.0)
    assert found is not None
    assert not found.trace()
    environment["_X_AMZN_TRACE_ID"] = "Root=1-a;Lineage=ü"
    assert found.trace() == "Root=1-a;Lineage=%C3%BC"
    del environment["AWS_LAMBDA_FUNCTION_NAME"]
    assert not found.trace()


SERVICES = ("sqs", "dynamodb", "lambda")


def _regions(session: botocore.session.Session) -> set[str]:
    return {
        region
        for partition in session.get_available_partitions()
        for service in SERVICES
        for region in session.get_available_regions(service, partition)
    }


@pytest.mark.parametrize("service", SERVICES)
def test_the_endpoints_of_all_regions_are_those_of_botocore(service: str) -> None:
    session = botocore.session.get_session()
    loader = session.get_component("data_loader")
    rules = loader.load_service_model(service, "endpoint-rule-set-1")
    botocores = EndpointProvider(rules, loader.load_data("partitions"))
    ours = {}
    for region in _regions(session):
        found = whereabouts(AWS_DEFAULT_REGION=region)
        if found is not None:
            ours[region] = found.origin(service)
    theirs = {
        region: botocores.resolve_endpoint(Region=region, UseFIPS=False, UseDualStack=False).url
        for region in ours
    }
    assert ours == theirs
    assert {"us-east-1", "eu-west-1", "mx-central-1", "cn-north-1", "us-gov-west-1"} <= set(ours)
