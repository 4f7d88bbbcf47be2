"""`dlq init`: the DLQs of an account, and the entries of `cdk.json` that make them pipelines."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from deadletter.contract import Category

from .aws import Aws, rows
from .deadline import Asking, Deadline, side_by_side
from .doctor_checks import backlog
from .errors import Cause, Problem
from .figures import oldest_ages
from .queue import DeployedQueue, deployed_queue
from .session import Answer, Session
from .verbs import Asked, Verb
from .words import count

# Seconds for all queues of an account: a thousand take ten.
_PATIENCE = 60.0

MOST_QUEUES = 1_000
"""Queues that are asked for their redrive policy: each takes a call."""

# What cdk.json of the project names.
_SCHEMA = "./docs/cdk.schema.json"

# The settings' limit. The schema that checks it, `infra.settings`, is not part of this package.
_LONGEST_NAME = 28


@dataclass(frozen=True, slots=True)
class FoundDlq:
    """A DLQ of the account."""

    name: Annotated[str, "name of the queue"]
    arn: Annotated[str, "its ARN"]
    messages: Annotated[int | None, "messages in it; null if it could not be read"]
    oldest_seconds: Annotated[int | None, "age of the oldest by CloudWatch; null if unknown"]
    sources: Annotated[Sequence[str], "names of the queues whose messages die into it"]
    retention: Annotated[int | None, "seconds that it keeps a message"]
    encryption: Annotated[str | None, "`none`, `SSE-SQS`, or the id of its KMS key"]
    fifo: Annotated[bool, "whether it is a FIFO queue"]
    pipelines: Annotated[Sequence[str], "pipelines of the file that name it"]
    backlog: Annotated[
        str | None, "of a deep one: what becomes of its messages in each mode; null of another"
    ]


SAMPLE: Mapping[str, Any] = {
    "name": "orders",
    "consumer": {"kind": "webhook"},
    "context": {"tenantId": "body.tenantId", "messageType": "body.type"},
}
"""The pipeline of a fresh clone's cdk.json, which `make demo` deploys."""


@dataclass(frozen=True, slots=True)
class Inventory(Answer):
    """What `dlq init` answers."""

    is_whole: Annotated[bool, f"whether the account has at most {MOST_QUEUES} queues"]
    dlqs: Annotated[Sequence[FoundDlq], "its DLQs, those with most messages first"]
    file: Annotated[str, "the file of settings"]
    added: Annotated[Sequence[Mapping[str, Any]], "pipelines that were added to the file"]
    sample_removed: Annotated[
        bool, "whether they took the place of a fresh clone's sample pipeline"
    ]
    validated: Annotated[
        bool | None,
        "whether the settings' schema accepts the file; null if nothing was added, false if the "
        "extra `cdk` is not installed",
    ]
    unread: Annotated[Sequence[str], "what could not be read, and why"]


@dataclass(frozen=True, slots=True)
class Account:
    """The queues of an account as `read` found them."""

    queues: Mapping[str, DeployedQueue]
    """By ARN."""
    ages: Mapping[str, int]
    """Of DLQs, in seconds, by name."""
    is_whole: bool
    unread: Sequence[str]

    def mains_of(self, dlq_arn: str) -> list[DeployedQueue]:
        """The queues whose messages die into a DLQ."""
        return [queue for queue in self.queues.values() if queue.dlq_arn == dlq_arn]

    @property
    def dlq_arns(self) -> list[str]:
        """The queues that another queue names as its DLQ."""
        return list(dict.fromkeys(q.dlq_arn for q in self.queues.values() if q.dlq_arn))


def read(session: Session) -> Account:
    """All queues of the account in this region, and how old the letters of its DLQs are."""
    aws = session.aws
    _ = aws.sqs, aws.cloudwatch  # made before there are threads
    with side_by_side(Deadline(_PATIENCE)) as start:
        ask = Asking(start)
        urls = start(partial(_urls, aws)).answer("The account's queues (SQS)")
        reads = [ask(f"queue {url}", deployed_queue, aws.sqs, url) for url in urls[:MOST_QUEUES]]
        queues = {queue.arn: queue for read in reads if (queue := read()) is not None}
        names = {q.dlq_arn.rpartition(":")[2] for q in queues.values() if q.dlq_arn}
        ages = ask("the ages of messages", oldest_ages, aws.cloudwatch, sorted(names), session.now)
        known = ages() or {}
    unread = [f"{what} could not be read: {why.says}" for what, why in ask.lost]
    return Account(queues, known, len(urls) <= MOST_QUEUES, unread)


