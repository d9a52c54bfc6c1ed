"""Documents say what the code says."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from rest_framework import exceptions
from rest_framework.fields import empty

from jobs.kinds.training.serializer import TrainingSerializer
from jobs.rules import conditions
from jobs.rules.reasons import ROWS
from jobs.rules.restarts import Cause, RestartPolicy
from jobs.rules.states import WorkloadState
from jobs.rules.topologies import TOPOLOGIES
from portal.environment.table import SETTINGS
from portal.errors import Refused
from portal.version import RELEASE
from tenants.namespaces.actions import delete
from tests.factories import make_tenant, make_user

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("portal", "jobs", "tenants")


def tracked() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def test_every_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    for setting in SETTINGS:
        row = f"| `{setting.name}` | {f'`{setting.default}`' if setting.default else ''} |"
        assert row in text, f"docs/settings.md lacks the row {row}"
    documented = re.findall(r"^\| `([A-Z0-9_]+)` \|", text, re.MULTILINE)
    assert sorted(documented) == sorted(setting.name for setting in SETTINGS)


def test_every_error_code_of_the_code_is_documented() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    used: set[str] = set()
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            if "pod_api" in path.parts:
                continue  # pods are answered by it, and no page tells people of that
            source = path.read_text()
            used |= set(re.findall(r"FieldError\(\s*[^,]+,\s*\"([a-z_]+)\"", source))
            used |= set(re.findall(r"Refused\([^\n]+?,\s*\"([a-z_]+)\"", source))
            used |= set(re.findall(r"refuse\(\s*[^,()]+,\s*\"([a-z_]+)\"", source))
            used |= set(re.findall(r"return \"([a-z_]+)\", \"", source))
            used |= set(re.findall(r"_refuse\(\s*\"([a-z_]+)\",", source))
            used |= set(re.findall(r"(?:Detail|ValidationError)\([^\n]+, \"([a-z_]+)\"", source))
            if path.name == "fields.py":  # elsewhere keys of messages may be no codes
                used |= set(re.findall(r"self\.fail\(\"([a-z_]+)\"", source))
    assert used >= {"never_fits", "unknown_field", "invalid_name"}
    assert not {code for code in used if f"`{code}`" not in text}


def _rows(section: str) -> dict[str, list[str]]:
    """Of a table of docs/api.md: first cell -> the others; a row without a first cell goes on with the one above."""
    text = (
        (ROOT / "docs" / "api.md").read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    )
    found: dict[str, list[str]] = {}
    first = ""
    for line in re.findall(r"^\| (?!---).*\|$", text, re.MULTILINE):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[0]:
            first, found[cells[0]] = cells[0], cells[1:]
        else:
            found[first] = [" ".join(pair) for pair in zip(found[first], cells[1:], strict=True)]
    return found


def test_every_error_code_of_the_document_is_one_of_the_code() -> None:
    codes = {
        code
        for cell in _rows("Errors")
        for code in re.findall(r"`(\w+)`", cell)
        if code not in {one.default_code for one in vars(exceptions).values() if _is_error(one)}
    }
    source = "\n".join(
        path.read_text() for folder in SOURCES for path in (ROOT / folder).rglob("*.py")
    )
    assert len(codes) > 80
    assert not {code for code in codes if not re.search(rf"\"{code}\"|\b{code}=", source)}


def _is_error(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, exceptions.APIException)


def test_the_body_of_a_training_in_the_document_has_every_field_and_its_default() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    found = re.search(r"## Submitting\n\n```json\n(.*?)```", text, re.DOTALL)
    assert found
    body = json.loads(found[1])
    fields = TrainingSerializer().fields
    assert list(body) == list(fields)
    given = {"name", "topology", "image", "command", "source", "replicas", "cluster_flags"}
    for name in body.keys() - given:
        default = {} if name in {"env", "secrets"} else fields[name].default
        assert body[name] == (None if default is empty else default), name


def test_every_cause_of_an_attempt_is_documented_and_no_other() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    found = re.search(r"`cause` says why an attempt began: (.*?)\n\n", text, re.DOTALL)
    assert found
    told = set(re.findall(r"`([a-z]+)` \(", found[1])) | {"first"}
    assert told == {cause.value for cause in Cause}


@pytest.mark.django_db
def test_what_the_readme_calls_planned_is_answered_as_planned() -> None:
    text = (ROOT / "README.md").read_text()
    planned = re.search(r"`not_available_yet` until then: (.*?)\.", text, re.DOTALL)
    assert planned
    answered = {
        path for path in (ROOT / "tenants").rglob("*.py") if "not_available_yet" in path.read_text()
    }
    assert [path.name for path in answered] == ["actions.py"], (
        "the README names it, and this test tries it"
    )
    tenant = make_tenant("alice")
    admin = make_user("root", role="admin")
    for value in re.findall(r"`(\w+)`", planned[1]):
        with pytest.raises(Refused) as refused:
            delete(by=admin, tenant=tenant, confirm=tenant.namespace, data=value)
        assert refused.value.errors[0].code == "not_available_yet"


def test_words_of_pages_that_documents_quote_are_on_pages() -> None:
    """`*New training*` in a document is what a page says; a renamed button is renamed there too."""
    sources = [*(ROOT / "static" / "js").glob("*.js"), ROOT / "portal" / "catalog.yaml"]
    for folder in ("templates", *SOURCES):
        sources += [
            path for path in (ROOT / folder).rglob("*.*") if path.suffix in {".html", ".py"}
        ]
    said = " ".join(" ".join(path.read_text().split()) for path in sources)
    filled = [
        re.compile(re.sub(r"%\\\((\w+)\\\)s", ".+", re.escape(text)))
        for text in re.findall(r'"([^"]*%\(\w+\)s[^"]*)"', said)
    ]
    for name in ("README.md", "docs/queue.md", "docs/training.md", "docs/users/*.md"):
        for document in ROOT.glob(name):
            text = " ".join(document.read_text().split())
            for quoted in re.findall(r"(?<![\w*])\*([A-Z][^*]{1,60}?)[.,:]?\*(?![\w*])", text):
                assert quoted in said or any(one.fullmatch(quoted) for one in filled), (
                    f"{document.relative_to(ROOT)} quotes “{quoted}”"
                )


# In a cell: what is said of a fact that is all of the sentence, or of one that only an event has.
_OF_A_FACT = {"{text}": "the arithmetic, in words", "{hint}": "hint"}


def test_reasons_are_documented_with_their_words_and_no_others() -> None:
    """A fact in braces is told by any words; behind the sentence more may be told in brackets."""
    told = _rows("Reasons")
    del told["code"]
    assert told.keys() == {f"`{code}`" for code in ROWS}
    others = []
    for code, texts in ROWS.items():
        for text, cell in zip(texts, told[f"`{code}`"], strict=True):
            said = _OF_A_FACT.get(text, text)
            words = re.sub(r"\\{\w+\\}", ".*", re.escape(" ".join(said.replace("`", "").split())))
            if not re.fullmatch(rf"{words}( \(.*\))?", " ".join(cell.replace("`", "").split())):
                others.append(f"{code}: {cell!r} is told, and {text!r} said")
    assert not others


def test_states_conditions_and_topologies_are_documented_and_no_others() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    [states] = re.findall(r"^`state` is (.*?)\.$", text, re.MULTILINE)
    outside = re.sub(r"\([^)]*\)", "", states)
    assert set(re.findall(r"`(\w+)`", outside)) == {state.value for state in WorkloadState}
    [types] = re.findall(r"^Conditions are (.*?):", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", types)) == set(conditions.TYPES)
    table = {cell.strip("`") for cell in _rows("Submitting") if cell.startswith("`")}
    assert table - {"topology"} == set(TOPOLOGIES)
    headings = (ROOT / "docs" / "training.md").read_text().partition("\n## Topologies\n")[2]
    named = re.findall(r"^### .*: `([\w-]+)`$", headings.partition("\n## ")[0], re.MULTILINE)
    assert named == list(TOPOLOGIES)
    [policies] = re.findall(r"^`restart_policy` is (.*?):", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", policies)) == {policy.value for policy in RestartPolicy}


def test_pins_are_not_older_than_the_floors() -> None:
    """An old boto3 once came in silently because a newer pin could not be satisfied."""
    for name in ("requirements", "requirements-dev"):
        pins = {
            requirement.name.lower(): Version(str(next(iter(requirement.specifier)).version))
            for line in (ROOT / f"{name}.txt").read_text().splitlines()
            if line and not line.startswith(("#", "-"))
            for requirement in [Requirement(line)]
        }
        for line in (ROOT / f"{name}.in").read_text().splitlines():
            if not line or line.startswith(("#", "-")):
                continue
            wanted = Requirement(line.split(" #")[0].split("  ")[0])
            assert pins[wanted.name.lower()] in wanted.specifier, f"{wanted} is pinned elsewhere"


def test_every_dependency_says_what_it_is_for() -> None:
    for name in ("requirements.in", "requirements-dev.in"):
        for line in (ROOT / name).read_text().splitlines():
            if line and not line.startswith(("#", "-")):
                assert " # " in line, f"{name}: {line}"


def test_no_line_of_markdown_is_longer_than_a_review_shows() -> None:
    """A cell of a table that needs more goes on in a row below, whose first cells are empty."""
    assert not [
        f"{path.relative_to(ROOT)}:{number} has {len(line)} characters"
        for path in tracked()
        if path.suffix == ".md"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 160
    ]


_OURS = re.compile(
    r"(?<![\w/.-])(?P<path>(?:deploy|docs|jobs|portal|static|templates|tenants|tests)/[\w./-]*\w"
    r"\.(?:css|html|j2|js|json|md|py|sh|toml|yaml))(?:::(?P<test>\w+))?"
)


def test_documents_name_files_and_tests_that_are_there() -> None:
    missing: list[str] = []
    for document in tracked():
        if document.suffix != ".md" or document.name == "CHANGELOG.md":
            continue  # what happened once stays as it was called
        for found in _OURS.finditer(document.read_text()):
            path, test = ROOT / found["path"], found["test"]
            if not path.is_file() or (test and f"def {test}(" not in path.read_text()):
                missing.append(f"{document.relative_to(ROOT)}: {found[0]}")
    assert not missing


def test_the_house_has_its_rooms() -> None:
    for name in ("portal", "jobs", "tenants", "templates", "static", "deploy", "tests"):
        assert (ROOT / name).is_dir()
    for name in ("manage.py", "requirements.txt", "README.md", "LICENSE", "CHANGELOG.md"):
        assert (ROOT / name).is_file()


def test_every_module_says_what_it_is_for() -> None:
    for path in tracked():
        if path.suffix != ".py" or "migrations" in path.parts:
            continue
        lines = path.read_text().splitlines()
        text = "\n".join(line for line in lines if not line.startswith("#")).lstrip()
        assert text.startswith(('"""', 'r"""')), f"{path.relative_to(ROOT)} has no first sentence"


def test_no_room_of_the_portal_knows_the_embedded_cluster() -> None:
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            assert "onebox" not in path.read_text().lower(), path


def test_templates_have_no_timers_and_no_inline_code() -> None:
    for path in (ROOT / "templates").rglob("*.html"):
        text = path.read_text()
        assert not re.search(r"hx-trigger=\"[^\"]*every", text), path
        assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>\s*\S", text), path
        assert not re.search(r"\sstyle=\"", text), path
        assert not re.search(r"\son[a-z]+=\"", text), path


def test_the_release_is_the_same_everywhere() -> None:
    def stated(file: str) -> str:
        return str(tomllib.loads((ROOT / file).read_text())["project"]["version"])

    assert stated("pyproject.toml") == RELEASE
    assert stated("jobs/client/pyproject.toml") == f"{RELEASE}.dev0"
    assert f"\n## {RELEASE}" in (ROOT / "CHANGELOG.md").read_text()
    manifests = [
        *(ROOT / "deploy" / "kubernetes").rglob("*.yaml"),
        ROOT / "portal" / "catalog.yaml",
    ]
    tags = {
        tag
        for path in manifests
        for tag in re.findall(r"homeport/homeport:([\w.-]+)", path.read_text())
    }
    assert tags == {RELEASE}
