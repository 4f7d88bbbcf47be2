"""DynamoDB's expression language: conditions, updates, projections and key conditions.

An expression is parsed once for each set of `ExpressionAttributeNames` and remembered. What it
becomes is a plain function over an item and the `ExpressionAttributeValues`, both canonical (see
`attribute_values`). What is wrong with it is a ValidationError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, NoReturn

from deadletter.testing.fakes.attribute_values import (
    Item,
    ValidationError,
    Value,
    add,
    negative,
    set_of,
)
from deadletter.testing.fakes.reserved_words import RESERVED_WORDS

Names = tuple[tuple[str, str], ...]
Path = tuple[str | int, ...]
Values = Mapping[str, Value]
Test = Callable[[Mapping[str, Value], Values], bool]
Read = Callable[[Mapping[str, Value], Values], Value | None]
Tree = dict[str | int, "Tree | None"]

# Bytes of one expression's text.
_LONGEST = 4_096
_MOST_ALTERNATIVES = 100

_TOKEN = re.compile(
    r"\s*(?:(?P<name>#\w+)|(?P<value>:\w+)|(?P<word>[A-Za-z]\w*)|(?P<index>\d+)"
    r"|(?P<sign><>|<=|>=|[=<>()\[\].,+-])|(?P<end>$))",
    re.ASCII,
)
_KEYWORDS = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE"))
_TESTS = frozenset(
    ("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains")
)
_ORDERS = {"<": lt, "<=": le, ">": gt, ">=": ge}
_TYPES = frozenset(("S", "N", "B", "SS", "NS", "BS", "L", "M", "NULL", "BOOL"))
_ORDERED = frozenset(("S", "N", "B"))
_SETS = frozenset(("SS", "NS", "BS"))


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a comparison: a document path, its size, or a placeholder of a value."""

    kind: str
    path: Path = ()
    placeholder: str = ""

    def reader(self) -> Read:
        if self.kind == "value":
            placeholder = self.placeholder
            return lambda item, values: values[placeholder]
        read = _path_reader(self.path)
        if self.kind == "path":
            return read
        return lambda item, values: _size(read(item, values))


@dataclass(frozen=True, slots=True)
class Expression:
    """What is known of an expression without an item: the placeholders that it uses."""

    names: frozenset[str]
    values: frozenset[str]
    # Placeholder, the types it may have, and who says so.
    typed: tuple[tuple[str, frozenset[str], str], ...]
    # Lower and upper bounds of BETWEEN.
    bounds: tuple[tuple[str, str], ...]

    def check_values(self, values: Values) -> None:
        """Refuse values whose type the expression can't use. All placeholders are there."""
        for placeholder, types, user in self.typed:
            (kind,) = values[placeholder]
            if kind not in types:
                raise ValidationError(
                    f"Incorrect operand type for operator or function; operator or function: "
                    f"{user}, operand type: {kind}"
                )
            if user == "attribute_type" and values[placeholder]["S"] not in _TYPES:
                raise ValidationError("Invalid attribute type name found")
        for lower, upper in self.bounds:
            if values[lower].keys() != values[upper].keys() or _ordered(
                gt, values[lower], values[upper]
            ):
                raise ValidationError(
                    "The BETWEEN operator requires upper bound to be greater than or equal to "
                    "lower bound, and both of one type"
                )


@dataclass(frozen=True, slots=True)
class Requirement(Expression):
    """A condition or a filter; `holds` of an item that doesn't exist gets an empty one."""

    holds: Test
    # Top-level attributes that it looks at.
    attributes: frozenset[str]


@dataclass(frozen=True, slots=True)
class ConditionComparison:
    """One half of a key condition: `attribute operator placeholders`."""

    attribute: str
    # =, <, <=, >, >=, between or begins_with.
    operator: str
    placeholders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyCondition(Expression):
    """The parts of a key condition; which is the hash key's only the table knows."""

    parts: tuple[ConditionComparison, ...]


@dataclass(frozen=True, slots=True)
class Projection(Expression):
    """The attributes, or parts of attributes, that a request asks for."""

    tree: Tree

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(str(name) for name in self.tree)

    def of(self, item: Mapping[str, Value]) -> Item:
        """What the item has of them; shares its values with the item."""
        seen = {}
        for name, below in self.tree.items():
            value = item.get(str(name))
            part = value if value is None or below is None else _part(value, below)
            if part is not None:
                seen[str(name)] = part
        return seen


