"""The names that earlier releases documented for teams are still importable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[2] / "lambdas"

# Each import statement of docs/consumer.md before the packages, and each public name of the
# modules on that page.
OLD_IMPORTS = (
    "from deadletter.consumer import Permanent, Skip, Transient, consumer",
    "from deadletter.consumer import consume",
    "from deadletter.consumer import Category, handle",
    "from deadletter.powertools import DeadletterProcessor",
    "from deadletter.powertools import NotProcessed",
    "from deadletter.settings import Pipeline",
    "import deadletter.testing",
    "from deadletter.testing import letterbox, letterbox_settings",
    "from deadletter.testing import Clock, Context, Letterbox, Parked, Run",
)


@pytest.mark.parametrize("statement", OLD_IMPORTS)
def test_an_old_import_works_in_a_fresh_interpreter(statement: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(LIBRARY)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", statement],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_old_and_the_new_names_are_the_same_objects() -> None:
    from deadletter import powertools, settings
    from deadletter.consumer.powertools import DeadletterProcessor, NotProcessed
    from deadletter.settings.pipeline import Pipeline

    assert settings.Pipeline is Pipeline
    assert powertools.DeadletterProcessor is DeadletterProcessor
    assert powertools.NotProcessed is NotProcessed
