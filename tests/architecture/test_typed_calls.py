"""The type checker refuses wrong fields of errors, and hooks that take another phase's context.

It runs once, over one generated file.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from tests.error_classes import load_error_classes

from awaken.contracts.errors import AwakenError
from awaken.contracts.phases import Phase
from awaken.contracts.plugins import plugin
from awaken.stores import MemoryStore, PostgresStore, SqliteStore, Store

# The first test waits for the type checker, which reads the whole package when it has no cache yet.
pytestmark = pytest.mark.timeout(450)
ROOT = Path(__file__).parents[2]
_REPORTED = re.compile(r":(\d+): error:")


class Source:
    """A generated file that knows which of its lines the type checker has to refuse."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.wrong: set[int] = set()

    def write(self, *lines: str) -> None:
        """Add lines that are right."""
        self.lines += lines

    def write_wrong(self, line: str) -> None:
        """Add a line that the type checker has to refuse."""
        self.lines.append(line)
        self.wrong.add(len(self.lines))

    def check(self, folder: Path) -> tuple[set[str], set[str]]:
        """The right lines that are refused with the report, and the wrong lines that pass."""
        path = folder / "generated_calls.py"
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "mypy", "--no-error-summary", str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        found = {
            int(at[1]): text for text in done.stdout.splitlines() if (at := _REPORTED.search(text))
        }
        refused = {
            f"{text} in {self.lines[at - 1]}" for at, text in found.items() if at not in self.wrong
        }
        return refused, {self.lines[at - 1] for at in self.wrong - found.keys()}


def sample(type_: Any) -> str:
    """The source of a value of a field's type."""
    if get_origin(type_) is Literal:
        return repr(get_args(type_)[0])
    if get_origin(type_) is tuple:
        return "()"
    return {str: "'x'", int: "1", bool: "True", Any: "None", int | None: "None"}[type_]


def write_error_calls(source: Source, kind: type[AwakenError]) -> None:
    """Construct a class rightly, with a wrong name, without a field and by position."""
    hints = get_type_hints(kind)
    name = f"{kind.__module__}.{kind.__name__}"
    values = {field: f"{field}={sample(hints[field])}" for field in kind._fields}
    given = ", ".join(values.values())
    source.write(f"{name}({given})")
    source.write_wrong(f"{name}({given}{', ' if given else ''}misspelt='x')")
    texts = ", ".join(sample(hints[field]) for field in kind._positional)
    source.write_wrong(f"{name}({texts}{', ' if texts else ''}'x')")
    required = [field for field in values if not hasattr(kind, field)]
    for missing in required:
        rest = ", ".join(text for field, text in values.items() if field != missing)
        source.write_wrong(f"{name}({rest})")
        source.write_wrong(f"{name}({rest}{', ' if rest else ''}{missing[::-1]}_='x')")


def write_hook_calls(source: Source) -> None:
    """Register, for every phase, a hook and an observer of every context."""
    source.write(
        "from awaken.contracts.phases import Phase",
        "from awaken.contracts.plugins import plugin",
        "from awaken.contracts.state.keys import StateCommand",
    )
    taken = (plugin.PhaseContext, plugin.ToolPhaseContext, *plugin.PHASE_CONTEXTS.values())
    for kind in taken:
        name = kind.__name__
        for verb, answer in (
            ("hook", "StateCommand"),
            ("observe", "None"),
            ("gate", "plugin.Allow"),
        ):
            source.write(
                f"async def {verb}_{name}(context: plugin.{name}) -> {answer}:",
                "    raise NotImplementedError",
            )
    source.write("def register(registrar: plugin.PluginRegistrar, phase: Phase) -> None:")
    for kind in taken:
        name = kind.__name__
        for phase, given in plugin.PHASE_CONTEXTS.items():
            write = source.write if issubclass(given, kind) else source.write_wrong
            if phase is Phase.TOOL_GATE:
                write(f"    registrar.gate(gate_{name})")
                continue
            write(f"    registrar.hook(Phase.{phase.name}, hook_{name})")
            write(f"    registrar.observer(Phase.{phase.name}, observe_{name})")
        write = source.write if kind is plugin.PhaseContext else source.write_wrong
        write(f"    registrar.hook(phase, hook_{name})")