@dataclass(frozen=True, slots=True)
class Update(Expression):
    """SET, REMOVE, ADD and DELETE. Everything is read before anything is written."""

    sets: tuple[tuple[Path, Read], ...]
    removes: tuple[Path, ...]
    adds: tuple[tuple[Path, str], ...]
    deletes: tuple[tuple[Path, str], ...]
    # Everything that it touches.
    touched: Projection

    def of(self, item: Mapping[str, Value], values: Values) -> Item:
        """The item afterwards, as a new one; the old one stays as it was."""
        written: list[tuple[Path, Value]] = []
        for path, read in self.sets:
            value = read(item, values)
            if value is None:
                raise ValidationError(
                    "The provided expression refers to an attribute that does not exist in the item"
                )
            written.append((path, value))
        removed = list(self.removes)
        for path, placeholder in self.adds:
            written.append((path, _added(_walk(item, path), values[placeholder])))
        for path, placeholder in self.deletes:
            rest = _less(_walk(item, path), values[placeholder])
            if rest is None:
                removed.append(path)
            else:
                written.append((path, rest))
        after = dict(item)
        for path, value in written:
            _write(after, path, value)
        # From the back, so that a list's indexes keep meaning what they meant.
        for path in sorted(removed, key=_indexes_first, reverse=True):
            _remove(after, path)
        return after


@lru_cache(4096)
def condition(kind: str, text: str, names: Names) -> Requirement:
    """Parse a ConditionExpression or a FilterExpression; `kind` says which, for the message."""
    parser = _Parser(kind, text, names)
    tree = parser.whole(parser.disjunction)
    return Requirement(*parser.placeholders(), _test(tree), frozenset(parser.attributes))


@lru_cache(4096)
def key_condition(text: str, names: Names) -> KeyCondition:
    """Parse a KeyConditionExpression."""
    parser = _Parser("KeyConditionExpression", text, names)
    tree = parser.whole(parser.disjunction)
    parts = tuple(_key_parts(tree, parser))
    return KeyCondition(*parser.placeholders(), parts)


@lru_cache(4096)
def projection(text: str, names: Names) -> Projection:
    """Parse a ProjectionExpression."""
    parser = _Parser("ProjectionExpression", text, names)
    paths = parser.whole(lambda: parser.listed(parser.path))
    tree = _tree(paths, parser)
    return Projection(*parser.placeholders(), tree)


@lru_cache(4096)
def update(text: str, names: Names) -> Update:
    """Parse an UpdateExpression."""
    parser = _Parser("UpdateExpression", text, names)
    sections = parser.whole(parser.sections)
    sets, removes, adds, deletes = (sections.get(k, []) for k in ("SET", "REMOVE", "ADD", "DELETE"))
    touched = [path for path, _ in (*sets, *adds, *deletes)] + removes
    tree = _tree(touched, parser)
    placeholders = parser.placeholders()
    return Update(
        *placeholders,
        tuple(sets),
        tuple(removes),
        tuple(adds),
        tuple(deletes),
        Projection(*placeholders, tree),
    )


