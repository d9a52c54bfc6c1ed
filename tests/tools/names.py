"""Goes through one function with what its names stand for, and notes what it changes.

For `tests/tools/effects.py`, which does so until nothing new is found.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from tests.tools.program import (
    Definition,
    Function,
    Notes,
    Program,
    element,
    is_anything,
    is_scalar,
    last_word,
    words,
)

WRITES = words(  # methods of containers
    "add append appendleft clear difference_update discard extend extendleft insert pop popitem popleft"
    " intersection_update remove reverse rotate setdefault sort subtract symmetric_difference_update"
    " update"
)
SHARES = words("get pop popitem popleft setdefault")  # methods that give out elements
COPIES = words(  # what is new itself and holds the same elements
    "list tuple set frozenset dict sorted reversed filter iter chain islice copy replace deque"
    " enumerate zip groupby pairwise items values"
)
PAIRS = words("enumerate zip groupby pairwise items")  # elements lie one level deeper
GIVES_ONE = words("next max min")
FIRST_WRITTEN = words(
    "setattr delattr __setattr__ heappush heappop heapify heapreplace shuffle insort"
)
ROW_WRITES = words("save delete refresh_from_db")
QUERY_WRITES = words("create bulk_create bulk_update update delete get_or_create update_or_create")

GLOBAL = "a global or the database"
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Value:
    """What an expression may stand for.

    Attributes:
        roots: parameters, or GLOBAL, that are the same thing or have it as a part.
        inner: the same of its elements and attributes.
    """

    roots: frozenset[str] = NONE
    inner: frozenset[str] = NONE
    notes: Notes = ()

    @classmethod
    def of(cls, root: str, notes: Notes = ()) -> "Value":
        return (
            cls(notes=notes)
            if is_scalar(notes)
            else cls(frozenset({root}), frozenset({root}), notes)
        )

    def part(self, notes: Notes) -> "Value":
        """One of its elements or attributes."""
        return Value(notes=notes) if is_scalar(notes) else Value(self.inner, self.inner, notes)

    def element(self) -> "Value":
        return self.part(element(self.notes))

    def copied(self) -> "Value":
        return Value(NONE, self.inner, self.notes)

    def __or__(self, other: "Value") -> "Value":
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        return Value(self.roots | other.roots, self.inner | other.inner, notes)


NEW = Value(notes=(ast.Name("new"),))


class Body(ast.NodeVisitor):
    """Goes through a function in the order in which it runs; visiting an expression gives its Value.

    Branches are joined, and a loop is gone through twice, so that a name may be several things.
    """

    def __init__(self, program: Program, function: Function) -> None:
        self.program = program
        self.function = function
        self.names: dict[str, Value] = {}
        self.elsewhere: set[str] = set()  # names declared global or nonlocal
        self.line = function.node.lineno

    def run(self) -> None:
        arguments = self.function.node.args
        for name, note in self.function.parameters.items():
            known = (ast.Name(self.function.owner),) if name == self.function.bound else (note,)
            self.names[name] = Value.of(name, tuple(filter(None, known)))
        for many in filter(None, (arguments.vararg, arguments.kwarg)):
            self.names[many.arg] = NEW
        self.block(self.function.node.body)

    def write(self, value: Value) -> None:
        for root in value.roots:
            self.function.writes.setdefault(root, self.line)

    # --- statements ---
    def block(self, body: Iterable[ast.AST]) -> None:
        for node in body:
            self.line = getattr(node, "lineno", self.line)
            self.visit(node)

    def _branches(self, *bodies: Iterable[ast.AST]) -> None:
        """Any of them may run, none sees what another does."""
        before, after = self.names, dict[str, Value]()
        for body in bodies:
            self.names = dict(before)
            self.block(body)
            for name, value in self.names.items():
                after[name] = after[name] | value if name in after else value
        self.names = after

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._branches(node.body, node.orelse)

    def visit_While(self, node: ast.While) -> None:
        for _ in range(2):
            self.visit(node.test)
            self._branches(node.body, ())
        self.block(node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        items = self.visit(node.iter)
        for _ in range(2):
            self.bind(node.target, items.element())
            self._branches(node.body, ())
        self.block(node.orelse)

    visit_AsyncFor = visit_For  # noqa: N815

    def visit_Try(self, node: ast.Try) -> None:
        self._branches(node.body, ())
        self._branches((), *(handler.body for handler in node.handlers), node.orelse)
        self.block(node.finalbody)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
        self.block(node.body)

    visit_AsyncWith = visit_With  # noqa: N815

    def visit_Match(self, node: ast.Match) -> None:
        subject = self.visit(node.subject)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self.names[name] = subject if part is case.pattern else subject.part(())
        self._branches(*(case.body for case in node.cases))

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.elsewhere |= set(node.names)

    visit_Nonlocal = visit_Global  # noqa: N815

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute | ast.Subscript):
                self.write(self.visit(target.value))

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        for target in node.targets:
            self.bind(target, value, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            value = self.visit(node.value)
            self.bind(node.target, Value(value.roots, value.inner, (node.annotation,)))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        value = self.visit(node.value)
        if not isinstance(node.target, ast.Name):
            self.bind(node.target, value)
            return
        before = self.visit(node.target)
        if self.program.is_container(before.notes):
            self.write(before)
        else:
            self.bind(node.target, before.copied() | value.copied())

    def visit_FunctionDef(self, node: Definition) -> None:
        """A function inside does what it does as a part of this one."""
        self._inside(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._inside(node.args, [node.body])

    def _inside(self, arguments: ast.arguments, body: Sequence[ast.AST]) -> None:
        before, self.names = self.names, dict(self.names)
        for one in ast.walk(arguments):
            if isinstance(one, ast.arg):
                self.names[one.arg] = NEW
        self.block(body)
        self.names = before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class inside a function is left out."""

    # --- names ---
    def bind(self, target: ast.expr, value: Value, source: ast.expr | None = None) -> None:
        """A value is assigned to a name, a part of something, or several at once."""
        if isinstance(target, ast.Name):
            if target.id in self.elsewhere:
                self.write(Value.of(GLOBAL))
            self.names[target.id] = value
        elif isinstance(target, ast.Attribute | ast.Subscript):
            self.write(self.visit(target.value))
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value.copied())
        elif isinstance(target, ast.Tuple | ast.List):
            parts = source.elts if isinstance(source, ast.Tuple | ast.List) else []
            for number, one in enumerate(target.elts):
                is_same = len(parts) == len(target.elts)
                self.bind(one, self.visit(parts[number]) if is_same else value.element())

    # --- expressions ---
    def visit(self, node: ast.AST) -> Value:
        found = super().visit(node)
        return found if isinstance(found, Value) else NEW

    def visit_Name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        is_variable = self.program.qualified(self.function.module, node) in self.program.variables
        return Value.of(GLOBAL) if is_variable else NEW

    def visit_Attribute(self, node: ast.Attribute) -> Value:
        value = self.visit(node.value)
        if self.program.qualified(self.function.module, node) in self.program.variables:
            return Value.of(GLOBAL)
        properties = [m for m in self.program.methods(value.notes, node.attr) if m.is_property]
        for one in properties:
            self._call(one, value, [], {})
        return NEW if properties else value.part(self.program.attribute(value.notes, node.attr))

    def visit_Subscript(self, node: ast.Subscript) -> Value:
        value = self.visit(node.value)
        self.visit(node.slice)
        return value.copied() if isinstance(node.slice, ast.Slice) else value.element()

    def visit_Await(self, node: ast.Await) -> Value:
        return self.visit(node.value)

    def visit_Starred(self, node: ast.Starred) -> Value:
        return self.visit(node.value).element()

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.visit(node.value)
        self.bind(node.target, value)
        return value

    def visit_BoolOp(self, node: ast.BoolOp) -> Value:
        return self._any_of(node.values)

    def visit_IfExp(self, node: ast.IfExp) -> Value:
        self.visit(node.test)
        return self._any_of((node.body, node.orelse))

    def _any_of(self, nodes: Iterable[ast.expr]) -> Value:
        return reduce(Value.__or__, [self.visit(node) for node in nodes])

    def visit_Tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        return self._holding(node.elts)

    visit_List = visit_Set = visit_Tuple  # noqa: N815

    def visit_Dict(self, node: ast.Dict) -> Value:
        return self._holding([*filter(None, node.keys), *node.values])

    def _holding(self, nodes: Iterable[ast.expr]) -> Value:
        values = [self.visit(node) for node in nodes]
        within: ast.expr = ast.Tuple([note for one in values for note in one.notes])
        inner = NONE.union(*(one.roots for one in values))
        return Value(NONE, inner, (ast.Subscript(ast.Name("list"), within),))

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        return self._comprehension(node.generators, [node.elt])

    visit_SetComp = visit_GeneratorExp = visit_ListComp  # noqa: N815

    def visit_DictComp(self, node: ast.DictComp) -> Value:
        return self._comprehension(node.generators, [node.key, node.value])

    def _comprehension(self, loops: list[ast.comprehension], nodes: list[ast.expr]) -> Value:
        before, self.names = self.names, dict(self.names)
        for loop in loops:
            self.bind(loop.target, self.visit(loop.iter).element())
            self.block(loop.ifs)
        value = self._holding(nodes)
        self.names = before
        return value

    # --- calls ---
    def visit_Call(self, node: ast.Call) -> Value:
        given = [self.visit(one) for one in node.args]
        named = {one.arg or "**": self.visit(one.value) for one in node.keywords}
        for number, one in enumerate(node.args):  # to_thread(function, argument)
            if (function := self._function(one)) is not None:
                self._call(function, None, given[number + 1 :], {})
        if isinstance(node.func, ast.Call):  # sync_to_async(function)(argument)
            for function in filter(None, map(self._function, node.func.args)):
                self._call(function, None, given, named)
        if (function := self._function(node.func)) is not None:
            self._call(function, None, given, named)
            return NEW
        if isinstance(node.func, ast.Attribute):
            return self._call_method(node.func, given, named)
        return self._call_python(last_word(node.func), given)

    def _function(self, node: ast.expr) -> Function | None:
        """The one of ours that is named; the name of a class's method is one, too."""
        is_own = isinstance(node, ast.Name) and node.id in self.names
        return None if is_own else self.program.function(self.function.module, node)

    def _call_method(
        self, func: ast.Attribute, given: list[Value], named: Mapping[str, Value]
    ) -> Value:
        owner, word = self.visit(func.value), func.attr
        if last_word(func.value) == "super":
            above = self.program.line(self.function.owner)[1:]
            methods = [c.methods[word] for c in above if word in c.methods][:1]
            owner = self.names.get(self.function.bound, NEW)
        else:
            methods = self.program.methods(owner.notes, word)
        for method in methods:
            self._call(method, owner, given, named)
        if methods:
            return NEW
        if (model := _queried(func.value)) is not None:
            if word in QUERY_WRITES:
                self.write(Value.of(GLOBAL))
            return Value(notes=(model,))
        if self.program.is_row(owner.notes):
            if word in ROW_WRITES:
                self.write(owner | Value.of(GLOBAL))
            return NEW
        if not (self.program.is_container(owner.notes) or is_anything(owner.notes)):
            return self._call_python(word, [owner] if word in COPIES else given)
        if word in WRITES:
            self.write(owner)
        if word in SHARES:
            return owner.element()
        return self._call_python(word, [owner] if word in COPIES and not given else given)

    def _call_python(self, word: str, given: list[Value]) -> Value:
        """A function of Python or of others, of which only some are known."""
        if word in FIRST_WRITTEN and given:
            self.write(given[0])
        if not given:
            return NEW
        if word == "cast":
            return given[-1]
        if word in {"getattr", "vars"}:
            return given[0].part(())
        value = reduce(Value.__or__, given)
        if word in GIVES_ONE:
            return value.element()
        if word not in COPIES:
            return NEW
        is_pair = word in PAIRS
        within: ast.expr = ast.Tuple([*element(value.notes)])
        pairs = (ast.Subscript(ast.Name("list"), ast.Subscript(ast.Name("tuple"), within)),)
        return Value(NONE, value.inner, pairs if is_pair else value.notes)

    def _call(
        self,
        function: Function,
        receiver: Value | None,
        given: list[Value],
        named: Mapping[str, Value],
    ) -> None:
        """What a function of ours does to its arguments."""
        places = [*function.parameters]
        found: dict[str, Value] = dict(named)
        is_bound = function.owner and "staticmethod" not in function.flags
        if is_bound and (receiver is not None or "classmethod" in function.flags):
            found[places.pop(0)] = receiver or NEW
        found |= dict(zip(places, given, strict=False))
        for root in function.writes:
            self.write(Value.of(GLOBAL) if root == GLOBAL else found.get(root, NEW))


def _queried(node: ast.expr) -> ast.expr | None:
    """`Model` where an expression begins with `Model.objects`."""
    while isinstance(node, ast.Call | ast.Attribute):
        if isinstance(node, ast.Attribute) and node.attr in {"objects", "_default_manager"}:
            return node.value
        node = node.func if isinstance(node, ast.Call) else node.value
    return None
