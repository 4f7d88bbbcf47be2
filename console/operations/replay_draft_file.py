"""A plan of a replay run in a file: what a person has seen, to be started later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deadletter.replay.plan import ReplayPlan, plan_from_text
from deadletter.settings.json_fields import BadSettings

from .private_file import new_private_file
from .problem import Cause, Problem
from .replay_plan import DraftPlan

_KIND = "plan of a replay run"


@dataclass(frozen=True, slots=True)
class FiledPlan:
    """A plan as it was counted: its letters by origin (None: FIFO groups), and what was known."""

    plan: ReplayPlan
    origins: tuple[str, ...] | None
    look: bool
    app: str
    consumer_changed: str | None = None
    circuit: str = ""


def filed(draft: DraftPlan, *, look: bool) -> FiledPlan:
    """A plan that was just counted, as its file would say it."""
    changed = draft.forecast.consumer_changed
    return FiledPlan(
        draft.plan,
        draft.origins,
        look,
        draft.app.name,
        None if changed is None else changed.isoformat(),
        draft.circuit,
    )


def write(path: str, plan: FiledPlan) -> None:
    """Writes a plan into a new file."""
    data = {"kind": _KIND, **asdict(plan), "plan": json.loads(plan.plan.to_text())}
    with new_private_file(Path(path)) as file:
        file.write(json.dumps(data, indent=1) + "\n")


def read(text: str) -> FiledPlan:
    """The plan in a file that `write` wrote; Problem for anything else."""
    try:
        data: Mapping[str, Any] = json.loads(text)
        if data.get("kind") != _KIND:
            raise ValueError("it is another file")
        origins = data["origins"]
        return FiledPlan(
            plan_from_text(json.dumps(data["plan"])),
            None if origins is None else tuple(map(str, origins)),
            data["look"] is True,
            str(data["app"]),
            data.get("consumer_changed"),
            str(data.get("circuit", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, BadSettings) as error:
        raise Problem(
            f"This is no plan that dlq replay plan --out wrote ({error}): make one anew.",
            Cause.INPUT,
        ) from error
