"""The consumer policy allows every call of the consumer library, and no call that it never makes.

The library runs on the strict fakes, through everything that may become of a message. What it calls
is compared with the policy's statements, as IAM would: action, resource, partitions.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from deadletter.aws.clients import ConsumerClients
from deadletter.aws.queue import SqsMessages
from deadletter.aws.wiring import consuming as wiring
from deadletter.aws.wiring.consuming import NotRegistered, consumer_for, look_up
from deadletter.aws.wiring.world import World
from deadletter.circuit.state import CircuitPolicy
from deadletter.consumer import Permanent, Skip, Transient, consume, dependency, runtime
from deadletter.processing.batch import Consumer
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.testing import Letterbox
from infra import layer
from infra.files import LIBRARY
from tests.e2e.stranger import PIPELINE, documented_template
from tests.each_row import each_row
from tests.infra.conftest import ROOT
from tests.infra.templates import Synthesis, filled
from tests.infra.test_permissions import THEIR_CONSUMER, listed, managed, noun
from tests.judge import ACCOUNT, HOME, action_of, holds, operations, questions

MACHINE = f"arn:aws:states:{ACCOUNT}:stateMachine:deadletter-theirs-circuit-breaker"

# Calls in the modules that the library loads, which it never makes itself.
NOT_THE_LIBRARYS = {
    "dynamodb:GetItem": "one circuit, for the command line",
    "dynamodb:Scan": "lists rules and endpoints, for the command line",
    "dynamodb:PutItem": "of the table's adapter: for the journal and the replay runs",
    "dynamodb:BatchWriteItem": "of the table's adapter: for the waiting room",
    "dynamodb:TransactWriteItems": "facts of letters, for the redriver",
}


@dataclass(frozen=True)
class Call:
    """One call: its action as IAM names it, what it reaches, what it names there."""

    action: str
    resource: str
    partitions: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


ACTIONS = {
    method: action_of(service, method)
    for service in ("sqs", "dynamodb", "ssm", "stepfunctions")
    for method in operations(service)
}
"""The action of each method of a client."""


OF_ROWS = ("LeadingKeys", "Attributes")
"""What a request to a table names there."""


class Recording:
    """A client that notes each call, and hands it on."""

    def __init__(self, service: str, client: Any, calls: set[Call]) -> None:
        self._service = service
        self._client = client
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name not in ACTIONS:
            return method

        def call(**request: Any) -> Any:
            for asked in questions(self._service, name, request):
                said = (asked.context.get(f"dynamodb:{key}", ()) for key in OF_ROWS)
                self._calls.add(Call(asked.action, asked.resource, *map(tuple, said)))
            return method(**request)

        return call


class Machine:
    """Starts nothing, and says so to nobody."""

    def start_execution(self, **_: Any) -> dict[str, Any]:
        return {}


class NoParameters:
    """Has no parameter."""

    def get_parameters(self, **_: Any) -> dict[str, Any]:
        return {"Parameters": []}


@dataclass(eq=False)
class RecordedBox(Letterbox):
    """A pipeline in memory whose library is listened to."""

    calls: set[Call] = field(default_factory=set)

    def _consumer(self) -> Consumer:
        sqs = Recording("sqs", self.sqs.as_sender("AROATHEIRS:function"), self.calls)
        clients: Any = ConsumerClients(
            sqs=sqs,  # type: ignore[arg-type]  # a fake
            sending=sqs,  # type: ignore[arg-type]  # a fake
            dynamodb=Recording("dynamodb", self.dynamodb, self.calls),  # type: ignore[arg-type]  # a fake
        )
        resources = Resources(
            main_url=self.main,
            parking={"default": self.lot},
            messages_table="messages",
            circuits_table="circuits",
            circuit_machine=MACHINE,
            trusted_senders=("AROAREDRIVER",),
        )
        world = World(self.clock, self.clock.advance, self.new_id, self._numbers)
        return consumer_for(self.settings, resources, clients, world, count_metric=lambda *_: None)


def work(record: dict[str, Any]) -> None:
    """Do what the body says."""
    match json.loads(record["body"]).get("do"):
        case "skip":
            raise Skip("nothing to do")
        case "permanent":
            raise Permanent("an order of nothing")
        case "busy":
            raise Transient("the warehouse is busy", retry_after=2)
        case "denied":
            raise PermissionError("denied")
        case "bank":
            with dependency("bank"):
                raise TimeoutError("no answer")


SETTINGS = Pipeline(
    "theirs",
    consumer_library=True,
    idempotency_key="body.orderId",
    circuit=CircuitPolicy(minimum=4, consecutive=3, cooldown=2, cooldown_cap=4, ramp=10),
)


@pytest.fixture(scope="module")
def calls() -> frozenset[Call]:
    """Everything that the library calls while all that may become of a message becomes of one."""
    calls: set[Call] = set()
    with pytest.raises(NotRegistered):
        look_up(Recording("ssm", NoParameters(), calls), "deadletter", "theirs")  # type: ignore[arg-type]  # a fake
    ordered = replace(SETTINGS, ordering_key="body.account", sequence="body.version")
    machine = Recording("stepfunctions", Machine(), calls)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "brief_stepfunctions", lambda: machine)
        for settings in (SETTINGS, replace(SETTINGS, idempotency_key=None), ordered):
            box = RecordedBox(settings, calls=calls)
            patch.setattr(runtime, "current_runtime", lambda box=box: box.runtime)
            live_through_everything(box)
    return frozenset(calls)


def live_through_everything(box: RecordedBox) -> None:
    def run(*bodies: Any) -> None:
        for body in bodies:
            box.send(body)
        box.run(lambda event, context: consume(event, context, work))
        box.clock.advance(1.5)

    order = {"orderId": 1}
    run(order)
    # A duplicate, then the key of another message.
    run(order, {**order, "count": 2})
    run({"do": "skip"}, {"do": "permanent"}, "{", {"do": "denied"})
    box.redrive({"orderId": 2}, origin="its-first-id", attempt=1)
    run()
    # Only the ledger may know which letter it is.
    box.send({"orderId": 5}, attributes={f"a{number}": "x" for number in range(10)})
    run()
    for _ in range(4):
        run(*[{"do": "busy"}, {"do": "bank"}, {"do": "denied"}] * 3)
    run(order)
    # Closed a moment ago: it admits a rate.
    box.set_circuit("CLOSED")
    run({"orderId": 3})
    box.set_circuit("OPEN")
    run({"orderId": 4, "account": "a", "version": 1})
    poll_once(box)
    for key in ("theirs", "theirs#config"):
        box.set_circuit("CLOSED", key)
    for number in range(30):
        box.clock.advance(600)
        run(*[{"do": "permanent", "n": number}] * 10)


def poll_once(box: RecordedBox) -> None:
    """What a poller in a container does with the main queue itself."""
    box.send({"orderId": 6})
    client: Any = Recording("sqs", box.sqs, box.calls)
    queue = SqsMessages(client, client, box.main, "arn:aws:sqs:eu-west-1:111122223333:main")
    handles = [record["receiptHandle"] for record in queue.receive(10, hidden=30, wait=0)]
    assert handles
    queue.hide([(handle, 60) for handle in handles])
    assert queue.delete(handles) == []


def statements_for(app: Synthesis) -> list[dict[str, Any]]:
    return managed(app)["theirs-consumer"]


# What is asked for in memory, and what it is in the table of permissions.
RESOURCES = {
    f"arn:aws:sqs:{ACCOUNT}:theirs-main": f"arn:aws:sqs:{ACCOUNT}:their-main",
    f"arn:aws:sqs:{ACCOUNT}:theirs-parking": "queue theirs-parking",
    f"{HOME}-messages": "table Messages",
    f"{HOME}-circuits": "table Circuits",
    f"arn:aws:ssm:{ACCOUNT}:parameter/deadletter/app": "parameters app",
    f"arn:aws:ssm:{ACCOUNT}:parameter/deadletter/pipelines/theirs": "parameters pipelines/theirs",
    MACHINE: MACHINE,
}


def allows(statement: dict[str, Any], call: Call) -> bool:
    """Whether a statement allows a call, as IAM reads it."""
    reached = {noun(filled(resource)) for resource in listed(statement["Resource"])}
    if call.action not in listed(statement["Action"]) or RESOURCES[call.resource] not in reached:
        return False
    context = {"dynamodb:LeadingKeys": call.partitions, "dynamodb:Attributes": call.attributes}
    return holds(statement.get("Condition", {}), context)


def test_every_call_of_the_library_is_allowed(app: Synthesis, calls: frozenset[Call]) -> None:
    statements = statements_for(app)
    denied = [call for call in calls if not any(allows(each, call) for each in statements)]
    assert denied == []


def test_a_call_on_the_rows_of_another_pipeline_is_denied(app: Synthesis) -> None:
    allowed = Call(
        "dynamodb:UpdateItem", f"{HOME}-messages", ("theirs#ledger#x",), ("pk", "sk", "tried")
    )
    statements = statements_for(app)
    assert any(allows(statement, allowed) for statement in statements)
    for partitions in (("orders#ledger#x",), ("theirs#ledger#x", "theirs#journal")):
        denied = replace(allowed, partitions=partitions)
        assert not any(allows(statement, denied) for statement in statements)


@each_row(
    ("partition", "action", "attribute"),
    product(
        ["theirs#ledger#x", "theirs#done#x", "theirs#line#x"],
        ["dynamodb:PutItem", "dynamodb:UpdateItem"],
        ["lane", "due", "stamp", "copy", "message", "object", "plans"],
    ),
)
def test_a_row_of_the_library_has_no_attribute_that_others_believe(
    app: Synthesis, action: str, partition: str, attribute: str
) -> None:
    call = Call(action, f"{HOME}-messages", (partition,), ("pk", "sk", attribute))
    assert not any(allows(statement, call) for statement in statements_for(app))


def test_the_documented_template_finds_the_policy_where_the_stack_names_it(app: Synthesis) -> None:
    template = documented_template()
    [slot] = template["Parameters"].values()
    assert template["Resources"]["Role"]["Properties"]["ManagedPolicyArns"][-1] == {
        "Ref": next(iter(template["Parameters"]))
    }
    named = {parameter["Properties"]["Name"] for _, parameter in app.of("AWS::SSM::Parameter")}
    assert slot["Default"].replace(PIPELINE, "theirs") in named


def test_what_is_granted_is_called(calls: frozenset[Call]) -> None:
    granted = {
        (action, resource)
        for resource, what in RESOURCES.items()
        for action in THEIR_CONSUMER[what]
    }
    called = {(call.action, call.resource) for call in calls}
    assert granted - called == set()


def test_each_call_in_the_librarys_modules_was_made_here_or_has_a_reason(
    calls: frozenset[Call],
) -> None:
    source = {
        ACTIONS[name]
        for file in loaded_files()
        for name in client_methods(file.read_text())
        if name in ACTIONS
    }
    assert source - {call.action for call in calls} == NOT_THE_LIBRARYS.keys()


def loaded_files() -> list[Path]:
    """The adapters that the library loads."""
    folder = ROOT / "lambdas" / "deadletter" / "aws"
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    library = layer.contents(LIBRARY).values()
    return [file for file in folder.glob("*.py") if str(file) in loaded and file in library]


def client_methods(source: str) -> Iterator[str]:
    """The methods of clients that a module calls or hands on, and those that it names."""
    clients = {"client", "_client", "_sending", "_receiving"}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
                if owner in clients:
                    yield name
            case ast.Constant(value=str(name)):
                yield name