class _Parser:
    """Recursive descent over one expression. A node is a tuple: what it is, then its operands."""

    def __init__(self, kind: str, text: str, names: Names) -> None:
        self.kind = kind
        self.defined = dict(names)
        self.used_names: set[str] = set()
        self.used_values: set[str] = set()
        self.attributes: set[str] = set()
        self.typed: list[tuple[str, frozenset[str], str]] = []
        self.bounds: list[tuple[str, str]] = []
        self.position = 0
        self.brackets: set[tuple[int, int]] = set()
        if not text.strip():
            self.refuse("The expression can not be empty;")
        if len(text.encode()) > _LONGEST:
            self.refuse("Expression size has exceeded the maximum allowed size;")
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while not self.tokens or self.tokens[-1][0] != "end":
            match = _TOKEN.match(text, at)
            if match is None:
                self.refuse(f'Syntax error; token: "{text[at:].strip()[:1]}"')
            at = match.end()
            self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))

    def refuse(self, message: str) -> NoReturn:
        raise ValidationError(f"Invalid {self.kind}: {message}")

    def unexpected(self) -> NoReturn:
        self.refuse(f'Syntax error; token: "{self.tokens[self.position][1] or "<EOF>"}"')

    def placeholders(
        self,
    ) -> tuple[
        frozenset[str],
        frozenset[str],
        tuple[tuple[str, frozenset[str], str], ...],
        tuple[tuple[str, str], ...],
    ]:
        return (
            frozenset(self.used_names),
            frozenset(self.used_values),
            tuple(self.typed),
            tuple(self.bounds),
        )

    def whole(self, rule: Callable[[], Any]) -> Any:
        found = rule()
        if self.tokens[self.position][0] != "end":
            self.unexpected()
        return found

    # Tokens.

    def peek(self) -> str:
        """The next token's sign, or its keyword in capitals; "" for anything else."""
        kind, text = self.tokens[self.position]
        if kind == "sign":
            return text
        return text.upper() if kind == "word" and text.upper() in _KEYWORDS else ""

    def take(self, *signs: str) -> str:
        found = self.peek()
        if found and found in signs:
            self.position += 1
            return found
        return ""

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            self.unexpected()

    def listed(self, rule: Callable[[], Any]) -> list[Any]:
        found = [rule()]
        while self.take(","):
            found.append(rule())
        return found

    def called(self) -> str:
        """The name of the function that begins here, if one does; its bracket is taken, too."""
        kind, text = self.tokens[self.position]
        if kind == "word" and self.tokens[self.position + 1] == ("sign", "("):
            self.position += 2
            return text
        return ""

    # Operands.

    def path(self) -> Path:
        steps: list[str | int] = [self.attribute()]
        while sign := self.take(".", "["):
            if sign == ".":
                steps.append(self.attribute())
                continue
            kind, text = self.tokens[self.position]
            if kind != "index":
                self.unexpected()
            self.position += 1
            steps.append(int(text))
            self.expect("]")
        self.attributes.add(str(steps[0]))
        return tuple(steps)

    def attribute(self) -> str:
        kind, text = self.tokens[self.position]
        if kind == "name":
            if text not in self.defined:
                self.refuse(
                    "An expression attribute name used in the document path is not defined; "
                    f"attribute name: {text}"
                )
            self.used_names.add(text)
            text = self.defined[text]
        elif kind != "word":
            self.unexpected()
        elif text.upper() in RESERVED_WORDS:
            self.refuse(f"Attribute name is a reserved keyword; reserved keyword: {text}")
        self.position += 1
        return text

    def placeholder(self, types: Iterable[str] = (), user: str = "") -> str:
        kind, text = self.tokens[self.position]
        if kind != "value":
            self.unexpected()
        self.position += 1
        self.used_values.add(text)
        if types:
            self.typed.append((text, frozenset(types), user))
        return text

    def operand(self) -> Operand:
        if self.tokens[self.position][0] == "value":
            return Operand("value", placeholder=self.placeholder())
        function = self.called()
        if not function:
            return Operand("path", self.path())
        if function != "size":
            self.refuse(f"Invalid function name; function: {function}")
        path = self.path()
        self.expect(")")
        return Operand("size", path)

    # Conditions.

    def disjunction(self) -> tuple[Any, ...]:
        node = self.conjunction()
        while self.take("OR"):
            node = ("or", node, self.conjunction())
        return node

    def conjunction(self) -> tuple[Any, ...]:
        node = self.negation()
        while self.take("AND"):
            node = ("and", node, self.negation())
        return node

    def negation(self) -> tuple[Any, ...]:
        if self.take("NOT"):
            return ("not", self.negation())
        return self.comparison()

    def comparison(self) -> tuple[Any, ...]:
        opened = self.position
        if self.take("("):
            node = self.disjunction()
            closed = self.position
            self.expect(")")
            if (opened + 1, closed - 1) in self.brackets:
                self.refuse("The expression has redundant parentheses;")
            self.brackets.add((opened, closed))
            return node
        text = self.tokens[opened][1]
        if text in _TESTS and self.called():
            return self.function(text)
        left = self.operand()
        sign = self.take("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN")
        if sign == "IN":
            self.expect("(")
            choices = self.listed(self.operand)
            self.expect(")")
            if len(choices) > _MOST_ALTERNATIVES:
                self.refuse("The IN operator takes at most 100 operands;")
            return ("in", left, choices)
        if sign == "BETWEEN":
            lower = self.operand()
            self.expect("AND")
            upper = self.operand()
            for operand in (left, lower, upper):
                self.must_be(_ORDERED, operand, "BETWEEN")
            if lower.kind == "value" == upper.kind:
                self.bounds.append((lower.placeholder, upper.placeholder))
            return ("between", left, lower, upper)
        if not sign:
            self.unexpected()
        right = self.operand()
        if left == right:
            self.refuse(
                "The first operand must be distinct from the remaining operands for this "
                f"operator or function; operator: {sign}"
            )
        if sign in _ORDERS:
            self.must_be(_ORDERED, left, sign)
            self.must_be(_ORDERED, right, sign)
        return ("compare", sign, left, right)

    def must_be(self, types: frozenset[str], operand: Operand, user: str) -> None:
        if operand.kind == "value":
            self.typed.append((operand.placeholder, types, user))

    def function(self, name: str) -> tuple[Any, ...]:
        if name in ("attribute_exists", "attribute_not_exists"):
            found: tuple[Any, ...] = (name, self.path())
        elif name == "attribute_type":
            path = self.path()
            self.expect(",")
            found = (name, path, self.placeholder(("S",), name))
        else:
            left = self.operand()
            self.expect(",")
            right = self.operand()
            if left == right:
                self.refuse(
                    "The first operand must be distinct from the remaining operands for this "
                    f"operator or function; operator: {name}"
                )
            if name == "begins_with":
                self.must_be(frozenset("SB"), left, name)
                self.must_be(frozenset("SB"), right, name)
            found = (name, left, right)
        self.expect(")")
        return found

    # Updates.

    def sections(self) -> dict[str, list[Any]]:
        rules: dict[str, Callable[[], Any]] = {
            "SET": self.assignment,
            "REMOVE": self.path,
            "ADD": lambda: (self.path(), self.placeholder(_SETS | {"N"}, "ADD")),
            "DELETE": lambda: (self.path(), self.placeholder(_SETS, "DELETE")),
        }
        found: dict[str, list[Any]] = {}
        while section := self.take(*rules):
            if section in found:
                self.refuse(
                    f'The "{section}" section can only be used once in an update expression;'
                )
            found[section] = self.listed(rules[section])
        if not found:
            self.unexpected()
        return found

    def assignment(self) -> tuple[Path, Read]:
        path = self.path()
        self.expect("=")
        left = self.term()
        sign = self.take("+", "-")
        if not sign:
            return path, left[0]
        right = self.term()
        for _, operand in (left, right):
            if operand is not None:
                self.must_be(frozenset("N"), operand, sign)
        return path, _sum(left[0], right[0], sign)

    def term(self) -> tuple[Read, Operand | None]:
        """A value of SET, and the operand behind it where it is just that."""
        function = self.called()
        if function == "if_not_exists":
            path = self.path()
            self.expect(",")
            default, _ = self.term()
            self.expect(")")
            return _first(_path_reader(path), default), None
        if function == "list_append":
            head, first = self.term()
            self.expect(",")
            tail, second = self.term()
            self.expect(")")
            for operand in (first, second):
                if operand is not None:
                    self.must_be(frozenset("L"), operand, function)
            return _joined(head, tail), None
        if function:
            self.refuse(f"Invalid function name; function: {function}")
        operand = self.operand()
        return operand.reader(), operand


