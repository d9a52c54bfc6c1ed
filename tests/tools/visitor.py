"""Goes through the code of functions with what their names stand for, and notes what they change.

For `tests/tools/effects.py`, which does so until nothing new is found.
"""

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from tests.tools.program import MUTABLE, Definition, Function, Type, any_of, last_word
from tests.tools.values import (
    COPIES,
    EVERYBODYS,
    FIRST_WRITTEN,
    FRESH,
    GIVES_ONE,
    GLOBAL,
    PAIRS,
    QUERY_ROWS,
    QUERY_WRITES,
    ROW_WRITES,
    SHARES,
    WRITES,
    WRITES_ALL,
    Known,
    Names,
    Root,
    Roots,
    Summary,
    Value,
    as_returned,
    given_for,
)


class Body(ast.NodeVisitor):
    """Goes through one function, in the order in which it runs, with what its names stand for.

    Branches are joined, and a loop is gone through twice, so that a name may be several things.
    Visiting an expression gives its Value.
    """

    def __init__(self, known: Known, function: Function, around: Names, unit: str) -> None:
        self.known = known
        self.program = known.program
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
        if self.function.owner in self.known.exceptions:
            self.writes.pop((self.function.qual, self.function.bound), None)
        known = self.known.summaries[self.function.qual]
        result = replace(self.result.or_else(known.result), type=None)
        if self.writes.keys() != known.writes.keys() or result != known.result:
            self.changed.append(self.function.qual)
        self.known.summaries[self.function.qual] = Summary(self.writes, result)
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
        function = self.known.functions.setdefault(qual, Function(qual, self.function.module, node))
        inside = Body(self.known, function, dict(self.names), self.unit)
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
        unit = self.known.functions[self.unit]
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
            matched = given_for(method, made, given, named)
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
            self.known.callers[function.qual].add(self.unit)
            summary = self.known.summaries[function.qual]
            values = given_for(function, receiver, given, named)
            for root in summary.writes:
                if root[0] == function.qual:
                    self.write(values.get(root[1], Value()))
                elif root == GLOBAL or root in self._around():
                    self.writes.setdefault(root, self.line)
            kind = self.program.returned(function, receiver.type if receiver else None)
            value = as_returned(summary.result, function, values, kind)
            found = value if found is None else found.or_else(value)
        return found or Value()

    def _around(self) -> Roots:
        """What the names that this function sees stand for."""
        return frozenset(root for value in self.names.values() for root in value.roots)
