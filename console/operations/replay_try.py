"""A few letters of a replay run, tried on another version of the consumer or on a local program."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from deadletter.contract import PARKED_LANE
from deadletter.failure.ledger import NO_ROW
from deadletter.message.letter import Letter, compact_json, to_event
from deadletter.replay.plan import belongs_to

from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .audit import IntendedChange, recorded
from .aws import failure
from .letter_walk import FoundLetter, letters_of_lane, look_into_queue
from .peek import SAMPLE
from .problem import Cause, Problem
from .replay_census import Progress, ledger_rows
from .replay_draft_file import FiledPlan
from .replay_edit import held_letters
from .replay_letters import ListedLetter, letters_of
from .replay_runs import RunSwitch
from .replay_source import source as source_named
from .session import Session

FIXED, FAILING, NO_ANSWER = "fixed", "still failing", "no answer"

# Characters of an error that are shown: enough for a sentence.
_MAX_ERROR = 300

Handler = Callable[[Mapping[str, Any]], "Attempt"]
"""Handles an event of SQS with one record."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a handler ended: `failed` are the ids that it reported."""

    outcome: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class TriedLetter:
    """A letter and how its trial ended."""

    message_id: Annotated[str, "MessageId of the copy that was tried"]
    origin: Annotated[str, "MessageId of its first life"]
    cause: Annotated[str, "fingerprint of its last failure; empty if unknown"]
    outcome: Annotated[str, f"{FIXED}, {FAILING}, or {NO_ANSWER}"]
    error: Annotated[str, "what the handler said; empty if it is fixed"]


@dataclass(frozen=True, slots=True)
class ReplayTrial(Answer):
    """What `dlq replay try` answers."""

    at: Annotated[datetime, "when they were tried"]
    run: Annotated[str, "id of the run, or of the run that a plan would start"]
    handler: Annotated[str, "the function, or the command"]
    fixed: Annotated[int, "letters that the handler took"]
    tried: Annotated[Sequence[TriedLetter], "the letters, one after the other"]


@dataclass(frozen=True, slots=True)
class TrialLetter:
    """A letter to try, with what is known of it."""

    letter: Letter
    origin: str
    cause: str = ""


def letters_of_run(
    switch: RunSwitch, number: int, ids: Collection[str] = ()
) -> Sequence[TrialLetter]:
    """Letters in the custody of a run: those with these ids, else one of each cause first."""
    listed = [
        letter
        for letter in letters_of(switch)
        if not ids or {letter.name.copy, letter.name.origin} & set(ids)
    ]
    chosen = held_letters(switch, iter(_varied(listed)))
    letters = [
        TrialLetter(held.letter, held.listed.name.origin, held.listed.name.cause)
        for held, _ in zip(chosen, range(number), strict=False)
    ]
    if not letters:
        raise Problem(
            f"Run {switch.id} has no such letter in custody: nothing was tried. "
            f"dlq show {switch.id} says how far it is.",
            Cause.ABSENT,
        )
    return letters


def _varied(letters: Sequence[ListedLetter]) -> Iterator[ListedLetter]:
    """The letters, first of each cause one, then of each cause a second one, and so on."""
    seen: dict[str, int] = {}
    rounds = []
    for letter in letters:
        seen[letter.name.cause] = seen.get(letter.name.cause, 0) + 1
        rounds.append(seen[letter.name.cause])
    order = sorted(range(len(letters)), key=lambda at: (rounds[at], at))
    return (letters[at] for at in order)


def letters_of_plan(
    session: Session, app: App, filed: FiledPlan, number: int
) -> Sequence[TrialLetter]:
    """Letters that a plan has counted, in their source; those of a queue are given back."""
    pipeline = app.pipeline(filed.plan.pipeline)
    source = source_named(pipeline, filed.plan.source)
    counted = None if filed.origins is None else set(filed.origins)
    letters: list[TrialLetter] = []

    def see(found: FoundLetter) -> None:
        stamp = found.stamp
        origin = stamp.origin if stamp else found.letter.message_id
        if len(letters) < number and (counted is None or origin in counted):
            letters.append(TrialLetter(found.letter, origin))

    if source.url is not None:
        look_into_queue(
            session,
            source.url,
            source.id,
            see,
            reach=SAMPLE,
            wanted=lambda: len(letters) < number,
        )
    lane = PARKED_LANE if source.url is not None and source.is_release else source.lane
    if lane is not None:
        for found in letters_of_lane(session, app, pipeline, lane):
            if len(letters) >= number:
                break
            if source.lane or belongs_to(source.id, found.home, pipeline.parking):
                see(found)
    if not letters:
        raise Problem(
            f"No letter that the plan has counted was found in {source.name}: nothing was tried. "
            f"dlq status --pipeline {pipeline.name} says where letters are; then plan again.",
            Cause.ABSENT,
        )
    rows = ledger_rows(session, app, pipeline, [letter.origin for letter in letters])
    return [
        replace(letter, cause=last.fingerprint)
        if (last := rows.get(letter.origin, NO_ROW).last)
        else letter
        for letter in letters
    ]


