"""`dlq replay edit`, `mend` and `try`: letters of a held run are mended, and tried first."""

from __future__ import annotations

import base64
import difflib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.replay.edits import (
    EditRefused,
    checked_patch,
    patched,
    transformed,
    typed_attribute,
)

from ..operations import replay_draft_file
from ..operations.problem import Cause, Problem
from ..operations.replay_edit import (
    Change,
    DraftEdit,
    EditedLetter,
    HeldLetter,
    MendedLetters,
    RunEditor,
)
from ..operations.replay_letters import letters_of
from ..operations.replay_runs import RunSwitch
from ..operations.replay_try import (
    FIXED,
    ReplayTrial,
    function,
    letters_of_plan,
    letters_of_run,
    local,
    try_letters,
)
from ..operations.session import Session
from ..operations.words import count
from . import asking, completion, replay_options
from .asking import OptionalWhy, Yes
from .command import OnePipeline
from .exit import Exit
from .output import Block, Line, Reply, Styled, TextTable, line
from .replay_options import AcceptCollision, Causes, Ids, Run, Tenants, Why
from .text_file import read_text

LetterId = Annotated[
    str, typer.Argument(metavar="ID", help="MessageId of the letter, now or in its first life.")
]
Patch = Annotated[
    str | None,
    typer.Option("--patch", metavar="JSON|@FILE", help="A JSON Patch (RFC 6902) of the body."),
]
Transform = Annotated[
    str | None,
    typer.Option(
        "--transform", metavar="JMESPATH", help="What makes the new body: merge(@, {a: 'b'})."
    ),
]
Editor = Annotated[
    bool, typer.Option("--editor", help="Open the body in $EDITOR, in a file that only you read.")
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        metavar="NAME=TYPE:VALUE",
        help="Set an attribute: tenant=String:acme, n=Number:5, or Binary with base64. Repeatable.",
    ),
]
WithoutAttributes = Annotated[
    list[str] | None,
    typer.Option("--remove-attribute", metavar="NAME", help="Take an attribute away. Repeatable."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the diff of a sample; write nothing.")
]
Where = Annotated[
    str | None,
    typer.Option("--jmespath", metavar="EXPR", help="Only letters whose body makes it true."),
]
Count = Annotated[
    int, typer.Option("--count", metavar="N", min=1, max=100, help="How many letters to try.")
]
Function = Annotated[
    str | None,
    typer.Option("--function", metavar="ARN", help="A Lambda function: another version or alias."),
]
Local = Annotated[
    str | None,
    typer.Option("--local", metavar="CMD", help="A program here; the event is its standard input."),
]
TrySeconds = Annotated[
    int,
    typer.Option("--timeout", metavar="SECONDS", min=1, help="How long --local may take a letter."),
]
RunOrNone = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="The run's id, or its first characters; else --plan.",
        autocompletion=completion.runs,
    ),
]
PlanFile = Annotated[
    str | None,
    typer.Option("--plan", metavar="FILE", help="A plan that is not started: its letters."),
]

# Letters whose difference is shown before many are written.
_SAMPLE = 3

# Lines of a difference that fit on a screen.
_MOST_LINES = 40


def edit(
    session: Session,
    run: Run,
    id_: LetterId,
    pipeline: OnePipeline = None,
    patch: Patch = None,
    transform: Transform = None,
    editor: Editor = False,
    attribute: Attributes = None,
    remove_attribute: WithoutAttributes = None,
    accept_collision: AcceptCollision = False,
    why: Why = None,
    yes: Yes = False,
) -> Reply[EditedLetter]:
    """Change body or attributes of one letter that a held run has in custody.

    Give a JSON Patch, an expression, or --editor, attributes, or both. The attribute Redrive is
    ours and stays. The difference is shown before it is
    written. The original is kept, with who and why; exactly one version is sent: this one.
    The answer says what the edit means for idempotency.
    """
    if editor:
        # Before a person types into an editor, they learn what is missing.
        if patch is not None or transform is not None:
            raise Problem("Give one of --patch, --transform and --editor.", Cause.INPUT)
        change = _change(None, None, attribute, remove_attribute, body=_by_editor)
    else:
        change = _change(patch, transform, attribute, remove_attribute)
    maker = RunEditor(
        RunSwitch(session, pipeline, run),
        asking.reason(why, "An edit", option="--why"),
        accept_collision=accept_collision,
    )
    held = maker.one(id_)
    try:
        draft = maker.draft(held, change)
        if not yes:
            asking.confirm(session, *_question(draft))
        record = maker.write_one(draft)
    except EditRefused as error:
        raise Problem(f"Nothing was changed: {error}.", Cause.FAILED) from error
    return Reply(maker.answer(draft, record), _show_edited)


