"""Ask AWS whether our claims about it are true, and prove the product there: `make verify-aws`."""

from __future__ import annotations

import argparse
import json
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
from tools.verify_aws.check import CHECKS, Check
from tools.verify_aws.prove import PATIENCE, STEPS, USED, most, prove
from tools.verify_aws.report import AwsAnswer, ProofStep, VerifyReport
from tools.verify_aws.run import ask_all
from tools.verify_aws.sweep import SERVICES, sweep

__all__ = ["_checks", "main"]

REPORT = Path("build") / "verify-aws.json"

PRODUCT = "product"
"""What is asked beside the checks: the run that proves the product."""

SWEEP = 'make verify-aws ARGS="--sweep"'

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
    unknown = sorted(set(options.only) - CHECKS.keys() - {PRODUCT})
    if unknown:
        console.print(f"No check is called {', '.join(unknown)}; --list shows them all.")
        return USAGE
    chosen = [check for name, check in CHECKS.items() if not options.only or name in options.only]
    proves = not options.only or PRODUCT in options.only
    if options.list:
        _list(console, chosen, proves)
        return OK
    client = client or _clients(options)
    try:
        number = client("sts").get_caller_identity()["Account"]
    except (ClientError, BotoCoreError) as error:
        console.print(f"No account to ask: {error}", markup=False)
        return USAGE
    stop = Event()

    def asked(run: str) -> AskedAccount:
        return AskedAccount(client, run=run, stopped=stop.is_set, **(account or {}))

    place = f"Account {number}, {asked('').region}"
    what = f"remove everything named {PREFIX}-*" if options.sweep else _plan(chosen, proves)
    if not _agreed(options, number, f"{place}: {what}.", answer, console):
        return USAGE
    if options.sweep:
        return _sweep(asked(""), console)
    return _run(asked, chosen, proves, options, console, stop)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.verify_aws", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what each check does, and end")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="CHECK", help="these only, or product"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for the account's number")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--profile", help="the AWS profile to use")
    parser.add_argument("--region", help="the region to ask")
    parser.add_argument("--sweep", action="store_true", help="remove what a killed run left")
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="SECONDS",
        help="without any movement after which a step has failed (default: %(default)g)",
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
    """Say what will be done; True if the person said --yes or types the account's number."""
    if not options.json:
        console.print(what, markup=False, soft_wrap=True)
    if options.yes:
        return True
    try:
        typed = answer("Type the account's number to go on: ").strip()
    except EOFError:
        typed = ""
    if typed != number:
        console.print("That is not its number; nothing was asked.")
    return typed == number


def _most(chosen: Sequence[Check], proves: bool) -> str:
    """The most that a run costs and takes."""
    dollars, minutes = most(chosen, proves)
    beside = ", beside what CloudFormation takes, which AWS does not say" if proves else ""
    return f"at most ${dollars:.2f} by list prices, and {minutes} minutes{beside}"


def _plan(chosen: Sequence[Check], proves: bool) -> str:
    """What a run does."""
    checks = [f"run {len(chosen)} checks"] if chosen else []
    product = ["deploy an app twice, prove it and remove it"] if proves else []
    return f"{', '.join(checks + product)}; {_most(chosen, proves)}"


def _list(console: Console, chosen: Sequence[Check], proves: bool) -> None:
    """Every check with what it makes and the most that it costs."""
    table = Table()
    for column in ("check", "question", "makes", "at most"):
        table.add_column(column)
    for check in chosen:
        limit = f"${check.dollars:.4f}, {check.seconds} s"
        table.add_row(check.name, check.question, check.creates, limit)
    if proves:
        limit = f"${USED.dollars:.4f}, {sum(STEPS.values())} s"
        table.add_row(PRODUCT, "Does the product keep its promises?", "an app, twice", limit)
    console.print(table)
    console.print(f"All: {_most(chosen, proves)}.")


def _sweep(asked: AskedAccount, console: Console) -> int:
    """Remove what a killed run left, and say so."""
    removed, left = sweep(asked, say=lambda line: console.print(line, markup=False, soft_wrap=True))
    console.print(f"{len(removed)} removed.")
    for what in left:
        console.print(f"could not remove {what}", markup=False)
    return FAILED if left else OK


def _proof(
    asked: AskedAccount, run: str, options: argparse.Namespace, say: Callable[[str], None]
) -> list[ProofStep]:
    """Prove the product, step by step; an interrupted run removes what it made."""
    environment = dict(os.environ)
    if options.profile:
        environment["AWS_PROFILE"] = options.profile
    environment |= dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), asked.region)
    # The app makes no mute rules.
    services = SERVICES - {"cloudwatch mute rules"}
    return prove(
        asked, run, say, environment=environment, services=services, patience=options.patience
    )


def _run(
    asked: Callable[[str], AskedAccount],
    chosen: Sequence[Check],
    proves: bool,
    options: argparse.Namespace,
    console: Console,
    stop: Event,
) -> int:
    """Ask and prove side by side, write the report, print it."""
    began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    findings: list[AwsAnswer] = []
    left: list[str] = []

    def say(line: str) -> None:
        if not options.json:
            console.print(line, markup=False, soft_wrap=True)

    def answered(finding: AwsAnswer) -> None:
        findings.append(finding)
        say(f"{len(findings)}/{len(chosen)} {finding.check}: {finding.verdict}")

    # Each has names of its own: what is left of one is removed, never what the other makes.
    account, run = asked(new_run()), new_run()
    with ThreadPoolExecutor(1) as thread:
        proof = thread.submit(_proof, asked(run), run, options, say) if proves else None
        try:
            ask_all(chosen, account, left, answered, stop.set)
            steps = proof.result() if proof else []
        except KeyboardInterrupt:
            # The checks have removed what they made; the answers so far are worth a report.
            stop.set()
            say(f"Interrupted; what was made is removed, which takes minutes. If not: {SWEEP}")
            left.append(f"the run was interrupted; {SWEEP} looks for what it may have left")
            steps = proof.result() if proof else []
    report = VerifyReport(account.region, began, findings, left, steps)
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
