"""Ask the checks, a few at a time, and clean up after each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed

from tools.verify_aws.account import AskedAccount, Differs, Stopped, Unclear
from tools.verify_aws.check import AT_ONCE, Check
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
    except Stopped:
        verdict, seen = UNCLEAR, "interrupted"
    except Exception as error:
        # A call that the check needs was refused, or the check itself is wrong: either says
        # nothing about the claim, and the other checks go on.
        verdict, seen = UNCLEAR, f"{type(error).__name__}: {error}"
    return AwsAnswer(check.name, check.claims, verdict, seen, round(account.clock() - began, 1))


def ask_all(
    checks: Iterable[Check],
    account: AskedAccount,
    left: list[str],
    say: Callable[[AwsAnswer], None],
    stop: Callable[[], None] = lambda: None,
) -> None:
    """Ask the checks; `say` hears each answer as it comes.

    After Ctrl-C it calls `stop`, begins no other check, and goes on when those under way have
    removed what they made.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(ask, check, account.another(), left) for check in checks]
        try:
            for answer in as_completed(asked):
                say(answer.result())
        except KeyboardInterrupt:
            stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
