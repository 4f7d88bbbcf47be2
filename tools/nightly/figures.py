"""What a command has printed, in figures."""

from __future__ import annotations

import re
from collections import Counter

# The last line of pytest.
_TESTS = r"(?m)^(?=.* in [\d.]+s).*?\b(\d+) {}\b"

PATTERNS = {
    "schedules of {of}": r"(?m)^schedules +(\d+)",
    "promises broken": r"(?m)^promises broken +(\d+)",
    "planted bugs caught": r"(?m): caught by \d+$",
    "planted bugs not caught": r"(?m): NOT caught by \d+$",
    "mutants": r": (\d+) mutants, \d+ killed",
    "mutants killed": r" mutants, (\d+) killed",
    "mutants without an end": r" killed, (\d+) timed out",
    "mutants survived": r" timed out, (\d+) survived, score",
    "goals": r"Goals of the product: \d+ of (\d+) reached",
    "goals reached": r"Goals of the product: (\d+) of",
    "figures reached": r"(?m)^.* [≤≥] .*\d yes\b",
    "figures missed": r"(?m)^.* [≤≥] .*\d NO\b",
    "tests passed": _TESTS.format("passed"),
    "tests failed": _TESTS.format("failed"),
    "errors": _TESTS.format("errors?"),
    "skipped": _TESTS.format("skipped"),
}
"""Each figure, and where it stands: the sum of the numbers, or how often if there is no number."""


def figures(output: str, of: str = "") -> Counter[str]:
    """The figures in the output of a command whose schedules are of this simulator."""
    found: Counter[str] = Counter()
    for name, pattern in PATTERNS.items():
        for match in re.finditer(pattern, output):
            found[name.format(of=of)] += int(match[1]) if match.lastindex else 1
    return found
