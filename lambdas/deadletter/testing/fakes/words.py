"""What a request in DynamoDB's own language asks for, as the values of `deadletter.aws.table`.

Our tables are asked by values. A team's handler, or a library, asks as boto3's documentation shows
it: with names, comparisons and the few functions that a conditional write needs. What goes beyond
that is refused: elements of lists, sizes, sums (ADD adds), `contains` and DELETE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from deadletter.aws.dynamodb import plain
from deadletter.aws.table import Compared, Condition, Joined, OrElse, Path
from deadletter.testing.fakes.attribute_values import ValidationError

T = TypeVar("T")

_CONDITIONS = {
    "ConditionExpression": "When",
    "KeyConditionExpression": "Where",
    "FilterExpression": "Keep",
}
_PLACES = ("ExpressionAttributeNames", "ExpressionAttributeValues")
WORDED = frozenset(
    {
        *(*_CONDITIONS, *_PLACES, "UpdateExpression", "ProjectionExpression"),
        # A row that stops a write is always shown.
        "ReturnValuesOnConditionCheckFailure",
    }
)
"""The members of a request that DynamoDB's language takes."""

_words = re.compile(r"\s*([#:]?\w+|<>|<=|>=|\S)").findall
_SIGNS = ("=", "<>", "<", "<=", ">", ">=")
_FUNCTIONS = {
    "attribute_exists": 0,
    "attribute_not_exists": 0,
    "attribute_type": 1,
    "begins_with": 1,
}
"""The functions that are known, and how many values each takes."""


def valued(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request whose conditions and changes are values, whichever they were."""
    asked = {name: value for name, value in request.items() if name not in WORDED}
    if isinstance(parts := request.get("RequestItems"), Mapping):
        asked["RequestItems"] = {
            name: valued(part) if isinstance(part, Mapping) else part
            for name, part in parts.items()
        }
    if "TransactItems" in request:
        asked["TransactItems"] = [
            {kind: valued(members) for kind, members in item.items()}
            for item in request["TransactItems"]
        ]
    if len(asked) < len(request):
        asked |= _read(request)
    return asked


def _read(request: Mapping[str, Any]) -> dict[str, Any]:
    """The members that a request's expressions stand for."""
    names, values = (request.get(name, {}) for name in _PLACES)
    used: set[str] = set()

    def reader(expression: str) -> _WordReader:
        return _WordReader(request[expression], names, plain(values), used)

    asked: dict[str, Any] = {}
    for expression, member in _CONDITIONS.items():
        if expression in request:
            of = reader(expression)
            asked[member] = of.whole(of.condition)
    if "ProjectionExpression" in request:
        of = reader("ProjectionExpression")
        asked["Only"] = of.whole(lambda: of.listed(of.name))
    if "UpdateExpression" in request:
        of = reader("UpdateExpression")
        asked |= of.whole(of.update)
    if unused := {*names, *values} - used:
        raise ValidationError(f"unused in expressions: keys: {min(unused)}")
    return asked


class _WordReader:
    """Reads an expression from left to right."""

    def __init__(
        self, text: str, names: Mapping[str, str], values: Mapping[str, Any], used: set[str]
    ) -> None:
        self._text = text
        self._words = _words(text)
        self._names = names
        self._values = values
        self._used = used

    def _refuse(self) -> NoReturn:
        raise ValidationError(f"this account in memory does not know the expression: {self._text}")

    def whole(self, read: Callable[[], T]) -> T:
        found = read()
        if self._words:
            self._refuse()
        return found

    def _take(self, *expected: str) -> str:
        if self._words and self._words[0].upper() in expected:
            return str(self._words.pop(0).upper())
        return ""

    def _must(self, word: str) -> None:
        if not self._take(word):
            self._refuse()

    def _next(self) -> str:
        return str(self._words.pop(0)) if self._words else self._refuse()

    def listed(self, read: Callable[[], T]) -> list[T]:
        found = [read()]
        while self._take(","):
            found.append(read())
        return found

    def name(self) -> str:
        word = self._next()
        if not word.startswith("#"):
            return word if word.isidentifier() else self._refuse()
        if word not in self._names:
            self._refuse()
        self._used.add(word)
        return self._names[word]

    def _path(self) -> Path:
        steps = [self.name()]
        while self._take("."):
            steps.append(self.name())
        return steps[0] if len(steps) == 1 else tuple(steps)

    def _value(self) -> Any:
        word = self._next()
        if word not in self._values:
            self._refuse()
        self._used.add(word)
        return self._values[word]

    def condition(self) -> Condition:
        return self._joined("OR", lambda: self._joined("AND", self._one))

    def _joined(self, word: str, read: Callable[[], Condition]) -> Condition:
        parts = [read()]
        while self._take(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _one(self) -> Condition:
        if self._take("NOT"):
            return ~self._one()
        if self._take("("):
            inner = self.condition()
            self._must(")")
            return inner
        if len(self._words) > 1 and self._words[1] == "(":
            return self._function()
        path = self._path()
        sign = self._take(*_SIGNS, "BETWEEN", "IN")
        if sign == "BETWEEN":
            least = self._value()
            self._must("AND")
            return Compared(sign, path, (least, self._value()))
        if sign == "IN":
            self._must("(")
            values = self.listed(self._value)
            self._must(")")
            return Compared(sign, path, tuple(values))
        return Compared(sign, path, (self._value(),)) if sign else self._refuse()

    def _function(self) -> Condition:
        function = self._next()
        self._must("(")
        path, values = self._path(), []
        while self._take(","):
            values.append(self._value())
        self._must(")")
        if _FUNCTIONS.get(function) != len(values):
            self._refuse()
        return Compared(function, path, tuple(values))

    def update(self) -> dict[str, Any]:
        """The attributes that an update sets, adds to and removes."""
        sets: dict[str, Any] = {}
        adds: dict[str, Any] = {}
        removes: list[str] = []
        while section := self._take("SET", "ADD", "REMOVE"):
            match section:
                case "SET":
                    sets.update(self.listed(self._assignment))
                case "ADD":
                    adds.update(self.listed(lambda: (self.name(), self._value())))
                case "REMOVE":
                    removes += self.listed(self.name)
        return {"Sets": sets, "Adds": adds, "Removes": removes}

    def _assignment(self) -> tuple[str, Any]:
        name = self.name()
        self._must("=")
        if not self._take("IF_NOT_EXISTS"):
            return name, self._value()
        self._must("(")
        other = self.name()
        self._must(",")
        value = OrElse(other, self._value())
        self._must(")")
        return name, value
