"""The app as the CDK CLI runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.infra.conftest import ROOT


def test_a_wrong_setting_is_one_sentence_on_stderr_and_nothing_else() -> None:
    context = {"pipelines": [{"name": "orders", "redrive": {"memory": -1}}]}
    answer = subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={**os.environ, "CDK_CONTEXT_JSON": json.dumps(context)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr == (
        "Pipeline orders: redrive.memory is -1; allowed: a whole number from 128 to 10240.\n"
    )
