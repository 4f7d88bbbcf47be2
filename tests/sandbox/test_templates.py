"""Templates are used again for the very same sources, and never for others."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.sources import Sources
from sandbox.templates import KEPT, TRIES, SourcesChange, assembly


class TemplateProject:
    """Sources of one text, and an app that writes it into its template."""

    def __init__(self, folder: Path, text: str = "one") -> None:
        self.folder = folder / "templates"
        self.into = folder / "cdk.out"
        self.text, self.writes = text, 0
        self.made: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def write(self, text: str) -> None:
        self.text = text
        self.writes += 1

    def read(self) -> Sources:
        return Sources(self.text, ((self.writes,),))

    def synthesize(self, into: Path) -> None:
        self.made.append(self.text)
        into.mkdir()
        (into / "template.json").write_text(self.text)
        self.meanwhile()

    def deployed(self) -> str:
        assembly(self.into, self.read, self.synthesize, folder=self.folder)
        return (self.into / "template.json").read_text()

    def kept(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if path.is_dir()}


@pytest.fixture
def project(tmp_path: Path) -> TemplateProject:
    return TemplateProject(tmp_path)


def test_templates_are_made_once(project: TemplateProject) -> None:
    assert [project.deployed(), project.deployed()] == ["one", "one"]
    assert project.made == ["one"]


def test_other_sources_are_other_templates(project: TemplateProject) -> None:
    seen = []
    for text in ("one", "two", "one"):
        project.write(text)
        seen.append(project.deployed())
    assert seen == ["one", "two", "one"]
    assert project.made == ["one", "two"]


def test_what_is_written_during_a_synthesis_is_not_kept_under_the_old_name(
    project: TemplateProject,
) -> None:
    edits = ["two"]
    project.meanwhile = lambda: project.write(edits.pop()) if edits else None
    assert project.deployed() == "two"
    assert project.kept() == {"two"}
    project.write("one")
    assert project.deployed() == "one"
    assert project.made == ["one", "two", "one"]


def test_what_is_written_and_taken_back_during_a_synthesis_is_noticed(
    project: TemplateProject,
) -> None:
    def there_and_back() -> None:
        if len(project.made) == 1:
            project.write("two")
            project.write("one")

    project.meanwhile = there_and_back
    assert project.deployed() == "one"
    assert project.made == ["one", "one"]


def test_sources_that_never_rest_are_refused_and_nothing_is_kept(project: TemplateProject) -> None:
    project.meanwhile = lambda: project.write(f"{project.text}+")
    with pytest.raises(SourcesChange, match=f"each of {TRIES} syntheses"):
        project.deployed()
    assert (project.kept(), len(project.made)) == (set(), TRIES)


def test_a_synthesis_that_fails_leaves_nothing_behind(project: TemplateProject) -> None:
    def fails() -> None:
        raise RuntimeError

    project.meanwhile = fails
    with pytest.raises(RuntimeError):
        project.deployed()
    assert project.kept() == set()
    project.meanwhile = lambda: None
    assert project.deployed() == "one"


def edited(file: Path) -> None:
    file.write_text("edited")


@pytest.mark.parametrize("spoil", [edited, Path.unlink])
@pytest.mark.parametrize("part", ["cdk.out/template.json", "seal"])
def test_kept_templates_that_somebody_changed_are_made_anew(
    project: TemplateProject, spoil: Callable[[Path], None], part: str
) -> None:
    project.deployed()
    spoil(project.folder / "one" / part)
    assert project.deployed() == "one"
    assert project.made == ["one", "one"]


def test_a_file_more_in_kept_templates_is_noticed(project: TemplateProject) -> None:
    project.deployed()
    (project.folder / "one" / "cdk.out" / "more.json").write_text("{}")
    project.deployed()
    assert not (project.into / "more.json").exists()
    assert project.made == ["one", "one"]


def test_what_a_deployment_writes_into_its_copy_stays_there(project: TemplateProject) -> None:
    project.deployed()
    (project.into / "template.json").write_text("written by a deployment")
    (project.into / "asset.zip").write_text("old code")
    assert project.deployed() == "one"
    assert not (project.into / "asset.zip").exists()
    assert project.made == ["one"]


def test_threads_that_want_the_same_make_it_once(project: TemplateProject) -> None:
    second = TemplateProject(project.folder.parent)
    second.into = project.folder.parent / "second"
    both = [threading.Thread(target=each.deployed) for each in (project, second)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(project.made) + len(second.made) == 1
    assert second.deployed() == "one"


def test_processes_that_want_different_ones_at_once_all_get_their_own(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        asked = [(tmp_path, number, f"{number % 7}") for number in range(60)]
        assert pool.starmap(deployed_by_a_process, asked) == [text for _, _, text in asked]


def deployed_by_a_process(folder: Path, number: int, text: str) -> str:
    project = TemplateProject(folder, text)
    project.into = folder / f"out-{number}"
    return project.deployed()


def test_templates_whose_lock_is_held_are_not_removed(project: TemplateProject) -> None:
    project.deployed()
    os.utime(project.folder / "one", (1, 1))
    # "other" has the lock of "one": both begin with the same letter.
    other = TemplateProject(project.folder.parent, "other")

    def many_more() -> None:
        for number in range(KEPT + 1):
            TemplateProject(project.folder.parent, f"{number}").deployed()
        assert "one" in project.kept()

    other.meanwhile = many_more
    other.deployed()
    assert "one" not in project.kept()


def test_only_the_latest_are_kept(project: TemplateProject) -> None:
    for number in range(KEPT):
        project.write(f"t{number}")
        project.deployed()
        os.utime(project.folder / f"t{number}", (number, number))
    for text in ("t0", "new"):
        project.write(text)
        project.deployed()
    assert project.kept() == {"t0", "new", *(f"t{number}" for number in range(2, KEPT))}


def test_what_a_killed_synthesis_left_is_removed(project: TemplateProject) -> None:
    (project.folder / "making-one-x7").mkdir(parents=True)
    project.deployed()
    assert project.kept() == {"one"}
