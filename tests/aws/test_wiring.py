"""Each function loads what it needs: the modules of ours that its import brings along.

A team's function pays for every module of the consumer library at each cold start.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The most modules of ours that a function may load, without `__init__` and `contract`.
# A larger number needs its reason beside it.
# Of each function of ours 1 makes clients without boto3, and 1 reads DynamoDB's values. 1 makes
# clients of redriver and router before the first event.
MOST_MODULES = {
    # What a batch needs that succeeds: settings, letters, claims, circuits and their adapters.
    # Diagnoses, ledger, parking, causes and trips are loaded when they are first used.
    # 1 for the paths of settings, with the function `json`. 1 knows its function's version.
    "deadletter.consumer": 41,
    # 30, and 3 because the language of patterns is in modules of one purpose each; 1 for versions,
    # 1 for windows, 1 for what a rule can match at all, 1 for the catalogue of signals.
    # 1 for what was typed, 1 for rules of equal priority, and 1 fewer without the index of rules.
    "handlers.check_rules": 41,
    # The custom resource of a deployment: the answer, the figures, and their clients.
    "handlers.first_heartbeat": 17,
    # 35, and 2 because the router's port and a refused rule are apart from the router itself:
    # probe and redriver ask the router, and so load neither the rules nor the judgement.
    # 1 says which failures were tried at all, and 2 which causes suddenly dominate.
    # 1 makes the clients of a team's function, apart from those of ours, and 1 has the words for
    # failures, which a team's function loads without the failure itself. 1 loads what reads
    # replay runs when the first letter of one comes. 4 for the language of patterns and versions of
    # rules, 1 for windows, 1 for what a rule can match at all, 1 for samples. 1 for what was typed,
    # and 3 fewer without the index of rules.
    "handlers.route": 53,
    # The consumer library, 10 modules of its own, and metrics; failures' codes, because the
    # dispatcher names the status of an answer: what they load grows with what they know.
    # 1 runs the posts of a batch side by side, and 1 keeps their connections.
    # 1 knows what each publishing of a message sets anew, and 1 the words of services' answers.
    "handlers.dispatch": 68,
    "handlers.circuit": 32,
    # 60, and 3 for which letters may be canaries: the ledger's word on them, the moves into the
    # circuit's lane, and the main queue's messages. 1 changes circuits, apart from reading them.
    # 1 for the connections that the HTTP client may keep, 1 makes clients of a team's function, 1
    # has the words for failures.
    # 1 for the rate that finds itself, which a source's memory holds, 1 for concurrency.
    # 1 for the drain that stands in a lease, 1 for the counts of rules.
    # 1 tells a pipeline's own rows from foreign ones. 2 for the one bucket, of a lane and a queue.
    # 1 for the declaration of settings. 1 asks whether boto3 makes all calls.
    "handlers.probe": 80,
    # 70, 1 judges letters again when other rules are in force, and 1 keeps the rates of rules.
    # 2 for the rate that finds itself: the rule, and what keeps it in a run. 2 receive side by
    # side, as many at once as does good. 4 for drains in shards: what stands in the lease, its
    # owner, how many, and the start of another run.
    # 1 for the counts of rules, and 1 for the lines with each letter's age.
    # 1 tells a pipeline's own rows from foreign ones. 1 for what people ask of the function beside
    # runs, which loads the rest when it is asked. 1 for the deadline of requests, 1 for first runs.
    # 1 for the one bucket, of which lanes and queues have what they add.
    "handlers.redrive": 83,
    # The redriver's, and the steps of a replay run: snapshot, freeze, worker, judge and reconcile.
    # 4 announce changed runs on EventBridge. 1 for the rates of rules.
    # 2 for the rate that finds itself, 2 receive side by side, 3 for drains in shards.
    # 1 for the counts of rules. 1 tells a pipeline's own rows from foreign ones.
    # 1 restores what was discarded, 1 for the deadline of requests, 1 for first runs.
    # 1 for the one bucket.
    # 1 knows what each publishing of a message sets anew. 3 keep originals, and repeat a run.
    # 1 asks if there is room for a new key.
    # 4 for troubles in the row of the watch, whose news it tells.
    # 1 for the declaration of settings. 1 asks whether boto3 makes all calls.
    "handlers.replay": 155,
    # 11 of the watch itself, the sweep's, and the ports of queues, leases, lanes and the router.
    # 10 for lost executions of replay runs: run, plan, approval, their stores, the steps' ports.
    # 13 for news: what was told, the index of causes, recovered letters, EventBridge, changed runs.
    # 1 for the state of the rule checker.
    # 2 for what a source's memory holds: the rate that finds itself, and a drain.
    # 1 tells a pipeline's own rows from foreign ones. 1 for first runs, in a source's memory.
    # 2 for the one bucket, of a lane and a queue. 1 for when the DLQ will be empty.
    # 3 for pages, troubles and commands, 1 for the look at what all share. 1 for the declaration of
    # settings.
    "handlers.watch": 112,
}

# What is for tests alone, and never in a function.
FOR_TESTS = ("deadletter.testing", "pytest")

# Names and words alone: each function needs them.
NAMES = ("deadletter.contract", "deadletter.signals.figures")

LOADED = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps([
    name
    for name, module in sys.modules.items()
    if not (getattr(module, "__file__", None) or "").endswith("__init__.py")
]))
"""


def loaded_by(module: str) -> set[str]:
    """Every module that is loaded once `module` has been imported, packages left out."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, module],
        cwd=ROOT / "lambdas",
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout))


def ours(loaded: set[str]) -> list[str]:
    """Those of the modules that are ours and that count."""
    packages = ("deadletter.", "handlers.")
    return sorted(name for name in loaded if name.startswith(packages) and name not in NAMES)


@pytest.mark.parametrize(("module", "most"), MOST_MODULES.items())
def test_a_function_loads_few_modules(module: str, most: int) -> None:
    loaded = loaded_by(module)
    modules = ours(loaded)
    assert modules, "nothing of ours was counted"
    assert len(modules) <= most, "\n".join(modules)
    assert not [name for name in loaded if name.startswith(FOR_TESTS)]


LATER = (
    *("deadletter.failure.blame", "deadletter.failure.classify", "deadletter.failure.codes"),
    *("deadletter.failure.causes", "deadletter.message.envelope", "deadletter.processing.parking"),
    *("deadletter.aws.outcomes", "deadletter.circuit.outcomes", "deadletter.failure.ledger"),
    *("deadletter.aws.breaker", "deadletter.aws.ledger", "deadletter.aws.queue"),
    *("deadletter.circuit.transitions", "deadletter.outage.executions", "asyncio.events"),
    "deadletter.consumer.polling",
)
"""What a team's function does not load before its first batch ends, or a message fails."""


def test_a_teams_function_loads_nothing_that_its_first_message_does_not_need() -> None:
    loaded = loaded_by("deadletter.consumer")
    assert not loaded & set(LATER)


def test_every_function_is_counted() -> None:
    handlers = {path.stem for path in (ROOT / "lambdas" / "handlers").glob("*.py")}
    functions = handlers - {"__init__", "init", "metrics", "runtime"}
    assert {f"handlers.{name}" for name in functions} | {"deadletter.consumer"} == set(MOST_MODULES)
