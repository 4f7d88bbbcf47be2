"""What a person changes by the page: a plan, a reason, and a button that says how much.

The verbs are those of the command line: what a form asks for stands in the fields of a request,
`prepare` changes nothing, and what `commit` gets is the very plan that the person has read.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, is_dataclass, replace
from threading import Lock
from typing import Any, Protocol

from deadletter.replay.edits import EditRefused

from ..operations import circuits, discard, edits, mutes, restore, retry, rules, run_verbs
from ..operations.audit import checked_reason, told_in_part
from ..operations.errors import Cause, Problem, explain
from ..operations.session import Session
from ..operations.verbs import AskedField, Verb
from ..operations.words import count

ACTS: Mapping[str, Verb] = {
    "retry": retry.VERB,
    "discard": discard.VERB,
    "restore": restore.VERB,
    "mute": mutes.VERB,
    **{f"rules {verb.name}": verb for verb in (rules.ADD, rules.DISABLE, rules.UNDO, rules.REMOVE)},
    **{f"circuit {verb.name}": verb for verb in (*circuits.HOLDS, circuits.RELEASE)},
    **{f"run {verb.name}": verb for verb in run_verbs.CHANGES},
}
"""The verbs of the page, by what is typed after `dlq`."""

MOST_PLANS = 50
"""Plans that are kept for a person to agree to; the oldest goes first."""


class Form(Protocol):
    """A form as it was sent."""

    def get(self, key: str, default: str = "") -> Any: ...

    def getlist(self, key: str) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan that a person has read: the act, what was asked for, and what would be done.

    It has a session of its own, which knows what was changed by it.
    """

    session: Session
    words: str
    request: Any
    plan: Any

    @property
    def verb(self) -> Verb:
        return ACTS[self.words]

    @property
    def change(self) -> str:
        """What needs a reason: "A retry"; empty if nothing does."""
        change = self.verb.change
        return change(self.request) if callable(change) else change

    @property
    def is_severe(self) -> bool:
        """Whether it can't be undone, so that the app's name has to be typed."""
        return self.verb.severe is not None and self.verb.severe(self.plan)

    @property
    def says(self) -> Sequence[str]:
        """What would happen, as sentences."""
        question = self.verb.question
        return list(question(self.plan)) if question is not None else [self.verb.help]

    @property
    def button(self) -> str:
        """What the button says: "Retry 3 messages", "Open circuit"."""
        noun, _, verb = self.words.rpartition(" ")
        letters = getattr(self.plan, "letters", None)
        if letters is None:
            return f"{verb.capitalize()} {noun.removesuffix('s')}".rstrip()
        number = letters if isinstance(letters, int) else len(letters)
        return f"{verb.capitalize()} {count(number, 'message')}"

    @property
    def document(self) -> str | None:
        """The message that a person has still to edit; None if there is none."""
        edit = getattr(self.plan, "edit", None)
        if edit is None or edit.found is None or edit.change is not None:
            return None
        return edits.document(edit.found.letter)


