"""What some commands still ask for in a way of their own."""

from __future__ import annotations

from typing import Annotated

import typer

from .progress import end, say

Why = Annotated[
    str | None, typer.Option("--why", metavar="TEXT", help="Why; asked for if not given.")
]

progress, end_progress = say, end
