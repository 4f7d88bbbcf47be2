"""`dlq endpoint`: the registry by hand, and a check through the dispatcher's own guard."""

from __future__ import annotations

import base64
import json
import ssl
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
import standardwebhooks

from console.cli.exit import Exit
from console.operations import endpoint_check, item
from deadletter.webhook.http import HttpsClient
from tests.webhook.tls_endpoint import PATIENCE, Endpoint, answers, certificate

NAME = "hooks.acme.example"
URL = f"https://{NAME}/in?token=hunter2"
PUBLIC = "93.184.215.14"
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
SECRET_NAME = "deadletter/webhooks/acme"


@pytest.fixture
def registry(cloud: Any) -> Any:
    """A deployed app with an endpoint registry."""
    cloud.deploy("orders")
    cloud.dynamodb.create_table(
        TableName="endpoints",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("tenant", "endpoint")
        ],
        KeySchema=[
            {"AttributeName": "tenant", "KeyType": "HASH"},
            {"AttributeName": "endpoint", "KeyType": "RANGE"},
        ],
    )
    return cloud


def register(registry: Any, **columns: Any) -> None:
    row = {"tenant": "acme", "endpoint": "default", "url": URL, "secrets": [SECRET_NAME]}
    registry.put("endpoints", item.stored({**row, **columns}))


def row(registry: Any, tenant: str = "acme", endpoint: str = "default") -> dict[str, Any]:
    key = {"tenant": {"S": tenant}, "endpoint": {"S": endpoint}}
    return item.plain(registry.dynamodb.get_item(TableName="endpoints", Key=key)["Item"])


def test_the_list_shows_the_standing_of_each_endpoint_and_no_path(registry: Any, dlq: Any) -> None:
    register(registry)
    register(registry, endpoint="off", enabled=False, disabled_because="it answered 410",
             disabled_at=1_700_000_000)  # fmt: skip
    register(registry, endpoint="busy", throttled_until=int(time.time()) + 600, throttled_by=429)
    register(registry, endpoint="calm", throttled_until=1_700_000_000, throttled_by=429)
    register(registry, endpoint="odd", url=5)
    register(registry, endpoint="plain", url="http://hooks.acme.example")
    done = dlq("endpoint", "list")
    assert done.exit_code == Exit.DONE, done.output
    assert "hunter2" not in done.output
    assert "it answered 410" in done.output
    endpoints = json.loads(dlq("endpoint", "list", "--json").stdout)["endpoints"]
    standings = {row["endpoint"]: (row["standing"], row["url"]) for row in endpoints}
    assert standings == {
        "busy": ("throttled", f"https://{NAME}"),
        "calm": ("enabled", f"https://{NAME}"),
        "default": ("enabled", f"https://{NAME}"),
        "odd": ("invalid", "?"),
        "off": ("disabled", f"https://{NAME}"),
        "plain": ("enabled", "?"),
    }
    (off,) = (row for row in endpoints if row["endpoint"] == "off")
    assert off["disabled_at"] == "2023-11-14T22:13:20Z"


def test_an_added_endpoint_is_in_the_table(registry: Any, dlq: Any) -> None:
    done = dlq("endpoint", "add", "acme/new", "--url", URL, "--secret", SECRET_NAME, "--yes")
    assert done.exit_code == Exit.DONE, done.output
    assert row(registry, endpoint="new") == {
        "tenant": "acme",
        "endpoint": "new",
        "url": URL,
        "enabled": True,
        "secrets": [SECRET_NAME],
    }
    again = dlq("endpoint", "add", "acme/new", "--url", URL, "--secret", SECRET_NAME, "--yes")
    assert (again.exit_code, "already" in again.stderr) == (Exit.USAGE, True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--url", "http://hooks.acme.example"], "plain http"),
        (["--url", "https://169.254.169.254/"], "not a public address"),
        (["--url", "https://hooks.acme.example:8443"], "port is 8443"),
        (["--url", URL], "Nothing is posted unsigned"),
        (["--url", URL, "--secret", "app/database"], "must be deadletter/webhooks/ and"),
        (["--url", "http://127.0.0.1:8080"], "plain http"),
    ],
)
def test_an_endpoint_with_a_refused_url_or_secret_is_not_added(
    registry: Any, dlq: Any, arguments: list[str], why: str
) -> None:
    done = dlq("endpoint", "add", "acme", *arguments, "--yes")
    assert done.exit_code == Exit.USAGE
    assert why in done.stderr
    assert registry.dynamodb.scan(TableName="endpoints")["Count"] == 0