def mend(
    session: Session,
    run: Run,
    pipeline: OnePipeline = None,
    id_: Ids = None,
    cause: Causes = None,
    tenant: Tenants = None,
    jmespath: Where = None,
    patch: Patch = None,
    transform: Transform = None,
    attribute: Attributes = None,
    remove_attribute: WithoutAttributes = None,
    accept_collision: AcceptCollision = False,
    dry_run: DryRun = False,
    why: Why = None,
    yes: Yes = False,
) -> Reply[MendedLetters]:
    """Change bodies or attributes of all letters of a held run that a filter chooses.

    Each letter is checked first, and the difference of a sample is shown. What can't be
    changed stays as it is and is counted with the reason. The originals are kept.

    The exit status is 1 if a letter was not changed.
    """
    change = _change(patch, transform, attribute, remove_attribute)
    maker = RunEditor(
        RunSwitch(session, pipeline, run),
        "a dry run" if dry_run else asking.reason(why, "A mend", option="--why"),
        accept_collision=accept_collision,
    )
    matches = _matcher(session, jmespath)
    chosen = [
        letter
        for letter in letters_of(maker.switch)
        if _among((letter.name.copy, letter.name.origin), id_)
        and _among((letter.name.cause,), cause)
        and _among((letter.name.tenant,), tenant)
    ]
    drafts: list[DraftEdit] = []
    refused: Counter[str] = Counter()
    matched = 0
    # The bodies of two versions of each letter would not fit into memory: they are made twice.
    for held in maker.held(iter(chosen)):
        if not matches(held):
            continue
        matched += 1
        draft = _tried(maker, held, change, refused)
        if draft is not None and len(drafts) < _SAMPLE:
            drafts.append(draft)
        replay_options.progress(f"{matched:,} letters checked")
    replay_options.end_progress()
    ready = matched - refused.total()
    if not ready:
        whys = _numbers(refused) or "no letter in custody matches"
        raise Problem(f"Nothing was changed: {whys}.", Cause.FAILED)
    if not dry_run and not yes:
        asking.confirm(session, *_mend_question(maker, ready, refused, drafts))
    mended = ready
    if not dry_run:
        refused.clear()
        with maker.mending(ready) as record:
            mended = _write_all(maker, chosen, matches, change, refused)
            record.done({"letters": mended})
    answer = MendedLetters(
        **session.place,
        at=session.now,
        run=maker.run.id,
        dry_run=dry_run,
        matched=matched,
        mended=mended,
        refused=dict(refused),
    )

    def show(mends: MendedLetters) -> Iterator[Block]:
        return _show_mended(mends, drafts if dry_run else ())

    return Reply(answer, show, Exit.ATTENTION if refused else Exit.DONE)


def _write_all(
    maker: RunEditor, chosen: Sequence[Any], matches: Any, change: Change, refused: Counter[str]
) -> int:
    from deadletter.replay.edit_request import MOST_EDITS

    mended = 0
    records: list[str] = []

    def flush() -> None:
        nonlocal mended
        if records:
            left = maker.apply(records)
            refused.update(left.values())
            mended += len(records) - len(left)
            records.clear()
            replay_options.progress(f"{mended:,} letters changed")

    try:
        for held in maker.held(iter(chosen)):
            draft = _tried(maker, held, change, refused) if matches(held) else None
            if draft is not None:
                records.append(maker.ask(draft))
            if len(records) >= MOST_EDITS:
                flush()
        flush()
    except KeyboardInterrupt:
        replay_options.end_progress()
        sys.stderr.write(
            f"Stopped: {count(mended, 'letter')} of run {maker.run.id} changed, and perhaps the "
            f"{MOST_EDITS} behind them; the others not. All are still held. Before you type it "
            "again, see with --dry-run what it would do: a letter that is changed already would "
            "be changed once more.\n"
        )
        raise
    replay_options.end_progress()
    return mended


def _tried(
    maker: RunEditor, held: HeldLetter, change: Change, refused: Counter[str]
) -> DraftEdit | None:
    try:
        return maker.draft(held, change)
    except EditRefused as error:
        refused[str(error)] += 1
        return None


def _among(values: Sequence[str], allowed: Sequence[str] | None) -> bool:
    return not allowed or any(value in allowed for value in values)


def _matcher(session: Session, where: str | None) -> Any:
    """Whether a letter's body makes an expression true."""
    replay_options.selection(session, where=where)
    if where is None:
        return lambda _held: True
    from deadletter.message.strict_json import Unreadable, read_json
    from deadletter.rules.paths import compiled, value_at

    path = compiled("where", where)

    def matches(held: HeldLetter) -> bool:
        try:
            return value_at(path, read_json(held.letter.body)) is True
        except Unreadable:
            return False

    return matches


