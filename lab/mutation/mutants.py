"""Writes the mutants of a module: each a function with one small mistake.

Only what runs in functions is mutated, because that can be put in the place of what is already
imported. Constants, defaults, decorators and class bodies run at import.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from types import CodeType

# One other operator each: eleven for each `+` are one mistake counted eleven times.
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.BitXor: ast.BitOr,
}  # fmt: skip
# Off by one, and turned round; a test that notices these two notices the other six.
COMPARISONS: dict[type[ast.cmpop], Sequence[type[ast.cmpop]]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef
# What says nothing at run time, or runs at import.
NOT_RUN = {"annotation", "returns", "decorator_list"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A function of `module` (a path below lambdas/deadletter) with a mistake in these lines.

    `name` and `first` find the function that is imported: its qualified name, and its first line
    with those of its decorators. `was` and `becomes` are the line that differs.
    """

    module: str
    name: str
    first: int
    line: int
    last_line: int
    was: str
    becomes: str
    code: CodeType

    @property
    def lines(self) -> set[tuple[str, int]]:
        return {(self.module, line) for line in range(self.line, self.last_line + 1)}

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.name}: {self.was!r} -> {self.becomes!r}"


def mutants(module: str, source: str, path: str) -> Iterator[Mutant]:
    """The mutants of all functions of a module that stands in the file `path`."""
    for classes, function in _functions(ast.parse(source).body):
        original, lines = _compiled(classes, function, path), ast.unparse(function).splitlines()
        name = ".".join((*classes, function.name))
        for place in _mistakes(function):
            code = _compiled(classes, function, path)
            # A function can't be given code that needs another closure.
            if code.co_freevars != original.co_freevars:
                continue
            was, becomes = _difference(lines, ast.unparse(function).splitlines())
            last = place.end_lineno or place.lineno
            first = original.co_firstlineno
            yield Mutant(module, name, first, place.lineno, last, was, becomes, code)


def _functions(
    body: Sequence[ast.stmt], classes: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Function]]:
    """The functions of a module and of its classes, each with the names of its classes."""
    for statement in body:
        if isinstance(statement, Function):
            yield classes, statement
        elif isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body, (*classes, statement.name))


def _compiled(classes: Sequence[str], function: Function, path: str) -> CodeType:
    """The code of a function, compiled in its classes: `super()` and `__names` need them."""
    tree: ast.stmt = function
    for name in reversed(classes):
        tree = ast.ClassDef(name, bases=[], keywords=[], body=[tree], decorator_list=[])
    module = ast.fix_missing_locations(ast.Module([tree], type_ignores=[]))
    code: CodeType = compile(module, path, "exec", annotations.compiler_flag, dont_inherit=True)
    for name in (*classes, function.name):
        inner = [const for const in code.co_consts if isinstance(const, CodeType)]
        code = next(const for const in inner if const.co_name == name)
    return code


def _mistakes(function: Function) -> Iterator[ast.expr | ast.stmt | ast.ExceptHandler]:
    """Make each mistake in turn, give the node that is wrong for so long, and take it back."""
    waiting: list[ast.AST] = [function]
    while waiting:
        owner = waiting.pop()
        for field, value in ast.iter_fields(owner):
            if field in NOT_RUN or (owner is function and field == "args") or _is_strict(owner):
                continue
            children = value if isinstance(value, list) else [value]
            for place, child in enumerate(children):
                if isinstance(child, ast.AST):
                    waiting.append(child)
                if not isinstance(child, ast.expr | ast.stmt | ast.ExceptHandler):
                    continue
                for wrong in _wrong(child):
                    ast.copy_location(wrong, child)
                    _put(owner, field, place, wrong)
                    yield child
                    _put(owner, field, place, child)


def _is_strict(node: ast.AST) -> bool:
    """Whether it is the argument of `zip(strict=True)`, which asserts what is true."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _put(owner: ast.AST, field: str, place: int, node: ast.AST) -> None:
    value = getattr(owner, field)
    if isinstance(value, list):
        value[place] = node
    else:
        setattr(owner, field, node)


def _wrong(node: ast.AST) -> Iterator[ast.AST]:
    """The mistakes that can be made in place of a node."""
    match node:
        case ast.Compare(ops=ops):
            for place, sign in enumerate(ops):
                for other in COMPARISONS[type(sign)]:
                    yield _with(node, ops=[*ops[:place], other(), *ops[place + 1 :]])
        case ast.BinOp(op=sign) if type(sign) in ARITHMETIC:
            yield _with(node, op=ARITHMETIC[type(sign)]())
        case ast.BoolOp(op=sign):
            yield _with(node, op=ast.Or() if isinstance(sign, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield copy(operand)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(
            # These are turned round themselves.
            test,
            ast.Compare | ast.UnaryOp | ast.Constant,
        ):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Constant(value=bool(truth)):
            yield ast.Constant(not truth)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(number + 1)
            yield ast.Constant(number - 1)
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.ExceptHandler(type=ast.expr()):
            # Catches nothing.
            yield _with(node, type=ast.Tuple([], ast.Load()))
        case ast.For():
            yield _with(node, iter=ast.List([], ast.Load()))
        case ast.Return(value=ast.Constant(value=None | False)):
            # As the answer of a predicate False is the same as None.
            return
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Delete() | ast.AugAssign():
            yield ast.Pass()
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            yield ast.Pass()


def _with(node: ast.AST, **changes: object) -> ast.AST:
    changed = copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _difference(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """The first line that differs, as it was and as it becomes."""
    for was, becomes in zip(before, after, strict=False):
        if was != becomes:
            return was.strip(), becomes.strip()
    return "", ""
