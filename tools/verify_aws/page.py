"""Writes docs/aws-differences.md from the claims and the checks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from tools.verify_aws import checks as _checks
from tools.verify_aws.check import CHECKS, longest
from tools.verify_aws.claims import SERVICES, AwsClaim, claims

__all__ = ["_checks", "text", "write"]

PAGE = Path(__file__).parents[2] / "docs" / "aws-differences.md"

BEGIN = """\
# What we believe about AWS

Nothing here has run in a real account yet. The tests run on [emulators and on strict models in
memory](proof.md), which are only as right as our reading of AWS's documentation. This page lists
what the product relies on and an emulator leaves out or does otherwise.

## Ask an account

```
make verify-aws                       # says what it will do, and asks for the account's number
make verify-aws ARGS="--list"         # each check, what it makes, the most that it costs
make verify-aws ARGS="--only body"    # one check
make verify-aws ARGS="--sweep"        # remove what a killed run left
```

Use an account for experiments (`--profile`, `--region`): it makes queues, tables, functions,
roles, alarms and small stacks, all named `dlq-verify-*`, and removes them after each check, also
after Ctrl-C. It touches nothing else. A KMS key has no name; it deletes itself after seven days.
{count} checks, four at a time, take at most {minutes} minutes and ${dollars:.2f} by list prices of
us-east-1: the sum of the checks' own limits, not a measured run. The report is printed, and
written to `build/verify-aws.json`. The exit code is 1 if a claim differs, could not be decided, or
something is left.

- **holds**: AWS does what we claim.
- **differs**: it does not. The row below says what relies on it; please open an issue with the
  report.
- **unclear**: a permission was missing or an answer took too long. The claim stays open.

A test runs the checks on moto and on our models (`tests/tools/test_verify_aws.py`). Smaller
differences between AWS's documentation and the emulators, not asked of AWS:
[tests/aws/differences.py](../tests/aws/differences.py).

## What safety rests on

{safety}
## The claims

Each claim links its source, a page of AWS; not every address was opened anew for this list
(November 2026). The last column names the check of `make verify-aws`, or what to watch if it does
not show within an hour.
"""


def text() -> str:
    """The page."""
    chosen = CHECKS.values()
    head = BEGIN.format(
        count=len(chosen),
        minutes=math.ceil(longest(chosen) / 60),
        dollars=sum(check.dollars for check in chosen),
        safety="".join(_safety()),
    )
    return head + "".join(_tables())


def _safety() -> Iterator[str]:
    yield "| AWS | if it were false | decided by |\n|---|---|---|\n"
    for claim in claims().values():
        if claim.if_false:
            yield _row(claim, claim.if_false)


def _tables() -> Iterator[str]:
    known = claims().values()
    for service in SERVICES.values():
        rows = [claim for claim in known if claim.service == service and not claim.if_false]
        if rows:
            yield f"\n### {service}\n\n"
            yield "| AWS | what relies on it | how to find out |\n|---|---|---|\n"
            yield from (_row(claim, claim.relies) for claim in rows)


def _row(claim: AwsClaim, follows: str) -> str:
    says = f"[{claim.says}]({claim.source})"
    return f"| {says} | {follows} | {'; '.join(_ways(claim))} |\n"


def _ways(claim: AwsClaim) -> Iterator[str]:
    for check in CHECKS.values():
        if claim.id in check.claims:
            yield f"`{check.name}`"
    if claim.tested:
        yield f"[tested](../{claim.tested})"
    if claim.watch:
        yield claim.watch


def write() -> None:
    """Write the page anew."""
    PAGE.write_text(text())
