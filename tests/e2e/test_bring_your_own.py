"""The example of a shop with a queue and a function of its own, deployed as it stands.

Its sandbox is its own. The function's role has what `grant_consume` gave it; IAM is enforced.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.deploy import CDK, environment
from sandbox.progress import until
from sandbox.server import ACCOUNT, REGION, ROOT, Sandbox
from tests.examples.test_apps import EXAMPLES, synthesized


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """The example in a sandbox."""
    assembly = synthesized("bring-your-own", tmp_path_factory.mktemp("shop"), bundled=True)
    with Sandbox(ROOT / "build" / "bring-your-own", own_clock=True) as sandbox:
        cdk(sandbox, "bootstrap", f"aws://{ACCOUNT}/{REGION}")
        cdk(sandbox, "deploy", "--all", f"--app={assembly}", "--require-approval=never")
        yield sandbox


def cdk(sandbox: Sandbox, *arguments: str) -> str:
    """Run the CDK's command line away from the example, which it would synthesize again."""
    folder = sandbox.folder.absolute()
    done = subprocess.run(
        [str(CDK), "--ci", "--no-color", "--no-notices", *arguments],
        cwd=folder,
        env=environment(sandbox, folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


@pytest.fixture(scope="module")
def registered(shop: Sandbox) -> dict[str, Any]:
    """What the pipeline says of itself."""
    answer = shop.client("ssm").get_parameter(Name="/deadletter/pipelines/orders")
    said: dict[str, Any] = json.loads(answer["Parameter"]["Value"])
    return said


def send(shop: Sandbox, url: str, **order: Any) -> None:
    shop.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(order))


def messages(shop: Sandbox, url: str) -> int:
    """How many messages a queue holds, hidden ones and late ones too."""
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]
    answer = shop.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return sum(int(answer["Attributes"][name]) for name in names)


def received(shop: Sandbox, url: str) -> int:
    """How many messages of a queue are hidden since their receive."""
    name = "ApproximateNumberOfMessagesNotVisible"
    answer = shop.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    return int(answer["Attributes"][name])


def test_an_order_is_shipped(shop: Sandbox, registered: dict[str, Any]) -> None:
    send(shop, registered["main_url"], orderId="1", count=1)
    until(lambda: messages(shop, registered["main_url"]) == 0, "the order is shipped")
    assert messages(shop, registered["dlq_url"]) == 0
    assert messages(shop, registered["parking"]["default"]) == 0


def redrive(shop: Sandbox, registered: dict[str, Any]) -> str:
    """One run over the DLQ; why it ended."""
    answer = shop.client("lambda").invoke(
        FunctionName=registered["redrive_function"], Payload=json.dumps({"source": "dlq"})
    )
    said = answer["Payload"].read()
    assert "FunctionError" not in answer, said
    return str(json.loads(said)["stopped"])


@pytest.fixture(scope="module")
def enforced(shop: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The app says enforce by now."""
    folder = tmp_path_factory.mktemp("enforced")
    shutil.copytree(EXAMPLES / "bring-your-own", folder / "bring-your-own")
    app = folder / "bring-your-own" / "app.py"
    observes = 'PipelineSettings(name="orders")'
    assert app.read_text().count(observes) == 1
    enforces = 'PipelineSettings(name="orders", mode="enforce")'
    app.write_text(app.read_text().replace(observes, enforces))
    assembly = synthesized("bring-your-own", folder / "out", bundled=True, apps=folder)
    said = cdk(shop, "deploy", "--all", f"--app={assembly}", "--require-approval=never")
    assert said.count("Pipeline orders is in mode enforce") == 2


def test_a_dead_order_stays_in_the_dlq_until_the_app_says_enforce(
    shop: Sandbox, registered: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    send(shop, registered["dlq_url"], orderId="3", count=1)
    assert registered["mode"] == "observe"
    assert redrive(shop, registered) == "looked at 1 messages, moved none"
    assert messages(shop, registered["dlq_url"]) == 1

    request.getfixturevalue("enforced")

    def emptied() -> bool:
        redrive(shop, registered)
        return messages(shop, registered["dlq_url"]) == 0

    until(emptied, "the DLQ is empty")


@pytest.mark.usefixtures("enforced")
def test_an_order_of_nothing_is_parked_by_the_shops_role_which_is_trusted(
    shop: Sandbox, registered: dict[str, Any]
) -> None:
    send(shop, registered["main_url"], orderId="2", count=0)
    parking = registered["parking"]["default"]
    until(lambda: received(shop, registered["main_url"]), "it has failed once")
    # Of a new cause the counts decide in the second receive, two and a half minutes later.
    shop.hurry(10)
    until(lambda: messages(shop, parking) == 1, "the order is parked")
    shop.hurry(1)
    [parked] = shop.client("sqs").receive_message(
        QueueUrl=parking, AttributeNames=["SenderId"], MessageAttributeNames=["Redrive"]
    )["Messages"]
    stamp = json.loads(parked["MessageAttributes"]["Redrive"]["StringValue"])
    assert stamp["reason"] == "PERMANENT"
    router = shop.client("lambda").get_function_configuration(
        FunctionName=registered["router_function"]
    )
    trusted = json.loads(router["Environment"]["Variables"]["TRUSTED_SENDERS"])
    assert parked["Attributes"]["SenderId"].partition(":")[0] in trusted