# Reading.


def _path_reader(path: Path) -> Read:
    if len(path) == 1:
        name = str(path[0])
        return lambda item, values: item.get(name)
    return lambda item, values: _walk(item, path)


def _walk(item: Mapping[str, Value], path: Path) -> Value | None:
    value = item.get(str(path[0]))
    for step in path[1:]:
        if value is None:
            return None
        value = _child(value, step)
    return value


def _child(value: Value, step: str | int) -> Value | None:
    if isinstance(step, str):
        fields: Item = value.get("M", {})
        return fields.get(step)
    elements: list[Value] = value.get("L", [])
    return elements[step] if step < len(elements) else None


def _size(value: Value | None) -> Value | None:
    if value is None:
        return None
    ((kind, content),) = value.items()
    return None if kind in ("N", "BOOL", "NULL") else {"N": str(len(content))}


def _part(value: Value, tree: Tree) -> Value | None:
    """What a document has below the steps of a tree; None if nothing."""
    found: dict[str | int, Value] = {}
    for step, below in tree.items():
        child = _child(value, step)
        if child is not None and below is not None:
            child = _part(child, below)
        if child is not None:
            found[step] = child
    if not found:
        return None
    if "M" in value:
        return {"M": found}
    return {"L": [found[index] for index in sorted(found, key=int)]}


