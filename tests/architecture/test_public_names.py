"""The public names are a decision: a change of this file is a change of the API."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import awaken
from awaken import AwakenError
from awaken.stores import CommitStore, EventStore, MailboxStore, RunStore, ThreadStore

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src" / "awaken"
NAMES: dict[str, list[str]] = tomllib.loads(
    (HERE / "public_names.toml").read_text(encoding="utf-8")
)
"""The public modules with their names; every other module is private and may move."""
EXTENSIONS = "awaken.extensions."
FACADES = sorted(module for module in NAMES if not module.startswith(EXTENSIONS))
MODULES_MAX = 13
FIRST_APP_NAMES_MAX = 90
GENERATOR = ROOT / "docs" / "generate_reference.py"
"""Reads what it describes wherever that is; no user copies from it."""
OUTSIDE = ("awaken.extensions.", "awaken.cli.", "awaken.testing.")
"""Where errors are public elsewhere, or belong to the command line."""
RUNTIME_METHODS = [
    "asgi",
    "cancel",
    "cancel_and_wait",
    "decide",
    "decide_all",
    "decide_sync",
    "drain",
    "fork",
    "get_run",
    "list_runs",
    "messages",
    "remotes",
    "reset_run",
    "run",
    "run_sync",
    "send_event",
    "start",
    "steer",
    "stream",
    "stream_text",
    "submit",
    "tasks",
    "tickets",
    "undo_compaction",
    "view",
    "wait",
    "wait_for_follow_up",
    "with_options",
]
STORE_METHODS = {
    CommitStore: [
        "checkout",
        "commit",
        "find_checkpoint",
        "find_commit",
        "list_tool_records",
        "save_checkpoint",
    ],
    ThreadStore: [
        "delete_thread",
        "find_claim_holder",
        "list_messages",
        "list_threads",
        "load_thread",
        "save_thread",
    ],
    RunStore: [
        "count_open_runs",
        "decide",
        "find_next_deadline",
        "find_ticket",
        "list_pinned_publications",
        "list_run_tickets",
        "list_runs",
        "list_ticket_page",
        "list_tickets",
        "load_run",
    ],
    EventStore: [
        "delete_outbox",
        "find_outbox",
        "list_dead_outbox",
        "list_events",
        "list_outbox",
        "save_outbox",
    ],
    MailboxStore: [
        "cancel_dispatch",
        "claim",
        "claim_dispatch",
        "count_queued",
        "count_queued_by_tenant",
        "enqueue",
        "find_dispatch",
        "find_dispatch_of_run",
        "give_up_claim",
        "interrupt",
        "lease_keeper",
        "list_dispatches",
        "list_expired_tickets",
        "list_inputs",
        "now_ms",
        "purge",
        "reclaim",
        "release",
        "request_cancel",
        "requeue",
        "revive",
    ],
}
FORBIDDEN_IMPORTS = (
    "asyncpg",
    "pydantic",
    "starlette",
    "aiohttp",
    "uvicorn",
    "typer",
    "opentelemetry.sdk",
)


def public_methods(class_: type) -> list[str]:
    members = inspect.getmembers(class_, inspect.isfunction)
    return sorted(name for name, _ in members if not name.startswith("_"))


def imports_of(code: str) -> Iterator[tuple[str, str]]:
    """Every module of awaken that the code imports from, with the name."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.module, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ""


