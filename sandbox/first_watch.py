"""The watch's first look, which people need not wait for: `dlq status` tells what it has seen."""

from __future__ import annotations

from sandbox.server import Sandbox

# What the app calls the function that watches a pipeline.
WATCH = "-watch"


def watch_once(sandbox: Sandbox) -> None:
    """Let each watch look now, as its schedule does within seconds.

    A watch that fails has written no record: `dlq status` says so.
    """
    functions = sandbox.client("lambda")
    for page in functions.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            if (name := function["FunctionName"]).endswith(WATCH):
                functions.invoke(FunctionName=name, Payload=b"{}")["Payload"].read()
