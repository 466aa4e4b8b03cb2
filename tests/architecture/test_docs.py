"""The documentation is true: its code runs, its tables are complete, its links lead somewhere."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple, get_args

import msgspec
import pytest
import typer.main

import awaken
import awaken.plugins
import awaken.testing
from awaken import (
    Agent,
    AgentEvent,
    AgentRuntime,
    AgentSpec,
    AwakenError,
    Limits,
    RunHandle,
    RunRequest,
    RunResult,
    ToolContext,
)
from awaken.cli.main import app
from awaken.events import decode_event, encode_event
from awaken.plugins import LOOP_KEYS
from awaken.tools import ToolDescriptor, ToolState

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
MIGRATING = DOCS / "migrating"
PEERS = ("langgraph", "openai_agents", "pydantic_ai")
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
NO_RUN_MAX = 3
PICTURE_BYTES_MAX = 150_000

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
_PICTURE = re.compile(r"!\[(?P<says>[^\]\n]*)\]\((?P<target>[^)\s]+)\)")
_FILE = re.compile(r"Save this as `(\w+)\.py`:$", re.MULTILINE)
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    words: tuple[str, ...]
    """What the fence says after the language."""
    code: str
    line: int


def blocks(page: Path, language: str) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        name, *words = match["info"].split() or [""]
        if name == language:
            line = text.count("\n", 0, match.start("code"))
            yield Block(name, tuple(words), match["code"], line)


def relative(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def compiled(page: Path, block: Block) -> CodeType:
    # Empty lines in front make a traceback point to the line of the page.
    return compile("\n" * block.line + block.code, str(page), "exec")


def with_code(pages: list[Path]) -> list[Path]:
    return [page for page in pages if any(blocks(page, "python"))]


@pytest.mark.parametrize("page", with_code(PAGES), ids=relative)
def test_the_code_of_the_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType(f"page_{page.stem.replace('-', '_').lower()}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    for name in _FILE.findall(page.read_text(encoding="utf-8")):
        # Blocks that a reader saves as files are one program here.
        monkeypatch.setitem(sys.modules, name, module)
    for block in blocks(page, "python"):
        code = compiled(page, block)
        if not block.words:
            exec(code, module.__dict__)


def test_hardly_any_code_is_only_compiled() -> None:
    unrun = [
        block
        for page in PAGES
        for block in blocks(page, "python")
        if block.words and not is_theirs(page, block)
    ]
    assert all(block.words == ("no-run",) for block in unrun)
    assert len(unrun) <= NO_RUN_MAX


def is_theirs(page: Path, block: Block) -> bool:
    """Whether the block is for another framework; `bench/migration_blocks.py` runs those."""
    return page.parent == MIGRATING and block.words in {(f"theirs={peer}",) for peer in PEERS}


def test_each_block_for_another_framework_has_one_of_ours_beside_it() -> None:
    for page in sorted(MIGRATING.glob("*.md")):
        kinds = ["theirs" if it.words else "ours" for it in blocks(page, "python")]
        theirs = [at for at, kind in enumerate(kinds) if kind == "theirs"]
        assert all(kinds[at + 1 : at + 2] == ["ours"] for at in theirs), page.name
        assert len(theirs) >= 4 or page.stem == "rust-awaken"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [match["target"] for match in _LINK.finditer(text)]
    broken = [target for target in targets if "://" not in target and not leads(page, target)]
    assert broken == []


def test_every_picture_is_there_is_light_and_is_described() -> None:
    shown = set()
    for page in PAGES:
        text = _FENCE.sub("", page.read_text(encoding="utf-8"))
        for match in _PICTURE.finditer(text):
            picture = page.parent / match["target"]
            assert picture.stat().st_size <= PICTURE_BYTES_MAX, match["target"]
            assert len(match["says"].split()) >= 5, match["target"]
            shown.add(picture.resolve())
    assert shown == set((DOCS / "images").iterdir())


def leads(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = (page.parent / path) if path else page
    if not found.exists():
        return False
    return not anchor or anchor in anchors(found)


def anchors(page: Path) -> set[str]:
    titles = [match["title"] for match in _HEADING.finditer(page.read_text(encoding="utf-8"))]
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_the_generated_tables_are_up_to_date() -> None:
    command = [sys.executable, str(DOCS / "generate_reference.py"), "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_index_links_every_page() -> None:
    index = DOCS / "index.md"
    targets = [match["target"] for match in _LINK.finditer(index.read_text(encoding="utf-8"))]
    assert sorted(targets) == sorted(
        page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page != index
    )


@pytest.mark.parametrize("kind", [AgentRuntime, RunHandle, ToolContext, ToolState])
def test_every_method_is_listed(kind: type) -> None:
    text = (REFERENCE / "runtime.md").read_text(encoding="utf-8")
    public = [name for name in vars(kind) if not name.startswith("_")]
    slots = set(getattr(kind, "__slots__", ()))
    methods = [name for name in public if name not in slots]
    assert [name for name in methods if f"### {kind.__name__}.{name}\n" not in text] == []


def test_every_attribute_of_a_tool_context_is_listed() -> None:
    attributes = {name for name in ToolContext.__slots__ if not name.startswith("_")}
    assert attributes <= listed("runtime.md")


@pytest.mark.parametrize("contract", [RunResult, RunRequest])
def test_every_field_of_a_run_is_listed(contract: type[msgspec.Struct]) -> None:
    assert set(contract.__struct_fields__) <= listed("runtime.md")


def listed(page: str) -> set[str]:
    """What stands in code marks in a page's tables and headings."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith(("|", "#"))]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def event_types() -> set[str]:
    return {str(kind.__struct_config__.tag) for kind in get_args(AgentEvent)}


def test_every_event_is_listed() -> None:
    assert event_types() <= listed("events.md")


def test_every_event_has_an_example_in_its_exact_wire_form() -> None:
    shown = []
    for block in blocks(REFERENCE / "events.md", "json"):
        event = decode_event(block.code)
        assert json.loads(encode_event(event)) == json.loads(block.code)
        shown.append(str(event.__struct_config__.tag))
    assert sorted(shown) == sorted(event_types())


def error_classes(root: type[AwakenError]) -> Iterator[type[AwakenError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__.startswith(f"{awaken.__name__}."):
            yield from error_classes(child)


def test_every_error_code_is_listed() -> None:
    assert {kind.code for kind in error_classes(AwakenError)} <= listed("errors.md")


@pytest.mark.parametrize("contract", [AgentSpec, ToolDescriptor, Limits])
def test_every_field_is_listed(contract: type[msgspec.Struct]) -> None:
    assert set(contract.__struct_fields__) <= listed("agent-spec.md")


def test_every_argument_of_an_agent_is_listed() -> None:
    fields = Agent.__dataclass_fields__.values()
    assert {field.name for field in fields if field.init} <= listed("agent-spec.md")


def test_every_built_in_state_key_is_listed() -> None:
    assert {key.name for key in LOOP_KEYS} <= listed("state-keys.md")


def test_every_state_key_and_action_of_the_page_is_public() -> None:
    text = (REFERENCE / "state-keys.md").read_text(encoding="utf-8")
    constants = re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE)
    assert len(constants) > 20
    assert set(constants) <= set(awaken.plugins.__all__)


def test_everything_in_the_test_kit_is_listed() -> None:
    text = (REFERENCE / "testing.md").read_text(encoding="utf-8")
    assert [name for name in awaken.testing.__all__ if f"`{name}" not in text] == []


def test_every_command_is_listed() -> None:
    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    commands = typer.main.get_group(app).commands
    assert [name for name in commands if f"### awaken {name}\n" not in text] == []
