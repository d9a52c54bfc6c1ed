"""Finds hidden effects: functions that change what they were given, and questions that change a thing.

`python -m tests.tools.effects [--of ROOT] [FOLDER ...]` prints those of some folders or files, with how
many there are of each sort, and ends with 1 when there are any:

- a: a function or method that changes a parameter other than `self`, or a part of one: it assigns to
  it, calls one of its methods that write, or hands it to a function that does;
- b: what is named like a question (is_, has_, may_) or a state (a participle) and writes anything:
  `self`, a parameter, a global, the database.

Which methods write `self` is worked out to a fixpoint over all our classes, and so is what functions
change and return. Names are followed through aliases, loops and comprehensions, and a copy is told
from what it was made of. Where no annotation says of which class a value is, the methods that change
Python's containers count, by their names. What code of others does to its arguments is not known, nor
what a method of ours that is called on a new object does to what that object was made of.
"""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

from tests.tools.program import (
    MUTABLE,
    Definition,
    Function,
    Program,
    Type,
    any_of,
    either,
    last_word,
    words,
)

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("portal", "jobs", "tenants")
OTHERS = ("jobs/pod/", "jobs/client/")  # programs of their own; migrations are as they are

# Qualified name of a function that may, or of a class whose own state is no effect -> why.
EXCEPTIONS: Mapping[str, str] = {
    "tenants.reconcile.blockers.find": "it reads; what changes is the client's count of its calls",
}

QUESTIONS = ("is_", "has_", "may_")
# A name is a state that begins or ends with one of these ...
PARTICIPLES = words(
    "added admitted archived asked chosen cleaned closed completed connected deleted done ended erased"
    " expected failed fenced finished given gone held joined kept lost marked missing narrowed noted"
    " observed opened parsed placed queued ready refused removed rendered rescued replaced saved seen"
    " settled started stopped stored stuck succeeded swept unfinished unseen unsettled vanished waiting"
    " wanted withdrawn"
)
# ... unless it begins with what is to be done ("mark_uploaded").
VERBS = words("begin count delete drop end forget keep kill list load look mark note put read stop")

WRITES = words(  # methods of containers
    "add append appendleft clear difference_update discard extend extendleft insert pop popitem popleft"
    " intersection_update remove reverse rotate setdefault sort subtract symmetric_difference_update"
    " update"
)
WRITES_ALL = words(
    "extend extendleft update"
)  # of these, those that put in elements of another one
SHARES = words("get items pop popitem popleft setdefault values")  # methods that give out elements
PAIRS = words("enumerate zip groupby pairwise items")  # elements lie one level deeper
COPIES = PAIRS | words(  # what is new itself and holds the same elements
    "list tuple set frozenset dict sorted reversed filter iter chain islice copy replace deque Counter"
    " defaultdict from_iterable union difference intersection values"
)
GIVES_ONE = words("next max min")
FIRST_WRITTEN = words(
    "setattr delattr __setattr__ heappush heappop heapify heapreplace shuffle insort"
)
ROW_WRITES = words("save delete refresh_from_db")
QUERY_WRITES = words("create bulk_create bulk_update update delete get_or_create update_or_create")
QUERY_ROWS = words("get first last create latest earliest get_or_create")

# (function, its parameter), or GLOBAL.
Root = tuple[str, str]
GLOBAL: Root = ("", "a global or the database")
Roots = frozenset[Root]
NONE: Roots = frozenset()


@dataclass(frozen=True)
class Value:
    """What an expression may stand for.

    Attributes:
        roots: who would see it change, because it is the same thing or a part of it.
        inner: who would see its elements or attributes change; `deep`: what is further down.
        type: what is known of it.
        functions: those it may be, when it is one.
        attributes: of an instance that the function has made, those that it was given.
    """

    roots: Roots = NONE
    inner: Roots = NONE
    deep: Roots = NONE
    type: Type | None = None
    functions: tuple[tuple[Function, "Value | None"], ...] = ()
    attributes: "tuple[tuple[str, Value], ...] | None" = None

    @classmethod
    def of(cls, root: Root, known: Type | None) -> "Value":
        """A parameter, or what everybody sees."""
        return cls(NONE, frozenset({root}), frozenset({root})).part(known)

    def part(self, known: Type | None = None) -> "Value":
        """One of its elements or attributes."""
        if known is not None and known.is_scalar:
            return Value(type=known)
        if known is not None and known.element is not None and known.element.is_scalar:
            return Value(self.inner, type=known)
        return Value(self.inner, self.deep, self.deep, known)

    def copied(self) -> "Value":
        return replace(self, roots=NONE)

    def or_else(self, other: "Value") -> "Value":
        return Value(
            self.roots | other.roots,
            self.inner | other.inner,
            self.deep | other.deep,
            either(self.type, other.type),
            tuple(dict.fromkeys((*self.functions, *other.functions))),
        )

    def holding(self, other: "Value") -> "Value":
        """Itself after something was put into it."""
        inner, deep = self.inner | other.roots, self.deep | other.inner | other.deep
        known = self.type
        if known is not None and known.is_container:
            known = replace(known, element=either(known.element, other.type))
        return Value(self.roots, inner, deep, known, self.functions)