def _change(
    patch: str | None,
    transform: str | None,
    sets: Sequence[str] | None,
    removes: Sequence[str] | None,
    body: Callable[[str], str] | None = None,
) -> Change:
    """What changes a letter; Problem for both a patch and an expression, or for nothing.

    `body` makes its body, where a person does that in an editor.
    """
    if patch is not None and transform is not None:
        raise Problem("Give one of --patch and --transform.", Cause.INPUT)
    new_body = body or _body_change(patch, transform)
    try:
        attributes = dict(map(typed_attribute, sets or ()))
    except EditRefused as error:
        raise Problem(f"--attribute: {error}.", Cause.INPUT) from error
    removed = frozenset(removes or ())
    if new_body is None and not attributes and not removed:
        says = "--patch, --transform, --attribute or --remove-attribute (edit: or --editor)"
        raise Problem(f"Say what to change: {says}.", Cause.INPUT)

    def change(letter: Letter) -> Letter:
        if missing := removed - letter.attributes.keys():
            raise EditRefused(f"it has no attribute {', '.join(sorted(missing))}")
        kept = {name: each for name, each in letter.attributes.items() if name not in removed}
        text = letter.body if new_body is None else new_body(letter.body)
        return replace(letter, body=text, attributes={**kept, **attributes})

    return change


def _body_change(patch: str | None, transform: str | None) -> Callable[[str], str] | None:
    """What makes the new body of the old one; None if the body stays."""
    if transform is not None:
        expression = transform
        return lambda body: transformed(body, expression)
    if patch is None:
        return None
    from deadletter.message.strict_json import Unreadable, read_json

    text = read_text(patch[1:]) if patch.startswith("@") else patch
    try:
        steps = checked_patch(read_json(text, exact=True))
    except (Unreadable, EditRefused) as error:
        raise Problem(f"--patch: {error}. See RFC 6902.", Cause.INPUT) from error
    return lambda body: patched(body, steps)


def _by_editor(body: str) -> str:
    """The body as a person has changed it in an editor."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "body.json")
        path.touch(mode=0o600)
        pretty = "\n".join(_lines(body))
        path.write_text(pretty, encoding="utf-8")
        try:
            done = subprocess.run([*command, str(path)], check=False)  # their editor
        except OSError as error:
            raise Problem(
                f"The editor {command[0]} can't be started: {error.strerror}; set EDITOR.",
                Cause.INPUT,
            ) from error
        text = path.read_text(encoding="utf-8").rstrip("\n")
    if done.returncode:
        raise EditRefused("the editor ended with an error")
    if text == pretty:
        raise EditRefused("it changes nothing")
    from deadletter.message.strict_json import Unreadable, read_json
    from deadletter.replay.edits import to_text

    try:
        return to_text(read_json(text, exact=True))
    except Unreadable:
        return text


def _lines(body: str) -> list[str]:
    """A body in lines: JSON one member a line, anything else as it is."""
    from deadletter.message.strict_json import Unreadable, read_json

    try:
        value = read_json(body)
    except Unreadable:
        return body.splitlines() or [body]
    return json.dumps(value, indent=2, ensure_ascii=False).splitlines()


def _attributes(letter: Letter) -> Iterator[str]:
    """The producer's attributes, one a line: as `--attribute` takes them."""
    for name, attribute in sorted(letter.attributes.items()):
        value = attribute.value
        text = value if isinstance(value, str) else base64.b64encode(value).decode()
        if name != stamps.NAME:
            in_one_line = " ".join(text.splitlines())
            yield f"attribute {name}={attribute.data_type}:{in_one_line}"


def _difference(draft: DraftEdit) -> Iterator[str]:
    before, after = (
        [*_lines(each.body), *_attributes(each)] for each in (draft.edit.before, draft.edit.after)
    )
    rows = list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]
    yield from rows[:_MOST_LINES]
    if (more := len(rows) - _MOST_LINES) > 0:
        yield f"and {count(more, 'more line')}"


def _question(draft: DraftEdit) -> Iterator[str]:
    yield f"Letter {draft.edit.after.message_id} would be sent with this change:"
    yield from (f"  {row}" for row in _difference(draft))
    yield draft.idempotency
    if draft.applied:
        yield "The ledger says that the original was processed: the effect happens once more."


def _mend_question(
    maker: RunEditor, ready: int, refused: Counter[str], drafts: Sequence[DraftEdit]
) -> Iterator[str]:
    yield f"Change {count(ready, 'letter')} of run {maker.run.id}, such as:"
    for draft in drafts:
        yield f"  {draft.edit.after.message_id}"
        yield from (f"    {row}" for row in _difference(draft))
    yield from dict.fromkeys(draft.idempotency for draft in drafts)
    if refused:
        yield f"Not changed: {_numbers(refused)}."


