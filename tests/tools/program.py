"""The classes and functions of our source by their names, and of which class a value is.

Only as much as `tests.tools.effects` needs; nothing is imported. What is known of a value is the
annotations that may be its own, as they stand in the source; none: it may be anything.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property


def words(text: str) -> frozenset[str]:
    """Each of them."""
    return frozenset(text.split())


Definition = ast.FunctionDef | ast.AsyncFunctionDef
Notes = tuple[ast.expr, ...]

MUTABLE = words(
    "list dict set deque defaultdict Counter OrderedDict bytearray UserDict UserList MutableMapping"
    " MutableSequence MutableSet"
)
SCALARS = words(  # nothing of them can be changed
    "int float bool str bytes complex datetime date time timedelta UUID Decimal Path Literal None"
    " Callable type Pattern"
)
# What stands for the annotation in it, or for anything.
_AROUND = words("Optional Union Annotated ClassVar Final Awaitable")
_ANYTHING = frozenset({"Any", "object"})


@dataclass(eq=False)
class Function:
    """A function, method or property.

    Attributes:
        owner: name of its class, empty for a function.
        writes: what it changes, a parameter or GLOBAL -> the first line that does.
    """

    module: str
    owner: str
    node: Definition
    writes: dict[str, int] = field(default_factory=dict)

    @cached_property
    def parameters(self) -> dict[str, ast.expr | None]:
        """With their annotations, those that are given by their place first."""
        found = self.node.args
        return {
            one.arg: one.annotation for one in (*found.posonlyargs, *found.args, *found.kwonlyargs)
        }

    @cached_property
    def flags(self) -> frozenset[str]:
        return frozenset(map(last_word, self.node.decorator_list))

    @property
    def bound(self) -> str:
        """The parameter that stands for the instance, or ""."""
        is_bound = self.owner and not self.flags & {"staticmethod", "classmethod"}
        return next(iter(self.parameters), "") if is_bound else ""

    @property
    def is_property(self) -> bool:
        return bool(self.flags & {"property", "cached_property"})


@dataclass(eq=False)
class Class:
    """What classes of one name have; `attributes` are annotated, or made from what is."""

    bases: set[str] = field(default_factory=set)
    methods: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, Notes] = field(default_factory=dict)


class Program:
    """All modules by name.

    Raises:
        SyntaxError: a module is no Python.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.classes: defaultdict[str, Class] = defaultdict(Class)
        self.functions: dict[str, Function] = {}  # by their names with module and class
        self.variables: set[str] = set()  # of modules, by their names with the module
        self._imports: dict[str, str] = {}
        for module, text in sources.items():
            tree = ast.parse(text)
            for node in ast.walk(tree):  # wherever it stands: names are seldom used twice
                if isinstance(node, ast.ImportFrom):
                    for one in node.names:
                        name = f"{module}.{one.asname or one.name}"
                        self._imports[name] = f"{node.module}.{one.name}"
            self._read(module, "", tree.body)

    def _read(self, module: str, owner: str, body: list[ast.stmt]) -> None:
        around = f"{module}.{owner}" if owner else module
        for node in body:
            if isinstance(node, Definition):
                function = Function(module, owner, node)
                is_other = function.flags & {"setter", "deleter", "overload"}
                tail = f".{min(is_other)}" if is_other else ""
                self.functions[f"{around}.{node.name}{tail}"] = function
                if owner and not is_other:
                    self.classes[owner].methods[node.name] = function
                    self._read_attributes(function)
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name].bases |= set(map(last_word, node.bases))
                self._read(module, node.name, node.body)
            elif isinstance(node, ast.If | ast.Try):
                self._read(module, owner, [*node.body, *node.orelse])
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                self._read_assignment(module, owner, node)

    def _read_assignment(self, module: str, owner: str, node: ast.Assign | ast.AnnAssign) -> None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and owner:
                known = (node.annotation,) if isinstance(node, ast.AnnAssign) else _made(node.value)
                self.classes[owner].attributes[target.id] = known
            elif isinstance(target, ast.Name):
                self.variables.add(f"{module}.{target.id}")

    def _read_attributes(self, method: Function) -> None:
        """What `self` is given in a method."""
        found = self.classes[method.owner].attributes
        for node in ast.walk(method.node):
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Attribute) and last_word(target.value) == method.bound:
                known: Notes = ()
                if isinstance(node, ast.AnnAssign):
                    known = (node.annotation,)
                elif isinstance(node.value, ast.Name):
                    note = method.parameters.get(node.value.id)
                    known = (note,) if note else ()
                else:
                    known = _made(node.value)
                found[target.attr] = found.get(target.attr) or known

    # --- names ---
    def function(self, module: str, node: ast.expr) -> Function | None:
        """The one of ours that `name` or `module.name` stands for."""
        return self.functions.get(self.qualified(module, node))

    def qualified(self, module: str, node: ast.expr) -> str:
        """A dotted name with its module, past imports; empty for what is no such name."""
        if isinstance(node, ast.Attribute):
            before = self.qualified(module, node.value)
            name = f"{before}.{node.attr}" if before else ""
        else:
            name = f"{module}.{node.id}" if isinstance(node, ast.Name) else ""
        return self._imports.get(name, name)

    def line(self, name: str) -> list[Class]:
        """The class and what it inherits from, nearest first."""
        found, waiting = dict[str, Class](), [name]
        while waiting:
            one = waiting.pop(0)
            if one in self.classes and one not in found:
                found[one] = self.classes[one]
                waiting += found[one].bases
        return list(found.values())

    def inherited(self, name: str, method: str) -> Function | None:
        """The method of a class that is next in its line."""
        return next((c.methods[method] for c in self.line(name) if method in c.methods), None)

    def methods(self, notes: Notes, method: str) -> list[Function]:
        """All that a call may reach, those of subclasses and of what fits a Protocol too."""
        reached = (below for name in self.classes_of(notes) for below in self._below[name])
        found = (self.inherited(name, method) for name in reached)
        return list(dict.fromkeys(one for one in found if one))

    @cached_property
    def _below(self) -> dict[str, list[str]]:
        """Of each class itself and those that inherit from it, or fit the Protocol."""

        def is_below(name: str, above: Class) -> bool:
            fits = above.methods.keys() <= self.classes[name].methods.keys()
            return above in self.line(name) or ("Protocol" in above.bases and fits)

        return {
            above: [name for name in self.classes if is_below(name, self.classes[above])]
            for above in self.classes
        }

    # --- what is known of values ---
    def classes_of(self, notes: Notes) -> set[str]:
        """Those of ours."""
        return {word for word, _ in heads(notes) if word in self.classes}

    def is_row(self, notes: Notes) -> bool:
        """Whether it is one of the database."""
        above = (
            base for name in self.classes_of(notes) for c in self.line(name) for base in c.bases
        )
        return any("Model" in base or "AbstractUser" in base for base in above)

    def is_container(self, notes: Notes) -> bool:
        """Whether it is one of Python's that can be changed."""
        above = {
            base for name in self.classes_of(notes) for c in self.line(name) for base in c.bases
        }
        return bool(MUTABLE & {*above, *(word for word, _ in heads(notes))})

    def attribute(self, notes: Notes, name: str) -> Notes:
        """What is known of an attribute."""
        above = (c for owner in self.classes_of(notes) for c in self.line(owner))
        return next((c.attributes[name] for c in above if c.attributes.get(name)), ())


