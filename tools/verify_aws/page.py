"""Writes docs/aws-differences.md from the claims and the checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.verify_aws import checks as _checks
from tools.verify_aws.check import CHECKS
from tools.verify_aws.claims import SERVICES, AwsClaim, claims
from tools.verify_aws.prove import most

__all__ = ["_checks", "text", "write"]

PAGE = Path(__file__).parents[2] / "docs" / "aws-differences.md"

BEGIN = """\
# What we believe about AWS

Nothing here has run in a real account yet. The tests run on [emulators and on strict models in
memory](proof.md), which are only as right as our reading of AWS's documentation. This page lists
what the product relies on and an emulator leaves out or does otherwise.

## Ask an account

```
make verify-aws                             # says what it will do, and asks first
make verify-aws ARGS="--list"               # each check, what it makes, the most that it costs
make verify-aws ARGS="--only product body"  # these only
make verify-aws ARGS="--sweep"              # remove what a killed run left
```

Use an account for experiments (`--profile`, `--region`), with `cdk bootstrap` done. All that is
made is named `dlq-verify-*` and removed again, also after Ctrl-C; nothing else is touched. A KMS
key has no name; it deletes itself after seven days. {count} checks, eight at a time, make queues,
tables, functions, roles, alarms and small stacks. Beside them `product` deploys an app as you
would: a mistyped rule pages, a typed one holds its message, an outage opens and closes a circuit,
messages heal and park; the app is destroyed and deployed again over what stayed, with boto3
alone; messages heal again, and what was parked is approved and replayed. `dlq doctor` is green
both times.

All takes at most {minutes} minutes by documented times, beside CloudFormation's, and
${dollars:.2f} by list prices of us-east-1. The report is printed, and written to
`build/verify-aws.json`: each claim below is **decided**, **wrong** (please open an issue with the
report) or **undecided**: not asked, a permission was missing, or an answer took too long. The
exit code is 1 if anything asked did not hold, or something is left.

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
    dollars, minutes = most(CHECKS.values(), proves=True)
    head = BEGIN.format(
        count=len(CHECKS),
        minutes=minutes,
        dollars=dollars,
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
    if claim.step:
        yield f"`product`: {claim.step}"
    if claim.tested:
        yield f"[tested](../{claim.tested})"
    if claim.watch:
        yield claim.watch


def write() -> None:
    """Write the page anew."""
    PAGE.write_text(text())
