"""The settings as JSON schemas, as a page and as types: `python -m infra.reference` writes them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from enum import EnumMeta
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from deadletter.settings.setting import Setting

from .checked import adapter
from .duration import written
from .keys import service_statements
from .kinds import NOTATION, bare, hints, is_declared, is_duration, is_optional, marked, says, words
from .settings import AppDeployment, ConsumerDeployment, PipelineDeployment

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "settings.md"
SCHEMA = DOCS / "settings.schema.json"
TYPES = Path(__file__).with_name("typed.py")


class SettingRow(NamedTuple):
    """A setting: its path, what it is, its annotation, its limits and its default."""

    path: str
    says: str
    hint: Any
    mark: Setting
    default: Any


REQUIRED = ("name", "vpc.subnet_ids", "vpc.security_group_ids")

TYPED = '''"""The settings as types, for editors and type checkers; `make docs` writes this file.

What a person types is a plain dict: `infra.checked` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict'''

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# An object of JSON with nothing but one text in it.
_ON_ONE_LINE = re.compile(r'\{\s+"[^"]+": "[^"]+"\s+\}')

# Said in full where it stands first.
_PATH = "a JMESPath expression, such as body.tenant or json(body.Message).tenant"

# What is written anew between two marks of the page; around it people write.
_MADE = re.compile(r"(<!-- made by make docs: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def schema() -> dict[str, Any]:
    """The JSON schema of the context of `cdk.json`."""
    described = adapter(AppDeployment).json_schema()
    known_by = {kind.__name__: kind for kind in declarations(AppDeployment)}
    for name, model in {"AppDeployment": described, **described["$defs"]}.items():
        if name in known_by:
            known = hints(known_by[name])
            pairs = model["properties"].items()
            model["properties"] = {key: node for key, node in pairs if key in known}
            for key, node in model["properties"].items():
                node["description"] = says(known_by[name])[key]
                if marked(known[key]).depends:
                    node.pop("default", None)
            model["additionalProperties"] = False
            model["description"] = _first_line(known_by[name])
    # Which kind a consumer is may follow from its other keys, or it is just a word.
    consumer = described["$defs"]["PipelineDeployment"]["properties"]["consumer"]
    kind = {"$ref": "#/$defs/ConsumerKind"}
    described["$defs"]["PipelineDeployment"]["properties"]["consumer"] = {
        "description": consumer["description"],
        "anyOf": [{"$ref": consumer["$ref"]}, kind],
    }
    # The CDK's own keys stand beside ours.
    described["patternProperties"] = {"[^A-Za-z0-9_]": True}
    return {"$schema": DIALECT, **described}


def rows(declaration: Any, default: Any, above: str = "") -> Iterator[SettingRow]:
    """Each setting of a declaration: what is in an object, in place of the object."""
    for name, hint in hints(declaration).items():
        inner, path = bare(hint), f"{above}{name}"
        value = getattr(default, name, None)
        if is_declared(inner):
            yield from rows(inner, value, f"{path}.")
        elif path not in ("pipelines", "tuning"):
            yield SettingRow(path, says(declaration)[name], hint, marked(hint), value)


APP = tuple(rows(AppDeployment, AppDeployment()))
PIPELINE = tuple(rows(PipelineDeployment, PipelineDeployment("x")))


def page() -> str:
    """The page as it is, with what is made of the declarations written anew."""
    made = {"tables": "\n".join(_tables()), "statements": _statements()}
    return _MADE.sub(lambda mark: f"{mark[1]}{made[mark[2]]}\n{mark[3]}", PAGE.read_text())


def _tables() -> Iterator[str]:
    """First what most pipelines need, then the rest."""
    for title, first in (("## Where to begin", True), ("## All others", False)):
        yield f"{title}\n"
        for whose, known in (("The app", APP), ("A pipeline: each of `pipelines`", PIPELINE)):
            yield f"| {whose} | what | default | allowed |\n|---|---|---|---|"
            for row in known:
                if row.mark.first == first:
                    allowed = words(row.hint).removesuffix(NOTATION)
                    if row.path != "context":
                        allowed = allowed.replace(_PATH, "a path, as in `context`")
                    yield f"| `{row.path}` | {row.says} | {_default(row)} | {allowed} |"
            yield ""


def _statements() -> str:
    said = service_statements(
        AppDeployment(), partition="aws", region="eu-west-1", account="111122223333"
    )
    return f"```json\n{_ON_ONE_LINE.sub(_joined, json.dumps(said, indent=2))}\n```"


def _joined(leaf: re.Match[str]) -> str:
    return re.sub(r"\s+", " ", leaf[0]).replace("{ ", "{").replace(" }", "}")


def typed_dicts() -> str:
    """The declarations as types for editors: what a person types is a plain dict."""
    parts = [TYPED]
    names = {AppDeployment: "AppSettings", PipelineDeployment: "PipelineSettings"}
    for kind in declarations(AppDeployment):
        name = names.get(kind, kind.__name__.removesuffix("Deployment"))
        parts += [f"\n\nclass {name}(TypedDict, total=False):"]
        parts += [f'    """{_first_line(kind)}"""\n']
        parts += [
            f"    {name}: {_typed(hint)}{' | None' if is_optional(hint) else ''}"
            for name, hint in hints(kind).items()
            if name != "pipelines"
        ]
    return "\n".join(parts) + "\n"


def count() -> str:
    """How many settings there are, and how many are in the first table."""
    known = (*APP, *PIPELINE)
    return f"{len(known)} settings, {sum(row.mark.first for row in known)} of them first"


def write() -> None:
    """Write the files anew."""
    SCHEMA.write_text(json.dumps(schema(), indent=2) + "\n")
    PAGE.write_text(page())
    TYPES.write_text(typed_dicts())


def declarations(kind: type) -> list[type]:
    """A declaration and those within, each once, what is inside first."""
    found: list[type] = []
    for hint in hints(kind).values():
        for inner in (bare(hint), *map(bare, get_args(bare(hint)))):
            if is_declared(inner):
                found += declarations(inner)
    return list(dict.fromkeys([*found, kind]))


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").splitlines()[0]


def _typed(hint: Any) -> str:
    """The annotation as the source of a type for what a person types."""
    plain = bare(hint)
    if is_declared(plain):
        name = plain.__name__.removesuffix("Deployment")
        return f"{name} | str" if plain is ConsumerDeployment else name
    if isinstance(plain, EnumMeta):
        return f"Literal[{', '.join(map(json.dumps, plain.__members__.values()))}]"
    if is_duration(hint):
        return "int | str"
    match get_origin(plain), get_args(plain):
        case origin, choices if origin is Literal:
            return f"Literal[{', '.join(map(json.dumps, choices))}]"
        case origin, [item, *_] if origin is tuple:
            return f"Sequence[{_typed(item)}]"
        case origin, [_, of_values] if origin is Mapping:
            return f"Mapping[str, {_typed(of_values)}]"
        case origin, [*parts] if origin is not None:
            return " | ".join(map(_typed, parts))
    return "Any" if plain is Any else plain.__name__


def _default(row: SettingRow) -> str:
    if row.path in REQUIRED:
        return "required"
    if row.mark.depends or row.default in (None, (), {}):
        return ""
    return f"`{written(row.default) if is_duration(row.hint) else json.dumps(row.default)}`"


if __name__ == "__main__":
    sys.stdout.write(f"{count()}\n") if "--count" in sys.argv else write()