def heads(notes: Notes) -> Iterator[tuple[str, Notes]]:
    """What each of the annotations may name, with what stands in its brackets."""
    for note in notes:
        if isinstance(note, ast.Constant) and isinstance(note.value, str):
            yield from heads((ast.parse(note.value.strip(), mode="eval").body,))
        elif isinstance(note, ast.BinOp):
            yield from heads((note.left, note.right))
        elif isinstance(note, ast.Subscript):
            inside = note.slice.elts if isinstance(note.slice, ast.Tuple) else [note.slice]
            if last_word(note) in _AROUND:
                yield from heads((*inside,))
            else:
                yield last_word(note), (*inside,)
        elif isinstance(note, ast.Constant):
            yield "None", ()
        else:
            yield last_word(note), ()


def element(notes: Notes) -> Notes:
    """What is known of what a container holds, keys and values alike."""
    return tuple(inside for _, within in heads(notes) for inside in within)


def is_scalar(notes: Notes) -> bool:
    """Whether nothing of it can be changed."""
    found = [word for word, _ in heads(notes)]
    return bool(found) and {*found} <= SCALARS


def is_anything(notes: Notes) -> bool:
    """Whether nothing is known."""
    return not notes or any(word in _ANYTHING for word, _ in heads(notes))


def last_word(node: ast.expr | None) -> str:
    """`c` of a.b.c, a.b.c[...] or a.b.c(...); empty for anything else."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


_LIST = ast.Name("list")


def _made(node: ast.expr | None) -> Notes:
    """What an expression makes, where that can be seen at a glance."""
    if isinstance(node, ast.BoolOp):
        return tuple(one for value in node.values for one in _made(value))
    if isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp):
        return (_LIST,)
    if isinstance(node, ast.Constant | ast.JoinedStr):
        return (ast.Name("str"),)
    is_class = isinstance(node, ast.Call) and last_word(node)[:1].isupper()
    return (node.func,) if isinstance(node, ast.Call) and is_class else ()
