"""`dlq restore`: discarded messages come back."""

from __future__ import annotations

from ..operations.restore import VERB
from .command import plain_typer
from .runs import add_runs

typer_app = plain_typer()

add_runs(typer_app, VERB)
