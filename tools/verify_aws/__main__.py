"""Ask AWS whether what we claim about it is true: `make verify-aws`. Or prove the product there."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.table import Table

from tools.verify_aws import checks as _checks
from tools.verify_aws import page
from tools.verify_aws.account import PREFIX, AskedAccount, new_run
from tools.verify_aws.check import CHECKS, Check, longest
from tools.verify_aws.prove import DOLLARS, MINUTES, PATIENCE, prove
from tools.verify_aws.report import AwsAnswer, VerifyReport
from tools.verify_aws.run import ask_all
from tools.verify_aws.sweep import SERVICES, sweep

__all__ = ["_checks", "main"]

REPORT = Path("build") / "verify-aws.json"

OK, FAILED, USAGE = 0, 1, 2


def main(
    arguments: Sequence[str],
    *,
    client: Callable[[str], Any] | None = None,
    answer: Callable[[str], str] = input,
    console: Console | None = None,
    account: Mapping[str, Any] | None = None,
) -> int:
    """0 if every claim holds, 1 if one does not or something is left, 2 if nothing was asked.

    `account` are settings of the AskedAccount, for tests.
    """
    options = _options(arguments)
    console = console or Console()
    if options.page:
        page.write()
        return OK
    unknown = sorted(set(options.only) - CHECKS.keys())
    if unknown:
        console.print(f"No check is called {', '.join(unknown)}; --list shows them all.")
        return USAGE
    chosen = [check for name, check in CHECKS.items() if not options.only or name in options.only]
    if options.list:
        _list(console, chosen)
        return OK
    client = client or _clients(options)
    try:
        number = client("sts").get_caller_identity()["Account"]
    except (ClientError, BotoCoreError) as error:
        console.print(f"No account to ask: {error}", markup=False)
        return USAGE
    stop, run = Event(), new_run()
    asked = AskedAccount(client, run=run, stopped=stop.is_set, **(account or {}))
    what = (
        f"remove everything named {PREFIX}-*"
        if options.sweep
        else f"deploy an app, prove it and destroy it, at most ${DOLLARS:.2f} and {MINUTES} minutes"
        if options.prove
        else f"run {len(chosen)} checks, at most ${_dollars(chosen):.2f} and"
        f" {_minutes(chosen)} minutes"
    )
    if not _agreed(options, number, f"Account {number}, {asked.region}: {what}.", answer, console):
        return USAGE
    if options.sweep:
        return _sweep(asked, console)
    if options.prove:
        return _prove(asked, run, options, console, stop)
    return _run(asked, chosen, options, console, stop)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.verify_aws", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what each check does, and end")
    parser.add_argument("--only", nargs="+", default=[], metavar="CHECK", help="these checks only")
    parser.add_argument("--yes", action="store_true", help="do not ask for the account's number")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--profile", help="the AWS profile to use")
    parser.add_argument("--region", help="the region to ask")
    parser.add_argument("--sweep", action="store_true", help="remove what a killed run left")
    parser.add_argument(
        "--prove",
        action="store_true",
        help="deploy an app, let messages die, heal, be parked and replayed, and destroy it",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="SECONDS",
        help="without any movement after which a step of --prove has failed (default: %(default)g)",
    )
    parser.add_argument("--page", action="store_true", help="write docs/aws-differences.md")
    return parser.parse_args(arguments)


def _clients(options: argparse.Namespace) -> Callable[[str], Any]:
    """One client for each service, made when it is first asked for."""
    session: Any = boto3.Session(profile_name=options.profile, region_name=options.region)
    made: dict[str, Any] = {}
    # A session makes one client at a time; the clients themselves may be shared by threads.
    lock = Lock()

    def client(service: str) -> Any:
        with lock:
            if service not in made:
                made[service] = session.client(service)
            return made[service]

    return client


def _agreed(
    options: argparse.Namespace,
    number: str,
    what: str,
    answer: Callable[[str], str],
    console: Console,
) -> bool:
    """True if the person said --yes or typed the account's number."""
    if options.yes:
        return True
    console.print(what, markup=False)
    try:
        typed = answer("Type the account's number to go on: ").strip()
    except EOFError:
        typed = ""
    if typed != number:
        console.print("That is not its number; nothing was asked.")
    return typed == number


def _dollars(checks: Sequence[Check]) -> float:
    return sum(check.dollars for check in checks)


def _minutes(checks: Sequence[Check]) -> int:
    return math.ceil(longest(checks) / 60)


def _list(console: Console, chosen: Sequence[Check]) -> None:
    """Every check with what it makes and the most that it costs."""
    table = Table()
    for column in ("check", "question", "makes", "at most"):
        table.add_column(column)
    for check in chosen:
        most = f"${check.dollars:.4f}, {check.seconds} s"
        table.add_row(check.name, check.question, check.creates, most)
    console.print(table)
    console.print(f"All: at most ${_dollars(chosen):.2f} and {_minutes(chosen)} minutes.")


def _sweep(asked: AskedAccount, console: Console) -> int:
    """Remove what a killed run left, and say so."""
    removed, left = sweep(asked)
    for what in removed:
        console.print(f"removed {what}", markup=False)
    for what in left:
        console.print(f"could not remove {what}", markup=False)
    return FAILED if left else OK


def _prove(
    asked: AskedAccount, run: str, options: argparse.Namespace, console: Console, stop: Event
) -> int:
    """Prove the product, step by step; an interrupted run destroys what it made."""
    environment = dict(os.environ)
    if options.profile:
        environment["AWS_PROFILE"] = options.profile
    environment |= dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), asked.region)
    with ThreadPoolExecutor(1) as thread:
        proof = thread.submit(
            prove,
            asked,
            run,
            lambda step: console.print(str(step), markup=False, soft_wrap=True),
            environment=environment,
            # The app makes no mute rules.
            services=SERVICES - {"cloudwatch mute rules"},
            patience=options.patience,
        )
        try:
            proved = proof.result()
        except KeyboardInterrupt:
            console.print("Interrupted; what was made is destroyed, which takes minutes.")
            stop.set()
            proved = proof.result()
    console.print(f"{'Proved' if proved else 'NOT PROVED'} in {asked.region}.", markup=False)
    return OK if proved else FAILED


def _run(
    asked: AskedAccount,
    chosen: Sequence[Check],
    options: argparse.Namespace,
    console: Console,
    stop: Event,
) -> int:
    """Ask, write the report, print it."""
    began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    findings: list[AwsAnswer] = []
    left: list[str] = []

    def say(finding: AwsAnswer) -> None:
        findings.append(finding)
        if not options.json:
            console.print(
                f"{len(findings)}/{len(chosen)} {finding.check}: {finding.verdict}", markup=False
            )

    try:
        ask_all(chosen, asked, left, say, stop.set)
    except KeyboardInterrupt:
        # What the checks had made is removed by now; the answers so far are worth a report.
        console.print("Interrupted; the checks that follow were not asked.")
        left.append("the run was interrupted; --sweep looks for what it may have left")
    report = VerifyReport(asked.region, began, findings, left)
    text = json.dumps(report.to_json(), indent=2)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(text + "\n")
    if options.json:
        print(text)
    else:
        report.show(console)
    return OK if report.clean else FAILED


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # A job that is cancelled cleans up as after Ctrl-C.
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(main(sys.argv[1:]))