def _tree(paths: Iterable[Path], parser: _Parser) -> Tree:
    """Paths by their common beginnings. None of them may be, or hold, another."""
    root: Tree = {}
    for path in paths:
        below = root
        for step in path[:-1]:
            deeper = below.setdefault(step, {})
            if deeper is None:
                parser.refuse("Two document paths overlap with each other;")
            below = deeper
        if path[-1] in below:
            parser.refuse("Two document paths overlap with each other;")
        below[path[-1]] = None
    return root


# Testing.


def _test(node: tuple[Any, ...]) -> Test:
    kind = node[0]
    if kind == "and":
        left, right = _test(node[1]), _test(node[2])
        return lambda item, values: left(item, values) and right(item, values)
    if kind == "or":
        left, right = _test(node[1]), _test(node[2])
        return lambda item, values: left(item, values) or right(item, values)
    if kind == "not":
        inner = _test(node[1])
        return lambda item, values: not inner(item, values)
    if kind == "compare":
        return _comparison(node[1], node[2].reader(), node[3].reader())
    if kind == "attribute_exists":
        read = _path_reader(node[1])
        return lambda item, values: read(item, values) is not None
    if kind == "attribute_not_exists":
        read = _path_reader(node[1])
        return lambda item, values: read(item, values) is None
    if kind == "attribute_type":
        return _type_test(_path_reader(node[1]), node[2])
    first = node[1].reader()
    if kind == "between":
        above = _comparison(">=", first, node[2].reader())
        below = _comparison("<=", first, node[3].reader())
        return lambda item, values: above(item, values) and below(item, values)
    if kind == "in":
        choices = [_comparison("=", first, choice.reader()) for choice in node[2]]
        return lambda item, values: any(choice(item, values) for choice in choices)
    second = node[2].reader()
    relation = _begins if kind == "begins_with" else _contains

    def related(item: Mapping[str, Value], values: Values) -> bool:
        whole, part = first(item, values), second(item, values)
        return whole is not None and part is not None and relation(whole, part)

    return related


def _comparison(sign: str, first: Read, second: Read) -> Test:
    if sign == "=":

        def equal(item: Mapping[str, Value], values: Values) -> bool:
            left = first(item, values)
            return left is not None and left == second(item, values)

        return equal
    if sign == "<>":
        # What doesn't exist differs from everything, even from what doesn't exist either.
        def different(item: Mapping[str, Value], values: Values) -> bool:
            left = first(item, values)
            return left is None or left != second(item, values)

        return different
    order = _ORDERS[sign]

    def ordered(item: Mapping[str, Value], values: Values) -> bool:
        left, right = first(item, values), second(item, values)
        return left is not None and right is not None and _ordered(order, left, right)

    return ordered


def _ordered(order: Callable[[Any, Any], bool], left: Value, right: Value) -> bool:
    ((kind, low),) = left.items()
    high = right.get(kind)
    if high is None or kind not in _ORDERED:
        return False
    if kind == "N":
        return order(Decimal(low), Decimal(high))
    return order(low, high)


def _type_test(read: Read, placeholder: str) -> Test:
    def has_type(item: Mapping[str, Value], values: Values) -> bool:
        value = read(item, values)
        return value is not None and values[placeholder]["S"] in value

    return has_type


def _begins(whole: Value, part: Value) -> bool:
    for kind in ("S", "B"):
        if kind in whole and kind in part:
            return bool(whole[kind].startswith(part[kind]))
    return False


