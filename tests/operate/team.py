"""A platform team at its terminal: a clone of the project, an account, and letters in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.deploy import environment
from sandbox.server import REGION, ROOT, Sandbox
from tests.e2e.receiver import Receiver
from tests.operate.synthesis import KEPT_VARIABLE

# What a clone of the project needs to be deployed and operated.
PARTS = ("app.py", "console", "infra", "lambdas", "statemachines", "tools")
LINKED = ("node_modules", "build")

GIT = shutil.which("git") or "git"

OLD, NEW = "v0.1.0", "v0.2.0"

# The sample pipeline of cdk.json.
ORDERS: dict[str, Any] = {
    "name": "orders",
    "consumer": {"kind": "webhook"},
    "context": {"tenantId": "body.tenantId"},
    "policy": {"backoff": {"base": 1, "cap": 1}},
}

# An app that keeps its data tunes nothing: the clone itself says that an endpoint may be on this
# machine.
REMOTE_ONLY, LOOPBACK_TOO = (f"allow_loopback: Constant[bool] = {may}" for may in (False, True))

# The other account: the emulator takes such a key for the root of the account of that number.
THERE = "111111111111"

# Letters that no deployment may lose: one in the parking lot, one in the waiting room.
PARKED, WAITING, GOOD = "acme", "cedar", "birch"


@dataclass(frozen=True, slots=True)
class Typed:
    """What a command said, on both streams, and its exit status."""

    output: str
    status: int


class PlatformTeam:
    """A team's clone of the project, with two releases, and the shell in which it types."""

    def __init__(self, sandbox: Sandbox, folder: Path, receiver: Receiver) -> None:
        self.sandbox = sandbox
        self.receiver = receiver
        self.clone = folder / "deadletter"
        self._commands = folder / "bin"
        self._home = folder / "home"
        self._home.mkdir()
        # Approvals are asked of a person at a terminal.
        (self._home / ".cdk.json").write_text(json.dumps({"requireApproval": "never"}))
        (self._home / ".aws").mkdir()
        keys = f"aws_access_key_id = {THERE}\naws_secret_access_key = {THERE}"
        (self._home / ".aws" / "config").write_text(f"[profile there]\nregion = {REGION}\n{keys}\n")
        self._put_commands()
        self._release(folder / "origin")

    def type(self, script: str) -> Typed:
        """Type a script into a shell in the clone; it ends at the first command that fails."""
        done = subprocess.run(
            ["/bin/sh", "-eu"],
            input=script,
            cwd=self.clone,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Typed(done.stdout, done.returncode)

    def settings(self) -> dict[str, Any]:
        """What cdk.json of the clone holds."""
        read: dict[str, Any] = json.loads((self.clone / "cdk.json").read_text())
        return read

    def change(self, **context: Any) -> None:
        """Edit the settings of the clone."""
        settings = self.settings()
        settings["context"] |= context
        (self.clone / "cdk.json").write_text(json.dumps(settings, indent=2))

    def dlq(self, *words: str, account: str = "") -> str:
        """Type a command of `dlq` that has to succeed; returns its output."""
        keys = {"AWS_ACCESS_KEY_ID": account} if account else None
        done = self.sandbox.dlq(words, keys)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def letter(self, tenant: str, account: str = "") -> None:
        """A message of the pipeline `orders` that has died."""
        keys = {"AccessKeyId": account, "SecretAccessKey": account} if account else None
        sqs = self.sandbox.client("sqs", keys)
        queue = sqs.get_queue_url(QueueName="deadletter-orders-dlq")["QueueUrl"]
        body = json.dumps({"tenantId": tenant, "orderId": f"{tenant}-1"})
        sqs.send_message(QueueUrl=queue, MessageBody=body)

    def kept(self) -> dict[str, int]:
        """How many letters are parked and how many wait, by the command line."""
        parked = json.loads(self.dlq("list", "--in", "parked", "--look", "--json"))
        waiting = json.loads(self.dlq("list", "--in", "waiting", "--json"))
        return {
            PARKED: len(parked["messages"]),
            WAITING: sum(place["messages"] for place in waiting["searched"]),
        }

    def stacks(self) -> set[str]:
        """The names of all stacks that exist."""
        pages = self.sandbox.client("cloudformation").get_paginator("describe_stacks").paginate()
        return {str(stack["StackName"]) for page in pages for stack in page["Stacks"]}

    def left(self) -> set[str]:
        """The names of tables, queues and buckets in the account, without those of the CDK."""
        tables = self.sandbox.client("dynamodb").list_tables()["TableNames"]
        buckets = [b["Name"] for b in self.sandbox.client("s3").list_buckets()["Buckets"]]
        found = {*tables, *self.sandbox.queues(), *buckets}
        return {name for name in found if not name.startswith("cdk-")}

    def _put_commands(self) -> None:
        """The commands of the page that this machine may not have."""
        self._commands.mkdir()
        aws = Path(__file__).with_name("aws_cli.py")
        synthesis = Path(__file__).with_name("synthesis.py")
        local = f"{ROOT}/node_modules/.bin"
        for name, command in {
            "aws": f'exec {sys.executable} {aws} "$@"',
            "dlq": f'exec {sys.executable} -m console "$@"',
            "python": f'exec {sys.executable} "$@"',
            "python3": f'[ "$*" != app.py ] || set -- {synthesis}; exec {sys.executable} "$@"',
            "npx": f'tool=$1; shift; exec {local}/"$tool" --no-color --no-notices "$@"',
        }.items():
            (self._commands / name).write_text(f"#!/bin/sh\n{command}\n")
            (self._commands / name).chmod(0o755)

    def _release(self, origin: Path) -> None:
        """Two releases in a repository, and a clone that has the first checked out."""
        origin.mkdir()
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for part in PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, origin / part, ignore=ignored)
            else:
                shutil.copy(ROOT / part, origin / part)
        declared = origin / "infra" / "settings.py"
        there = declared.read_text()
        assert REMOTE_ONLY in there
        declared.write_text(there.replace(REMOTE_ONLY, LOOPBACK_TOO))
        settings = json.loads((ROOT / "cdk.json").read_text())
        (origin / "cdk.json").write_text(json.dumps(settings, indent=2))
        (origin / ".gitignore").write_text("\n".join(["cdk.out", "__pycache__", *LINKED]))
        self._git(origin, "init", "--quiet")
        self._tag(origin, OLD)
        # A line of code that runs nowhere: the zip of all functions has another hash.
        with (origin / "lambdas" / "deadletter" / "__init__.py").open("a") as module:
            module.write("\n# The second release.\n")
        self._tag(origin, NEW)
        self._git(origin.parent, "clone", "--quiet", str(origin), str(self.clone))
        self._git(self.clone, "checkout", "--quiet", OLD)
        for part in LINKED:
            (self.clone / part).symlink_to(ROOT / part)

    def _tag(self, folder: Path, tag: str) -> None:
        self._git(folder, "add", "--all")
        self._git(folder, "commit", "--quiet", "--message", tag)
        self._git(folder, "tag", tag)

    def _git(self, folder: Path, *words: str) -> None:
        who = ["-c", "user.name=platform", "-c", "user.email=platform@example.org"]
        safe = ["-c", "advice.detachedHead=false", "-c", "protocol.file.allow=always"]
        subprocess.run([GIT, *who, *safe, *words], cwd=folder, check=True)

    def _environment(self) -> Mapping[str, str]:
        given = environment(self.sandbox, self.sandbox.folder.absolute())
        return {
            **given,
            "CI": "1",
            "HOME": str(self._home),
            KEPT_VARIABLE: str(self._home),
            "PATH": os.pathsep.join([str(self._commands), given.get("PATH", os.defpath)]),
            "PYTHONPATH": f"{self.clone}{os.pathsep}{self.clone / 'lambdas'}",
        }
