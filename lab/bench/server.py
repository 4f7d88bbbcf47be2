"""Processes that the benches start, and HTTP between them."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[2]

# Takes path, headers and body of a request to status and JSON.
Answer = Callable[[str, Mapping[str, str], bytes], Awaitable[tuple[int, str]]]


def serve(answer: Answer, output: TextIO, *, tls: ssl.SSLContext | None = None) -> None:
    """Answer requests until the standard input is closed; the output begins with the address."""
    asyncio.run(_serve(answer, output, tls))


async def _serve(answer: Answer, output: TextIO, tls: ssl.SSLContext | None) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.split("\r\n")
                pairs = (line.partition(":") for line in lines)
                headers = {name.lower(): text.strip() for name, _, text in pairs}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                try:
                    status, text = await answer(first.split(" ")[1], headers, body)
                except Exception as error:
                    traceback.print_exc()
                    status, text = 400, json.dumps({"message": repr(error)})
                writer.write(_response(status, text.encode()))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}", file=output, flush=True)
    # It ends with the process that started it.
    await asyncio.to_thread(sys.stdin.read)


def _response(status: int, body: bytes) -> bytes:
    lines = (
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}",
        *("Content-Type: application/x-amz-json-1.0", f"Content-Length: {len(body)}"),
        "x-amzn-RequestId: 33333333-3333-4333-8333-333333333333\r\n\r\n",
    )
    return "\r\n".join(lines).encode() + body


@contextmanager
def started(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A module that serves in a process of its own while the block lasts, and its address."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()


def ask(endpoint: str, command: str, **options: Any) -> Any:
    """What a server of ours answers to one of its own commands."""
    connection = HTTPConnection(endpoint.removeprefix("http://"), timeout=120)
    try:
        connection.request("POST", f"/control/{command}", json.dumps(options))
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(f"{command} was refused: {answer}")
        return answer
    finally:
        connection.close()
