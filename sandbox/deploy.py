"""The real app, put into the sandbox by the real CDK CLI.

The CLI is the pinned one in node_modules. It and the app see the sandbox's
endpoint and credentials, and none of the developer's. Templates that were made before from the very
same sources and settings are used again.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from sandbox import sources, templates
from sandbox.server import ACCOUNT, REGION, ROOT, Sandbox

CDK = ROOT / "node_modules" / ".bin" / "cdk"

# What the sandbox always says: nothing in it is to be kept.
CONTEXT = {"ephemeral": "true"}

# Outputs by stack and name.
Outputs = Mapping[str, Mapping[str, str]]

TAIL_LINES = 40


class DeployError(Exception):
    """The CDK CLI failed (the message ends with its last lines), or the sources do not rest."""


def deploy(
    sandbox: Sandbox,
    *,
    context: Mapping[str, str],
    app: Path = ROOT / "app.py",
    show: Callable[[str], None] = lambda _: None,
) -> Outputs:
    """Bootstrap the sandbox, deploy every stack of *app* and return their outputs.

    *context* goes over that of the app's cdk.json (``--context key=value``).
    *show* is given each line of progress; ``deploy.log`` in the sandbox's folder keeps them.
    Raises DeployError.
    """
    folder = sandbox.folder.absolute()
    outputs = folder / "outputs.json"
    said = [f"--context={key}={value}" for key, value in {**CONTEXT, **context}.items()]
    given = environment(sandbox, folder)
    with (folder / "deploy.log").open("w") as log:

        def tell(line: str) -> None:
            print(line, file=log)
            show(line)

        bootstrap(sandbox, tell)

        def read() -> sources.Sources:
            return sources.read(app, {**CONTEXT, **context}, given)

        def synthesize(into: Path) -> None:
            sources.forget_bytecode(app)
            made_by = f"--app={shlex.join([sys.executable, app.name])}"
            synth = ["synth", "--quiet", made_by, f"--output={into}", *said]
            _run(synth, cwd=app.parent, environment=given, tell=tell)

        try:
            templates.assembly(folder / "cdk.out", read, synthesize)
        except templates.SourcesChange as error:
            raise DeployError(str(error)) from error
        everything = [
            "deploy",
            "--all",
            f"--app={folder / 'cdk.out'}",
            f"--outputs-file={outputs}",
            "--require-approval=never",
            "--progress=events",
        ]
        _run(everything, cwd=folder, environment=given, tell=tell)
    deployed: Outputs = json.loads(outputs.read_text())
    return deployed


def bootstrap(sandbox: Sandbox, show: Callable[[str], None] = lambda _: None) -> None:
    """Prepare the sandbox for the CDK CLI; raises DeployError."""
    folder = sandbox.folder.absolute()
    # Away from the app: beside its cdk.json the CLI would synthesize it only to bootstrap.
    arguments = ["bootstrap", f"aws://{ACCOUNT}/{REGION}"]
    _run(arguments, cwd=folder, environment=environment(sandbox, folder), tell=show)


def _run(
    arguments: list[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    tell: Callable[[str], None],
) -> None:
    lines: list[str] = []
    with subprocess.Popen(
        # --ci: no cursor movements, no questions.
        [str(CDK), "--ci", "--no-color", "--no-notices", *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as cli:
        assert cli.stdout is not None
        try:
            for line in cli.stdout:
                lines.append(line.rstrip())
                tell(lines[-1])
        except BaseException:
            # Leaving would first wait for a deployment that nobody wants any more.
            cli.kill()
            raise
    if cli.returncode != 0:
        tail = "\n".join(lines[-TAIL_LINES:])
        raise DeployError(f"cdk {arguments[0]} ended with status {cli.returncode}:\n{tail}")


def environment(sandbox: Sandbox, folder: Path) -> dict[str, str]:
    """Say what the CLI and the app see: little of the shell, and this AWS."""
    return {
        **sources.given(os.environ),
        **sandbox.environment,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "CDK_HOME": str(folder / "cdk-home"),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "1",
        # The set-up puts Node beside Python where the system's is missing or too old.
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
    }
