"""The run that proves the product in an account: it holds here, and fails where the app is broken.

It is the case of the real clock: its sandbox is its own, and is at work beside all others.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from sandbox.progress import until
from sandbox.server import Sandbox
from tests.e2e.prover import Proved, Prover

STEPS = ("deploy", "die", "page", "heal", "park", "replay", "calm", "destroy")

# Seconds without movement; a schedule starts each minute.
PATIENCE = ("--patience", "90")


def test_an_app_is_deployed_proved_and_destroyed(proof: Future[Proved]) -> None:
    proved = proof.result()
    assert proved.status == 0, proved.printed
    assert [step for step in STEPS if not proved.step(step)] == [], proved.printed
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


def deafen(sandbox: Sandbox) -> None:
    """A topic that has no subscriber any more."""
    sns = sandbox.client("sns")

    def subscribed() -> list[Any]:
        return list(sns.list_subscriptions()["Subscriptions"])

    for each in until(subscribed, "the pager has subscribed"):
        sns.unsubscribe(SubscriptionArn=each["SubscriptionArn"])


@pytest.mark.parametrize(
    ("meddle", "step"),
    [
        pytest.param(throttle("route"), "heal", id="a router that cannot start"),
        pytest.param(deafen, "page", id="a page that does not arrive"),
        pytest.param(throttle("replay"), "replay", id="a parked message that is not replayed"),
    ],
)
def test_a_run_fails_and_names_the_step(
    meddle: Callable[[Sandbox], object], step: str, tmp_path: Path
) -> None:
    proved = Prover(tmp_path).run(meddle, *PATIENCE)
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
        prover.interrupt()

    proved = prover.run(interrupt)
    assert proved.status == 1, proved.printed
    assert "interrupted" in proved.step("deploy"), proved.printed
    assert proved.step("destroy").endswith("nothing is left"), proved.printed
    assert proved.left == []
