"""The backends of the contract suite: for each, a fresh account of boto3-shaped clients."""

from __future__ import annotations

import itertools
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import boto3
import moto.sqs.models as moto_sqs
import pytest
from botocore import xform_name
from botocore.compat import get_current_datetime
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ParamValidationError
from botocore.model import ServiceModel
from botocore.session import get_session
from botocore.validate import ParamValidator

from deadletter.aws.dynamodb import worded
from deadletter.aws.wire.hot_calls import HOT_CALLS
from deadletter.aws.wire.thin_client import ThinClient
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB, MemoryS3, MemorySqs
from sandbox.server import ROOT_KEY, Sandbox

REGION = "eu-central-1"


class EmulatorClock(Clock):
    """The clock of the embedded AWS, as its SQS reads it."""

    def __init__(self, server: Sandbox) -> None:
        super().__init__(server.advance(0))
        self._server = server

    def advance(self, seconds: float) -> None:
        self.now = self._server.advance(seconds)


@dataclass(frozen=True)
class Aws:
    """The clients of one backend, and the clock that it lives by."""

    backend: str
    sqs: Any
    dynamodb: Any
    s3: Any
    clock: Clock = field(default_factory=Clock)

    def queue(self, name: str = "orders", **attributes: str) -> str:
        """A new queue's URL; a name with .fifo makes it FIFO."""
        if name.endswith(".fifo"):
            attributes = {"FifoQueue": "true", **attributes}
        return str(self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def arn(self, url: str) -> str:
        answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def receive(self, url: str, **arguments: Any) -> list[dict[str, Any]]:
        """Up to ten messages with everything that they carry."""
        answer = self.sqs.receive_message(
            **{
                "QueueUrl": url,
                "MaxNumberOfMessages": 10,
                "MessageSystemAttributeNames": ["All"],
                "MessageAttributeNames": ["All"],
                **arguments,
            }
        )
        return list(answer.get("Messages", []))


class Checked:
    """A memory client whose every call and answer is held against botocore's model of AWS."""

    def __init__(self, client: Any, service: str) -> None:
        self._client = client
        self._operations = _operations(service)
        self._model = _model(service)

    def __getattr__(self, name: str) -> Any:
        if name not in self._operations:
            return getattr(self._client, name)
        operation = self._model.operation_model(self._operations[name])

        def call(**arguments: Any) -> Any:
            _hold_against(worded(arguments), operation.input_shape)
            answer = getattr(self._client, name)(**arguments)
            members = {key: value for key, value in answer.items() if key != "ResponseMetadata"}
            shape = operation.output_shape
            if shape is None:
                assert not members
            else:
                # SQS leaves out empty lists that its own model requires.
                absent: dict[str, Any] = {name: [] for name in shape.required_members}
                _hold_against({**absent, **members}, shape)
            return answer

        return call


@cache
def _model(service: str) -> ServiceModel:
    return get_session().get_service_model(service)


@cache
def _operations(service: str) -> dict[str, str]:
    return {xform_name(name): name for name in _model(service).operation_names}


def _hold_against(members: dict[str, Any], shape: Any) -> None:
    report = ParamValidator().validate(members, shape)
    assert not report.has_errors(), report.generate_report()


@contextmanager
def memory(request: pytest.FixtureRequest) -> Iterator[Aws]:
    clock = Clock()
    count = itertools.count(1)

    def ids() -> str:
        return f"00000000-0000-4000-8000-{next(count):012d}"

    yield Aws(
        "memory",
        Checked(MemorySqs(clock, ids, region=REGION), "sqs"),
        Checked(MemoryDynamoDB(clock), "dynamodb"),
        Checked(MemoryS3(clock), "s3"),
        clock,
    )


@contextmanager
def moto(request: pytest.FixtureRequest) -> Iterator[Aws]:
    clock = Clock()

    def ticking() -> float:
        # moto shows a message again only after its time, not at it.
        clock.advance(0.001)
        return clock.now

    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    monkeypatch.setattr(moto_sqs, "unix_time", ticking)
    monkeypatch.setattr(moto_sqs, "unix_time_millis", lambda: ticking() * 1000)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    request.getfixturevalue("mocked").reset()
    yield Aws("moto", _client("sqs"), _client("dynamodb"), _client("s3"), clock)


@cache
def _client(service: Any) -> Any:
    # Making a client takes longer than most tests. moto hooks into all that exist.
    return boto3.client(service, region_name=REGION)


class Forced:
    """A thin client that never leaves a hot call to boto3, not even the first of its kind."""

    def __init__(self, client: Any, credentials: Any, bundle: str | None = None) -> None:
        self._thin: Any = ThinClient(client, credentials, get_current_datetime, no_wait, bundle)
        self._service = client.meta.service_model.service_id.hyphenize()

    def __getattr__(self, name: str) -> Any:
        call = HOT_CALLS[self._thin.meta.service_model.service_name].get(name)
        if call is None:
            return getattr(self._thin, name)

        def forced(**arguments: Any) -> Any:
            if (call.name, call.place(arguments)) not in self._thin._learned:
                self._learn(call.name, lambda: getattr(self._thin, name)(**arguments))
            return getattr(self._thin, name)(**arguments)

        return forced

    def _learn(self, operation: str, call: Callable[[], Any]) -> None:
        """Let boto3 prepare a request that is not sent."""
        event, events = f"before-send.{self._service}.{operation}", self._thin.meta.events
        events.register(event, _not_sent)
        try:
            call()
        # What boto3 refuses itself has no request.
        except (_NotSentError, ParamValidationError):
            pass
        finally:
            events.unregister(event, _not_sent)


class _NotSentError(Exception):
    """Ends a call before its request is sent."""


def _not_sent(**_: Any) -> None:
    raise _NotSentError


def no_wait(seconds: float) -> None:
    """Time does not pass between two tries."""


_forced = cache(Forced)


class Emptied:
    """The session's embedded AWS: one process, one client a service, emptied for each test."""

    def __init__(self, server: Sandbox) -> None:
        self.server = server
        trust = server.environment["AWS_CA_BUNDLE"]
        # Loopback only, so no proxy from the environment.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=trust)),
        )
        self.client = cache(self._make_client)

    def _make_client(self, service: Any) -> Any:
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.server.endpoint,
            verify=self.server.environment["AWS_CA_BUNDLE"],
            aws_access_key_id=ROOT_KEY,
            aws_secret_access_key=ROOT_KEY,
            # Where the emulator fails in itself, trying again takes seconds and fails again.
            config=Config(retries={"total_max_attempts": 1}),
        )

    def empty(self) -> None:
        self._opener.open(f"{self.server.endpoint}/_ministack/reset", data=b"").close()


@contextmanager
def sandbox(request: pytest.FixtureRequest) -> Iterator[Aws]:
    emptied: Emptied = request.getfixturevalue("emptied")
    emptied.empty()
    clock = EmulatorClock(emptied.server)
    clients = map(emptied.client, ("sqs", "dynamodb", "s3"))
    yield Aws("sandbox", *clients, clock)


@contextmanager
def thin_sandbox(request: pytest.FixtureRequest) -> Iterator[Aws]:
    """The embedded AWS, which checks signatures, as the thin client sees it."""
    with sandbox(request) as account:
        emptied: Emptied = request.getfixturevalue("emptied")
        bundle = emptied.server.environment["AWS_CA_BUNDLE"]
        credentials = Credentials(ROOT_KEY, ROOT_KEY)
        sqs, dynamodb = (
            _forced(client, credentials, bundle) for client in (account.sqs, account.dynamodb)
        )
        yield replace(account, sqs=sqs, dynamodb=dynamodb)
