"""Reads a page as a browser would, for tests; and what every page must keep to."""

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "link", "input", "br", "hr", "img", "path", "circle", "rect", "ellipse"}
_LABELLED = {"text", "password", "search", "checkbox", "radio", "file", "url", "email", ""}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    ancestors: list["Element"]
    text: str = ""

    def get(self, name: str) -> str | None:
        return self.attributes.get(name)


@dataclass
class Markup(HTMLParser):
    """All elements of a page in their order, each with the text in it."""

    source: str
    elements: list[Element] = field(default_factory=list)
    open_elements: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(
            tag, {name: value or "" for name, value in attrs}, list(self.open_elements)
        )
        self.elements.append(element)
        if tag not in _VOID:
            self.open_elements.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        assert self.open_elements, f"</{tag}> closes nothing"
        opened = self.open_elements.pop()
        assert opened.tag == tag, f"</{tag}> closes <{opened.tag} {opened.attributes}>"

    def handle_data(self, data: str) -> None:
        for element in self.open_elements:
            element.text += data

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """Elements with this tag and these attributes; `data_live` means `data-live`."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            element
            for element in self.elements
            if (not tag or element.tag == tag)
            and all(element.get(name) == value for name, value in wanted.items())
        ]

    def one(self, tag: str = "", **attributes: str) -> Element:
        found = self.all(tag, **attributes)
        assert len(found) == 1, f"{len(found)} of <{tag} {attributes}>"
        return found[0]

    @property
    def text(self) -> str:
        """All that is written on the page, blanks collapsed."""
        return " ".join(" ".join(e.text for e in self.elements if not e.ancestors).split())

    def value(self, name: str) -> str | None:
        """What the field of this name would send."""
        for element in self.elements:
            if element.get("name") != name:
                continue
            if element.tag == "textarea":
                return element.text.removeprefix("\n")
            if element.get("type") in {"radio", "checkbox"} and element.get("checked") is None:
                continue
            return element.get("value")
        return None


def find_faults(page: Markup) -> list[str]:
    """Whatever breaks the rules of all pages: security policy, labels, ids, references."""
    faults = []
    ids = Counter(e.get("id") for e in page.elements if e.get("id"))
    faults += [f"id {name!r} is there {n} times" for name, n in ids.items() if n > 1]
    label_targets = {e.get("for") for e in page.all("label")}
    for element in page.elements:
        where = f"<{element.tag} {element.attributes}>"
        if "style" in element.attributes or element.tag == "style":
            faults.append(f"inline style: {where}")
        if any(name.startswith("on") for name in element.attributes):
            faults.append(f"inline code: {where}")
        if element.tag == "script" and not element.get("src"):
            faults.append(f"inline script: {where}")
        for name in ("aria-describedby", "aria-labelledby"):
            for target in (element.get(name) or "").split():
                if target not in ids:
                    faults.append(f"{name} of {where} names nothing")
        if element.tag in {"input", "select", "textarea"} and _needs_label(element):
            is_wrapped = any(e.tag == "label" for e in element.ancestors)
            if not (is_wrapped or element.get("aria-label") or element.get("id") in label_targets):
                faults.append(f"no label: {where}")
        if element.tag in {"button", "a"} and not (
            element.text.strip() or element.get("aria-label")
        ):
            faults.append(f"nothing to read: {where}")
    return faults


def _needs_label(element: Element) -> bool:
    if element.tag != "input":
        return True
    return element.get("hidden") is None and (element.get("type") or "") in _LABELLED