def _found(account: Account, arn: str, pipelines: Sequence[Mapping[str, Any]]) -> FoundDlq:
    queue, name = account.queues.get(arn), arn.rpartition(":")[2]
    messages, oldest = 0 if queue is None else queue.messages, account.ages.get(name)
    return FoundDlq(
        name=name,
        arn=arn,
        messages=None if queue is None else messages,
        oldest_seconds=oldest if queue is None or messages else None,
        sources=sorted(main.name for main in account.mains_of(arn)),
        retention=None if queue is None else queue.retention,
        encryption=None if queue is None else queue.encryption,
        fifo=name.endswith(".fifo"),
        pipelines=[str(each.get("name")) for each in pipelines if _dlq_of(each) == arn],
        backlog=backlog(messages, oldest),
    )


def _dlq_of(pipeline: Mapping[str, Any]) -> object:
    """The ARN of the DLQ of an entry, whoever wrote it; None if it names none."""
    dlq = pipeline.get("dlq")
    return dlq.get("arn") if isinstance(dlq, dict) else None


def _entry(aws: Aws, main: DeployedQueue, dlq_arn: str) -> Mapping[str, Any]:
    """The pipeline that a DLQ becomes for one of its sources, in mode observe."""
    return {
        "name": pipeline_name(main.name),
        # It decides and reports, and moves nothing, until a person has read what it found.
        "mode": "observe",
        **({"fifo": True} if main.fifo else {}),
        "main_queue": {"arn": main.arn},
        "dlq": {"arn": dlq_arn},
        "consumer": _consumer(aws, main),
        # Who can cure what is parked: each looks into a queue of their own.
        "parking": {str(category): str(category) for category in Category},
    }


def _consumer(aws: Aws, main: DeployedQueue) -> object:
    match aws.functions.list_event_source_mappings(EventSourceArn=main.arn)["EventSourceMappings"]:
        case [mapping]:
            arn, id_ = mapping["FunctionArn"], mapping["UUID"]
            timeout = aws.functions.get_function_configuration(FunctionName=arn)["Timeout"]
            kind = {"kind": "function", "function_arn": arn}
            return {**kind, "timeout": timeout, "mapping_id": id_}
    return "none"


def pipeline_name(queue: str) -> str:
    """A pipeline's name from that of its main queue: lower-case words with hyphens.

    One that is too long is cut, and ends with a digest of the whole: queues of a team often differ
    only at the end of their names.
    """
    stem = re.sub(r"[^a-z0-9]+", "-", queue.removesuffix(".fifo").lower()).strip("-")
    name = re.sub(r"-(main|queue|main-queue)$", "", stem)
    name = name if name[:1].isalpha() else f"q-{name}".rstrip("-")
    if len(name) <= _LONGEST_NAME:
        return name
    end = sha256(queue.encode()).hexdigest()[:4]
    return f"{name[: _LONGEST_NAME - len(end) - 1].rstrip('-')}-{end}"


class CdkJson:
    """The file of settings. Pipelines are added to it; what it holds already is never changed.

    The sample pipeline of a fresh clone is an exception: the first real one takes its place, for it
    would be deployed beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = _read(path)
        self._data = _object(path, self._text)

    @property
    def pipelines(self) -> Sequence[Mapping[str, Any]]:
        """The pipelines that it holds."""
        listed = self.context.get("pipelines", [])
        if isinstance(listed, list) and all(isinstance(each, dict) for each in listed):
            return listed
        says = f"{self.path}: context.pipelines is not a list of objects; repair it first."
        raise Problem(says, Cause.INPUT)

    @property
    def has_sample(self) -> bool:
        """Whether it holds the sample pipeline, unchanged."""
        return SAMPLE in self.pipelines

    def check(self, entry: Mapping[str, Any]) -> None:
        """Raises Problem if a pipeline of that name is there already."""
        if any(pipeline.get("name") == entry["name"] for pipeline in self._kept):
            raise Problem(
                f"{self.path} has a pipeline {entry['name']} already, and nothing in it is "
                "overwritten: rename that one, or add this one by hand.",
                Cause.INPUT,
            )

    def with_pipelines(self, added: Sequence[Mapping[str, Any]], app: str) -> Mapping[str, Any]:
        """The file's content with these pipelines at the end, and without the sample."""
        context = {"app": app, **self.context, "pipelines": [*self._kept, *added]}
        start = {} if self._data else {**self._for_editors, "app": "python3 app.py"}
        return {**start, **self._data, "context": context}

    @property
    def _for_editors(self) -> Mapping[str, str]:
        """The key by which an editor completes a new file: in a clone of this project alone."""
        return {"$schema": _SCHEMA} if (self.path.parent / _SCHEMA).is_file() else {}

    def write(self, content: Mapping[str, Any]) -> None:
        """Replaces the file at once; Problem if it changed since it was read."""
        if _read(self.path) != self._text:
            raise Problem(
                f"{self.path} was changed meanwhile; nothing was written: try again.", Cause.FAILED
            )
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        os.replace(new, self.path)

    @property
    def _kept(self) -> Sequence[Mapping[str, Any]]:
        return [pipeline for pipeline in self.pipelines if pipeline != SAMPLE]

    @property
    def context(self) -> Mapping[str, Any]:
        """The settings that it holds."""
        context = self._data.get("context", {})
        if not isinstance(context, dict):
            raise Problem(f"{self.path}: context is not an object; repair it first.", Cause.INPUT)
        return context


