"""`make verify-aws` on an AWS that is known: all of it, and what it says of an app that is broken.

Each run has a sandbox of its own, on the real clock.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sandbox.progress import until
from sandbox.server import Sandbox
from tests.e2e.prover import Prover
from tools.verify_aws.check import CHECKS
from tools.verify_aws.prove import STEPS
from tools.verify_aws.report import DIFFERS, HOLDS, UNCLEAR

# Seconds without movement; a schedule starts each minute.
PATIENCE = ("--patience", "90")

PRODUCT = ("--only", "product", *PATIENCE)

# What this AWS does otherwise than the one that it stands for. Everything else holds here.
EMULATED: Mapping[str, str] = {
    "batch-per-entry": DIFFERS,
    "client-context": DIFFERS,
    "dashboard-limits": DIFFERS,
    "data-limit": DIFFERS,
    "deduplication-after-move": DIFFERS,
    "deduplication-id-on-standard": DIFFERS,
    "delay": DIFFERS,
    "description": DIFFERS,
    "environment": DIFFERS,
    "execution-name": DIFFERS,
    "export-in-use": DIFFERS,
    "managed-key": UNCLEAR,
    "mapping-changes": DIFFERS,
    "mapping-visibility": DIFFERS,
    "message-size": DIFFERS,
    "move-task": UNCLEAR,
    "mute-rule": DIFFERS,
    "parameter-size": DIFFERS,
    "payload-of-a-state": DIFFERS,
    "redrive-allow": DIFFERS,
    "redrive-type": DIFFERS,
    "ten-attributes": DIFFERS,
    "trace-header-in-a-batch": DIFFERS,
    "twelve-hours": DIFFERS,
}


def test_all_of_it_runs_here_and_leaves_nothing(tmp_path: Path) -> None:
    proved = Prover(tmp_path).run(None, *PATIENCE)
    said = {name: proved.verdicts.get(name) for name in CHECKS}
    assert said == {name: EMULATED.get(name, HOLDS) for name in CHECKS}, proved.printed
    steps = {name: proved.step(name) for name in (*STEPS, "destroy")}
    assert [name for name, line in steps.items() if not line or "FAILED" in line] == []
    assert "Claims of docs/aws-differences.md: " in proved.printed
    assert proved.left == []


def function_named(sandbox: Sandbox, role: str) -> str:
    """The function of the app that plays a role, as soon as it is deployed."""
    functions = sandbox.client("lambda")

    def deployed() -> str | None:
        names = [each["FunctionName"] for each in functions.list_functions()["Functions"]]
        return next((name for name in names if name.endswith(f"-orders-{role}")), None)

    return until(deployed, f"{role} is deployed")


def throttle(role: str) -> Callable[[Sandbox], object]:
    """A function that cannot start."""

    def meddle(sandbox: Sandbox) -> None:
        sandbox.client("lambda").put_function_concurrency(
            FunctionName=function_named(sandbox, role), ReservedConcurrentExecutions=0
        )

    return meddle


def subscriptions(sandbox: Sandbox) -> list[Any]:
    """What a person has subscribed to, as soon as the app is deployed."""
    sns = sandbox.client("sns")
    return until(
        lambda: list(sns.list_subscriptions()["Subscriptions"]), "the pager has subscribed"
    )


def deafen(sandbox: Sandbox) -> None:
    """A topic that has no subscriber any more."""
    for each in subscriptions(sandbox):
        sandbox.client("sns").unsubscribe(SubscriptionArn=each["SubscriptionArn"])


@pytest.mark.parametrize(
    ("meddle", "step"),
    [
        pytest.param(throttle("redrive"), "rule", id="a redriver that cannot start"),
        pytest.param(deafen, "page", id="a page that does not arrive"),
        pytest.param(throttle("probe"), "heal", id="a canary that cannot start"),
    ],
)
def test_a_run_fails_and_names_the_step(
    meddle: Callable[[Sandbox], object], step: str, tmp_path: Path
) -> None:
    proved = Prover(tmp_path).run(meddle, *PRODUCT)
    assert proved.status == 1, proved.printed
    assert "FAILED: " in proved.step(step), proved.printed
    assert proved.printed.count("FAILED") == 1, proved.printed
    # What it made is destroyed all the same.
    assert proved.left == []


def test_an_interrupted_run_destroys_what_it_made(tmp_path: Path) -> None:
    prover = Prover(tmp_path)

    def interrupt(sandbox: Sandbox) -> None:
        # In the middle of the deployment.
        function_named(sandbox, "watch")
        prover.signal(signal.SIGINT)

    proved = prover.run(interrupt, *PRODUCT)
    assert proved.status == 1, proved.printed
    assert "interrupted" in proved.step("deploy"), proved.printed
    assert proved.step("destroy").endswith("nothing is left"), proved.printed
    assert proved.left == []


def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    prover = Prover(tmp_path)

    def kill(sandbox: Sandbox) -> None:
        subscriptions(sandbox)
        prover.signal(signal.SIGKILL)

    swept = prover.run(kill, *PRODUCT, then="--sweep")
    # This AWS has no mute rules that could be listed.
    assert swept.printed.count("could not remove") == 1, swept.printed
    # Protected ones and those that stay, too.
    for kind in ("stack", "table", "bucket", "queue", "policy"):
        assert f"removing {kind}" in swept.printed
    assert swept.left == []
