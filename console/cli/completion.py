"""What the shell completes: names of pipelines, rules and replay runs.

It asks AWS for two seconds at most, and completes nothing if there is no answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any

import typer

from deadletter.contract import DEFAULT_APP

from ..operations import aws as clients
from ..operations.deadline import Deadline, within
from ..operations.session import Session

# Seconds: a person has pressed Tab and waits.
_PATIENCE = 2.0


def pipelines(context: typer.Context, incomplete: str) -> list[str]:
    """The pipelines whose names begin so."""
    return _completed(context, incomplete, _pipelines)


def rules(context: typer.Context, incomplete: str) -> list[str]:
    """The ids of rules that begin so."""
    return _completed(context, incomplete, _rules)


def names(context: typer.Context, incomplete: str) -> list[str]:
    """What `dlq show` knows of and begins so: pipelines, rules and runs."""
    every = (_pipelines, _rules, _runs)
    return _completed(context, incomplete, lambda session: chain(*(of(session) for of in every)))


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """The ids of replay runs that begin so."""
    return _completed(context, incomplete, _runs)


def _completed(
    context: typer.Context, incomplete: str, names: Callable[[Session], Iterable[str]]
) -> list[str]:
    try:
        session = _session(context)
        found = within(Deadline(_PATIENCE), "completion", lambda: list(names(session)))
    except Exception:
        # A shell that completes has no place for an error.
        return []
    return sorted(name for name in dict.fromkeys(found) if name.startswith(incomplete))


def _session(context: typer.Context) -> Session:
    """Where the options that were typed so far look."""
    profile, region, app = (_typed(context, name) for name in ("profile", "region", "app"))
    connect = partial(clients.connect, profile, region)
    return Session(connect, app or os.environ.get("DLQ_APP") or DEFAULT_APP)


def _typed(context: Any, name: str) -> str | None:
    while context is not None:
        if context.params.get(name):
            return str(context.params[name])
        context = context.parent
    return None


def _pipelines(session: Session) -> Iterable[str]:
    return [pipeline.name for pipeline in session.app().pipelines]


def _rules(session: Session) -> Iterable[str]:
    from ..operations import rule_table

    table = rule_table.table(session.aws, session.app().rules_table)
    return [rule.rule_id for rule in table.read()]


def _runs(session: Session) -> Iterable[str]:
    from ..operations.session import Here

    app = session.app()
    return [
        run.id
        for pipeline in app.pipelines
        for run in Here(session, app, pipeline).every_run(lambda _: None)
    ]
