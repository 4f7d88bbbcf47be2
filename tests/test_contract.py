"""The contract holds every name that deployment and runtime share, and costs nothing to import."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from deadletter.circuit.state import State
from deadletter.contract import (
    ANY,
    CIRCUIT_LEVELS,
    DEFAULT_PARKING,
    Partition,
    Variable,
    circuit_lane,
    every_partition,
    lane_partition,
    parking_for,
    pipeline_parameter,
)
from deadletter.settings.resources import Resources

LAMBDAS = Path(__file__).parents[1] / "lambdas"


def test_importing_it_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import deadletter.contract;"
        "names = {name.partition('.')[0] for name in sys.modules};"
        "print(sorted(names - sys.stdlib_module_names - {'__main__', 'deadletter'}));"
        "print(sorted(name for name in sys.modules if name.startswith('deadletter.')))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(LAMBDAS)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n['deadletter.contract']\n"


def test_each_resource_of_a_function_has_a_variable() -> None:
    own = {Variable.APP, Variable.PIPELINE, Variable.WEBHOOK}
    assert {Variable(field.name.upper()) for field in fields(Resources)} | own == set(Variable)


def test_each_state_of_a_circuit_has_a_level() -> None:
    assert set(CIRCUIT_LEVELS) == set(map(str, State))


def test_keys_are_composed_as_they_are_stored() -> None:
    assert Partition.LEDGER.of("orders", "m-1") == "orders#ledger#m-1"
    assert Partition.CLAIM.of("orders", ANY) == "orders#done#*"
    assert Partition.JOURNAL.of("orders") == "orders#journal"
    assert Partition.GROUP.of("orders", "dlq", "0f") == "orders#group#dlq#0f"
    assert every_partition("orders") == "orders#*"
    assert lane_partition("orders", circuit_lane("acme"), 3) == "orders|circuit:acme|3"
    assert lane_partition("orders", circuit_lane(ANY)) == "orders|circuit:*"
    assert pipeline_parameter("shop", "orders") == "/shop/pipelines/orders"


def test_a_parking_queue_is_chosen_by_reason_or_else_by_the_category_of_the_failure() -> None:
    queues = {"POISON": "a", "schema": "b", "transient": "c"}
    assert parking_for(queues, "POISON", "transient") == "a"
    assert parking_for(queues, "PERMANENT", "schema") == "b"
    assert parking_for(queues, "RETRIES_EXHAUSTED", "transient") == "c"
    assert parking_for(queues, "PERMANENT", "business") == DEFAULT_PARKING
    assert parking_for(queues, "QUARANTINED") == DEFAULT_PARKING
