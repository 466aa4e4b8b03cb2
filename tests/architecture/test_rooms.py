"""The map in the docs is the tree, and a public class name means one class."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "awaken"
ROOMS = "The rooms of the runtime"
_WORD = re.compile(r"[a-z_]+")


def packages(folder: Path) -> set[str]:
    return {it.parent.name for it in folder.glob("*/__init__.py")}


def section(page: str, heading: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def drawn(page: str, heading: str) -> set[str]:
    """The names of the picture below a heading: what stands left of the explanations."""
    picture = section(page, heading).split("```")[1]
    names = (re.split(r"\s{3,}", line.strip())[0] for line in picture.splitlines())
    return {word for name in names if name != "│" for word in _WORD.findall(name)}


def test_the_pictures_have_every_package_and_no_other() -> None:
    for page, heading in (("docs/architecture.md", "The picture"), ("CONTRIBUTING.md", "Layers")):
        assert drawn(page, heading) == packages(PACKAGE) | {"cli"}, page


def test_the_rooms_of_the_runtime_are_those_of_the_page() -> None:
    rows = re.findall(
        r"^\| (`.*?) \|", section("docs/architecture.md", "The rooms of the runtime"), re.M
    )
    listed = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    files = {it.name for it in (PACKAGE / "runtime").glob("*.py")} - {"__init__.py"}
    assert listed == packages(PACKAGE / "runtime") | files


def test_the_rooms_of_the_contracts_are_those_of_the_page() -> None:
    text = section("docs/architecture.md", ROOMS).partition("`contracts` has")[2]
    assert set(re.findall(r"`(\w+)`", text)) == packages(PACKAGE / "contracts")


def test_few_files_lie_outside_of_a_room() -> None:
    assert len(list((PACKAGE / "runtime").glob("*.py"))) <= 8


def test_a_public_class_name_means_one_class() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_the_life_of_a_run_names_functions_that_exist() -> None:
    picture = section("docs/architecture.md", "The life of a run").split("```")[1]
    named = re.findall(r"^ +(\w+)\.(\w+) {2,}", picture, re.M)
    homes = {path.stem: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    missing = [f"{module}.{name}" for module, name in named if f"def {name}(" not in homes[module]]
    assert len(named) > 10
    assert missing == []


def test_the_architecture_page_names_files_and_definitions_that_exist() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    missing = []
    for place, name in re.findall(r"(?<![\w./])((?:[a-z_]+/)+[a-z_]+)\.(\w+)", text):
        if name == "md":
            continue  # A link, which has a test of its own.
        base = ROOT if (ROOT / place.partition("/")[0]).is_dir() else PACKAGE
        path = base / (f"{place}.{name}" if name == "toml" else f"{place}.py")
        source = path.read_text(encoding="utf-8") if path.exists() else ""
        is_defined = name in ("py", "toml") or re.search(rf"(?:class|def) {name}\b", source)
        if not (source and is_defined):
            missing.append(f"{place}.{name}")
    assert missing == []
