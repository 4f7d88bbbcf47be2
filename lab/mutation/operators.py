"""Mistakes that cosmic-ray does not make by itself, in its own form of an operator.

Only `generate` imports this module, in the environment that has cosmic-ray.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Sequence

import parso
from cosmic_ray.operators.operator import Operator
from parso.python.tree import ExprStmt, Keyword, Number, PythonNode
from parso.tree import NodeOrLeaf

Positions = Iterator[tuple[tuple[int, int], tuple[int, int]]]


_EMPTY = ("None", "False")


class DropStatement(Operator):
    """`call()`, `raise ...` and `total += 1` become `pass`: an act that is forgotten."""

    def mutation_positions(self, node: NodeOrLeaf) -> Positions:
        if _is_act(node):
            yield (node.start_pos, node.end_pos)

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        prefix = node.get_first_leaf().prefix
        return Keyword("pass", node.start_pos, prefix)

    @classmethod
    def examples(cls) -> Sequence[object]:
        return ()


class DoubleNumber(Operator):
    """A number becomes twice as large, and 0 becomes 1."""

    def mutation_positions(self, node: NodeOrLeaf) -> Positions:
        if isinstance(node, Number):
            yield (node.start_pos, node.end_pos)

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        assert isinstance(node, Number)
        value = literal_eval(node.value)
        return Number(repr(2 * value or 1), node.start_pos, node.prefix)

    @classmethod
    def examples(cls) -> Sequence[object]:
        return ()


class InvertMembership(Operator):
    """`in` becomes `not in`, and the other way round."""

    def mutation_positions(self, node: NodeOrLeaf) -> Positions:
        if node.type == "comparison":
            for operator in node.children[1::2]:
                if operator.get_code().split() in (["in"], ["not", "in"]):
                    yield (operator.start_pos, operator.end_pos)

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        places = [
            place
            for place in range(1, len(node.children), 2)
            if node.children[place].get_code().split() in (["in"], ["not", "in"])
        ]
        place = places[index]
        inverted = " not in" if node.children[place].get_code().split() == ["in"] else " in"
        node.children[place] = parso.parse(inverted)
        return node

    @classmethod
    def examples(cls) -> Sequence[object]:
        return ()


class ReturnNothing(Operator):
    """`return value` becomes `return None`: an answer that is forgotten.

    False is left alone: as the answer of a predicate it is the same as None.
    """

    def mutation_positions(self, node: NodeOrLeaf) -> Positions:
        if node.type == "return_stmt" and node.children[1].get_code().strip() not in _EMPTY:
            yield (node.start_pos, node.end_pos)

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        node.children[1] = parso.parse(" None")
        return node

    @classmethod
    def examples(cls) -> Sequence[object]:
        return ()


def _is_act(node: NodeOrLeaf) -> bool:
    parent = node.parent
    if parent is None or parent.type != "simple_stmt" or parent.children[0] is not node:
        return False
    if isinstance(node, ExprStmt):
        return _is_augmented(node)
    if isinstance(node, PythonNode):
        # A call on its own ends with its brackets; a string or a name on its own is no act.
        return node.type in ("atom_expr", "power", "yield_expr", "await_expr") or (
            node.type == "raise_stmt"
        )
    return node.type in ("raise_stmt", "del_stmt") or (
        isinstance(node, Keyword) and node.value == "raise"
    )


def _is_augmented(node: ExprStmt) -> bool:
    sign: str = node.children[1].get_code().strip()
    return sign.endswith("=") and sign != "="


ADDED = (DoubleNumber, DropStatement, InvertMembership, ReturnNothing)