Names = dict[str, Value]
FRESH = Value(type=Type())
EVERYBODYS = Value.of(GLOBAL, Type())


@dataclass
class Summary:
    """What is known of a function so far.

    Attributes:
        writes: what it changes -> the first line that does.
        result: what it returns.
    """

    writes: dict[Root, int] = field(default_factory=dict)
    result: Value = Value()


@dataclass(frozen=True, order=True)
class Finding:
    """A function with hidden effects of one sort ("a" or "b").

    Attributes:
        changes: what it changes -> line.
    """

    path: str
    line: int
    name: str
    sort: str
    changes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        told = ", ".join(f"{name} (line {line})" for name, line in self.changes)
        return f"{self.path}:{self.line}: {self.sort}: {self.name} changes {told}"


class Effects:
    """Summaries of all functions of a program, nested ones too."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.functions: dict[str, Function] = dict(program.functions)
        self.summaries: dict[str, Summary] = defaultdict(Summary)
        self.callers: dict[str, set[str]] = defaultdict(set)
        waiting = dict.fromkeys(program.functions)
        while waiting:
            qual = next(iter(waiting))
            del waiting[qual]
            for changed in _Body(self, program.functions[qual], {}, qual).run():
                waiting |= dict.fromkeys(self.callers[changed])

    def findings(self, path_of: Mapping[str, str]) -> list[Finding]:
        """All of them, in the modules of which a path is given."""
        found = []
        for qual, function in self.functions.items():
            if (path := path_of.get(function.module)) is None:
                continue
            name = qual.removeprefix(f"{function.module}.")
            writes = self.summaries[qual].writes
            given = {r: at for r, at in writes.items() if r[0] == qual and r[1] != function.bound}
            for sort, told in (("a", given), ("b", writes if is_question(function.name) else {})):
                if told and qual not in EXCEPTIONS:
                    changes = tuple(sorted((root[1], at) for root, at in told.items()))
                    found.append(Finding(path, function.node.lineno, name, sort, changes))
        return sorted(found)


def is_question(name: str) -> bool:
    """Whether somebody who reads the name expects that nothing changes."""
    plain = name.removeprefix("_")  # Python's own begin with another one
    first, *_, last = (*plain.split("_"), plain.rpartition("_")[2])
    is_state = first not in VERBS and bool(PARTICIPLES & {first, last})
    return plain.startswith(QUESTIONS) or (is_state and not plain.startswith("_"))


class _Body(ast.NodeVisitor):
    """Goes through one function, in the order in which it runs, with what its names stand for.

    Branches are joined, and a loop is gone through twice, so that a name may be several things.
    Visiting an expression gives its Value.
    """

    def __init__(self, effects: Effects, function: Function, around: Names, unit: str) -> None:
        self.effects = effects
        self.program = effects.program
        self.function = function
        self.unit = unit  # the outermost function
        self.names: Names = {**around, **self._parameters()}
        self.elsewhere: set[str] = set()  # names declared global or nonlocal
        self.writes: dict[Root, int] = {}
        self.result = Value()
        self.changed: list[str] = []
        self.line = function.node.lineno
        self.owner = FRESH  # of the attribute that was visited last

    def run(self) -> list[str]:
        """Names of the functions of which more is known now."""
        self.block(self.function.node.body)
        if self.function.owner in EXCEPTIONS:
            self.writes.pop((self.function.qual, self.function.bound), None)
        known = self.effects.summaries[self.function.qual]
        result = replace(self.result.or_else(known.result), type=None)
        if self.writes.keys() != known.writes.keys() or result != known.result:
            self.changed.append(self.function.qual)
        self.effects.summaries[self.function.qual] = Summary(self.writes, result)
        return self.changed

    def _parameters(self) -> Names:
        function, known = self.function, self.program
        found = {}
        for one in function.parameters:
            root = (function.qual, one.arg)
            kind = known.type_of(function.module, one.annotation)
            if one.arg == function.bound:
                kind = Type(frozenset({function.owner}))
                if "classmethod" in function.flags:
                    root = GLOBAL
            found[one.arg] = Value.of(root, kind)
        for many in filter(None, (function.node.args.vararg, function.node.args.kwarg)):
            kind = known.type_of(function.module, many.annotation)
            holds = Type(is_container=True, is_mutable=True, element=kind)
            found[many.arg] = Value.of((function.qual, many.arg), holds).copied()
        return found

    # --- effects ---
    def write(self, value: Value) -> None:
        for root in value.roots:
            self.writes[root] = min(self.line, self.writes.get(root, self.line))

    def _write_part(self, owner: ast.expr, value: Value, new: Value) -> None:
        """Something is put into what an expression stands for, its value, or taken out."""
        self.write(value)
        if isinstance(owner, ast.Name) and not value.roots and owner.id in self.names:
            self.names[owner.id] = self.names[owner.id].holding(new)

    # --- statements ---
    def block(self, body: Iterable[ast.AST]) -> None:
        for node in body:
            self.line = getattr(node, "lineno", self.line)
            self.visit(node)

    def _branches(self, *bodies: Iterable[ast.AST]) -> None:
        """Any of them may run, none sees what another does."""
        before, after = self.names, []
        for body in bodies:
            self.names = dict(before)
            self.block(body)
            after.append(self.names)
        self.names = after[0]
        for names in after[1:]:
            for name, value in names.items():
                self.names[name] = self.names.get(name, value).or_else(value)

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
            self.bind(node.target, self._element(items))
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
                inside = value.part(value.type.element if value.type else None)
                self.bind(item.optional_vars, value.or_else(inside))
        self.block(node.body)

    visit_AsyncWith = visit_With  # noqa: N815

    def visit_Match(self, node: ast.Match) -> None:
        subject = self.visit(node.subject)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self.names[name] = subject if part is case.pattern else subject.part()
        self._branches(
            *(((case.guard,) if case.guard else ()) + (*case.body,) for case in node.cases)
        )

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.result = self.result.or_else(self.visit(node.value))

    def visit_Yield(self, node: ast.Yield) -> Value:
        if node.value is not None:
            self.result = self.result.or_else(Value().holding(self.visit(node.value)))
        return Value()

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Value:
        self.result = self.result.or_else(self.visit(node.value).copied())
        return Value()

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.elsewhere |= set(node.names)

    visit_Nonlocal = visit_Global  # noqa: N815

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute | ast.Subscript):
                self._write_part(target.value, self.visit(target.value), FRESH)

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        for target in node.targets:
            self.bind(target, value, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            value = self.visit(node.value)
            known = self.program.type_of(self.function.module, node.annotation)
            self.bind(node.target, replace(value, type=known or value.type), node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        value = self.visit(node.value)
        if not isinstance(node.target, ast.Name):
            self.bind(node.target, value)
            return
        before = self.visit(node.target)
        if before.type is not None and before.type.is_mutable:
            self.write(before)
            self.names[node.target.id] = before.holding(self._element(value))
        else:
            self.bind(node.target, before.or_else(value).copied())

    def visit_FunctionDef(self, node: Definition) -> None:
        """A function inside; what it changes of the outer one's is changed by the outer one."""
        qual = f"{self.function.qual}.<{node.name}>"
        function = self.effects.functions.setdefault(
            qual, Function(qual, self.function.module, node)
        )
        inside = _Body(self.effects, function, dict(self.names), self.unit)
        self.changed += inside.run()
        for root in inside.writes:
            if root[0] != qual:
                self.writes.setdefault(root, inside.writes[root])
        self.names[node.name] = Value(type=Type(), functions=((function, None),))

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class inside a function is left out."""

    # --- names ---
    def bind(self, target: ast.expr, value: Value, source: ast.expr | None = None) -> None:
        """A value is assigned to a name, a part of something, or several at once."""
        if isinstance(target, ast.Name):
            if target.id in self.elsewhere:
                self.write(EVERYBODYS)
            self.names[target.id] = value
        elif isinstance(target, ast.Attribute | ast.Subscript):
            self.visit(target)
            self._write_part(target.value, self.visit(target.value), value)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value.copied())
        elif isinstance(target, ast.Tuple | ast.List):
            parts = source.elts if isinstance(source, ast.Tuple | ast.List) else []
            for number, one in enumerate(target.elts):
                if len(parts) == len(target.elts):
                    self.bind(one, self.visit(parts[number]))
                else:
                    self.bind(one, self._element(value))

    def _element(self, value: Value) -> Value:
        known = value.type
        if known is not None and known.is_query:
            return Value(type=known.element)  # a row of its own
        return value.part(known.element if known and known.is_container else None)

    # --- expressions ---
    def visit(self, node: ast.AST) -> Value:
        found = super().visit(node)
        return found if isinstance(found, Value) else Value()

    def generic_visit(self, node: ast.AST) -> Value:
        """A new thing, whatever it is made of."""
        for child in ast.iter_child_nodes(node):
            self.visit(child)
        return FRESH if isinstance(node, ast.Constant | ast.JoinedStr | ast.Compare) else Value()

    def visit_Name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        return self._named(self.program.qualified(self.function.module, node))

    def _named(self, qual: str) -> Value:
        """What a name of a module stands for."""
        if (function := self.program.functions.get(qual)) is not None and not function.owner:
            return Value(type=Type(), functions=((function, None),))
        if qual in self.program.variables:
            return Value.of(GLOBAL, self.program.variable(qual))
        is_known = qual in self.program.classes
        is_of_python = qual.rpartition(".")[0] in self.program.trees and not is_known
        return FRESH if is_of_python else EVERYBODYS

    def visit_Attribute(self, node: ast.Attribute) -> Value:
        qual = self._path(node)
        above = qual.rpartition(".")[0]
        if above in self.program.trees or above in self.program.classes:
            self.owner = FRESH
            in_module = above in self.program.trees
            return self._named(qual) if in_module else self._of_class(above, node.attr)
        value = self.visit(node.value)
        methods = self.program.methods(value.type, node.attr)
        if self._is_super(node.value):
            methods = self._inherited(node.attr)
            value = self.names.get(self.function.bound, Value())
        self.owner = value
        if methods and all(one.is_property for one in methods):
            return self._call([(one, value) for one in methods], [], {})
        known = self.program.attribute(value.type, node.attr)
        part = value.part(known)
        if value.attributes is not None:
            part = dict(value.attributes).get(node.attr, Value(type=known))
        return replace(part, functions=tuple((one, value) for one in methods))

    def _path(self, node: ast.expr) -> str:
        """The dotted name of a thing in a module, when no name of the function begins it."""
        first = node
        while isinstance(first, ast.Attribute):
            first = first.value
        if not isinstance(first, ast.Name) or first.id in self.names:
            return ""
        return self.program.qualified(self.function.module, node)

    def _of_class(self, owner: str, name: str) -> Value:
        known = Type(frozenset({owner}))
        if name == "objects" or name == "_default_manager":
            return Value(type=Type(is_query=True, element=known))
        method = self.program.method(owner, name)
        if method is None:
            return Value.of(GLOBAL, self.program.attribute(known, name) or Type())
        is_bound = "classmethod" in method.flags
        return Value(type=Type(), functions=((method, Value() if is_bound else None),))

    def _is_super(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and last_word(node) == "super" and not node.args

    def _inherited(self, name: str) -> list[Function]:
        unit = self.effects.functions[self.unit]
        for above in self.program.line(unit.owner)[1:]:
            if name in above.methods:
                return [above.methods[name]]
        return []

    def visit_Subscript(self, node: ast.Subscript) -> Value:
        value = self.visit(node.value)
        self.visit(node.slice)
        if isinstance(node.slice, ast.Slice):
            return value.copied()
        return self._element(value)

    def visit_Await(self, node: ast.Await) -> Value:
        return self.visit(node.value)

    def visit_Starred(self, node: ast.Starred) -> Value:
        return self._element(self.visit(node.value))

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
        return reduce(Value.or_else, [self.visit(node) for node in nodes])

    def visit_BinOp(self, node: ast.BinOp) -> Value:
        return self.visit(node.left).or_else(self.visit(node.right)).copied()

    def visit_Tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        return self._holding(node.elts, is_mutable=not isinstance(node, ast.Tuple))

    visit_List = visit_Set = visit_Tuple  # noqa: N815

    def visit_Dict(self, node: ast.Dict) -> Value:
        return self._holding([*filter(None, node.keys), *node.values], is_mutable=True)

    def _holding(self, nodes: Iterable[ast.expr], *, is_mutable: bool) -> Value:
        values = [self.visit(node) for node in nodes]
        value = reduce(Value.holding, values, Value())
        element = any_of(one.type for one in values)
        return replace(value, type=Type(is_container=True, is_mutable=is_mutable, element=element))

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        return self._comprehension(node.generators, [node.elt])

    visit_SetComp = visit_GeneratorExp = visit_ListComp  # noqa: N815

    def visit_DictComp(self, node: ast.DictComp) -> Value:
        return self._comprehension(node.generators, [node.key, node.value])

    def _comprehension(self, loops: list[ast.comprehension], nodes: list[ast.expr]) -> Value:
        before, self.names = self.names, dict(self.names)
        for loop in loops:
            self.bind(loop.target, self._element(self.visit(loop.iter)))
            for condition in loop.ifs:
                self.visit(condition)
        value = self._holding(nodes, is_mutable=True)
        self.names = before
        return value

    def visit_Lambda(self, node: ast.Lambda) -> Value:
        before, self.names = self.names, dict(self.names)
        for one in ast.walk(node.args):
            if isinstance(one, ast.arg):
                self.names[one.arg] = Value()
        self.visit(node.body)
        self.names = before
        return FRESH

    # --- calls ---
    def visit_Call(self, node: ast.Call) -> Value:
        given = []
        for one in node.args:  # what is given by a star may be any of those that follow
            given += [self.visit(one)] * (6 if isinstance(one, ast.Starred) else 1)
        named = {one.arg or "**": self.visit(one.value) for one in node.keywords}
        self._hand_over(given, named)
        word = last_word(node.func)
        qual = self._path(node.func)
        if qual in self.program.classes:
            return self._make(qual, given, named)
        called, owner = self.visit(node.func), self.owner
        if called.functions:
            return self._call(list(called.functions), given, named)
        if isinstance(node.func, ast.Call):  # sync_to_async(function)(argument)
            function = next((self.visit(one) for one in node.func.args), Value())
            return self._call(list(function.functions), given, named)
        if isinstance(node.func, ast.Attribute) and self._is_of_python(owner.type):
            return self._call_method(node.func, owner, given)
        return self._call_python(word, given) if given else Value()

    def _is_of_python(self, known: Type | None) -> bool:
        """Whether a method is one of a container, a query, a row, or of what nothing is known."""
        if known is None or known.is_container or known.is_query or self.program.is_model(known):
            return True
        return self.program.has_base(known, MUTABLE)

    def _call_method(self, func: ast.Attribute, owner: Value, given: list[Value]) -> Value:
        known, word = owner.type, func.attr
        if known is not None and known.is_query:
            if word in QUERY_WRITES:
                self.write(EVERYBODYS)
            return Value(type=known.element) if word in QUERY_ROWS else owner
        if self.program.is_model(known):
            if word in ROW_WRITES:
                self.write(owner.or_else(EVERYBODYS))
            return Value()
        if word in WRITES:
            put = [self._element(one) if word in WRITES_ALL else one for one in given]
            self._write_part(func.value, owner, reduce(Value.or_else, put) if put else FRESH)
        if word in COPIES:
            return self._call_python(word, [owner])
        if word not in SHARES:
            return Value()
        shared = self._element(owner)
        return shared.or_else(given[1]) if len(given) > 1 else shared

    def _call_python(self, word: str, given: list[Value]) -> Value:
        """A function of Python or of others, of which only some are known."""
        if word in FIRST_WRITTEN:
            self.write(given[0])
        if word == "cast":
            return replace(given[-1], type=None)
        if word in {"getattr", "vars"}:
            return given[0].part()
        if word not in COPIES | GIVES_ONE:
            return Value()
        value = reduce(Value.or_else, given)
        if word in GIVES_ONE:
            return self._element(value)
        known = given[0].type
        if word not in {"replace", "copy"}:
            element = value.type.element if value.type else None
            known = Type(is_container=True, is_mutable=True, element=element)
            known = replace(known, element=known) if word in PAIRS else known
        return replace(value.copied(), type=known)

    def _make(self, qual: str, given: list[Value], named: dict[str, Value]) -> Value:
        """An instance of ours: new itself, its attributes what it was made of."""
        made = Value(type=self.program.instance(qual))
        attributes = {**dict(zip(self.program.fields(qual), given, strict=False)), **named}
        if (method := self.program.method(qual, "__init__")) is not None:
            self._call([(method, made)], given, named)
            matched = _matched(method, made, given, named)
            attributes = {
                name: matched[one]
                for name, one in self.program.kept(method).items()
                if one in matched
            }
        elif (method := self.program.method(qual, "__post_init__")) is not None:
            self._call([(method, made)], [], {})
        for one in attributes.values():
            made = made.holding(one)
        return replace(made, attributes=tuple(attributes.items()))

    def _hand_over(self, given: list[Value], named: dict[str, Value]) -> None:
        """A function that is an argument is called with the arguments after it, as `to_thread` does."""
        for number, one in enumerate(given):
            if one.functions:
                self._call(list(one.functions), given[number + 1 :], named)
        for one in named.values():
            if one.functions:
                self._call(list(one.functions), [], {})

    def _call(
        self,
        functions: list[tuple[Function, Value | None]],
        given: list[Value],
        named: dict[str, Value],
    ) -> Value:
        """What functions of ours do to their arguments, and what they give back."""
        found: Value | None = None
        for function, receiver in functions:
            self.effects.callers[function.qual].add(self.unit)
            summary = self.effects.summaries[function.qual]
            values = _matched(function, receiver, given, named)
            for root in summary.writes:
                if root[0] == function.qual:
                    self.write(values.get(root[1], Value()))
                elif root == GLOBAL or root in self._around():
                    self.writes.setdefault(root, self.line)
            kind = self.program.returned(function, receiver.type if receiver else None)
            value = _mapped(summary.result, function, values, kind)
            found = value if found is None else found.or_else(value)
        return found or Value()

    def _around(self) -> Roots:
        """What the names that this function sees stand for."""
        return frozenset(root for value in self.names.values() for root in value.roots)


def _matched(
    function: Function, receiver: Value | None, given: list[Value], named: dict[str, Value]
) -> Names:
    """Parameters -> what is given for them."""
    arguments = function.node.args
    places = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    found: Names = {}
    if receiver is not None and function.bound:
        found[places.pop(0)] = receiver
    found |= zip(places, given, strict=False)
    for value in given[len(places) :]:
        if arguments.vararg:
            name = arguments.vararg.arg
            found[name] = found.get(name, Value()).or_else(value)
    for name, value in named.items():
        is_named = name in {one.arg for one in function.parameters}
        if not is_named and arguments.kwarg:
            name = arguments.kwarg.arg
        found[name] = found[name].or_else(value) if name in found else value
    return found


def _mapped(result: Value, function: Function, values: Names, known: Type | None) -> Value:
    """A result as the caller sees it, who gave these values."""
    if known is not None and known.is_scalar:
        return Value(type=known)
    levels = []
    for number, roots in enumerate((result.roots, result.inner, result.deep)):
        found: set[Root] = set()
        for root in roots:
            if root[0] != function.qual:
                found.add(root)
            elif (value := values.get(root[1])) is not None:
                found = found.union(*(value.roots, value.inner, value.deep)[: number + 1])
        levels.append(frozenset(found))
    return Value(*levels, known, result.functions)


# --- folders ---
def read(root: Path, sources: Iterable[str] = SOURCES) -> tuple[Program, dict[str, str]]:
    """All our modules below a checkout's root, and the path of each."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *(f"{source}/*.py" for source in sources)],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
        for name in filter(None, listed.split("\0"))
        if not name.startswith(OTHERS) and "/migrations/" not in name and (root / name).is_file()
    }
    return Program({name: (root / path).read_text() for name, path in paths.items()}), paths


def found_in(root: Path, folders: Iterable[str]) -> dict[str, list[Finding]]:
    """Findings of each folder or file."""
    program, paths = read(root)
    effects = Effects(program)
    return {
        folder: effects.findings(
            {m: p for m, p in paths.items() if p == folder or p.startswith(f"{folder}/")}
        )
        for folder in folders
    }


def main() -> None:
    root, folders = ROOT, sys.argv[1:]
    if folders[:1] == ["--of"]:
        root, folders = Path(folders[1]), folders[2:]
    found = found_in(root, folders or SOURCES)
    for folder, findings in found.items():
        counts = [sum(one.sort == sort for one in findings) for sort in "ab"]
        print(*findings, f"{folder}: a {counts[0]}, b {counts[1]}", sep="\n")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
