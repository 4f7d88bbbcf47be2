"""`python -m lab.mutation [package or module ...]`: 0 if enough mutants are noticed."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence

# All that the tests import and we do not mutate: imported once, before the forks.
import boto3  # noqa: F401
import botocore.session  # noqa: F401
import hypothesis  # noqa: F401
import moto  # noqa: F401

from lab.mutation.mutants import Mutant, mutants
from lab.mutation.session import Ending, TestsFail, run_mutants
from lab.mutation.targets import CHOSEN_TESTS, LIBRARY, ROOT, UnknownTarget, chosen, suites_of

REPORT = ROOT / "build" / "mutation.json"

# Of all mutants that were tried, and of those of one package.
LEAST_SCORE = 0.9
LEAST_OF_PACKAGE = 0.8

Endings = Counter[Ending]


def noticed(endings: Endings) -> float:
    """The part of all mutants that the tests notice, by failing or by never ending."""
    return 1 - endings[Ending.SURVIVED] / max(1, endings.total())


def passes(packages: Sequence[Endings]) -> bool:
    """True if all mutants together reach the score, and no package is far below it."""
    enough = all(noticed(package) >= LEAST_OF_PACKAGE for package in packages)
    return enough and noticed(sum(packages, Counter())) >= LEAST_SCORE


def main() -> int:
    """Run what was asked for, print it, and write build/mutation.json."""
    parser = argparse.ArgumentParser(prog="python -m lab.mutation", description=__doc__)
    parser.add_argument("names", nargs="*", help="packages or modules, such as redrive/turns")
    parser.add_argument("--sample", type=int, help="this many mutants of each package, drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the draw; 1 unless given")
    asked = parser.parse_args()
    # The same examples each time, and no time spent on making a failing one small.
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    os.chdir(ROOT)
    try:
        wanted = chosen(asked.names)
    except UnknownTarget as error:
        print(error, file=sys.stderr)
        return 2
    packages: list[Endings] = []
    rows: list[dict[str, str]] = []
    for package, modules in wanted.items():
        drawn = _mutants(modules)
        if asked.sample and asked.sample < len(drawn):
            dice = random.Random(f"{asked.seed} {package}")  # noqa: S311 - no secret
            drawn = dice.sample(drawn, asked.sample)
        try:
            tried = run_mutants(LIBRARY, drawn, suites_of(package), CHOSEN_TESTS)
        except TestsFail as error:
            sys.exit(f"{package}: {error}")
        ended = [(mutant, end) for mutant, end in zip(drawn, tried, strict=True) if end is not None]
        endings = Counter(end for _, end in ended)
        packages.append(endings)
        print(
            f"{package}: {len(ended)} mutants, {endings[Ending.KILLED]} killed,"
            f" {endings[Ending.TIMEOUT]} timed out, {endings[Ending.SURVIVED]} survived,"
            f" score {noticed(endings):.1%}",
            *(f"  survived: {mutant}" for mutant, end in ended if end is Ending.SURVIVED),
            sep="\n", flush=True,
        )  # fmt: skip
        rows += [{"mutant": str(mutant), "ending": end} for mutant, end in ended]
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"all: {noticed(sum(packages, Counter())):.1%} noticed, at least {LEAST_SCORE:.0%}")
    return 0 if passes(packages) else 1


def _mutants(modules: Sequence[str]) -> list[Mutant]:
    found: list[Mutant] = []
    for module in modules:
        path = LIBRARY / module
        found += mutants(module, path.read_text(), str(path))
    return found


if __name__ == "__main__":
    sys.exit(main())