def try_letters(
    session: Session,
    pipeline: DeployedPipeline,
    run: str,
    letters: Sequence[TrialLetter],
    handler: Handler,
    name: str,
    progress: Progress = lambda _: None,
    *,
    recorded_as: str,
    why: str = "",
) -> ReplayTrial:
    """Each letter given to a handler as SQS would give it. Nothing is moved or deleted.

    It is recorded as a change, because the handler's effects are real, and the handler by a name
    without secrets.
    """
    by = recorded_as
    change = IntendedChange(
        "replay try",
        pipeline.name,
        f"letters of run {run}",
        why,
        after={"letters": len(letters), "by": by},
    )
    with recorded(session, session.app(), change) as record:
        tried = _tried(session, pipeline, letters, handler, progress)
        fixed = sum(letter.outcome == FIXED for letter in tried)
        record.done({"letters": len(letters), "by": by, FIXED: fixed})
    return ReplayTrial(
        **session.place,
        at=session.now,
        run=run,
        handler=name,
        fixed=fixed,
        tried=tuple(tried),
    )


def _tried(
    session: Session,
    pipeline: DeployedPipeline,
    letters: Sequence[TrialLetter],
    handler: Handler,
    progress: Progress,
) -> Sequence[TriedLetter]:
    arn = _queue_arn(pipeline.main_url, session)
    tried = []
    for number, trial in enumerate(letters):
        progress(f"{number} of {len(letters)} letters tried")
        # A receipt handle of ours can delete nothing.
        record = to_event(trial.letter, receipt_handle="replay-try", source_arn=arn)
        attempt = handler({"Records": [record]})
        tried.append(
            TriedLetter(
                trial.letter.message_id, trial.origin, trial.cause, attempt.outcome, attempt.error
            )
        )
    return tried


def _queue_arn(url: str, session: Session) -> str:
    account, _, name = url.rpartition("/")
    return f"arn:aws:sqs:{session.aws.region}:{account.rpartition('/')[2]}:{name}"


def function(session: Session, arn: str, run: str) -> Handler:
    """A Lambda function; it is told the run, so that its library does not account for the try."""

    def handle(event: Mapping[str, Any]) -> Attempt:
        from botocore.exceptions import ReadTimeoutError

        context = json.dumps({"custom": {"replay": run}}).encode()
        try:
            with aws_errors():
                answer = session.aws.lambda_.invoke(
                    FunctionName=arn,
                    ClientContext=base64.b64encode(context).decode(),
                    Payload=compact_json(event),
                )
                text = answer["Payload"].read()
        except ReadTimeoutError:
            return Attempt(NO_ANSWER, "the function did not answer in time")
        payload = _json(text)
        if "FunctionError" in answer:
            return Attempt(FAILING, failure(payload)[:_MAX_ERROR])
        return judged(payload, event)

    return handle


def local(command: str, seconds: float) -> Handler:
    """A program on this machine: the event comes on standard input, its answer on standard output.

    Exit status 0 and no item failures mean that the letter was taken.
    """
    words = shlex.split(command)
    if not words:
        raise Problem("--local needs a command, such as 'python handler.py'.", Cause.INPUT)

    def handle(event: Mapping[str, Any]) -> Attempt:
        try:
            done = subprocess.run(  # the person's own command, without a shell
                words, input=compact_json(event), capture_output=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return Attempt(NO_ANSWER, f"it did not end within {seconds:g} s")
        except OSError as error:
            raise Problem(
                f"--local {words[0]} can't be started: {error.strerror}.", Cause.INPUT
            ) from error
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            return Attempt(FAILING, f"exit status {done.returncode}: {last[:_MAX_ERROR]}")
        return judged(_json(done.stdout), event)

    return handle


def judged(payload: Any, event: Mapping[str, Any]) -> Attempt:
    """What an answer without an error says of the event's one record."""
    failures = payload.get("batchItemFailures", []) if isinstance(payload, dict) else []
    ids = {item.get("itemIdentifier") for item in failures if isinstance(item, dict)}
    (record,) = event["Records"]
    if record["messageId"] in ids or (failures and not ids - {None, ""}):
        return Attempt(FAILING, "the handler reported it as failed")
    return Attempt(FIXED)


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
