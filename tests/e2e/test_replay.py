"""Replay runs of the deployed system: interrupted, held, resumed, and each letter accounted for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox.server import Sandbox
from tests.e2e.replay_pipeline import BY_GROUP, BY_KEY, ReplayPipeline
from tests.e2e.replay_script import ReplayEndpoint, ReplayScript, Sizes

SMALL = Sizes(letters=80, keys=10, grouped=0, parked=0, rate=40.0, kills=1, prefix="small")
"""What the day has time for, about 20 s on a quiet machine. The FIFO group, the approval and the
parked letters are played at night. Both scripts replay the same pipeline's letters."""


def play(sandbox: Sandbox, aws: Callable[[str], Any], sizes: Sizes, folder: Path) -> ReplayScript:
    """Play all scenes, and require that every letter is accounted for."""
    with ReplayEndpoint() as endpoint:
        script = ReplayScript(
            ReplayPipeline(sandbox, aws, str(BY_KEY["name"])),
            ReplayPipeline(sandbox, aws, str(BY_GROUP["name"])),
            endpoint,
            sizes,
            folder,
            print,
        )
        account = script.play()
    assert account.wrong == (), account.figures
    letters = sizes.letters + sizes.grouped + sizes.parked
    assert account.figures["taken by the endpoint"] == letters
    return script


def test_each_letter_of_a_replay_is_accounted_for_and_in_order(
    sandbox: Sandbox, aws: Callable[[str], Any], tmp_path: Path
) -> None:
    """A worker is killed, the endpoint fails in the middle, and a person resumes the run."""
    script = play(sandbox, aws, SMALL, tmp_path)
    run = next(iter(script.runs))
    assert script.runs[run]["report"]["unaccounted"] == 0
    page = tmp_path / "report.html"
    pipeline = ReplayPipeline(sandbox, aws, str(BY_KEY["name"]))
    done = pipeline.command("show", run, "--html", str(page))
    assert done.returncode == 0, done.stderr
    assert "<svg" in page.read_text()


def test_two_thousand_letters_of_fifty_keys_are_accounted_for_and_in_order(
    sandbox: Sandbox, aws: Callable[[str], Any], tmp_path: Path
) -> None:
    """Workers are killed twice; an outage, an approval, a release."""
    play(sandbox, aws, Sizes(), tmp_path)
