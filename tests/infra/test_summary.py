"""The summary at the end of a synthesis: counted in the templates, on standard error."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.context import read as read_context
from infra.names import kebab_case
from infra.settings import AppDeployment
from infra.summary import summary
from tests.infra.conftest import EACH_SORT, EVENTS, ORDERS, ROOT, THEIRS
from tests.infra.templates import Stack, Synthesis, read

OF_STACKS = {
    "orders": ("Deadletter-Orders-Queues", "Deadletter-Orders"),
    "order-events": ("Deadletter-OrderEvents-Queues", "Deadletter-OrderEvents"),
    "theirs": ("Deadletter-Theirs-Queues", "Deadletter-Theirs"),
    "watched": ("Deadletter-Watched-Queues", "Deadletter-Watched"),
}


def said(stacks: Mapping[str, Stack], context: Mapping[str, Any]) -> str:
    return summary(read_context(context), {name: stack.template for name, stack in stacks.items()})


def blocks(text: str) -> dict[str, str]:
    """The lines of each pipeline and of what they share, joined, by their first line."""
    joined = re.sub(r"\n    (?! )", " ", text)
    found = re.findall(r"^((?:Pipeline|Shared) .*)\n  (\d+ resources: .*)$", joined, re.M)
    return dict(found)


def counted(stacks: Iterable[Stack]) -> Counter[str]:
    """The resources of stacks, by the words of their types without a plural."""
    return Counter(
        kebab_case(resource["Type"].split("::")[-1]).replace("-", " ")
        for stack in stacks
        for resource in stack.resources.values()
    )


def listed(text: str) -> Counter[str]:
    """The resources that a block lists."""
    whole, _, parts = text.partition(" resources: ")
    found = Counter[str]()
    for number, words in re.findall(r"(\d+) ([a-z ]+)", re.sub(r" \([^)]*\)", "", parts)):
        singular = words if number == "1" else re.sub("cie$", "cy", words.removesuffix("s"))
        found[singular] += int(number)
    assert found.total() == int(whole)
    return found


def policies(stacks: Iterable[Stack]) -> dict[str, str]:
    """Each output of a managed policy with its description: a policy without one fails."""
    found = {}
    for stack in stacks:
        named = {
            output["Value"].get("Ref"): (name, output["Description"])
            for name, output in stack.template.get("Outputs", {}).items()
            if name.endswith("PolicyArn")
        }
        for key in stack.of("AWS::IAM::ManagedPolicy"):
            name, description = named[key]
            found[name] = description
    return found


def test_each_resource_of_each_pipeline_is_counted(app: Synthesis) -> None:
    *of_pipelines, shared = blocks(said(app.stacks, EACH_SORT)).items()
    for (head, parts), (name, stacks) in zip(of_pipelines, OF_STACKS.items(), strict=True):
        assert head.startswith(f"Pipeline {name}, mode ")
        assert listed(parts) == counted(app[stack] for stack in stacks)
    assert listed(shared[1]) == counted([app["Deadletter-Shared"]])
    assert f"4 pipelines, {counted(app.stacks.values()).total()} resources," in said(
        app.stacks, EACH_SORT
    )


def test_what_is_not_made_is_not_counted(app: Synthesis) -> None:
    """A template that lacks a function, and one with a type that nobody has heard of."""
    before = blocks(said(app.stacks, EACH_SORT))
    template = json.loads(json.dumps(app["Deadletter-Watched"].template))
    function = next(iter(app["Deadletter-Watched"].of("AWS::Lambda::EventInvokeConfig")))
    template["Resources"][function] = {"Type": "AWS::New::WaterMill"}
    templates = {name: stack.template for name, stack in app.stacks.items()}
    after = blocks(summary(read_context(EACH_SORT), {**templates, "Deadletter-Watched": template}))
    [head] = [head for head in before if "watched" in head]
    assert listed(before[head])["event invoke config"] == 2
    assert listed(after[head])["event invoke config"] == 1
    assert listed(after[head])["water mill"] == 1


def test_a_pipeline_says_its_mode_its_queues_and_its_price(app: Synthesis) -> None:
    heads = blocks(said(app.stacks, EACH_SORT))
    orders, events, theirs, watched, shared = heads
    assert "mode enforce (moves messages by itself)" in orders
    assert "mode enforce (moves messages by itself)" in theirs
    assert "mode observe (reports, moves no message)" in watched
    assert "6 queues (dlq, main, dlq_vip, dlq_slow, parking, parking_quarantine)" in heads[orders]
    assert "4 queues (dlq.fifo, main.fifo, dlq_vip.fifo, parking.fifo)" in heads[events]
    assert "1 queue (parking)" in heads[theirs]
    # As docs/cost.md has it: with one more DLQ that is drained each ten minutes, and as it is.
    page = (ROOT / "docs" / "cost.md").read_text()
    [plain] = re.findall(r"^\| \*\*together\*\* .* ([0-9.]+) \|$", page, re.M)
    [beside] = re.findall(r"^\| the app beside its pipelines \| ([0-9.]+) \|$", page, re.M)
    assert watched.endswith(f": ${plain} a month idle")
    assert theirs.endswith(f": ${plain} a month idle")
    assert shared.endswith(f": ${beside} a month idle")
    prices = [float(head.partition("$")[2].split()[0]) for head in heads]
    assert prices[0] > prices[1] > float(plain)
    [total] = re.findall(r"\$([0-9.]+) a month idle\.$", said(app.stacks, EACH_SORT), re.M)
    assert float(total) == pytest.approx(sum(prices), abs=0.03)


@pytest.mark.parametrize("pipelines", [[THEIRS], [ORDERS, EVENTS, THEIRS]], ids=["one", "three"])
def test_every_policy_is_said_whose_it_is(app: Synthesis, pipelines: list[Any]) -> None:
    names = [pipeline["name"] for pipeline in pipelines]
    stacks = {
        name: app[name]
        for name in ("Deadletter-Shared", *(part for each in names for part in OF_STACKS[each]))
    }
    text = re.sub(r"\n    ", " ", said(stacks, {"pipelines": pipelines}))
    told = dict(re.findall(r"^  (\w+PolicyArn): (.*)$", text, re.M))
    assert told == policies(stacks.values())
    assert "TheirsConsumerPolicyArn" in told
    assert all(sentence.startswith("Attach it ") for sentence in told.values())


def test_many_pipelines_have_a_line_each(thirty: Synthesis) -> None:
    names = [f"p{number}" for number in range(30)]
    context = {"pipelines": [{**ORDERS, "name": name} for name in names]}
    lines = said(thirty.stacks, context).splitlines()
    assert len(lines) == 30 + 4
    for name, line in zip(names, lines[1:], strict=False):
        stacks = [thirty[f"Deadletter-{name.title()}{end}"] for end in ("", "-Queues")]
        assert line.startswith(f"{name}: enforce, {counted(stacks).total()} resources, $")
    assert lines[0].startswith(
        f"App deadletter: 30 pipelines, {counted(thirty.stacks.values()).total():,} resources, $"
    )
    assert lines[-2].startswith(f"{len(policies(thirty.stacks.values()))} outputs with a policy")


# The app, as the CDK CLI runs it.

LONGEST = {
    "app": "a" * 24,
    "pipelines": [
        {
            "name": "p" * 28,
            "consumer": "none",
            "mode": "observe",
            "parking": {"POISON": "q" * 16, "EXPIRED": "r" * 16},
        }
    ],
}


def synthesized(
    folder: Path, context: Mapping[str, Any], bundled: list[str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={
            **os.environ,
            "CDK_OUTDIR": str(folder),
            "CDK_CONTEXT_JSON": json.dumps({**context, "aws:cdk:bundling-stacks": bundled}),
        },
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.slow_because("it starts the app in a process of its own")
def test_the_app_says_it_once_on_standard_error_alone_and_narrowly(tmp_path: Path) -> None:
    done = synthesized(tmp_path, LONGEST, ["none of these"])
    assert done.stdout == ""
    assert done.stderr == f"{said(read(tmp_path), LONGEST)}\n"
    lines = done.stderr.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    [(_, parts), _] = blocks(done.stderr).items()
    prefix = "A" + "a" * 23 + "-P" + "p" * 27
    assert listed(parts) == counted(read(tmp_path)[name] for name in (prefix, f"{prefix}-Queues"))


@pytest.mark.slow_because("it starts the app in a process of its own")
@pytest.mark.nightly
def test_a_command_that_makes_nothing_says_nothing(tmp_path: Path) -> None:
    """The CLI has nothing bundled for `cdk ls` and `cdk destroy`."""
    done = synthesized(tmp_path, LONGEST, [])
    assert (done.stdout, done.stderr) == ("", "")


def test_a_defect_of_the_summary_stops_no_deployment(tmp_path: Path) -> None:
    say = importlib.import_module("app")._summary
    assert say(AppDeployment(), tmp_path) == (
        "The templates are made, but not their summary: KeyError: 'Deadletter-Shared'"
    )
