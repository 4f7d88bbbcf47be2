"""An AWS on this machine: MiniStack in a process group of its own, gone when you leave.

    with Sandbox(folder) as sandbox:
        queues = sandbox.client("sqs")

Nothing outside loopback can reach it, its state lies in a temporary folder, and
its log is *folder*/emulator.log.

Secure (the default): it speaks TLS only and enforces IAM, so what a function's
role may not do fails as it would on AWS, and policies that demand TLS are met.
The access key ``test`` is the account's root and may do everything. Not
secure: plain HTTP, and everybody may do everything.

Still: the time of SQS stands still until `advance`. With an own clock: from `hurry` on, all
time in it passes faster than on this machine, so that the app lives through an hour in minutes
(`sandbox.fast_clock`); its alarms have minutes of sixty seconds of that clock.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import boto3
from botocore.config import Config

from sandbox import calls, certificate
from sandbox.command_line import CommandLine
from sandbox.fast_clock import VARIABLE, FastClock
from sandbox.faults import FAULTS_PATH, Fault, written
from sandbox.processor import ProcessorTime, processor_time
from sandbox.progress import STANDSTILL_SECONDS, Standstill, until
from sandbox.still_clock import CLOCK_PATH

ROOT = Path(__file__).parent.parent

# MiniStack's own default; in the ARN of everything it makes.
ACCOUNT = "000000000000"
REGION = "us-east-1"

# MiniStack takes this access key for the account's root, whatever the secret.
ROOT_KEY = "test"

# The longest that Lambda lets a function run: an invocation is answered when it has ended.
ANSWER_SECONDS = 900

TAIL_LINES = 30


def parameter(ssm: Any, name: str) -> dict[str, Any]:
    """What a deployment says of itself in a parameter."""
    said: dict[str, Any] = json.loads(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    return said


class SandboxError(Exception):
    """The emulator did not come up, or is gone; the message ends with its last words."""


class Sandbox:
    """One emulator, from `start` to `stop`; use it as a context manager.

    endpoint     its URL
    environment  the variables that point any AWS client at it
    """

    def __init__(
        self,
        folder: Path,
        *,
        secure: bool = True,
        still: bool = False,
        own_clock: bool = False,
    ) -> None:
        self.folder = folder
        self.log = folder / "emulator.log"
        self.secure = secure
        self.still = still
        self.endpoint = ""
        self.environment: Mapping[str, str] = {}
        self._state: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._trust: ssl.SSLContext | None = None
        self._own_clock = own_clock
        self._clock: FastClock | None = None
        self.clock_environment: Mapping[str, str] = {}
        """What a process of ours finds the clock by, with `sandbox.fast_clock`."""
        self._command_line = CommandLine()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the emulator on a free port and wait until it answers.

        Raises SandboxError if it ends, or does not answer and writes nothing for
        STANDSTILL_SECONDS.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._state = Path(tempfile.mkdtemp(prefix="deadletter-sandbox-"))
        if self._own_clock:
            file = self._state / "clock"
            self._clock, self.clock_environment = FastClock.begin(file), {VARIABLE: str(file)}
            self._command_line = CommandLine(self.clock_environment)
        # The emulator inherits the listening socket, so nobody can take the port in between.
        with socket.create_server(("127.0.0.1", 0)) as listener, self.log.open("wb") as log:
            port = listener.getsockname()[1]
            arguments = ["--still"] if self.still else []
            arguments.append(str(listener.fileno()))
            trust = {}
            environment = self._emulator_environment(self._state, port)
            environment |= self.clock_environment
            if self.secure:
                issued = certificate.issue(self._state, now=datetime.now(UTC))
                self._trust = ssl.create_default_context(cafile=issued.trust)
                arguments += [str(issued.trust), str(issued.key)]
                trust = dict.fromkeys(("AWS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"), str(issued.trust))
                environment |= {
                    "AUTH": "true",
                    "USE_SSL": "1",
                    "MINISTACK_SSL_CERT": str(issued.trust),
                    "MINISTACK_SSL_KEY": str(issued.key),
                    # The workers of Lambda functions inherit all this.
                    **trust,
                }
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sandbox.emulator", *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        self.endpoint = f"{'https' if self.secure else 'http'}://127.0.0.1:{port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ROOT_KEY,
            "AWS_SECRET_ACCESS_KEY": ROOT_KEY,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            **trust,
        }
        self._wait_until_ready()

    def stop(self) -> None:
        """End the emulator and the workers of its functions, and forget its state."""
        self._command_line.close()
        if self._process is not None:
            # Nothing in it is worth an orderly end, and a killed group leaves no orphans.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None
        if self._state is not None:
            # A worker writes on for a moment after it was killed.
            with contextlib.suppress(Standstill):
                until(self._forgotten, "the state is removed")
            self._state = None

    def client(self, service: str, credentials: Mapping[str, str] | None = None) -> Any:
        """Make a boto3 client, whatever the environment says.

        *credentials* are those that STS answers with; without them, root's.
        """
        root = {"AccessKeyId": ROOT_KEY, "SecretAccessKey": ROOT_KEY}
        used = credentials or root
        session = boto3.Session(
            aws_access_key_id=used["AccessKeyId"],
            aws_secret_access_key=used["SecretAccessKey"],
            aws_session_token=used.get("SessionToken"),
            region_name=REGION,
        )
        return session.client(
            service,  # type: ignore[call-overload]  # any service; the stubs want a literal
            endpoint_url=self.endpoint,
            verify=self.environment.get("AWS_CA_BUNDLE"),
            config=Config(read_timeout=ANSWER_SECONDS),
        )

    def dlq(
        self, words: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of `dlq` as root; *environment*, such as credentials, goes over that."""
        return self._command_line.type(words, {**self.environment, **(environment or {})})

    def queues(self) -> Mapping[str, list[dict[str, Any]]]:
        """Look at the messages of every queue, by queue name, without receiving them."""
        accounts = self._get("/_ministack/sqs/messages")["messages"]
        by_url = accounts.get(ACCOUNT, {}).get(REGION, {})
        return {url.rsplit("/", 1)[-1]: messages for url, messages in by_url.items()}

    def advance(self, seconds: float) -> float:
        """Let time pass in the SQS of a sandbox that is still; returns its epoch seconds."""
        return float(self._get(CLOCK_PATH, str(seconds).encode()))

    def time(self) -> float:
        """The epoch seconds of the app's clock; a still SQS has its own."""
        return time.time() if self._clock is None else self._clock.time()

    def hurry(self, speed: float) -> None:
        """Let the time of a sandbox with an own clock pass so many times as fast from now on.

        Deploy first: the CDK CLI, which keeps the machine's time, waits long for an AWS that is
        far ahead of it.
        """
        if self._clock is None:
            raise SandboxError("a sandbox without a clock of its own has the machine's time")
        self._clock.hurry(speed)

    def processor_time(self) -> Mapping[str, ProcessorTime]:
        """What each thread of the emulator and of its functions has had of the processors."""
        return processor_time(self._process.pid) if self._process else {}

    def fail(self, *faults: Fault) -> None:
        """Let calls fail that one of these faults hits, and no others; none ends them all."""
        self._get(FAULTS_PATH, written(faults))

    def calls(self) -> list[calls.Call]:
        """Look at what has been called so far in the roles of functions, each kind once."""
        return calls.read(self._state / calls.FILE) if self._state else []

    def log_tail(self) -> str:
        """Return the last lines that the emulator wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def _forgotten(self) -> bool:
        assert self._state is not None
        shutil.rmtree(self._state, ignore_errors=True)
        return not self._state.exists()

    def _get(self, path: str, body: bytes | None = None) -> Any:
        # Loopback only, so no proxy from the environment.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._trust)
        )
        with opener.open(self.endpoint + path, body, timeout=STANDSTILL_SECONDS) as answer:
            return json.load(answer)

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        try:
            until(self._answers, "the emulator answers", marks=lambda: self.log.stat().st_size)
        except Standstill as error:
            raise SandboxError(f"{error}:\n{self.log_tail()}") from None

    def _answers(self) -> bool:
        assert self._process is not None
        if (status := self._process.poll()) is not None:
            raise SandboxError(f"the emulator ended with status {status}:\n{self.log_tail()}")
        # A peer that is gone before the handshake leaves Python's TLS socket to the garbage
        # collector, which warns; an emulator that ends here is reported in its own words.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            try:
                self._get("/_ministack/health")
            except OSError:
                return False
        return True

    @staticmethod
    def _emulator_environment(state: Path, port: int) -> dict[str, str]:
        """Say what the emulator sees of this machine: as little as possible.

        The workers of Lambda functions inherit it, and nothing of the
        developer's own settings, credentials and proxies may change what they do.
        """
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(state),
            "TMPDIR": str(state),
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            # The host in queue URLs; "localhost" may mean ::1, where nobody listens.
            "MINISTACK_HOST": "127.0.0.1",
            "MINISTACK_REGION": REGION,
            "MINISTACK_ACCOUNT_ID": ACCOUNT,
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            # It would look for containers of other MiniStacks and end them.
            "DOCKER_HOST": f"unix://{state}/no-docker",
        }