def _numbers(refused: Counter[str]) -> str:
    return "; ".join(f"{number:,}: {why}" for why, number in refused.most_common())


def _show_edited(answer: EditedLetter) -> Iterator[Block]:
    yield line(
        Styled(f"Letter {answer.message_id} of run {answer.run} is changed", "strong"),
        f" in account {answer.account}, {answer.region}",
    )
    yield line(answer.idempotency)
    yield line(f"Both versions are kept as {answer.record} of the run.")
    yield line(f"Go on: dlq run resume {answer.run}")


def _show_mended(answer: MendedLetters, drafts: Sequence[DraftEdit]) -> Iterator[Block]:
    would = "would be changed" if answer.dry_run else "are changed"
    yield line(
        Styled(f"{count(answer.mended, 'letter')} of run {answer.run} {would}", "strong"),
        f" in account {answer.account}, {answer.region}; {answer.matched:,} match.",
    )
    for draft in drafts:
        yield Line()
        yield line(draft.edit.after.message_id)
        for row in _difference(draft):
            yield line(row, indent=2)
    if answer.refused:
        yield Line()
        rows = [(f"{number:,}", why) for why, number in answer.refused.items()]
        yield TextTable((">LETTERS", "NOT CHANGED, BECAUSE"), rows)
    if not answer.dry_run:
        yield line(f"Go on: dlq run resume {answer.run}")


def try_(
    session: Session,
    run: RunOrNone = None,
    plan: PlanFile = None,
    pipeline: OnePipeline = None,
    number: Count = 5,
    id_: Ids = None,
    function_: Function = None,
    local_: Local = None,
    timeout: TrySeconds = 60,
    why: OptionalWhy = None,
    yes: Yes = False,
) -> Reply[ReplayTrial]:
    """Try a few letters on another version of the consumer, or on a program here.

    Of a run the letters in its custody, of each cause one first; of a plan those that it
    has counted. Each is handed over as SQS would, and stays where it is: nothing is moved
    or counted. The handler's own effects happen, so use a version that has none, or that
    may have them.

    The exit status is 1 if a letter still fails.
    """
    if (function_ is None) == (local_ is None):
        raise Problem("Say what to try them on: --function ARN or --local CMD.", Cause.INPUT)
    if (run is None) == (plan is None):
        raise Problem("Name a RUN, or a plan with --plan FILE.", Cause.INPUT)
    because = asking.why(why)
    if run is not None:
        switch = RunSwitch(session, pipeline, run)
        chosen, run_id = switch.pipeline, switch.id
        letters = letters_of_run(switch, number, id_ or ())
    else:
        filed = replay_draft_file.read(read_text(plan or ""))
        app = session.app()
        chosen, run_id = app.pipeline(filed.plan.pipeline), filed.plan.run_id
        letters = letters_of_plan(session, app, filed, number)
    name = function_ or local_ or ""
    if not yes:
        asking.confirm(
            session,
            f"Hand {count(len(letters), 'letter')} of {chosen.name} to {name}.",
            "Its effects are real, and nothing accounts for them.",
        )
    handler = (
        function(session, function_, run_id) if function_ else local(local_ or "", float(timeout))
    )
    answer = try_letters(
        session,
        chosen,
        run_id,
        letters,
        handler,
        name,
        replay_options.progress,
        recorded_as=function_ or "a program of the caller's",
        why=because,
    )
    replay_options.end_progress()
    still_fails = answer.fixed < len(answer.tried)

    def show(trial: ReplayTrial) -> Iterator[Block]:
        yield from _show_trial(trial)
        yield Line()
        if still_fails:
            yield line("Nothing was moved. Mend the consumer or the letters before they are sent.")
        elif plan is not None:
            yield line(f"Start it: dlq replay start --plan {plan}")
        else:
            yield line(f"Go on: dlq show {run_id} says what it waits for")

    return Reply(answer, show, Exit.ATTENTION if still_fails else Exit.DONE)


def _show_trial(answer: ReplayTrial) -> Iterator[Block]:
    tried = len(answer.tried)
    yield line(
        Styled(f"{answer.fixed} of {count(tried, 'letter')} fixed", "strong"),
        f" by {answer.handler}",
    )
    yield TextTable(
        ("LETTER", "CAUSE", "OUTCOME", "ERROR"),
        [
            (
                letter.message_id,
                letter.cause,
                Styled(letter.outcome, "good" if letter.outcome == FIXED else "alarm"),
                letter.error,
            )
            for letter in answer.tried
        ],
    )
