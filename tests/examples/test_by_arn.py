"""The examples in TypeScript and Terraform name what the pipeline's templates name."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deadletter.contract import CONSUMER_VARIABLE, consumer_policy_parameter
from infra.arn import Arn
from tests.infra.conftest import Synthesize, synthesize

__all__ = ["synthesize"]

EXAMPLES = Path(__file__).parents[2] / "examples"

CONTEXT = json.loads((EXAMPLES / "deadletter.json").read_text())

[ORDERS] = CONTEXT["pipelines"]

TYPESCRIPT = (EXAMPLES / "typescript" / "shop.ts").read_text()
TERRAFORM = (EXAMPLES / "terraform" / "main.tf").read_text()

# One attribute each, by what it names: in TypeScript, then in Terraform.
NAMES = {
    "main queue": (
        r"queueName: '([^']+)',\n *//",
        r'resource "aws_sqs_queue" "orders" \{\s+name += "([^"]+)"',
    ),
    "dlq": (
        r"queueName: '([^']+)',\n *retention",
        r'resource "aws_sqs_queue" "dead_orders" \{\s+name += "([^"]+)"',
    ),
    "function": (r"functionName: '([^']+)'", r'function_name = "([^"]+)"'),
    "timeout": (r"timeout: cdk.Duration.seconds\((\d+)\)", r"timeout += (\d+)"),
    "parameter": (
        r"valueForStringParameter\(\s*this,\s*'([^']+)'",
        r'data "aws_ssm_parameter" "consumer" \{[^}]*?name +=\s"([^"]+)"',
    ),
    "variable": (
        rf"addEnvironment\('{CONSUMER_VARIABLE}', '([^']+)'\)",
        rf'{CONSUMER_VARIABLE} = var\.adopted \? "([^"]+)" : "off"',
    ),
    "visibility": (
        r"visibilityTimeout: cdk.Duration.seconds\((\d+)\)",
        r"visibility_timeout_seconds = (\d+)",
    ),
}


def named(text: str, language: int) -> dict[str, str]:
    """What an example calls each thing; each has to be there once."""
    found = {}
    for what, patterns in NAMES.items():
        values = re.findall(patterns[language], text)
        assert len(values) == 1, (what, values)
        found[what] = values[0]
    return found


EACH = pytest.mark.parametrize(
    ("text", "language"), [(TYPESCRIPT, 0), (TERRAFORM, 1)], ids=["typescript", "terraform"]
)


@EACH
def test_it_names_what_the_settings_name(text: str, language: int) -> None:
    consumer = ORDERS["consumer"]
    assert named(text, language) == {
        "main queue": Arn.parse(ORDERS["main_queue"]["arn"]).resource,
        "dlq": Arn.parse(ORDERS["dlq"]["arn"]).resource,
        "function": Arn.parse(consumer["function_arn"]).resource.partition(":")[2],
        "timeout": str(consumer["timeout"]),
        "parameter": consumer_policy_parameter("deadletter", ORDERS["name"]),
        "variable": f"deadletter/{ORDERS['name']}",
        "visibility": str(6 * consumer["timeout"]),
    }


@EACH
def test_it_returns_failures_one_by_one(text: str, language: int) -> None:
    """Else Lambda deletes what the library gives back."""
    assert ("reportBatchItemFailures: true", '["ReportBatchItemFailures"]')[language] in text


@EACH
def test_its_brackets_are_closed(text: str, language: int) -> None:
    assert unclosed(text) == ""
    assert unclosed(text.replace("}", "", 1)) != ""


def unclosed(text: str) -> str:
    """The brackets that are left open outside of texts and comments, or closed without one."""
    left = ""
    bare = re.sub(r"//.*|(?m:^\s*#.*)|'[^'\n]*'|\"[^\"\n]*\"", "", text)
    for character in re.findall(r"[][(){}]", bare):
        if left and left[-1] + character in ("()", "[]", "{}"):
            left = left[:-1]
        else:
            left += character
    return left


@pytest.mark.skipif(not shutil.which("terraform"), reason="Terraform is not installed")
def test_terraform_reads_it() -> None:
    command = ["terraform", "fmt", "-check", "-diff", "-"]
    done = subprocess.run(command, input=TERRAFORM, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
@EACH
def test_the_templates_have_each_of_its_names(
    synthesize: Synthesize, text: str, language: int
) -> None:
    app = synthesize(CONTEXT)
    names = named(text, language)
    [policy] = [
        stack
        for stack in app.stacks.values()
        for parameter in stack.of("AWS::SSM::Parameter").values()
        if parameter["Properties"]["Name"] == names["parameter"]
    ]
    assert policy.of("AWS::IAM::ManagedPolicy")
    redriver = app.environment("deadletter-orders-redrive")
    assert redriver["MAIN_ARN"].endswith(f":{names['main queue']}")
    assert redriver["DLQ_URL"].endswith(f"/{names['dlq']}")
    assert ORDERS["trusted_senders"][0] in redriver["TRUSTED_SENDERS"]
    # Its consumer, which a probe invokes.
    arn = ORDERS["consumer"]["function_arn"]
    assert arn.endswith(f":function:{names['function']}")
    assert arn in json.dumps(policy.template)
