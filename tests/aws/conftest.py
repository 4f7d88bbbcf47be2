"""The ports under contract: every test here that asks for `aws` runs once on each backend."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest
from moto import mock_aws

from sandbox.server import ROOT, Sandbox
from tests.aws.backends import Aws, Emptied, memory, moto, thin_sandbox
from tests.aws.differences import DIFFERENCES

# A backend is a context manager that yields its clients. By day the model that the simulations
# build on, and the emulator, which is the strictest, as our functions see it: by the thin client.
MEMORY = pytest.param(memory, id="memory")
EMULATOR = pytest.param(thin_sandbox, id="thin-sandbox", marks=pytest.mark.sandbox)
MOTO = pytest.param(moto, id="moto", marks=pytest.mark.nightly)

PORTS = ("test_dynamodb_contract", "test_s3_contract", "test_sqs_contract")
"""What is asked of a service itself. What adapters make of it is shown in memory and in moto."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "aws" in metafunc.fixturenames:
        is_port = metafunc.module.__name__.rpartition(".")[2] in PORTS
        columns = [MEMORY, EMULATOR, MOTO] if is_port else [MEMORY, MOTO]
        metafunc.parametrize("aws", columns, indirect=True)


@pytest.fixture
def aws(request: pytest.FixtureRequest) -> Iterator[Aws]:
    """A fresh account."""
    with request.param(request) as account:
        yield account


@pytest.fixture(scope="module")
def mocked() -> Iterator[Any]:
    """Starting moto takes longer than a test; emptying it doesn't."""
    with mock_aws() as mock:
        yield mock


@pytest.fixture(scope="session")
def emptied() -> Iterator[Emptied]:
    """One embedded AWS for the suite, without the app."""
    with Sandbox(ROOT / "build" / "ports", still=True) as server:
        yield Emptied(server)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "difference(id): a known difference between AWS and a backend"
    )


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Where a backend is known to differ from AWS, the test has to fail, and counts as skipped."""
    for marker in pyfuncitem.iter_markers("difference"):
        account: Any = pyfuncitem.funcargs["aws"]
        difference = DIFFERENCES[marker.args[0]]
        deviation = getattr(difference, account.backend, "")
        if deviation:
            break
    else:
        return (yield)
    reason = f"AWS {difference.aws}; {account.backend} {deviation}"
    try:
        yield
    # Whatever way it fails in; on a backend that doesn't differ the same test passes.
    except (Exception, pytest.fail.Exception):
        pytest.skip(reason)
    pytest.fail(f"gone, take it out of the table: {reason}")