def python_in(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    return "\n".join(re.findall(r"^```python[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))


def test_every_public_module_exports_exactly_these_names() -> None:
    exported = {name: sorted(importlib.import_module(name).__all__) for name in NAMES}
    changed = {name for name, names in NAMES.items() if exported[name] != sorted(names)}
    assert {name: exported[name] for name in changed} == {name: NAMES[name] for name in changed}
    missing = [
        f"{name}.{it}"
        for name, names in NAMES.items()
        for it in names
        if not hasattr(importlib.import_module(name), it)
    ]
    assert missing == []


def test_the_public_modules_are_those_of_the_page_and_every_extension_is_one() -> None:
    page = (ROOT / "docs" / "reference" / "public-modules.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(awaken[\w.]*)` \|", page, re.MULTILINE)
    assert sorted(listed) == FACADES
    folders = (SOURCE / "extensions").glob("*/__init__.py")
    found = {f"{EXTENSIONS}{it.parent.name}" for it in folders}
    assert found == NAMES.keys() - set(FACADES)
    assert len(FACADES) + 1 <= MODULES_MAX
    assert len(NAMES["awaken"]) <= FIRST_APP_NAMES_MAX


def test_type_checkers_see_the_names_that_are_imported_when_they_are_used() -> None:
    deferring = [name for name in FACADES if hasattr(importlib.import_module(name), "_HOMES")]
    assert {"awaken", "awaken.stores", "awaken.server", "awaken.backends"} < set(deferring)
    for name in deferring:
        module = importlib.import_module(name)
        ours = ("typing", "awaken._deferred_imports")
        shown = {it: home for home, it in imports_of(inspect.getsource(module)) if home not in ours}
        assert shown == module._HOMES, name
        assert set(shown) == set(NAMES[name]) <= set(dir(module))
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            module.nothing  # noqa: B018


def test_a_public_name_means_one_thing_and_has_one_home_besides_the_root() -> None:
    homes = defaultdict(list)
    for module in sorted(NAMES.keys() - {"awaken"}):
        for name in NAMES[module]:
            homes[name].append(module)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
    for name in set(NAMES["awaken"]) & homes.keys():
        (home,) = homes[name]
        assert getattr(awaken, name) is getattr(importlib.import_module(home), name), name


def list_error_classes(kind: type[AwakenError]) -> Iterator[type[AwakenError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from list_error_classes(child)


def test_every_error_is_public() -> None:
    for module in pkgutil.walk_packages(awaken.__path__, "awaken."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    ours = {it for it in list_error_classes(AwakenError) if it.__module__.startswith("awaken.")}
    expected = {it.__name__ for it in ours if not it.__module__.startswith(OUTSIDE)}
    assert expected == set(NAMES["awaken.errors"])
    for kind in ours:
        if kind.__module__.startswith(EXTENSIONS):
            package = ".".join(kind.__module__.split(".")[:3])
            assert kind.__name__ in NAMES[package]


def test_the_docs_and_examples_import_from_the_public_modules_only() -> None:
    folders = [ROOT / "docs", ROOT / "examples"]
    pages = [ROOT / "README.md", *(it for folder in folders for it in folder.rglob("*.*"))]
    sources = [it for it in pages if it.suffix in (".py", ".md") and it != GENERATOR]
    used = defaultdict(set)
    for path in sources:
        for module, name in imports_of(python_in(path)):
            if module.split(".")[0] == "awaken":
                used[module].add((name, path.relative_to(ROOT).as_posix()))
    private = {module: places for module, places in used.items() if module not in NAMES}
    assert private == {}
    known = {module: {"", *NAMES[module]} for module in used}
    assert [
        it for module, places in used.items() for it in places if it[0] not in known[module]
    ] == []
    counted = {EXTENSIONS if it.startswith(EXTENSIONS) else it for it in used}
    assert len(counted) <= MODULES_MAX


def test_the_runtime_has_exactly_these_methods() -> None:
    assert public_methods(awaken.AgentRuntime) == RUNTIME_METHODS


def test_the_store_ports_have_exactly_these_methods() -> None:
    assert {port: public_methods(port) for port in STORE_METHODS} == STORE_METHODS


def imported_with(module: str, forbidden: tuple[str, ...]) -> str:
    loaded = f"[m for m in {forbidden!r} if m in sys.modules]"
    code = f"import sys; from {module} import *; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_awaken_pulls_in_nothing_heavy() -> None:
    assert imported_with("awaken", (*FORBIDDEN_IMPORTS, "awaken.testing")) == "[]"


def test_importing_the_public_modules_loads_no_runtime_and_no_driver() -> None:
    cheap = [name for name in FACADES if name != "awaken.testing"]
    unwanted = (*FORBIDDEN_IMPORTS, "awaken.runtime.engine", "awaken.bootstrap", "sqlite3", "re2")
    code = f"import sys, {', '.join(cheap)}; print([m for m in {unwanted!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_test_kit_needs_no_test_framework() -> None:
    frameworks = ("pytest", "_pytest", "hypothesis", "unittest")
    assert imported_with("awaken.testing", (*FORBIDDEN_IMPORTS, *frameworks)) == "[]"
