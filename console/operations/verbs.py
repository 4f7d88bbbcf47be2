"""What a verb is: a request, and either an answer, or a plan and what became of it.

The command line is made from requests, and so can be forms of a page and tools of agents: what may
be asked stands in the fields of a dataclass, each with its `Asked`. What changes something has two
steps: `prepare` says what would happen and changes nothing, `commit` does exactly that and writes
its row of the audit table first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from inspect import cleandoc, getdoc
from shlex import quote
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from .session import Answer, Session


@dataclass(frozen=True, slots=True)
class Asked:
    """How one field of a request is asked for.

    says      what it is, for help
    names     the option, as ("--rate",) or ("--filter", "-f"); empty for what needs no name
    metavar   what stands for its value in help; empty for a yes or no
    least     the smallest number that is taken, and `most` the greatest
    reads     whether what is typed names a file: the value is its text, or a TextFile
    """

    says: str
    names: tuple[str, ...] = ()
    metavar: str = ""
    least: float | None = None
    most: float | None = None
    reads: bool = False


PIPELINE = Asked("The pipeline that is meant; lists take several.", ("--pipeline", "-p"), "NAME")
"""The option of every command about pipelines; it stands before or after the command's name."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file as it was typed, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class AskedField:
    """A field of a request: its name, its type without None, whether it repeats, its default.

    `required` says that there is no default.
    """

    name: str
    asked: Asked
    kind: type
    repeats: bool
    default: Any
    required: bool = False

    @property
    def names_pipelines(self) -> bool:
        """Whether pipelines are named by it: with -p, or by what stands behind the command."""
        return self.asked is PIPELINE or "PIPELINE" in self.asked.metavar


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb of `dlq`. It reads (`read`), or it changes something (`prepare` and `commit`).

    request   the frozen dataclass of what may be asked; its docstring is the help of the verb
    examples  command lines
    change    what needs a reason: "A discard"; empty for what needs none, which may depend on the
              request
    reasoned  whether a change has a reason at all, because it has a row of the audit table
    read      the answer to a request
    prepare   the plan of a request; it changes nothing
    question  the plan as sentences, for a person to agree to, or none if nothing would change; None
              for what is done at once
    commit    does what the plan says, for a reason; the answer
    trial     what --dry-run says besides the question
    severe    whether a plan can't be undone, so that the app's name has to be typed; None if none
              of its plans is so
    plans     whether --dry-run says more than the question
    says      its help, where several verbs have one request
    """

    name: str
    request: type[Any]
    examples: Sequence[str]
    change: str | Callable[[Any], str] = ""
    reasoned: bool = True
    read: Callable[[Session, Any], Any] | None = None
    prepare: Callable[[Session, Any], Any] | None = None
    question: Callable[[Any], Iterator[str]] | None = None
    commit: Callable[[Session, Any, str], Any] | None = None
    trial: Callable[[Session, Any], Iterator[str]] | None = None
    severe: Callable[[Any], bool] | None = None
    plans: bool = True
    says: str = ""

    @property
    def help(self) -> str:
        """What it does: a line, and paragraphs below."""
        return cleandoc(self.says) or getdoc(self.request) or ""

    @property
    def answer(self) -> type[Any]:
        """The dataclass of its answer, whose fields are the keys of its JSON."""
        return get_type_hints(self.read or self.commit)["return"]  # type: ignore[no-any-return]

    def asked(self) -> Iterator[AskedField]:
        """The fields of its request, in their order."""
        hints: Mapping[str, Any] = get_type_hints(self.request, include_extras=True)
        for field in fields(self.request):
            kind, *more = get_args(hints[field.name])
            asked = next(each for each in more if isinstance(each, Asked))
            repeats = get_origin(kind) is tuple
            kinds = [each for each in get_args(kind) if each not in (type(None), ...)]
            required = field.default is MISSING
            default = None if required else field.default
            kind = kinds[0] if kinds else kind
            yield AskedField(field.name, asked, kind, repeats, default, required)


def typed_line(words: str, verb: Verb, request: Any) -> str:
    """The command line that asks for the same: `words` are those of the command, after `dlq`."""
    typed = ["dlq", *words.split()]
    options: list[str] = []
    for field in verb.asked():
        value = getattr(request, field.name)
        if value == (() if field.repeats else field.default):
            continue
        names = field.asked.names
        for each in value if field.repeats else (value,):
            if isinstance(each, bool):
                options.append(names[-1])
            elif names:
                options += [names[-1], quote(str(each))]
            else:
                typed.append(quote(str(each)))
    return " ".join([*typed, *options])


def always(_plan: Any) -> bool:
    """Of a verb of which nothing can be undone."""
    return True


@dataclass(frozen=True, slots=True)
class Planned(Answer):
    """What a verb would do, as `--dry-run` answers."""

    would: Annotated[Sequence[str], "what would happen, as sentences"]