class Plans:
    """The plans that people have read and not yet agreed to. Each is carried out once.

    Messages can be edited only once a run has taken them, which takes up to a minute: a person is
    shown the run meanwhile. A page that ends waits for edits that have begun.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: OrderedDict[str, KeptPlan] = OrderedDict()
        self._lock = Lock()
        self._edits: dict[str, Future[Mapping[str, int]]] = {}
        self._worker = ThreadPoolExecutor(thread_name_prefix="edit")

    def prepare(self, words: str, form: Form) -> tuple[str, KeptPlan]:
        """What an act would do, and the name under which it is kept. It changes nothing."""
        verb = ACTS[words]
        assert verb.prepare is not None
        request = verb.request(**dict(_values(verb, form)))
        own = replace(self._session, connect=lambda: self._session.aws, changes={})
        plan = verb.prepare(own, request)
        if (text := form.get("document")) and getattr(plan, "edit", None) is not None:
            try:
                plan = retry.with_edit(own, plan, edits.from_document(text))
            except EditRefused as error:
                raise Problem(f"Nothing was done: {error}.", Cause.INPUT) from error
        name = secrets.token_urlsafe(16)
        with self._lock:
            self._kept[name] = kept = KeptPlan(own, words, request, plan)
            while len(self._kept) > MOST_PLANS:
                self._kept.popitem(last=False)
        return name, kept

    def commit(self, name: str, form: Form) -> tuple[KeptPlan, Any]:
        """Do what a plan says, once. Problem if a reason or the app's name is missing."""
        with self._lock:
            if (kept := self._kept.get(name)) is None:
                raise Problem("This plan was carried out, or is too old: plan anew.", Cause.ABSENT)
            reason = checked_reason(str(form.get("reason") or ""), "")
            if kept.change and not reason:
                raise Problem(f"{kept.change} needs a reason: nothing was done.", Cause.INPUT)
            if kept.is_severe and form.get("confirm") != self._session.app_name:
                raise Problem(
                    f"Type the app's name, {self._session.app_name}: nothing was done.",
                    Cause.INPUT,
                )
            del self._kept[name]
        with told_in_part(kept.session):
            if kept.verb is retry.VERB and kept.plan.edit is not None:
                begun = retry.begin(kept.session, kept.plan, reason)
                asked = (kept.session, kept.plan, begun.runs, reason)
                edit = self._worker.submit(retry.edited, *asked)
                self._edits |= {row.run: edit for row in begun.runs}
                return kept, begun
            assert kept.verb.commit is not None
            return kept, kept.verb.commit(kept.session, kept.plan, reason)

    def edit_of(self, run: str) -> str:
        """How far the edit of a run's messages is; empty if all of them were edited, or none is."""
        edit = self._edits.get(run)
        if edit is None:
            return ""
        if not edit.done():
            return "Its messages are edited first. Nothing is sent before."
        if (error := edit.exception()) is not None:
            problem = explain(error) if isinstance(error, Exception) else None
            return problem.says if problem else f"The edit failed ({type(error).__name__})."
        whys = (f"{number:,} could not be edited: {why}." for why, number in edit.result().items())
        return " ".join(whys)


def asked_of(verb: Verb) -> list[AskedField]:
    """The fields of a form: those of the request that need no file."""
    return [field for field in verb.asked() if field.kind in (str, bool, int, float)]


def _values(verb: Verb, form: Form) -> Iterator[tuple[str, Any]]:
    for field in asked_of(verb):
        if field.repeats:
            given = [str(each).strip() for each in form.getlist(field.name)]
            yield field.name, tuple(line for each in given for line in each.splitlines() if line)
        elif field.kind is bool:
            yield field.name, bool(form.get(field.name))
        elif text := str(form.get(field.name) or "").strip():
            yield field.name, _number(field, text) if field.kind in (int, float) else text
        elif field.required:
            raise Problem(f"{field.asked.metavar or field.name} is missing.", Cause.INPUT)


def _number(field: AskedField, text: str) -> float:
    asked = field.asked
    try:
        number = field.kind(text)
    except ValueError:
        number = float("nan")
    least, most = asked.least, asked.most
    if not (least is None or number >= least) or not (most is None or number <= most):
        raise Problem(f"{field.name} is no number that is allowed: {text}.", Cause.INPUT)
    return number  # type: ignore[no-any-return]


def runs_of(answer: Any) -> Sequence[str]:
    """The ids of the runs that an act has begun or changed."""
    rows = [*getattr(answer, "runs", ()), getattr(answer, "after", None)]
    return [row.run for row in rows if hasattr(row, "run")]


def facts_of(answer: Any) -> Mapping[str, Any]:
    """What has come of an act, as data; where it was done is on the page already."""
    data = asdict(answer) if is_dataclass(answer) and not isinstance(answer, type) else {}
    left_out = ("account", "region", "app")
    return {name: value for name, value in data.items() if name not in left_out and value}
