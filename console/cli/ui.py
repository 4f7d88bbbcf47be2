"""`dlq ui`: five screens in a browser on this machine."""

from __future__ import annotations

import html
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from ..operations.audit_trail import BY_PAGE
from ..operations.errors import Cause, Problem
from ..operations.session import Answer, Session
from ..operations.verbs import Asked, Verb
from .exit import PAGE_NEEDS
from .output import Block, Line, line, show
from .verb import VerbView


@dataclass(frozen=True, slots=True)
class PageOver(Answer):
    """What `dlq ui` answers once it has ended."""

    says: Annotated[str, "that it has ended"]


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """A page of this app in your browser, with your own rights.

    It listens on this machine alone, and only reads without --act. Its address is good for one
    browser, once, within a minute; with BROWSER=true it opens none. It ends by Ctrl-C, after half
    an hour without a tab, and after eight hours.
    """

    act: Annotated[
        bool, Asked("Let the page change something; else it only reads.", ("--act",))
    ] = False
    port: Annotated[
        int, Asked("Else any that is free.", ("--port",), "N", least=0, most=65_535)
    ] = 0


def _served(session: Session, request: PageRequest) -> PageOver:
    """That the page has ended."""
    try:
        from ..web.server import serve
    except ImportError as error:
        raise Problem(PAGE_NEEDS, Cause.INPUT) from error
    session.app()
    with tempfile.TemporaryDirectory() as folder:

        def opened(address: str) -> None:
            show(list(_says(address, act=request.act)), sys.stderr)
            webbrowser.open(_door(Path(folder), address).as_uri())

        serve(replace(session, via=BY_PAGE), acts=request.act, port=request.port, opened=opened)
    return PageOver(**session.place, says="The page has ended.")


def _says(address: str, *, act: bool) -> Iterator[Block]:
    may = "It may act, and asks first." if act else "It only reads; --act lets it act."
    yield line(f"The page is open until Ctrl-C. {may}")
    yield Line((address,), typed=True)


def _door(folder: Path, address: str) -> Path:
    """A file that leads to the page: the list of processes shows its name, not the address."""
    path = folder / "open.html"
    path.touch(mode=0o600)
    path.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">',
        encoding="utf-8",
    )
    return path


VERB = Verb(
    name="ui",
    request=PageRequest,
    examples=("dlq ui", "dlq ui --act", "BROWSER=true dlq --profile prod ui --port 8080"),
    read=_served,
)

VIEWS = (VerbView(VERB, lambda answer: [line(answer.says)]),)
