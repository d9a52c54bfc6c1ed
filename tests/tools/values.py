"""What an expression may stand for: who would see it change, and how Python hands its parts on.

For `tests/tools/effects.py`. Values are plain data; `visitor.py` goes through the code and makes them.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.tools.program import Function, Program, Type, either, words

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


@dataclass
class Known:
    """What is known of a program so far, while it is gone through.

    Attributes:
        exceptions: qualified name of a function that may, or of a class whose own state is no effect.
        functions: all, nested ones too, by their qualified names.
        callers: of each function, those whose summary depends on it.
    """

    program: Program
    exceptions: Mapping[str, str]
    functions: dict[str, Function]
    summaries: dict[str, Summary] = field(default_factory=lambda: defaultdict(Summary))
    callers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def given_for(
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


def as_returned(result: Value, function: Function, values: Names, known: Type | None) -> Value:
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