def test_a_sandbox_may_add_this_machine_and_other_ports(registry: Any, dlq: Any) -> None:
    here = ["--url", "http://127.0.0.1:8080", "--allow-loopback"]
    assert dlq("endpoint", "add", "here", *here, "--yes").exit_code == Exit.DONE
    there = ["--url", f"https://{NAME}:8443", "--allow-port", "8443", "--secret", SECRET_NAME]
    assert dlq("endpoint", "add", "there", *there, "--yes").exit_code == Exit.DONE


def test_an_endpoint_is_disabled_with_a_reason_that_enabling_removes(
    registry: Any, dlq: Any
) -> None:
    register(registry, throttled_until=int(time.time()) + 600, throttled_by=429)
    done = dlq("endpoint", "disable", "acme", "--reason", "acme is moving", "--yes")
    assert done.exit_code == Exit.DONE, done.output
    assert row(registry)["enabled"] is False
    assert row(registry)["disabled_because"].startswith("acme is moving (arn:aws:sts::")
    assert dlq("endpoint", "enable", "acme", "--yes").exit_code == Exit.DONE
    assert row(registry) == {
        "tenant": "acme",
        "endpoint": "default",
        "url": URL,
        "secrets": [SECRET_NAME],
        "enabled": True,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "nobody"),
        ("enable", "nobody", "--yes"),
        ("disable", "acme/other", "--yes", "--reason", "x"),
    ],
)
def test_a_missing_endpoint_is_not_created_by_a_change(
    registry: Any, dlq: Any, arguments: tuple[str, ...]
) -> None:
    register(registry)
    done = dlq("endpoint", *arguments)
    assert (done.exit_code, "has no endpoint" in done.stderr) == (Exit.ABSENT, True)
    assert registry.dynamodb.scan(TableName="endpoints")["Count"] == 1


def test_without_a_yes_nothing_changes(registry: Any, dlq: Any) -> None:
    register(registry)
    for arguments in (("enable", "acme"), ("disable", "acme", "--reason", "x"),
                      ("add", "b", "--url", URL, "--secret", SECRET_NAME)):  # fmt: skip
        assert dlq("endpoint", *arguments).exit_code == Exit.USAGE
    assert "enabled" not in row(registry)
    assert dlq("endpoint", "check", "/x").exit_code == Exit.USAGE


