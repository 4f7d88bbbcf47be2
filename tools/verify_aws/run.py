"""Ask the checks one after the other, and clean up after each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tools.verify_aws.account import AskedAccount
from tools.verify_aws.check import Check, Differs, Unclear
from tools.verify_aws.report import DIFFERS, HOLDS, UNCLEAR, AwsAnswer


def ask(check: Check, account: AskedAccount, left: list[str]) -> AwsAnswer:
    """The answer to one check. What it made is removed; what could not be is added to `left`."""
    began = account.clock()
    verdict = HOLDS
    try:
        with account.opened(left):
            seen = check.ask(account)
    except Differs as difference:
        verdict, seen = DIFFERS, str(difference)
    except Unclear as unclear:
        verdict, seen = UNCLEAR, str(unclear)
    except Exception as error:
        # A call that the check needs was refused, or the check itself is wrong: either says
        # nothing about the claim, and the other checks go on.
        verdict, seen = UNCLEAR, f"{type(error).__name__}: {error}"
    return AwsAnswer(check.name, check.claims, verdict, seen, round(account.clock() - began, 1))


def ask_all(
    checks: Iterable[Check],
    account: AskedAccount,
    left: list[str],
    say: Callable[[AwsAnswer], None] = lambda _finding: None,
) -> list[AwsAnswer]:
    """The answers to all checks; `say` hears each as it comes."""
    findings = []
    for check in checks:
        findings.append(ask(check, account, left))
        say(findings[-1])
    return findings
