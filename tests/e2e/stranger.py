"""A team's own consumer in its own stack, before and after it adopts the consumer library.

Its function, role and event source mapping are made by the template of docs/consumer.md, and its
zip is packed as that page says under "What to set". Nothing here is the app's.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.progress import until
from sandbox.server import ACCOUNT, REGION, ROOT, Sandbox

# Powertools and jmespath, so that packing needs no network.
WHEELS = ROOT / "build" / "wheels"

PIPELINE = "shop"

FUNCTION = f"{PIPELINE}-consumer"

# In the bucket of their code.
BEFORE_ZIP, AFTER_ZIP = "before.zip", "package.zip"

TIMEOUT_SECONDS = 25

# How their handler was, with Powertools' own batch processor.
BEFORE = """
import json
import os
import urllib.request

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)

processor = BatchProcessor(event_type=EventType.SQS)


def record_handler(record):
    order = record.json_body
    if order["count"] < 1:
        raise ValueError("an order of nothing")
    shelf = os.environ["SHELVES"] + order["shelf"]
    request = urllib.request.Request(shelf, json.dumps({"orderId": order["orderId"]}).encode())
    with urllib.request.urlopen(request, timeout=5):
        pass


def handler(event, context):
    return process_partial_response(
        event=event, record_handler=record_handler, processor=processor, context=context
    )
"""

# What adoption changes of it: the processor, and what can never succeed.
CHANGES = {
    "    BatchProcessor,\n": "",
    ")\n\nprocessor = BatchProcessor(": ")\n\nfrom deadletter.consumer import Permanent\n"
    "from deadletter.consumer.powertools import DeadletterProcessor\n\n"
    "processor = DeadletterProcessor(",
    "raise ValueError(": "raise Permanent(",
}


def adopted(code: str) -> str:
    """Their handler, with the library in it."""
    for before, after in CHANGES.items():
        assert code.count(before) == 1, before
        code = code.replace(before, after)
    return code


@dataclass(frozen=True)
class Shop:
    """The team's stack in an account that the app is deployed into."""

    sandbox: Sandbox
    folder: Path

    def create(self) -> str:
        """Their stack as it was: a role and a function. Returns the role's unique id."""
        self.sandbox.client("s3").create_bucket(Bucket=f"{FUNCTION}-code")
        self._upload(BEFORE_ZIP, BEFORE, library=False)
        self.sandbox.client("cloudformation").create_stack(**self._stack(template_before()))
        self._wait("CREATE_COMPLETE")
        role = self.sandbox.client("iam").get_role(RoleName=FUNCTION)["Role"]
        return str(role["RoleId"])

    def adopt(self, shelves: str) -> None:
        """Do what docs/consumer.md lists: files, variable, policy, mapping."""
        self._upload(AFTER_ZIP, adopted(BEFORE), library=True)
        self.sandbox.client("cloudformation").update_stack(**self._stack(template(shelves)))
        self._wait("UPDATE_COMPLETE")

    def settings(self, role_id: str) -> dict[str, Any]:
        """The pipeline's settings, as the platform team writes them for this team."""
        return {
            "name": PIPELINE,
            "consumer": {
                "function_arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{FUNCTION}",
                "timeout": TIMEOUT_SECONDS,
            },
            "consumer_library": True,
            "trusted_senders": [role_id],
            "context": {"tenantId": "body.tenantId"},
            "idempotency_key": "body.orderId",
            # Compressed in time. Nothing pauses the mapping, so the canary is a message that died.
            "main_queue": {"max_receive_count": 3},
            "circuit": {"minimum": 4, "consecutive": 4, "cooldown": 10},
            "policy": {"backoff": {"base": 1, "cap": 1}},
            "tuning": {
                "retry.base": 1,
                "retry.cap": 1,
                "retry.floor": 0,
                "policy.backoff.floor": 0,
                "circuit.window": 100,
                "circuit.cooldown_factor": 1.5,
                "circuit.cooldown_cap": 20,
                "circuit.lease": 150,
                "circuit.ramp": 0,
            },
        }

    def _upload(self, name: str, code: str, *, library: bool) -> None:
        body = package(self.folder / name.partition(".")[0], code, library=library)
        self.sandbox.client("s3").put_object(Bucket=f"{FUNCTION}-code", Key=name, Body=body)

    def _stack(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "StackName": FUNCTION,
            "TemplateBody": json.dumps(body),
            "Capabilities": ["CAPABILITY_NAMED_IAM"],
        }

    def _wait(self, status: str) -> None:
        def done() -> bool:
            answer = self.sandbox.client("cloudformation").describe_stacks(StackName=FUNCTION)
            [stack] = answer["Stacks"]
            assert "ROLLBACK" not in stack["StackStatus"], stack
            return bool(stack["StackStatus"] == status)

        until(done, f"their stack is {status}")


def package(folder: Path, code: str, *, library: bool) -> bytes:
    """The zip of their function: their code, Powertools and, if they use it, the library."""
    packages = ["aws-lambda-powertools", *(["jmespath"] if library else [])]
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--quiet", "--no-compile"]
    offline = ["--disable-pip-version-check", "--no-index", "--find-links", str(WHEELS)]
    subprocess.run([*pip, *offline, "--target", str(folder), *packages], check=True)
    if library:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "lambdas" / "deadletter", folder / "deadletter", ignore=ignored)
    (folder / "app.py").write_text(code)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                files.write(file, str(file.relative_to(folder)))
    return archive.getvalue()


class _Yaml(yaml.SafeLoader):
    """YAML with the short forms of CloudFormation."""


_Yaml.add_constructor("!Sub", lambda loader, node: {"Fn::Sub": loader.construct_scalar(node)})
_Yaml.add_constructor("!Ref", lambda loader, node: {"Ref": loader.construct_scalar(node)})
_Yaml.add_constructor(
    "!GetAtt", lambda loader, node: {"Fn::GetAtt": loader.construct_scalar(node).split(".")}
)


def documented_template() -> dict[str, Any]:
    """The template of docs/consumer.md, for this pipeline."""
    page = (ROOT / "docs" / "consumer.md").read_text()
    [text] = re.findall(r"```yaml\n# template\.yaml\n(.*?)```", page, re.DOTALL)
    # A SafeLoader, with three constructors that make mappings.
    read: dict[str, Any] = yaml.load(text.replace("orders", PIPELINE), _Yaml)  # noqa: S506 - is safe
    return read


def template(shelves: str) -> dict[str, Any]:
    """Their stack with the library: as documented, with a variable of their own."""
    made = documented_template()
    variables = made["Resources"]["Consumer"]["Properties"]["Environment"]["Variables"]
    variables["SHELVES"] = shelves
    return made


def template_before() -> dict[str, Any]:
    """Their stack before: a role and a function, which know nothing of the library."""
    made = documented_template()
    resources = made["Resources"]
    del made["Parameters"], resources["Mapping"]
    del resources["Consumer"]["Properties"]["Environment"]
    resources["Role"]["Properties"]["ManagedPolicyArns"].pop()
    resources["Consumer"]["Properties"]["Code"]["S3Key"] = BEFORE_ZIP
    return made
