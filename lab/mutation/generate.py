"""Writes the mutants of modules as JSON: `python -m lab.mutation.generate module.py ...`.

Runs in the environment of lab/mutation/requirements.txt, with nothing of ours but this folder.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import parso
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

from lab.mutation.operators import ADDED

# One other operator each: eleven for each `+` are one mistake counted eleven times.
ARITHMETIC = (
    ("Add", "Sub"),
    ("Sub", "Add"),
    ("Mul", "FloorDiv"),
    ("Div", "Mul"),
    ("FloorDiv", "Mul"),
    ("Mod", "FloorDiv"),
    ("Pow", "Mul"),
    ("LShift", "RShift"),
    ("RShift", "LShift"),
    ("BitOr", "BitAnd"),
    ("BitAnd", "BitOr"),
    ("BitXor", "BitOr"),
)
# Off by one, and turned round; a test that notices these two notices the other six.
COMPARISONS = (
    ("Lt", "LtE"),
    ("Lt", "GtE"),
    ("LtE", "Lt"),
    ("LtE", "Gt"),
    ("Gt", "GtE"),
    ("Gt", "LtE"),
    ("GtE", "Gt"),
    ("GtE", "Lt"),
    ("Eq", "NotEq"),
    ("NotEq", "Eq"),
    ("Is", "IsNot"),
    ("IsNot", "Is"),
)
NAMES = (
    *(f"ReplaceBinaryOperator_{this}_{other}" for this, other in ARITHMETIC),
    *(f"ReplaceComparisonOperator_{this}_{other}" for this, other in COMPARISONS),
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_USub",
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "RemoveDecorator",
    "ZeroIterationForLoop",
)


def operators() -> dict[str, Callable[[], Any]]:
    """The operators by name: those of cosmic-ray that are used, and ours."""
    provider = OperatorProvider()
    return {name: provider[name] for name in NAMES} | {kind.__name__: kind for kind in ADDED}


def mutants(source: str) -> Iterator[dict[str, Any]]:
    """The edits that make a mutant each: `operator`, `at`, `length`, `text`, in characters."""
    original = ast.parse(source)
    sane = _without_annotations(original)
    made: set[str] = set()
    start = 0
    for node in parso.parse(source).children:
        chunk = node.get_code()
        for name, kind in operators().items():
            if name == ("NumberReplacer" if _is_constant(chunk) else "DoubleNumber"):
                continue
            for occurrence in range(10_000):
                try:
                    mutated = mutate_code(chunk, kind(), occurrence)
                except AttributeError:
                    # ExceptionReplacer knows no dotted name.
                    continue
                if mutated is None:
                    break
                whole = source[:start] + mutated + source[start + len(chunk) :]
                try:
                    tree = ast.parse(whole)
                except SyntaxError:
                    continue
                meaning = _without_annotations(tree)
                if meaning == sane or meaning in made or _only_for_types(name, chunk):
                    continue
                made.add(meaning)
                yield {"operator": name, **_edit(source, whole)}
        start += len(chunk)


def _is_constant(chunk: str) -> bool:
    """Whether a statement sets constants of the module.

    One more or less of what was tuned is no mistake, and a test that notices it only repeats it.
    """
    match ast.parse(chunk).body:
        case [ast.Assign(targets=[target]) | ast.AnnAssign(target=target)]:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            return all(isinstance(name, ast.Name) and name.id.isupper() for name in names)
    return False


def _only_for_types(operator: str, chunk: str) -> bool:
    return operator == "AddNot" and chunk.lstrip().startswith("if TYPE_CHECKING")


def _edit(source: str, mutated: str) -> dict[str, Any]:
    """The shortest replacement of one stretch that turns `source` into `mutated`."""
    most = min(len(source), len(mutated))
    left = next((i for i in range(most) if source[i] != mutated[i]), most)
    right = 0
    while right < most - left and source[-1 - right] == mutated[-1 - right]:
        right += 1
    text = mutated[left : len(mutated) - right]
    return {"at": left, "length": len(source) - right - left, "text": text}


def _without_annotations(tree: ast.Module) -> str:
    """What the code does, as text: annotations say nothing at run time, nor do positions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            # `zip(strict=True)` asserts what is true; `field(repr=False)` keeps logs clean, which
            # tests of the logs show and no decision needs.
            ignored = {"zip": "strict", "field": "repr"}.get(node.func.id)
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != ignored]
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.ClassDef):
            # A dataclass without fields of its own is the same without the decorator; the others
            # fail at once, and `frozen` and `slots` only forbid what no code of ours does.
            node.decorator_list = [
                mark for mark in node.decorator_list if "dataclass" not in ast.unparse(mark)
            ]
            if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
                # Only for types.
                node.body = []
        elif isinstance(node, ast.If) and _negated_comparison(node.test):
            node.test = _turned(node.test)
    return ast.dump(tree)


def _negated_comparison(test: ast.expr) -> bool:
    if not isinstance(test, ast.UnaryOp) or not isinstance(test.op, ast.Not):
        return False
    inner = test.operand
    if isinstance(inner, ast.UnaryOp):
        return isinstance(inner.op, ast.Not)
    return isinstance(inner, ast.Compare) and len(inner.ops) == 1


TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


def _turned(test: ast.expr) -> ast.expr:
    """`not a < b` as `a >= b`, and `not not a` as `a`: the same mistake is made once."""
    assert isinstance(test, ast.UnaryOp)
    inner = test.operand
    if isinstance(inner, ast.UnaryOp):
        return inner.operand
    assert isinstance(inner, ast.Compare)
    inner.ops = [TURNED[type(inner.ops[0])]()]
    return inner


def main(paths: list[str]) -> int:
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            found[path] = list(mutants(file.read()))
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
