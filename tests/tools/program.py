"""The modules, classes and functions of our source, and what annotations and names in them mean.

Only as much as `tests.tools.effects` needs; nothing is imported, and what is not sure is unknown.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce


def words(text: str) -> frozenset[str]:
    """Each of them."""
    return frozenset(text.split())


Definition = ast.FunctionDef | ast.AsyncFunctionDef

MUTABLE = words(
    "list dict set deque defaultdict Counter OrderedDict bytearray List Dict Set UserDict UserList"
    " MutableMapping MutableSequence MutableSet"
)
READ_ONLY = words(
    "tuple frozenset Tuple FrozenSet Sequence Mapping Collection Iterable Iterator Generator"
    " AsyncIterator AsyncIterable AsyncGenerator KeysView ValuesView ItemsView Reversible"
)
SCALARS = words(  # nothing of them can be changed
    "int float bool str bytes complex datetime date time timedelta UUID Decimal Path Literal Enum"
    " StrEnum IntEnum Callable type Pattern"
)
_AROUND = words("Optional Union Annotated ClassVar Final Awaitable Coroutine Required")
_ANYTHING = frozenset({"Any", "object"})


@dataclass(frozen=True)
class Type:
    """What is known of a value; with nothing in it, that it is none of ours.

    Attributes:
        classes: qualified names of our classes of which it may be.
        is_container: whether it is one of Python's; `is_mutable`: one that can be changed.
        is_scalar: whether nothing of it can be changed.
        is_query: whether it stands for rows in the database.
        element: what a container or query holds, keys and values alike; None: not known.
    """

    classes: frozenset[str] = frozenset()
    is_container: bool = False
    is_mutable: bool = False
    is_scalar: bool = False
    is_query: bool = False
    element: "Type | None" = None


def either(first: Type | None, second: Type | None) -> Type | None:
    """What is known of a value that may be the one or the other; an unknown one may be anything."""
    if first == second:
        return first
    if first is None or second is None:
        known = first or second
        return known if known.classes or known.is_container or known.is_query else None
    return Type(
        first.classes | second.classes,
        first.is_container or second.is_container,
        first.is_mutable or second.is_mutable,
        first.is_scalar and second.is_scalar,
        first.is_query or second.is_query,
        either(first.element, second.element),
    )


def any_of(types: Iterable[Type | None]) -> Type | None:
    """What is known of a value that may be any of these; None when there are none."""
    found = list(types)
    return reduce(either, found) if found else None


SCALAR = Type(is_scalar=True)


@dataclass(frozen=True, eq=False)
class Function:
    """A function, method or property.

    Attributes:
        qual: its name with module and class.
        owner: qualified name of its class, empty for a function.
        bound: name of the parameter that stands for the instance or class, else empty.
        flags: last words of its decorators.
    """

    qual: str
    module: str
    node: Definition
    owner: str = ""
    flags: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.node.name

    @cached_property
    def parameters(self) -> list[ast.arg]:
        """Those that are given one by one, in order."""
        found = self.node.args
        return [*found.posonlyargs, *found.args, *found.kwonlyargs]

    @property
    def bound(self) -> str:
        first = [*self.node.args.posonlyargs, *self.node.args.args][:1]
        is_bound = self.owner and first and "staticmethod" not in self.flags
        return first[0].arg if is_bound else ""

    @property
    def is_property(self) -> bool:
        return bool(self.flags & {"property", "cached_property"})


@dataclass(eq=False)
class Class:
    """A class with its own methods, and what its attributes are annotated with or made from."""

    qual: str
    module: str
    node: ast.ClassDef
    methods: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, Type | None] = field(default_factory=dict)
    bases: list[str] = field(default_factory=list)  # qualified names, of ours and of others
    below: set[str] = field(default_factory=set)  # classes that inherit, or fit the Protocol


class Program:
    """All modules by name, with what their names stand for.

    Raises:
        SyntaxError: a module is no Python.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.trees = {name: ast.parse(text) for name, text in sources.items()}
        self.classes: dict[str, Class] = {}
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, tuple[ast.expr | None, ast.expr | None]] = {}  # see `_assigned`
        self._imports: dict[str, str] = {}
        for module, tree in self.trees.items():
            self._read(module, tree)
        for found in self.classes.values():
            found.bases = [self.qualified(found.module, base) for base in found.node.bases]
        for found in self.classes.values():
            for above in self.line(found.qual)[1:]:
                above.below.add(found.qual)
            self._read_attributes(found)
        self._fit_protocols()

    # --- reading ---
    def _read(self, module: str, tree: ast.Module) -> None:
        for node in ast.walk(tree):  # wherever it stands: names are seldom used twice
            if isinstance(node, ast.Import):
                for one in node.names:
                    name = one.asname or one.name.partition(".")[0]
                    self._imports[f"{module}.{name}"] = one.name if one.asname else name
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for one in node.names:
                    name = one.asname or one.name
                    self._imports[f"{module}.{name}"] = f"{node.module}.{one.name}"
        for node in _flat(tree.body):
            if isinstance(node, Definition):
                self._add(Function(f"{module}.{node.name}", module, node))
            elif isinstance(node, ast.ClassDef):
                self._read_class(module, f"{module}.{node.name}", node)
            else:
                target, value, note = _assigned(node)
                for name in ast.walk(target) if target else ():
                    if isinstance(name, ast.Name):
                        self.variables[f"{module}.{name.id}"] = value, note

    def _read_class(self, module: str, qual: str, node: ast.ClassDef) -> None:
        self.classes[qual] = found = Class(qual, module, node)
        for part in _flat(node.body):
            if isinstance(part, Definition):
                flags = frozenset(map(last_word, part.decorator_list))
                tail = ".setter" if flags & {"setter", "deleter", "overload"} else ""
                method = Function(f"{qual}.{part.name}{tail}", module, part, qual, flags)
                self._add(method)
                if not tail:
                    found.methods[part.name] = method
            elif isinstance(part, ast.ClassDef):
                self._read_class(module, f"{qual}.{part.name}", part)

    def _add(self, function: Function) -> None:
        self.functions[function.qual] = function

    def _read_attributes(self, found: Class) -> None:
        for part in _flat(found.node.body):
            target, value, note = _assigned(part)
            if isinstance(target, ast.Name):
                known = self.type_of(found.module, note) if note else self.made(found.module, value)
                found.attributes[target.id] = known
        for method in found.methods.values():
            known = {p.arg: p.annotation for p in method.parameters}
            for node in ast.walk(method.node):
                target, value, note = _assigned(node)
                if not isinstance(target, ast.Attribute) or last_word(target.value) != method.bound:
                    continue
                new = self.type_of(found.module, note)
                if note is None:
                    new = any_of(
                        self.type_of(found.module, known[one.id])
                        if isinstance(one, ast.Name) and one.id in known
                        else self.made(found.module, one)
                        for one in _choices(value)
                    )
                if found.attributes.get(target.attr) is None:
                    found.attributes[target.attr] = new

    def _fit_protocols(self) -> None:
        """What a Protocol promises is done by the classes that have all its methods."""
        for promise in self.classes.values():
            wanted = {name for name in promise.methods if not name.startswith("__")}
            if wanted and any(base.endswith(".Protocol") for base in promise.bases):
                for other in self.classes.values():
                    has = {name for above in self.line(other.qual) for name in above.methods}
                    if other is not promise and wanted <= has:
                        promise.below.add(other.qual)

    # --- names ---
    def qualified(self, module: str, node: ast.expr | None) -> str:
        """What a dotted name stands for, with its module; empty for what is no such name."""
        if isinstance(node, ast.Subscript):  # Generic[T]
            node = node.value
        if isinstance(node, ast.Attribute):
            before = self.qualified(module, node.value)
            return self.followed(f"{before}.{node.attr}") if before else ""
        return self.followed(f"{module}.{node.id}") if isinstance(node, ast.Name) else ""

    def followed(self, name: str) -> str:
        """The name where it is defined, past imports."""
        for _ in range(5):
            if name not in self._imports:
                break
            name = self._imports[name]
        return name

    def line(self, qual: str) -> list[Class]:
        """The class and what it inherits from, nearest first."""
        found: dict[str, Class] = {}
        waiting = [qual]
        while waiting:
            one = self.classes.get(waiting.pop(0))
            if one is not None and one.qual not in found:
                found[one.qual] = one
                waiting += one.bases
        return list(found.values())

    def method(self, qual: str, name: str) -> Function | None:
        """The method that a class has or inherits."""
        return next((c.methods[name] for c in self.line(qual) if name in c.methods), None)

    def methods(self, known: Type | None, name: str) -> list[Function]:
        """All that a call of this method may reach, overridden ones of subclasses too."""
        found = {}
        for qual in known.classes if known else ():
            for one in (qual, *self.classes[qual].below):
                if (method := self.method(one, name)) is not None:
                    found[method.qual] = method
        return list(found.values())

    def is_model(self, known: Type | None) -> bool:
        """Whether it is a row of the database."""
        lines = (above for qual in (known.classes if known else ()) for above in self.line(qual))
        return any("Model" in base or "AbstractUser" in base for c in lines for base in c.bases)

    def has_base(self, known: Type, names: Iterable[str]) -> bool:
        """Whether a class of ours builds on one of these of Python's."""
        lines = (above for qual in known.classes for above in self.line(qual))
        return any(base.rpartition(".")[2] in names for c in lines for base in c.bases)

    # --- types ---
    def instance(self, qual: str) -> Type:
        """Of one of our classes."""
        known = Type(frozenset({qual}))
        is_enum = self.has_base(known, ("Enum", "StrEnum", "IntEnum", "Choices", "TextChoices"))
        return SCALAR if is_enum else known

    def attribute(self, known: Type | None, name: str) -> Type | None:
        """What is known of an attribute."""
        for qual in known.classes if known else ():
            for above in self.line(qual):
                if above.attributes.get(name) is not None:
                    return above.attributes[name]
        return None

    def fields(self, qual: str) -> list[str]:
        """Those of a dataclass, in the order of its arguments."""
        lines = [above.node.body for above in reversed(self.line(qual))]
        found = (_assigned(part) for body in lines for part in body)
        return list(dict.fromkeys(t.id for t, _, note in found if note and isinstance(t, ast.Name)))

    def kept(self, method: Function) -> dict[str, str]:
        """The attributes that `__init__` sets to one of its parameters, and to which."""
        found = (_assigned(node) for node in ast.walk(method.node))
        return {
            target.attr: value.id
            for target, value, _ in found
            if isinstance(target, ast.Attribute) and isinstance(value, ast.Name)
        }

    def type_of(self, module: str, node: ast.expr | None, depth: int = 0) -> Type | None:
        """What an annotation says; None when it says nothing."""
        if depth > 8 or node is None:
            return None
        if isinstance(node, ast.Constant):
            text = node.value
            if not isinstance(text, str):
                return SCALAR
            return self.type_of(module, ast.parse(text.strip(), mode="eval").body, depth + 1)
        if isinstance(node, ast.BinOp):
            return any_of(self.type_of(module, one, depth + 1) for one in (node.left, node.right))
        qual = self.qualified(module, node)
        word = qual.rpartition(".")[2]
        inside: Type | None = None
        if word in SCALARS and qual not in self.classes:
            return SCALAR
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            inside = any_of(self.type_of(module, part, depth + 1) for part in parts)
            if word in _AROUND:
                return inside
        if qual in self.classes:
            return self.instance(qual)
        if word in MUTABLE | READ_ONLY:
            return Type(is_container=True, is_mutable=word in MUTABLE, element=inside)
        if word in {"QuerySet", "Manager"}:
            return Type(is_query=True, element=inside)
        if qual in self.variables:
            return self._alias(qual, depth)
        return None if word in _ANYTHING else Type()

    def _alias(self, qual: str, depth: int) -> Type | None:
        """A TypeVar or another name of a type."""
        value, _ = self.variables[qual]
        module = qual.rpartition(".")[0]
        if not isinstance(value, ast.Call):
            return self.type_of(module, value, depth + 1)
        bounds = [*value.args[1:], *(k.value for k in value.keywords if k.arg == "bound")]
        return any_of(self.type_of(module, bound, depth + 1) for bound in bounds)

    def variable(self, qual: str) -> Type | None:
        """What is known of a module's variable."""
        module = qual.rpartition(".")[0]
        value, note = self.variables[qual]
        return self.type_of(module, note) if note else self.made(module, value)

    def made(self, module: str, node: ast.expr | None) -> Type | None:
        """What an expression makes, where that can be seen at a glance."""
        if isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp):
            return Type(is_container=True, is_mutable=True)
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp | ast.UnaryOp):
            return SCALAR
        if isinstance(node, ast.Tuple):
            element = any_of(self.made(module, one) for one in node.elts)
            return Type(is_container=True, element=element)
        if isinstance(node, ast.Call):
            qual = self.qualified(module, node.func)
            if qual.startswith("django.db.models."):
                return self._column(module, node)
            if qual in self.classes:
                return self.instance(qual)
            if qual in self.functions:
                function = self.functions[qual]
                return self.type_of(function.module, function.node.returns)
            if qual.rpartition(".")[2] in MUTABLE:
                return Type(is_container=True, is_mutable=True)
        return None

    def _column(self, module: str, node: ast.Call) -> Type | None:
        """What a row has in a column."""
        word = last_word(node)
        if word in {"ForeignKey", "OneToOneField"}:
            table = node.args[0]
            if isinstance(table, ast.Constant):
                tables = [q for q in self.classes if q.endswith(f".{table.value.split('.')[-1]}")]
                return self.instance(tables[0]) if len(tables) == 1 else None
            return self.type_of(module, table)
        is_json = word in {"JSONField", "ManyToManyField"} or not word.endswith("Field")
        return None if is_json else SCALAR

    def returned(self, function: Function, receiver: Type | None) -> Type | None:
        """What a function's annotation says of its result."""
        if last_word(function.node.returns) == "Self":
            return receiver
        return self.type_of(function.module, function.node.returns)


def last_word(node: ast.expr | None) -> str:
    """`c` of a.b.c, a.b.c[...] or a.b.c(...); empty for anything else."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module or class, and those below `if` and `try`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _flat([*node.body, *node.orelse])


def _choices(node: ast.expr | None) -> list[ast.expr | None]:
    """Those of `a or b` and `a if b else c`."""
    if isinstance(node, ast.BoolOp):
        return [*node.values]
    return [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]


def _assigned(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None, ast.expr | None]:
    """Target, value and annotation of a plain assignment."""
    if isinstance(node, ast.AnnAssign):
        return node.target, node.value, node.annotation
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return node.targets[0], node.value, None
    return None, None, None
