"""`dlq restore`: discarded messages come back."""

from __future__ import annotations

from ..operations.restore import VERB
from . import runs
from .command import plain_typer
from .verb import add

typer_app = plain_typer()

add(typer_app, VERB, runs.show_started, follow=runs.followed, status=runs.needs_person)