def validate(content: Mapping[str, Any], path: Path) -> bool:
    """True if the settings' schema accepts the content; False if it is not installed.

    Raises Problem with the schema's own sentence if it refuses the content.
    """
    package = "infra" if __package__.partition(".")[0] == "console" else "deadletter_cdk"
    try:
        context = import_module(f"{package}.context")
    except ModuleNotFoundError:
        return False
    try:
        context.read(content["context"])
    except ValueError as refused:
        raise Problem(
            f"{path} would not be accepted, so nothing was written: {refused}", Cause.INPUT
        ) from refused
    return True


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path} can't be read ({type(error).__name__}).", Cause.INPUT) from error


def _object(path: Path, text: str | None) -> Mapping[str, Any]:
    try:
        data = json.loads(text) if text is not None else {}
    except ValueError as error:
        raise Problem(f"{path} is not JSON: {error}; repair it first.", Cause.INPUT) from error
    if not isinstance(data, dict):
        raise Problem(f"{path} is not a JSON object; repair it first.", Cause.INPUT)
    return data


def _urls(aws: Aws) -> Sequence[str]:
    urls = rows(aws.sqs, "list_queues", "QueueUrls", PaginationConfig={"PageSize": 1_000})
    return [*islice(urls, MOST_QUEUES + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """List the account's DLQs, and add chosen ones to cdk.json.

    A chosen DLQ becomes a pipeline for each queue that it serves, in mode observe, which moves
    nothing. Its consumer is the function that an event source mapping names, if there is one.
    What the file holds already is never changed, but for a fresh clone's sample pipeline, whose
    place it takes; and the settings' schema checks the result before
    it is written (with the extra `cdk` installed). dlq asks before it writes.

    Nothing has to be deployed; no policy of the app allows sqs:ListQueues, so use a profile of
    yours. The exit status is 1 if something could not be read.
    """

    dlqs: Annotated[
        tuple[str, ...], Asked("The DLQs to add, by name; else only a list.", metavar="DLQ")
    ] = ()
    file: Annotated[str, Asked("The file of settings; made if missing.", ("--file",), "PATH")] = (
        "cdk.json"
    )


@dataclass(frozen=True, slots=True)
class InitPlan:
    """The account, the pipelines that would be added to a file, and what it would hold."""

    account: Account
    settings: CdkJson
    added: Sequence[Mapping[str, Any]]
    content: Mapping[str, Any]
    validated: bool | None


def _planned(session: Session, request: InitRequest) -> InitPlan:
    path = Path(request.file)
    settings = CdkJson(path)
    session.say("Looking for DLQs")
    account = read(session)
    added = _chosen(session, account, settings, request.dlqs)
    content = settings.with_pipelines(added, session.app_name)
    return InitPlan(account, settings, added, content, validate(content, path) if added else None)


def _chosen(
    session: Session, account: Account, settings: CdkJson, names: Sequence[str]
) -> list[Mapping[str, Any]]:
    known = {arn.rpartition(":")[2]: arn for arn in account.dlq_arns}
    chosen: list[Mapping[str, Any]] = []
    for name in dict.fromkeys(names):
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            says = f"{name} is no DLQ of this account and region: it has {listed}."
            raise Problem(says, Cause.ABSENT)
        for main in account.mains_of(known[name]):
            chosen.append(_entry(session.aws, main, known[name]))
            settings.check(chosen[-1])
    return chosen


def _question(plan: InitPlan) -> Iterator[str]:
    if plan.added:
        instead = ", in place of the sample pipeline" if plan.settings.has_sample else ""
        yield f"Add {count(len(plan.added), 'pipeline')} to {plan.settings.path}{instead}:"
        yield from json.dumps(plan.added, indent=2).splitlines()


def _commit(session: Session, plan: InitPlan, _: str) -> Inventory:
    account, settings = plan.account, plan.settings
    pipelines = [*settings.pipelines, *plan.added]
    if plan.added:
        settings.write(plan.content)
    dlqs = [_found(account, arn, pipelines) for arn in account.dlq_arns]
    return Inventory(
        **session.place,
        is_whole=account.is_whole,
        dlqs=sorted(dlqs, key=lambda dlq: (-(dlq.messages or 0), dlq.name)),
        file=str(settings.path),
        added=plan.added,
        sample_removed=bool(plan.added) and settings.has_sample,
        validated=plan.validated,
        unread=account.unread,
    )


VERB = Verb(
    name="init",
    request=InitRequest,
    examples=(
        "dlq init",
        "dlq init orders-dlq",
        "dlq init orders-dlq invoices-dlq --file cdk.json --yes",
    ),
    reasoned=False,
    prepare=_planned,
    question=_question,
    commit=_commit,
    plans=False,
)
