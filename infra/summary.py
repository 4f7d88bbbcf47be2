"""What a synthesis made, for a person to check before it is deployed."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from deadletter.contract import DEFAULT_PARKING, Mode, pipeline_prefix

from .idle import Template, month, of
from .names import kebab_case
from .prices import CHECKED, REGION
from .settings import AppDeployment, PipelineDeployment
from .stacks import pipeline_stacks, shared_stack

WIDTH = 80

# From here on a pipeline has one line.
MANY = 5

# A space at which no line ends.
TOGETHER = "\u00a0"

MEANING = {
    Mode.OBSERVE: "reports, moves no message",
    Mode.ENFORCE: "moves messages by itself",
}


def summary(app: AppDeployment, templates: Mapping[str, Template]) -> str:
    """The summary of these templates, by stack, which `stacks.build` made of these settings.

    All is counted in the templates. It has at most 80 columns, and 40 lines for one pipeline.
    """
    filled = "\n".join(
        textwrap.fill(
            line,
            WIDTH,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in _lines(
            app,
            templates[shared_stack(app)],
            [
                (pipeline, [templates[stack] for stack in pipeline_stacks(app, pipeline)])
                for pipeline in app.pipelines
            ],
        )
    )
    return filled.replace(TOGETHER, " ")


def _lines(
    app: AppDeployment,
    shared: Template,
    pipelines: Sequence[tuple[PipelineDeployment, Sequence[Template]]],
) -> Iterator[str]:
    """The summary's lines, of any width."""
    every = [shared, *(template for _, templates in pipelines for template in templates)]
    costs = [_month(pipeline, templates) for pipeline, templates in pipelines]
    of_shared = month(shared).dollars
    size = _count(len(pipelines), "pipeline")
    yield f"App {app.app}: {size}, {_whole(every)}, {_idle(of_shared + sum(costs))}."
    policies = dict(_policies(every))
    if len(pipelines) >= MANY:
        for (pipeline, templates), cost in zip(pipelines, costs, strict=True):
            yield f"{pipeline.name}: {pipeline.mode}, {_whole(templates)}, {_idle(cost)}"
        yield f"Shared by all pipelines: {_whole([shared])}, {_idle(of_shared)}"
        outputs = _count(len(policies), "output")
        yield f"{outputs} with a policy for a role: its description says for which."
    else:
        for (pipeline, templates), cost in zip(pipelines, costs, strict=True):
            mode = f"mode {pipeline.mode} ({MEANING[Mode(pipeline.mode)]})"
            yield f"Pipeline {pipeline.name}, {mode}: {_idle(cost)}"
            yield f"  {_whole(templates)}: {_parts(templates, _queues(app, pipeline, templates))}"
        yield f"Shared by all pipelines: {_idle(of_shared)}"
        yield f"  {_whole([shared])}: {_parts([shared])}"
        yield "Policies that you attach to roles, by their outputs:"
        yield from (f"  {output}: {sentence}" for output, sentence in policies.items())
    arm = "" if app.architecture == "arm64" else ", with functions on arm64"
    yield f"Dollars: list prices of {REGION} of {CHECKED}{arm}; see docs/cost.md."


def _idle(dollars: float) -> str:
    return f"${dollars:.2f} a month idle"


def _month(pipeline: PipelineDeployment, templates: Sequence[Template]) -> float:
    """The dollars of a pipeline in a month without a message."""
    parking = {DEFAULT_PARKING, *pipeline.parking_ids}
    # Main queue and DLQ, and those with an id; yours are in no template, and are looked at as well.
    queues = 2 + len(parking) + len(pipeline.dedicated)
    used = (month(template, queues=queues, fifo=pipeline.fifo) for template in templates)
    return sum(usage.dollars for usage in used)


def _resources(templates: Sequence[Template]) -> Counter[str]:
    """How many resources of each type there are."""
    return Counter(
        resource["Type"] for template in templates for resource in template["Resources"].values()
    )


def _whole(templates: Sequence[Template]) -> str:
    return _count(_resources(templates).total(), "resource")


def _parts(templates: Sequence[Template], queues: Sequence[str] = ()) -> str:
    """The resources by the words of their types: 9 alarms, 3 queues (main, dlq, parking), ..."""
    parts = []
    for kind, number in _resources(templates).most_common():
        words = kebab_case(kind.rpartition("::")[2]).replace("-", TOGETHER)
        named = f" ({', '.join(queues)})" if queues and kind == "AWS::SQS::Queue" else ""
        parts.append(f"{_count(number, words)}{named}")
    return ", ".join(parts)


def _queues(
    app: AppDeployment, pipeline: PipelineDeployment, templates: Sequence[Template]
) -> list[str]:
    """The names of the queues that are made, without what all names of the pipeline begin with."""
    prefix = pipeline_prefix(app.app, pipeline.name)
    return [
        str(queue["QueueName"]).removeprefix(prefix)
        for template in templates
        for queue in of(template, "AWS::SQS::Queue")
    ]


def _policies(templates: Sequence[Template]) -> Iterator[tuple[str, str]]:
    """Each output that is a managed policy, with the sentence that says who attaches it."""
    for template in templates:
        for name, output in template.get("Outputs", {}).items():
            value = output["Value"]
            resource = value.get("Ref", "") if isinstance(value, Mapping) else ""
            if template["Resources"].get(resource, {}).get("Type") == "AWS::IAM::ManagedPolicy":
                yield name, output["Description"]


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1{TOGETHER}{noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("cy") else f"{noun}s"
    return f"{number:,}{TOGETHER}{plural}"
