"""The replay demo from beginning to end: an AWS, the app in it, the letters, the report."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sandbox.deploy import deploy
from sandbox.replay.pipeline import BY_GROUP, BY_KEY, ReplayPipeline
from sandbox.replay.script import ReplayAccount, ReplayEndpoint, ReplayScript, Sizes
from sandbox.server import Sandbox


def main(folder: Path, page: Path, sizes: Sizes) -> int:
    """Play the demo; the exit status is 0 if every letter is accounted for.

    Logs go to *folder*, the report of the run to *page*.
    """
    page.unlink(missing_ok=True)
    console = Console(highlight=False)
    began = time.monotonic()

    def tell(text: str) -> None:
        at = time.monotonic() - began
        console.print(Text.assemble((f"{at:6.1f} s  ", "dim"), text), soft_wrap=True)

    with ReplayEndpoint() as endpoint, Sandbox(folder) as sandbox:
        tell(f"an AWS of your own is up at {sandbox.endpoint}")
        deploy(sandbox, context={"pipelines": json.dumps([dict(BY_KEY), dict(BY_GROUP)])})
        tell("the CDK CLI has deployed the app into it")
        aws = cache(sandbox.client)
        keyed = ReplayPipeline(sandbox, aws, str(BY_KEY["name"]))
        grouped = ReplayPipeline(sandbox, aws, str(BY_GROUP["name"]))
        script = ReplayScript(keyed, grouped, endpoint, sizes, folder, tell)
        account = script.play()
        run = next(iter(script.runs))
        keyed.command("show", run, "--html", str(page))
    console.print(_table(account))
    for line in account.wrong:
        console.print(line)
    console.print(f"The report is {page}, the logs are in {folder}.", soft_wrap=True)
    return 1 if account.wrong else 0


def _table(account: ReplayAccount) -> Table:
    table = Table("what became of the messages", "")
    table.columns[1].justify = "right"
    for name, number in account.figures.items():
        table.add_row(name, f"{number:,}")
    return table