def write_typed_results(source: Source) -> None:
    """Run agents with and without types, and use what they return."""
    source.write(
        "import dataclasses",
        "from typing import Any, Literal, assert_type",
        "from awaken import Agent, AgentRuntime, RunContext, RunResult, ToolContext",
        "@dataclasses.dataclass",
        "class Customer:",
        "    name: str",
        "@dataclasses.dataclass",
        "class Invoice:",
        "    total: int",
        "class Database:",
        "    url: str",
        "def instruct(ctx: RunContext[Database, Customer]) -> str:",
        "    assert_type(ctx.deps.url, str)",
        "    return ctx.context.name",
        "async def instruct_later(ctx: RunContext[Database, Customer]) -> str:",
        "    return ctx.context.name",
        "typed = Agent('a', context_type=Customer, output_type=Invoice, instructions=instruct)",
        "assert_type(typed, Agent[Customer, Invoice])",
        "Agent('a', context_type=Customer, instructions=instruct_later)",
        "Agent('a', context_type=Customer, instructions=lambda ctx: ctx.context.name)",
        "many = Agent('a', output_type=list[Invoice])",
        "either = Agent('a', output_type=Invoice | Customer)",
        "assert_type(either.run_sync('x').output, Any)",
        "assert_type(Agent('a', output_type=Literal['x', 'y']).run_sync('x').output, Any)",
        "said = Agent[Any, Invoice | Customer]('a', output_type=Invoice | Customer)",
        "assert_type(said.run_sync('x').output, Invoice | Customer)",
        "assert_type(Agent('a').run_sync('x').output, str)",
        "assert_type(Agent('a', context_type=Customer), Agent[Customer, str])",
        "plain: Agent = Agent('a', instructions='x')",
        "agents: list[Agent] = [typed, many, plain]",
        "runtime = AgentRuntime([typed, many, plain], deps=Database())",
        "async def use_results() -> None:",
        "    assert_type(await runtime.run(typed, 'x', context=Customer('x')), RunResult[Invoice])",
        "    assert_type((await runtime.run(typed, 'x')).output.total, int)",
        "    assert_type((await runtime.run(many, 'x')).output, list[Invoice])",
        "    assert_type((await typed.run('x', context=Customer('x'))).output, Invoice)",
        "    assert_type(typed.run_sync('x').output, Invoice)",
        "    assert_type(runtime.run_sync(typed, 'x').output, Invoice)",
        "    assert_type((await runtime.run('a', 'x')).output, Any)",
        "    async for text in runtime.stream_text(typed, 'x'):",
        "        assert_type(text, str)",
        "    texts = runtime.stream_text(typed, 'x')",
        "    assert_type(texts.result, RunResult[Invoice] | None)",
        "async def use_context(ctx: ToolContext[Database, Customer], one: ToolContext) -> None:",
        "    assert_type(ctx.deps, Database)",
        "    assert_type(ctx.context, Customer)",
        "    assert_type(one.context, Any)",
    )
    source.write(
        "from awaken.extensions.guardrails import Action, CheckPlace, GuardRule",
        "from awaken.stores import MemoryStore, PostgresStore, SqliteStore",
        "AgentRuntime([], store=MemoryStore())",
        "AgentRuntime([], store=SqliteStore('x.db'))",
        "AgentRuntime([], store=PostgresStore('postgresql://x'))",
        "assert_type(typed.run_sync('x', thread_id='t').to_dict(), dict[str, Any])",
        "GuardRule(name='r', on=(CheckPlace.INPUT,), action=Action.BLOCK, agent=typed)",
        "GuardRule(name='r', on=(CheckPlace.INPUT,), action=Action.BLOCK, agent='judge')",
    )
    source.write_wrong("GuardRule(name='r', on=(CheckPlace.INPUT,), agent=7)")
    source.write_wrong("typed.run_sync('x', thread_id=7)")
    source.write("async def use_wrongly(ctx: ToolContext[Database, Customer]) -> None:")
    source.write_wrong("    ctx.context.nmae")
    source.write_wrong("    ctx.deps.name")
    source.write_wrong("    (await runtime.run(typed, 'x')).output.totl")
    source.write_wrong("Agent('a', context_type=Customer, instructions=lambda c: c.context.nmae)")
    source.write_wrong("Agent('a', context_type=Invoice, instructions=instruct)")
    source.write_wrong("Agent('a', instructions=lambda ctx: 7)")
    source.write_wrong("typed.run_sync('x', context=7)")
    source.write_wrong("Agent('a', system_prompt='x')")
    source.write_wrong("Agent('a', model='m').run_sync('x').output.total")


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str]]:
    source = Source()
    classes = load_error_classes()
    source.write(*sorted({f"import {kind.__module__}" for kind in classes}))
    for kind in classes:
        write_error_calls(source, kind)
    write_hook_calls(source)
    write_typed_results(source)
    return source.check(tmp_path_factory.mktemp("typed"))


def test_right_calls_pass_the_type_checker(verdict: tuple[set[str], set[str]]) -> None:
    assert verdict[0] == set()


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore, PostgresStore])
def test_no_store_has_a_property_where_the_protocol_has_a_plain_attribute(kind: type) -> None:
    # pyright refuses it and mypy does not: a property cannot be replaced by any value.
    declared = {name for it in Store.__mro__ for name in vars(it).get("__annotations__", ())}
    assert [it for it in declared if isinstance(getattr(kind, it, None), property)] == []


def test_wrong_calls_are_refused_by_the_type_checker(verdict: tuple[set[str], set[str]]) -> None:
    assert verdict[1] == set()
