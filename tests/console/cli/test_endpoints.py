"""`dlq endpoint`: the registry by hand, checked first through the dispatcher's own guard."""

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
from tests.console.cli.test_audit import endpoint_streamed
from tests.tables import create_keyed_table
from tests.webhook.tls_endpoint import PATIENCE, Endpoint, answers, certificate

NAME = "hooks.acme.example"
URL = f"https://{NAME}/in?token=hunter2"
PUBLIC = "93.184.215.14"
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
SECRET_NAME = "deadletter/webhooks/acme"
SAID = ("--reason", "a test", "--yes")
OK = "HTTP/1.1 204 No Content\r\n\r\n"
NEW = ("--url", URL, "--secret", SECRET_NAME)


@pytest.fixture
def registry(cloud: Any) -> Any:
    """A deployed app with an endpoint registry."""
    cloud.deploy("orders")
    create_keyed_table(cloud.dynamodb, "endpoints", ("tenant", "endpoint"))
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
    # The dispatcher takes no row's word for a pause that it would never write itself.
    register(registry, endpoint="long", throttled_until=int(time.time()) + 9_000, throttled_by=429)
    register(registry, endpoint="odd", url=5)
    register(registry, endpoint="plain", url="http://hooks.acme.example")
    done = dlq("endpoint list", ends=Exit.DONE, says="it answered 410")
    assert "hunter2" not in done.output
    endpoints = json.loads(dlq("endpoint list --json").stdout)["endpoints"]
    standings = {row["endpoint"]: (row["standing"], row["url"]) for row in endpoints}
    there = f"https://{NAME}"
    assert standings == {
        "busy": ("throttled", there), "calm": ("enabled", there), "default": ("enabled", there),
        "long": ("enabled", there), "odd": ("invalid", "?"), "off": ("disabled", there),
        "plain": ("enabled", "?"),
    }  # fmt: skip
    (long,) = (row for row in endpoints if row["endpoint"] == "long")
    assert "is ignored" in long["because"]
    (off,) = (row for row in endpoints if row["endpoint"] == "off")
    assert off["disabled_at"] == "2023-11-14T22:13:20Z"


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
    dlq("endpoint add acme", *arguments, *SAID, ends=Exit.USAGE, refuses=why)
    assert registry.dynamodb.scan(TableName="endpoints")["Count"] == 0


