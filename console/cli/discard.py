"""`dlq discard` and `dlq restore`: messages are thrown away, from wherever they lie, and back."""

from __future__ import annotations

from ..operations import discard, restore
from .command import plain_typer
from .runs import add_runs

typer_app = plain_typer()

for verb in (discard.VERB, restore.VERB):
    add_runs(typer_app, verb)
