"""The pages of the consumer library are correct, and their examples run."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deadletter.consumer import runtime
from deadletter.failure.fate import Fate
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, to_event
from deadletter.message.stamp import Stamp
from deadletter.processing.result import Trouble
from deadletter.signals.figures import Count, Figure
from deadletter.testing import Letterbox
from tests.routing.test_business_key import key_of_library, sent
from tests.samples import REDRIVER, letter

ROOT = Path(__file__).parents[2]
PAGES = ("consumer.md", "consumer-reference.md")
PAGE = "\n".join((ROOT / "docs" / name).read_text() for name in PAGES)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The page's blocks of code, written to the files that they name."""
    for name, text in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_block_of_code_is_a_file_that_runs(example: Path) -> None:
    assert PAGE.count("```python") == len(list(example.iterdir()))
    for_python = {**os.environ, "PYTHONPATH": f"{ROOT / 'lambdas'}{os.pathsep}{example}"}
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", example],
        cwd=example,
        env=for_python,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "7 passed" in finished.stdout, finished.stdout + finished.stderr


@pytest.mark.parametrize(
    "name", ["called", "with_powertools", "before", "warehouse", "two", "with_asyncio"]
)
def test_each_form_of_the_example_ships_the_order(
    example: Path, name: str, letterbox: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(example))
    for module in (name, "shop"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    letterbox.send({"orderId": 7, "count": 1})
    handler = __import__(name).handler
    assert letterbox.run(handler).acknowledged
    assert sys.modules["shop"].shipped == [7]
    monkeypatch.delitem(sys.modules, "shop")
    monkeypatch.delitem(sys.modules, name)


def test_a_container_ships_the_order(
    example: Path, letterbox: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(example))
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    calls: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr("deadletter.consumer.poll", lambda each, **said: calls.append((each, said)))
    runpy.run_path(str(example / "container.py"), run_name="__main__")
    [(each, options)] = calls
    monkeypatch.undo()
    monkeypatch.setattr(runtime, "current_runtime", lambda: letterbox.runtime)
    letterbox.send({"orderId": 7, "count": 1})
    letterbox.poll(each, **options)
    assert each.__globals__["shipped"] == [7]


def test_an_order_has_one_identity_without_the_library(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(example))
    module = __import__("without_library")
    monkeypatch.setattr(module, "SENDERS", {REDRIVER})

    def identity(life: Letter) -> str:
        return str(module.identity(to_event(life, receipt_handle="h", source_arn="arn")))

    for order in ({"orderId": 7}, {"orderId": "ä €"}):
        first = letter(json.dumps(order))
        later, library = sent(first), key_of_library(first)
        assert identity(first) == identity(later) == identity(sent(later)) == library
    keyless = letter("{}", message_id="m1")
    assert identity(keyless) == identity(sent(keyless)) == "m1"
    forged = {stamps.NAME: stamps.attribute(Stamp("m1", key="a" * 64))}
    assert identity(letter('{"orderId": 7}', attributes=forged)) == module.key_of(7)
    monkeypatch.delitem(sys.modules, "without_library")


def test_a_whole_container_is_five_lines_at_most() -> None:
    [text] = re.findall(r"```python\n# container.py\n(.*?)```", PAGE, re.DOTALL)
    assert 1 <= len([line for line in text.splitlines() if line.strip()]) <= 5


def test_the_table_has_every_metric_and_no_other() -> None:
    table = PAGE.split("## Metrics")[1]
    named = re.findall(r"^\| `([\w.]+)`[^|]*\|", table, re.MULTILINE)
    outcomes = (Count.OUTCOMES_DROPPED, Count.CIRCUIT_TRIPPED, Count.CIRCUIT_NOT_TRIPPED)
    others = (
        *(Figure.REDRIVE_SUCCESS, Figure.POSSIBLE_DUPLICATE, Count.CONFIGURATION_FAILURE),
        *(Count.SUDDENLY_PERMANENT, Count.MANY_COLLISIONS),
        *(Figure.ATTEMPTS_BEFORE_RECOVERY, Figure.FAILURES_BY_CATEGORY),
        Figure.CONSUMER_TROUBLE,
    )
    assert sorted(named) == sorted({*map(str, Fate), *map(str, Trouble), *others, *outcomes})
