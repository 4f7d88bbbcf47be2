"""`python -m lab.mutation [package or module ...]`: 0 if enough mutants are noticed."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

# All that the tests import and we do not mutate: imported once, before the forks.
import boto3  # noqa: F401
import botocore.session  # noqa: F401
import hypothesis  # noqa: F401
import moto  # noqa: F401
import pytest

from lab.mutation.cold import run_cold
from lab.mutation.mutant import Ending, Mutant, Result, read_mutants
from lab.mutation.swap import Swap, swap_for
from lab.mutation.targets import (
    CHOSEN_TESTS,
    LIBRARY,
    ROOT,
    Target,
    UnknownTarget,
    chosen,
)
from lab.mutation.verdict import LEAST_SCORE, MutationVerdict, judge, table
from lab.mutation.warm import Outcome, WarmSession, options

BUILD = ROOT / "build"
REPORT = BUILD / "mutation.json"
GENERATOR = BUILD / "mutation-venv" / "bin" / "python"


def main() -> int:
    """Run what was asked for, print it, and write build/mutation.json and build/mutation.md."""
    asked = _parser().parse_args()
    # The same examples each time, and no time spent on making a failing one small.
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    os.chdir(ROOT)
    try:
        wanted = chosen(asked.names)
    except UnknownTarget as error:
        print(error, file=sys.stderr)
        return 2
    results: dict[str, list[Result]] = {}
    for target, modules in wanted.items():
        mutants = _mutants(modules)
        if asked.sample:
            drawn = random.Random(f"{asked.seed} {target.package}")  # noqa: S311 - no secret
            mutants = drawn.sample(mutants, min(asked.sample, len(mutants)))
        known = _known(modules, mutants) if asked.again else {}
        results[target.package] = _run_target(
            target, modules, mutants, known=known, cold=asked.cold
        )
        print(*_lines(judge({target.package: results[target.package]})), sep="\n", flush=True)
    verdict = judge(results)
    _write(verdict, results, asked)
    print(*table(verdict), sep="\n")
    return 0 if verdict.passes else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.mutation", description=__doc__)
    parser.add_argument("names", nargs="*", help="packages or modules, such as redrive/turns")
    parser.add_argument("--sample", type=int, help="this many mutants of each package, drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the draw; 1 unless given")
    parser.add_argument("--cold", action="store_true", help="import everything for each mutant")
    parser.add_argument(
        "--again", action="store_true", help="only what build/mutation.json has as survived"
    )
    return parser


def _known(modules: Sequence[str], mutants: Sequence[Mutant]) -> dict[Mutant, Result]:
    """What the last run noticed, of modules that are the same since."""
    report = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    same = [
        module for module in modules if report.get("sources", {}).get(module) == _digest(module)
    ]
    noticed = {
        (row["module"], row["at"], row["operator"], row["text"]): row
        for row in report.get("mutants", [])
        if row["module"] in same and row["ending"] != Ending.SURVIVED
    }
    known = {}
    for mutant in mutants:
        row = noticed.get((mutant.module, mutant.at, mutant.operator, mutant.text))
        if row is not None:
            known[mutant] = Result(mutant, Ending(row["ending"]), row["seconds"])
    return known


def _digest(module: str) -> str:
    return hashlib.sha256((LIBRARY / module).read_bytes()).hexdigest()


def _mutants(modules: Sequence[str]) -> list[Mutant]:
    """The mutants of these modules, written by cosmic-ray in its own environment."""
    paths = [str(LIBRARY / module) for module in modules]
    answer = subprocess.run(
        [str(GENERATOR), "-m", "lab.mutation.generate", *paths],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    edits = json.loads(answer.stdout)
    return [
        mutant
        for module, path in zip(modules, paths, strict=True)
        for mutant in read_mutants(module, Path(path).read_text(), edits[path])
    ]


def _run_target(
    target: Target,
    modules: Sequence[str],
    mutants: Sequence[Mutant],
    *,
    known: Mapping[Mutant, Result],
    cold: bool,
) -> list[Result]:
    sources = {module: (LIBRARY / module).read_text() for module in modules}
    swaps: list[tuple[Mutant, Swap]] = []
    for mutant in mutants:
        if mutant in known:
            continue
        path, source = str(LIBRARY / mutant.module), sources[mutant.module]
        swap = swap_for(compile(source, path, "exec"), compile(mutant.apply(source), path, "exec"))
        if swap is not None and not cold:
            swaps.append((mutant, swap))
    outcome = _warm(target, modules, swaps)
    results = {**known} | {
        result.mutant: result for result in outcome.results if outcome.is_final(result)
    }
    for mutant in mutants:
        if mutant in results:
            continue
        # Survivors too, if what was imported before them may have hidden them.
        began = time.monotonic()
        ending = Ending.SURVIVED
        for tests in target.stages(outcome.files[mutant.module]):
            ending = run_cold(
                "deadletter." + mutant.module.removesuffix(".py").replace("/", "."),
                LIBRARY / mutant.module,
                mutant.apply(sources[mutant.module]),
                tests,
                CHOSEN_TESTS,
            )
            if ending is not Ending.SURVIVED:
                break
        results[mutant] = Result(mutant, ending, time.monotonic() - began)
        _progress(results[mutant])
    _end_line()
    return [results[mutant] for mutant in mutants]


def _warm(target: Target, modules: Sequence[str], swaps: Sequence[tuple[Mutant, Swap]]) -> Outcome:
    """The outcome of a warm session, held in a fork: this process imports nothing of ours."""
    out, into = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(out)
            session = WarmSession(LIBRARY, modules, swaps, f"tests/{target.package}/", _progress)
            kept, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: SIM115 - until the exit
            session.begin()
            code = pytest.main(options(target.tests, CHOSEN_TESTS), plugins=[session])
            sys.stdout = kept
            if code and not session.outcome.error:
                session.outcome.error = f"pytest ends with {code} without any mutant"
            with os.fdopen(into, "wb") as pipe:
                pickle.dump(session.outcome, pipe)
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(into)
    with os.fdopen(out, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    if not answer:
        sys.exit(f"{target.package}: the test session died")
    outcome: Outcome = pickle.loads(answer)  # noqa: S301 - written by our own fork
    if outcome.error:
        sys.exit(f"{target.package}: {outcome.error}")
    return outcome


_MARKS = {Ending.KILLED: b".", Ending.TIMEOUT: b"t", Ending.SURVIVED: b"s"}


def _progress(result: Result) -> None:
    os.write(2, _MARKS[result.ending])


def _end_line() -> None:
    os.write(2, b"\n")


def _lines(verdict: MutationVerdict) -> list[str]:
    return [
        *(
            f"{score.package}: {score.mutants} mutants, {score.killed} killed, {score.timeouts}"
            f" timed out, {score.survived} survived, score {score.score:.1%}"
            f" (of all at least {LEAST_SCORE:.0%}), {score.seconds:.0f} s"
            for score in verdict.scores
        ),
        *(f"  survived: {mutant}" for mutant in verdict.survivors),
    ]


def _write(
    verdict: MutationVerdict, results: Mapping[str, Sequence[Result]], asked: argparse.Namespace
) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - the git of the path
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    tried = [(package, result) for package, all_of in results.items() for result in all_of]
    report = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "asked": vars(asked),
        "passes": verdict.passes,
        "packages": [score.to_json() for score in verdict.scores],
        "sources": {module: _digest(module) for module in {row.mutant.module for _, row in tried}},
        "mutants": [
            {
                "package": package,
                **asdict(result.mutant),
                "ending": result.ending,
                "seconds": round(result.seconds, 2),
            }
            for package, result in tried
        ],
    }
    BUILD.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    (BUILD / "mutation.md").write_text("\n".join(table(verdict)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