@pytest.fixture
def served(registry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Serves an endpoint on this machine that `dlq` reaches by the registered URL."""

    def serve(answer: str, addresses: list[str] | None = None, **valid: Any) -> Endpoint:
        pem = certificate(tmp_path, NAME, **valid)
        endpoint = Endpoint(answers(answer), pem)
        http_client = HttpsClient(
            PATIENCE,
            time.monotonic,
            lookup=lambda *_: addresses or [PUBLIC, "8.8.8.8"],
            dial=endpoint.dial,
            trust=ssl.create_default_context(cafile=str(pem)),
        )
        monkeypatch.setattr(endpoint_check, "http_client", lambda: http_client)
        return endpoint

    register(registry)
    return serve


OK = "HTTP/1.1 204 No Content\r\n\r\n"


def test_a_check_shows_addresses_certificate_and_status(served: Any, dlq: Any) -> None:
    with served("HTTP/1.1 405 No\r\n\r\n", valid=timedelta(days=60)) as endpoint:
        done = dlq("endpoint", "check", "acme")
        answer = json.loads(dlq("endpoint", "check", "acme", "--json").stdout)
    assert done.exit_code == Exit.DONE, done.output
    for expected in (f"{PUBLIC}, 8.8.8.8", NAME, "HEAD", "405 in", "It is there."):
        assert expected in done.stdout
    assert "hunter2" not in done.output
    assert answer["status"] == 405
    assert answer["address"] == PUBLIC
    assert answer["addresses"] == [PUBLIC, "8.8.8.8"]
    assert (answer["certificate"]["subject"], answer["problem"]) == (NAME, None)
    assert answer["certificate"]["expires"].endswith("Z")
    assert endpoint.requests[0].startswith(b"HEAD /in?token=hunter2 HTTP/1.1\r\n")


def test_a_check_that_posts_signs_its_event(served: Any, dlq: Any) -> None:
    boto3.client("secretsmanager", "eu-west-1").create_secret(Name=SECRET_NAME, SecretString=SECRET)
    with served(OK, valid=timedelta(days=60)) as endpoint:
        done = dlq("endpoint", "check", "acme", "--post")
    assert done.exit_code == Exit.DONE, done.output
    assert "Events would arrive." in done.stdout
    head, _, body = endpoint.requests[0].partition(b"\r\n\r\n")
    headers = dict(header.split(": ", 1) for header in head.decode().split("\r\n")[1:])
    event = standardwebhooks.Webhook(SECRET).verify(body, headers)
    assert event["type"] == "deadletter.endpoint_check"


@pytest.mark.parametrize(
    ("answer", "more", "why"),
    [
        ("HTTP/1.1 410 Gone\r\n\r\n", {}, "It answered 410."),
        ("HTTP/1.1 503 No\r\nretry-after: 120\r\n\r\n", {}, "It answered 503."),
        (OK, {"valid": timedelta(days=3)}, "Its certificate ends in"),
        (OK, {"valid": timedelta(days=-1)}, "certificate is not valid: certificate has expired"),
        (OK, {"addresses": ["10.0.0.7"]}, "an address that is not a public address"),
        ("", {}, "No connection"),
    ],
)
def test_a_check_says_why_events_would_not_arrive(
    served: Any, dlq: Any, answer: str, more: dict[str, Any], why: str
) -> None:
    with served(answer, **{"valid": timedelta(days=60), **more}):
        done = dlq("endpoint", "check", "acme")
    assert done.exit_code == Exit.ATTENTION
    assert why in done.stdout
    assert ("120" in done.stdout) is ("120" in answer)
    assert ", ".join(more.get("addresses", [PUBLIC, "8.8.8.8"])) in done.stdout


def test_a_check_that_posts_needs_a_2xx_answer_and_a_secret(served: Any, dlq: Any) -> None:
    with served(OK, valid=timedelta(days=60)) as endpoint:
        done = dlq("endpoint", "check", "acme", "--post")
    assert done.exit_code == Exit.ATTENTION
    assert "Secrets Manager answers ResourceNotFoundException" in done.stdout
    assert endpoint.requests == []


def test_a_disabled_endpoint_is_checked_too(registry: Any, served: Any, dlq: Any) -> None:
    register(registry, enabled=False, disabled_because="it answered 410")
    with served(OK, valid=timedelta(days=60)):
        done = dlq("endpoint", "check", "acme")
    assert done.exit_code == Exit.ATTENTION
    assert "disabled: it answered 410" in done.stdout
    assert "204 in" in done.stdout
    assert row(registry)["enabled"] is False


def test_a_check_of_a_malformed_row_says_what_is_wrong(registry: Any, dlq: Any) -> None:
    register(registry, secrets="app/webhooks/acme")
    done = dlq("endpoint", "check", "acme")
    assert done.exit_code == Exit.ATTENTION
    assert "Secrets must be a list of names of secrets." in done.stdout
    register(registry, url="https://user:hunter2@hooks.acme.example")
    done = dlq("endpoint", "check", "acme")
    assert (done.exit_code, "The URL names a user." in done.stdout) == (Exit.ATTENTION, True)
    assert "hunter2" not in done.output