@pytest.fixture
def served(registry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Serves an endpoint on this machine that `dlq` reaches by the registered URL."""

    def serve(answer: str, addresses: list[str] | None = None, days: int = 60) -> Endpoint:
        pem = certificate(tmp_path, NAME, valid=timedelta(days=days))
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


def test_a_new_endpoint_is_checked_then_in_the_table(registry: Any, served: Any, dlq: Any) -> None:
    with served("HTTP/1.1 405 No\r\n\r\n") as endpoint:
        says = (f"{PUBLIC}, 8.8.8.8", NAME, "HEAD: 405 in", "A server is there.")
        done = dlq("endpoint add acme/new", *NEW, *SAID, ends=Exit.DONE, says=says)
        answer = json.loads(dlq("endpoint add acme/new", *SAID, "--json").stdout)
    assert "hunter2" not in done.output
    assert row(registry, endpoint="new") == {
        "tenant": "acme", "endpoint": "new", "url": URL, "enabled": True, "secrets": [SECRET_NAME],
    }  # fmt: skip
    check = answer["check"]
    assert (check["method"], check["status"], check["address"]) == ("HEAD", 405, PUBLIC)
    assert (check["certificate"]["subject"], check["problem"]) == (NAME, None)
    assert check["certificate"]["expires"].endswith("Z")
    assert endpoint.requests[0].startswith(b"HEAD /in?token=hunter2 HTTP/1.1\r\n")


def test_a_dispatcher_says_by_its_deployment_which_urls_are_posted_to(
    registry: Any, served: Any, dlq: Any
) -> None:
    there = ("--url", f"https://{NAME}:8443/in", "--secret", SECRET_NAME, *SAID)
    dlq("endpoint add there", *there, ends=Exit.USAGE, refuses="only 443 is posted to")
    registry.redeploy(webhook={"ports": [443, 8443], "allow_loopback": True})
    with served(OK):
        dlq("endpoint add there", *there, ends=Exit.DONE)
        # No server of the test's own: it is added, and said to answer nothing.
        dlq("endpoint add here --url http://127.0.0.1:8080", *SAID, ends=Exit.ATTENTION)
    assert row(registry, "here")["secrets"] == []


def test_an_endpoint_is_disabled_with_a_reason_that_adding_it_again_removes(
    registry: Any, served: Any, dlq: Any
) -> None:
    register(registry, throttled_until=int(time.time()) + 600, throttled_by=429)
    dlq("endpoint disable acme --reason 'acme is moving' --yes", ends=Exit.DONE)
    assert row(registry)["enabled"] is False
    assert row(registry)["disabled_because"].startswith("acme is moving (arn:aws:sts::")
    with served(OK):
        dlq("endpoint add acme --dry-run", says=("is disabled: acme is moving", "HEAD: 204 in"))
        assert row(registry)["enabled"] is False
        dlq("endpoint add acme", *SAID, ends=Exit.DONE)
    assert row(registry) == {
        "tenant": "acme", "endpoint": "default", "url": URL, "secrets": [SECRET_NAME],
        "enabled": True,
    }  # fmt: skip


def test_an_endpoint_moves_to_another_url_and_keeps_its_secrets(
    registry: Any, served: Any, dlq: Any
) -> None:
    with served(OK):
        dlq(f"endpoint add acme --url https://{NAME}/new", *SAID, ends=Exit.DONE)
    moved = row(registry)
    assert (moved["url"], moved["secrets"]) == (f"https://{NAME}/new", [SECRET_NAME])


def test_a_missing_endpoint_is_not_created_by_a_change(registry: Any, dlq: Any) -> None:
    register(registry)
    for words in ("add nobody", "disable acme/other"):
        dlq(f"endpoint {words}", *SAID, ends=Exit.ABSENT, refuses="has no endpoint")
    assert registry.dynamodb.scan(TableName="endpoints")["Count"] == 1


def test_without_a_yes_nothing_changes(registry: Any, served: Any, dlq: Any) -> None:
    with served(OK):
        for arguments in (("add", "acme"), ("disable", "acme"), ("add", "b", *NEW)):
            dlq("endpoint", *arguments, "--reason", "x", ends=Exit.USAGE, refuses="add --yes")
    assert "enabled" not in row(registry)
    dlq("endpoint add /x --dry-run", ends=Exit.USAGE)


def test_a_test_message_is_signed_and_goes_before_the_change(
    registry: Any, served: Any, dlq: Any
) -> None:
    boto3.client("secretsmanager", "eu-west-1").create_secret(Name=SECRET_NAME, SecretString=SECRET)
    with served(OK) as endpoint:
        dlq("endpoint add acme --post", *SAID, ends=Exit.DONE, says="Events would arrive.")
    head, _, body = endpoint.requests[-1].partition(b"\r\n\r\n")
    headers = dict(header.split(": ", 1) for header in head.decode().split("\r\n")[1:])
    event = standardwebhooks.Webhook(SECRET).verify(body, headers)
    assert event["type"] == "deadletter.endpoint_check"
    assert row(registry)["enabled"] is True


def test_without_a_2xx_answer_to_the_test_message_nothing_is_changed(
    registry: Any, served: Any, dlq: Any
) -> None:
    with served(OK) as endpoint:
        unsigned = "Secrets Manager answers ResourceNotFoundException"
        dlq("endpoint add acme --post", *SAID, ends=Exit.ATTENTION, refuses=unsigned)
        asked = len(endpoint.requests)
    assert [request.partition(b" ")[0] for request in endpoint.requests[:asked]] == [b"HEAD"]
    boto3.client("secretsmanager", "eu-west-1").create_secret(Name=SECRET_NAME, SecretString=SECRET)
    with served("HTTP/1.1 401 No\r\n\r\n"):
        refused = "Nothing was changed: it answered 401."
        dlq("endpoint add acme --post", *SAID, ends=Exit.ATTENTION, refuses=refused)
    assert "enabled" not in row(registry)


@pytest.mark.parametrize(
    ("answer", "more", "why"),
    [
        ("HTTP/1.1 410 Gone\r\n\r\n", {}, "it answered 410."),
        ("HTTP/1.1 503 No\r\nretry-after: 120\r\n\r\n", {}, "it answered 503."),
        (OK, {"days": 3}, "its certificate ends in"),
        (OK, {"days": -1}, "certificate is not valid: certificate has expired"),
        (OK, {"addresses": ["10.0.0.7"]}, "an address that is not a public address"),
        ("", {}, "no connection"),
    ],
)
def test_a_check_says_why_events_would_not_arrive_and_the_exit_status_is_1(
    registry: Any, served: Any, dlq: Any, answer: str, more: dict[str, Any], why: str
) -> None:
    with served(answer, **more):
        looked = dlq("endpoint add acme --dry-run", ends=Exit.DONE)
        done = dlq("endpoint add acme", *SAID, ends=Exit.ATTENTION)
    for shown in (looked.stdout, done.stdout):
        assert f"Events would not arrive: {why}" in shown or why in shown
        assert ("120" in shown) is ("120" in answer)
        assert ", ".join(more.get("addresses", [PUBLIC, "8.8.8.8"])) in shown
    assert row(registry)["enabled"] is True


def test_a_server_that_knows_no_head_is_there(served: Any, dlq: Any) -> None:
    with served("HTTP/1.1 501 Unsupported method\r\n\r\n"):
        assert "A server is there." in dlq("endpoint add acme --dry-run").stdout


def test_a_malformed_row_says_what_is_wrong_and_is_replaced_whole(
    registry: Any, served: Any, dlq: Any
) -> None:
    register(registry, secrets="app/webhooks/acme")
    done = dlq("endpoint add acme", *SAID, ends=Exit.ATTENTION)
    assert "secrets must be a list of names of secrets" in done.stderr
    with served(OK):
        register(registry, secrets="app/webhooks/acme")
        dlq("endpoint add acme", *NEW, *SAID, ends=Exit.DONE)
    assert row(registry)["secrets"] == [SECRET_NAME]
    register(registry, url="https://user:hunter2@hooks.acme.example")
    done = dlq("endpoint add acme", *SAID, ends=Exit.USAGE, refuses="the URL names a user")
    assert "hunter2" not in done.output


@pytest.mark.parametrize(
    ("command", "more"), [("add", ""), ("add", f"--url https://{NAME}/new"), ("disable", "")]
)
def test_a_change_is_one_line_of_the_audit_beside_what_the_table_tells(
    registry: Any, served: Any, dlq: Any, command: str, more: str
) -> None:
    """Its facts are those of the table's history: else it looked like a change by another."""
    register(registry, enabled=command == "disable", disabled_because="it answered 410")
    before = row(registry)
    with served(OK):
        register(registry, enabled=command == "disable", disabled_because="it answered 410")
        dlq(f"endpoint {command} acme {more}", *SAID, ends=Exit.DONE)
    endpoint_streamed(registry, before, row(registry))
    changes = json.loads(dlq("audit --json").stdout)["changes"]
    assert [(each["command"], each["via"]) for each in changes] == [(f"endpoint {command}", "dlq")]
    assert "hunter2" not in json.dumps(changes)
