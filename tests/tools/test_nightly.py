"""The nightly run: a row says what really ran, at the commit at which it ran."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.each_row import each_row
from tools.nightly.__main__ import PAGE, main
from tools.nightly.page import GREEN, RED, ResultRow, figures, rows, sentence, with_row
from tools.nightly.parts import ROOT, Command, Parts, parts, parts_of

EMPTY = "# Proof\n\n<!-- nightly -->\n<!-- end -->\n\nSaid by hand.\n"


def leaving(trace: str, then: str = "") -> Command:
    """A command that appends to a file in the ignored folder `build`, and then does this."""
    first = f"print('1 passed in 1.0s'); open('{trace}', 'a').write('x')"
    return Command(("python", "-c", f"{first}; {then}"))


class Clone:
    """A checkout with one commit, and a nightly run of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write(".gitignore", "build/\n")
        self.write(PAGE, EMPTY)
        self.git("init", "--quiet")
        self.commit()

    def git(self, *words: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        return subprocess.run(
            ["git", "-C", str(self.root), *named, *words],  # noqa: S607 - the git of the path
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "x")

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def trace(self, path: str) -> int:
        """How often a command has left its trace."""
        return len((self.root / path).read_text())

    def run(self, parts: Parts, *arguments: str) -> int:
        (self.root / "build").mkdir(exist_ok=True)
        return main(arguments, self.root, lambda _first: parts)

    @property
    def rows(self) -> Sequence[ResultRow]:
        return rows((self.root / PAGE).read_text())


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_a_green_part_has_a_row_of_its_commit_and_a_red_one_says_which_command(
    clone: Clone, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = leaving("build/c", "raise SystemExit('why it is red')")
    night = {"good": [leaving("build/a"), leaving("build/b")], "bad": [failing], "third": []}
    assert clone.run(night, "good") == 0
    assert clone.run(night, "bad") == 1
    good, bad = clone.rows
    assert (good.part, good.result, good.commit) == ("good", GREEN, f"`{clone.head[:8]}`")
    assert good.figures == "2 tests passed"
    assert (bad.result, bad.commit) == (RED, good.commit)
    assert bad.figures == f"1 tests passed; red: `{failing}`"
    assert "why it is red" in capsys.readouterr().out
    page = (clone.root / PAGE).read_text()
    assert page.startswith(
        "# Proof\n\n<!-- nightly -->\nNot all parts of the nightly run are green:"
    )
    assert page.endswith("Said by hand.\n")


def test_what_was_green_at_this_commit_does_not_run_again_and_what_was_red_does(
    clone: Clone,
) -> None:
    once = leaving("build/b", "import os; raise SystemExit(not os.path.exists('build/mended'))")
    night = {"one": [leaving("build/a"), once]}
    assert clone.run(night) == 1
    clone.write("build/mended", "")
    assert clone.run(night) == 0
    assert (clone.trace("build/a"), clone.trace("build/b")) == (1, 2)
    # A command that is green at its second try is no less worth a look.
    assert "; red before: " in clone.rows[0].figures
    # The results are no other commit's, committed or not.
    assert clone.run(night) == 0
    assert clone.trace("build/b") == 2
    clone.commit()
    assert clone.run(night) == 0
    assert (clone.trace("build/a"), clone.trace("build/b")) == (2, 3)
    assert clone.rows[0].commit == f"`{clone.head[:8]}`"


def test_a_run_that_is_broken_off_goes_on_with_the_command_that_ran(clone: Clone) -> None:
    own = "build/own"
    go_on = Command(("python", "-c", f"print('3 passed in 1s', open('{own}','a').tell())"),
                    progress=own)  # fmt: skip
    breaks = leaving("build/b", "import os, signal; os.kill(os.getppid(), signal.SIGINT)")
    night = {"one": [go_on, leaving("build/a"), breaks]}
    clone.write(own, "of another commit")
    clone.write("build/nightly/one/1.log", "9 passed in 1s\n")
    assert clone.run(night) == 130
    assert clone.rows == []
    assert clone.trace(own) == 0
    assert clone.run({"one": [*night["one"][:2], leaving("build/c")]}) == 0
    assert clone.trace("build/a") == 1
    assert clone.rows[0].figures == "5 tests passed"


@pytest.mark.parametrize("path", ["new.py", ".gitignore", PAGE])
def test_a_work_tree_that_is_no_commit_is_refused(
    clone: Clone, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    clone.write(path, EMPTY.replace("Said", "Changed"))
    assert clone.run({"one": [leaving("build/a")]}) == 2
    assert path in capsys.readouterr().err
    assert not (clone.root / "build/a").exists()


@pytest.mark.parametrize(
    "then",
    [
        "open('new.py', 'w')",
        "import subprocess; subprocess.run(['git', 'checkout', '--quiet', '--detach', 'HEAD^'])",
    ],
)
def test_what_ran_while_the_tree_changed_counts_for_no_commit(clone: Clone, then: str) -> None:
    clone.commit()
    began = clone.head
    assert clone.run({"one": [leaving("build/a", then)]}) == 2
    assert clone.rows == []
    (clone.root / "new.py").unlink(missing_ok=True)
    clone.git("checkout", "--quiet", began)
    assert clone.run({"one": [leaving("build/a")]}) == 0
    assert clone.trace("build/a") == 2


def test_no_variable_of_the_caller_makes_a_run_smaller(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    smaller = ("SIM_SCHEDULES", "DRILL_OF", "OF", "MAKEFLAGS", "PYTEST_ADDOPTS")
    for name in smaller:
        monkeypatch.setenv(name, "1")
    sees = f"import os; raise SystemExit(not os.environ.keys().isdisjoint({smaller}))"
    assert clone.run({"one": [leaving("build/a", sees)]}) == 0


def test_a_part_that_there_is_not_names_those_that_there_are(
    clone: Clone, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["?"], clone.root) == 2
    assert capsys.readouterr().err == (
        "there is no part '?'; allowed: sim, e2e, contract, policies, drill, scenarios, mutation,"
        " bench\n"
    )


def row(part: str, result: str = GREEN, figures: str = "1 goal") -> ResultRow:
    return ResultRow(part, result, "`abc`", "2026-11-24 12:00", "3.11.2", "1.0", figures)


def test_the_first_line_says_whether_all_parts_are_green() -> None:
    names = ["a", "b"]
    assert sentence([row("a"), row("b")], names) == (
        "All parts of the nightly run are green: a at `abc`, b at `abc`."
    )
    assert sentence([row("a")], names) == (
        "Not all parts of the nightly run are green: still to run: b; green: a at `abc`."
    )
    assert sentence([row("a", RED)], names) == (
        "Not all parts of the nightly run are green: red: a at `abc`; still to run: b."
    )


def test_a_row_takes_the_place_of_its_part_s_last_one() -> None:
    page = EMPTY
    for part, figures_ in (("b", "1"), ("gone", "2"), ("a", "3"), ("b", "4 \\| 5")):
        page = with_row(page, row(part, figures=figures_), ["a", "b", "gone"])
    assert [(each.part, each.figures) for each in rows(page)] == [
        ("a", "3"), ("b", "4 \\| 5"), ("gone", "2"),
    ]  # fmt: skip
    assert [each.part for each in rows(with_row(page, row("a"), ["a", "b"]))] == ["a", "b"]


@each_row(
    ("output", "expected"),
    [
        ("SKIPPED [2] x: 9 failed\n1 failed, 3 passed, 2 skipped, 7 deselected in 70.02s (0:01:10)",
         {"tests passed": 3, "tests failed": 1, "skipped": 2}),
        ("schedules            500 (seeds 1 to 500)\npromises broken       1\n",
         {"schedules of shards": 500, "promises broken": 1}),
        ("redriver: a: caught by 12\nredriver: b: NOT caught by 2000\nNOT CAUGHT: redriver: b\n",
         {"planted bugs caught": 1, "planted bugs not caught": 1}),
        ("outage: 600 mutants, 590 killed, 3 timed out, 7 survived, score 98.8%",
         {"mutants": 600, "mutants killed": 590, "mutants without an end": 3,
          "mutants survived": 7}),
        ("Goals of the product: 25 of 26 reached", {"goals": 26, "goals reached": 25}),
        ("SQS calls a letter        ≤ 0.32        0.308 yes      0.410 NO \n",
         {"figures reached": 1, "figures missed": 1}),
    ],
)  # fmt: skip
def test_figures_are_read_from_what_a_command_prints(output: str, expected: dict[str, int]) -> None:
    assert figures(output, "shards") == expected


# What the parts are made of


def test_no_command_stands_twice_and_all_its_paths_are_there() -> None:
    commands = [str(command) for of_part in parts(1).values() for command in of_part]
    assert len(commands) == len(set(commands))
    paths = [path for of_part in parts(1).values() for one in of_part for path in one.tests]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_no_test_file_lies_in_two_parts() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    assert [path for path in files if len(parts_of(path)) > 1] == []


def test_a_nightly_test_that_no_part_runs_is_not_collected(request: pytest.FixtureRequest) -> None:
    conftest = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    assert conftest

    def collected(path: str, mark: str) -> None:
        item = SimpleNamespace(
            path=ROOT / path, nodeid=path, get_closest_marker=lambda name: name == mark
        )
        conftest.pytest_collection_modifyitems([item])

    collected("tests/rows/test_x.py", "nightly")
    collected("tests/watch/test_x.py", "long")
    with pytest.raises(pytest.UsageError, match=r"tests/watch/test_x.py: .* in none"):
        collected("tests/watch/test_x.py", "nightly")


def test_each_part_is_a_job_of_the_workflow() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())
    assert workflow["jobs"]["part"]["strategy"]["matrix"]["part"] == [*parts(0)]


def test_the_page_has_a_place_for_the_results() -> None:
    page = (ROOT / PAGE).read_text()
    assert page.splitlines()[2] == "<!-- nightly -->"
    assert [each.part for each in rows(page)] == [
        name for name in parts(0) if name in {each.part for each in rows(page)}
    ]
