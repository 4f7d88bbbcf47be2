"""The page on this machine: 127.0.0.1 and ::1 alone, until it is no longer looked at."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..operations.errors import Cause, Problem
from ..operations.session import Session
from .guard import ENTER, Guarded, PageGuard
from .page import render
from .screens import Screens

_STATIC = Path(__file__).parent / "static"

_SERVICES = (
    *("sts", "ssm", "sqs", "dynamodb", "cloudwatch", "s3"),
    *("functions", "lambda_", "stepfunctions"),
)

# Seconds between two looks at whether the page is over.
_EVERY = 5.0


def page_of(session: Session, guard: PageGuard, *, acts: bool) -> Guarded:
    """The page as an ASGI application, behind its guard."""

    async def enter(request: Request) -> Response:
        cookie = guard.entered(request.query_params.get("token", ""))
        if cookie is None:
            return PlainTextResponse("This address was opened before, or too late.", 403)
        # A page, not a redirect: a browser sends no strict cookie where another site began.
        return HTMLResponse(render("enter.html", root=guard.root), headers={"set-cookie": cookie})

    routes = [
        Route(f"/{ENTER}", enter),
        Mount("/static", StaticFiles(directory=_STATIC)),
        *Screens(session, guard, acts=acts).routes(),
    ]
    return Guarded(Starlette(routes=[Mount(f"/{guard.folder}", routes=routes)]), guard)


def serve(session: Session, *, acts: bool, port: int, opened: Callable[[str], None]) -> None:
    """Serve the page until it is over, or Ctrl-C; `opened` gets its address once it listens.

    Port 0 is any that is free. Raises Problem if the port is taken.
    """
    # Clients are made in one thread: making them in several at once is not safe.
    for service in _SERVICES:
        getattr(session.aws, service)
    guard = PageGuard(secret=lambda: secrets.token_urlsafe(32), clock=time.monotonic)
    listening = _sockets(port)
    guard.port = listening[0].getsockname()[1]
    app = page_of(session, guard, acts=acts)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="error",
        lifespan="off",
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)

    async def until_over() -> None:
        serving = asyncio.create_task(server.serve(listening))
        opened(guard.address)
        while not serving.done():
            await asyncio.wait([serving], timeout=_EVERY)
            server.should_exit = server.should_exit or guard.is_over()
        await serving

    asyncio.run(until_over())


def _sockets(port: int) -> list[socket.socket]:
    """A socket of 127.0.0.1, and one of ::1 at the same port where the machine has it."""
    try:
        first = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise Problem(f"Port {port} can't be used: {error.strerror}.", Cause.INPUT) from error
    try:
        second = socket.create_server(("::1", first.getsockname()[1]), family=socket.AF_INET6)
    except OSError:
        return [first]
    return [first, second]