def _contains(whole: Value, part: Value) -> bool:
    ((kind, content),) = whole.items()
    if kind == "L":
        return part in content
    if kind in _SETS:
        return part.get(kind[0]) in content
    return kind in ("S", "B") and kind in part and part[kind] in content


def _key_parts(node: tuple[Any, ...], parser: _Parser) -> Iterable[ConditionComparison]:
    if node[0] == "and":
        yield from _key_parts(node[1], parser)
        yield from _key_parts(node[2], parser)
        return
    if node[0] == "compare" and node[1] != "<>":
        operator, first, others = node[1], node[2], node[3:]
    elif node[0] in ("between", "begins_with"):
        operator, first, others = node[0], node[1], node[2:]
    else:
        parser.refuse("Query key condition not supported")
    if (
        first.kind != "path"
        or len(first.path) != 1
        or any(other.kind != "value" for other in others)
    ):
        parser.refuse("Query key condition not supported")
    yield ConditionComparison(first.path[0], operator, tuple(other.placeholder for other in others))


# Changing.


def _first(read: Read, default: Read) -> Read:
    def found(item: Mapping[str, Value], values: Values) -> Value | None:
        value = read(item, values)
        return default(item, values) if value is None else value

    return found


def _joined(head: Read, tail: Read) -> Read:
    def both(item: Mapping[str, Value], values: Values) -> Value | None:
        left, right = head(item, values), tail(item, values)
        if left is None or right is None:
            return None
        if "L" not in left or "L" not in right:
            _wrong_type()
        return {"L": [*left["L"], *right["L"]]}

    return both


def _sum(first: Read, second: Read, sign: str) -> Read:
    def total(item: Mapping[str, Value], values: Values) -> Value | None:
        left, right = first(item, values), second(item, values)
        if left is None or right is None:
            return None
        if "N" not in left or "N" not in right:
            _wrong_type()
        return {"N": add(left["N"], right["N"] if sign == "+" else negative(right["N"]))}

    return total


def _added(value: Value | None, more: Value) -> Value:
    if value is None:
        return more
    ((kind, content),) = value.items()
    if kind not in more:
        _wrong_type()
    if kind == "N":
        return {"N": add(content, more["N"])}
    return set_of(kind, list({*content, *more[kind]}))


def _less(value: Value | None, fewer: Value) -> Value | None:
    if value is None:
        return None
    ((kind, content),) = value.items()
    if kind not in fewer:
        _wrong_type()
    left = [member for member in content if member not in fewer[kind]]
    return {kind: left} if left else None


def _write(item: Item, path: Path, value: Value) -> None:
    name = str(path[0])
    item[name] = value if len(path) == 1 else _with(item.get(name), path[1:], value)


def _with(document: Value | None, path: Path, value: Value) -> Value:
    """A copy of a document with a new value at a path; all but the last step must be there."""
    if not path:
        return value
    if document is None:
        _wrong_path()
    step = path[0]
    if isinstance(step, str):
        if "M" not in document:
            _wrong_path()
        fields = dict(document["M"])
        fields[step] = _with(fields.get(step), path[1:], value)
        return {"M": fields}
    if "L" not in document:
        _wrong_path()
    elements = list(document["L"])
    if step < len(elements):
        elements[step] = _with(elements[step], path[1:], value)
    else:
        elements.append(_with(None, path[1:], value))
    return {"L": elements}


def _remove(item: Item, path: Path) -> None:
    name = str(path[0])
    if len(path) == 1:
        item.pop(name, None)
    else:
        item[name] = _without(item.get(name), path[1:])


def _without(document: Value | None, path: Path) -> Value:
    if document is None:
        _wrong_path()
    step = path[0]
    kind = "M" if isinstance(step, str) else "L"
    if kind not in document:
        _wrong_path()
    container: Any = document[kind].copy()
    child = _child(document, step)
    if len(path) > 1:
        container[step] = _without(child, path[1:])
    elif child is not None:
        del container[step]
    return {kind: container}


def _indexes_first(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple((step, "") if isinstance(step, int) else (0, step) for step in path)


def _wrong_type() -> NoReturn:
    raise ValidationError("An operand in the update expression has an incorrect data type")


def _wrong_path() -> NoReturn:
    raise ValidationError(
        "The document path provided in the update expression is invalid for update"
    )
