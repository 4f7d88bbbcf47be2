"""`dlq discard`: messages are thrown away, from wherever they lie."""

from __future__ import annotations

from ..operations.discard import VERB
from .command import plain_typer
from .runs import add_runs

typer_app = plain_typer()

add_runs(typer_app, VERB)
