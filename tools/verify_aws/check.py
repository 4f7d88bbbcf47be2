"""A check asks AWS whether claims of ours are true."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tools.verify_aws.account import AskedAccount


@dataclass(frozen=True)
class Check:
    """One question to AWS, with what it makes there and the most that it costs."""

    name: str
    claims: tuple[str, ...]
    """Ids of the claims that it decides."""
    creates: str
    dollars: float
    """The most that it costs, at list prices of us-east-1 and without free tiers."""
    seconds: int
    """The most that it takes, its waiting included."""
    ask: Callable[[AskedAccount], str]
    """Returns what was seen; raises Differs or Unclear."""

    @property
    def question(self) -> str:
        """The first line of the function's docstring."""
        return (self.ask.__doc__ or "").strip().partition("\n")[0]


CHECKS: dict[str, Check] = {}
"""Every check by its name, in the order in which they are run."""


AT_ONCE = 8
"""How many checks are under way at a time: most of a check is waiting."""


def longest(checks: Collection[Check], at_once: int = AT_ONCE) -> float:
    """The most seconds that a run of these checks takes.

    No worker is idle before the last check has begun: Graham's bound for list scheduling.
    """
    if not checks:
        return 0
    return sum(each.seconds for each in checks) / at_once + max(each.seconds for each in checks)


def check(
    *claims: str, creates: str, dollars: float = 0.0001, seconds: int = 20
) -> Callable[[Callable[[AskedAccount], str]], Callable[[AskedAccount], str]]:
    """Enter a function in the list of checks, under its own name."""

    def enter(ask: Callable[[AskedAccount], str]) -> Callable[[AskedAccount], str]:
        name = ask.__name__.replace("_", "-")
        if name in CHECKS:
            raise ValueError(f"two checks are called {name}; rename one of them")
        CHECKS[name] = Check(name, claims, creates, dollars, seconds, ask)
        return ask

    return enter
