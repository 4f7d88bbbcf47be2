"""When boto3 makes all calls of a function, and that it says so once."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from deadletter.aws import clients as made
from deadletter.aws.wire.thin_client import ThinClient
from deadletter.aws.wiring.world import why_boto3
from handlers.init import by_boto3
from tests.each_row import each_row

CLIENTS = Path(made.__file__)
WIRE = "deadletter.aws.wire"
DOCUMENTED = ("botocore.client", "botocore.config", "botocore.exceptions", "botocore.session")


def private_names() -> list[tuple[str, str]]:
    """Each module of botocore that is not documented, and a name that the thin client needs."""
    found = {
        (node.module, name.name)
        for file in (CLIENTS, *CLIENTS.with_name("wire").glob("*.py"))
        for node in ast.walk(_without_types(ast.parse(file.read_text())))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("botocore.")
        for name in node.names
        if node.module not in DOCUMENTED
    }
    return sorted((str(module), name) for module, name in found)


def _without_types(tree: ast.Module) -> ast.Module:
    def is_for_types(node: ast.stmt) -> bool:
        return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"

    tree.body = [node for node in tree.body if not is_for_types(node)]
    return tree


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has made no client, and has said nothing."""
    caches = (made.clients, made.router_clients, made._say_boto3, made.session)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


def hot_clients(why: str = "") -> list[Any]:
    of_runs, of_router = made.clients(why), made.router_clients(why)
    return [
        *(of_runs.sqs, of_runs.sending, of_runs.dynamodb, of_runs.journal, of_runs.functions),
        of_router.dynamodb,
    ]


def are_boto3s(clients: list[Any]) -> bool:
    return all(isinstance(client, BaseClient) for client in clients)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "deadletter"]


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thin client as a new process has it."""
    for name in [name for name in sys.modules if name.startswith(f"{WIRE}.")]:
        monkeypatch.delitem(sys.modules, name)


def test_the_hot_calls_are_the_thin_clients_where_nothing_speaks_against_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert all(isinstance(client, ThinClient) for client in hot_clients())
    assert lines(caplog) == []


def test_one_line_says_that_a_proxy_of_the_environment_means_boto3(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "sqs.eu-west-1.amazonaws.com")
    made._thin(made.client_of("sqs", config=made.SENDING.config()), "")
    assert lines(caplog) == []
    hot_clients()
    assert lines(caplog) == ["All calls go by boto3: they go through a proxy"]


@cache
def _boto3s() -> Any:
    return made.client_of("sqs", config=made.SENDING.config())


@pytest.fixture
def client() -> Any:
    """A client of boto3, which needs some of the names itself when it is made."""
    made.session().get_credentials()
    return _boto3s()


def thinned(client: Any) -> Any:
    return made.thin(client, made.session().get_credentials, made.ca_bundle)


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize(("module", "name"), private_names())
def test_a_name_of_botocore_that_is_gone_means_boto3(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    client: Any,
    module: str,
    name: str,
) -> None:
    monkeypatch.delattr(importlib.import_module(module), name)
    assert are_boto3s([thinned(client) for _ in range(3)])
    [line] = lines(caplog)
    assert line.startswith("All calls go by boto3: this botocore is another inside: ")
    assert name in line


class Gone:
    """An attribute that an object does not have."""

    def __get__(self, *_: object) -> None:
        raise AttributeError("gone")

    def __set__(self, *_: object) -> None:
        raise AttributeError("gone")


@pytest.mark.parametrize("name", ["resolved_protocol", "shape_for_error_code"])
def test_so_does_a_part_of_its_models(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, client: Any, name: str
) -> None:
    monkeypatch.setattr(f"botocore.model.ServiceModel.{name}", Gone())
    assert are_boto3s([thinned(client) for _ in range(3)])
    assert len(lines(caplog)) == 1


def test_the_names_are_found() -> None:
    assert ("botocore.awsrequest", "HeadersDict") in private_names()
    assert ("botocore.compat", "get_current_datetime") in private_names()
    assert len(private_names()) == 10


@each_row(
    ("variable", "value", "means_boto3"),
    [
        ("DEADLETTER_BOTO3", "1", True),
        ("DEADLETTER_BOTO3", "true", True),
        ("DEADLETTER_BOTO3", "0", False),
        ("DEADLETTER_BOTO3", "", False),
        ("AWS_LAMBDA_EXEC_WRAPPER", "/opt/trace", True),
        ("AWS_LAMBDA_EXEC_WRAPPER", "", False),
    ],
)
def test_a_variable_of_the_function_means_boto3(
    variable: str, value: str, means_boto3: bool
) -> None:
    assert bool(why_boto3({variable: value})) is means_boto3


@pytest.mark.parametrize("variable", ["DEADLETTER_BOTO3", "AWS_LAMBDA_EXEC_WRAPPER"])
def test_a_function_with_the_variable_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    by_boto3.cache_clear()
    assert are_boto3s(hot_clients(by_boto3()))
    by_boto3.cache_clear()
    [line] = lines(caplog)
    assert line.startswith(f"All calls go by boto3: {variable} is set")
