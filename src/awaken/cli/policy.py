"""`awaken policy`: shows the effect of permission rules, and the remembered decisions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.plugins import PluginLifecycle
from awaken.contracts.errors import InvalidInput
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.contracts.suspension.policy import (
    ApprovalNeed,
    ApprovalTime,
    PolicyChange,
    PolicyDiff,
)
from awaken.extensions.permission.config import SECTION
from awaken.extensions.permission.inspector import PermissionInspector, compile_section
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.services.approvals import (
    list_approvals,
    mark_approvals,
    preview_call,
    resolve_agents,
)
from awaken.services.policy import check_has_run, compare_policies, load_calls

from .apps import FORMS, App, load_app
from .command_context import CommandContext, store_command
from .command_line import new_app
from .output import as_json, facts, plain, print_stdout, section
from .remembered_answers import forget_remembered, list_remembered
from .reports import REFUSED, IsJson, report_errors

EXAMPLES = 5
POLICY_BYTES_MAX = 4 * 1024 * 1024
_INSPECTOR = PermissionInspector()

app = new_app("Permission rules and their effect, and remembered decisions.")
app.command("remembered")(list_remembered)
app.command("forget")(forget_remembered)

PolicyFile = Annotated[
    Path,
    typer.Option(help="A YAML or JSON file: the section `permission`, or a document of agents."),
]


@app.command("diff")
@store_command()
async def diff(  # noqa: PLR0913 - each is an option of the command
    context: CommandContext,
    old: PolicyFile,
    new: PolicyFile,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Only the rules and the calls of this agent.")
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", min=0, help="How many calls of each kind to show.")
    ] = EXAMPLES,
    *,
    may_be_looser: Annotated[
        bool, typer.Option("--allow-looser", help="Exit with 0 even if calls are newly allowed.")
    ] = False,
    app_place: Annotated[
        str | None,
        typer.Option("--app", help=f"The code whose tools may want calls to be approved: {FORMS}."),
    ] = None,
) -> None:
    """Show which past calls a changed rule set would newly allow, ask about or deny.

    Exits with 1 if it would newly allow any. Remembered decisions are not considered. With `--app`
    a call that its tool wants to be approved (`@tool(approval=…)`) is asked about unless a rule
    allows the tool by its name.
    """
    before, after = _section_of_file(old, agent), _section_of_file(new, agent)
    calls = await load_calls(context.store, agent, None)
    if agent is not None and not calls:
        await check_has_run(context.store, agent)
    if app_place is not None:
        agents = await _resolve_agents(load_app(app_place))
        calls = await mark_approvals(context.store, calls, agents)
    found = await compare_policies(_INSPECTOR, before, after, calls)
    knows_tools = app_place is not None
    context.show(_document(found, examples), _text(found, examples, knows_tools=knows_tools))
    if found.changes_to(ToolBehavior.ALLOW) and not may_be_looser:
        raise typer.Exit(REFUSED)


@app.command("preview")
def preview(
    app_place: Annotated[str, typer.Argument(metavar="APP", help=FORMS)],
    agent_id: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id.")],
    calls: Annotated[
        list[str] | None,
        typer.Option("--call", help="""A call to try: 'Bash {"command": "ls"}'."""),
    ] = None,
    *,
    is_json: IsJson = False,
) -> None:
    """Show which tools an agent's rules hide, and what would happen to a call.

    Tools that ask a person themselves (`@tool(approval=…)`) are named, and asked about each call.
    Opens the app's plugins, so that tools of MCP servers are included.
    """
    with report_errors(is_json=is_json):
        found = asyncio.run(_preview_agent(load_app(app_place), agent_id, calls or ()))
    if is_json:
        print_stdout(as_json(found))
        return
    asking = [f"{it.tool} ({_WHEN[it.when]})" for it in found["approvals"]]
    about = facts(
        (
            ("hidden", ", ".join(found["hidden"]) or "none"),
            ("offered", ", ".join(found["offered"])),
            *((("approval", ", ".join(asking)),) if asking else ()),
        )
    )
    lines = [
        f"{plain(it['call'])}: {it['behavior']} ({plain(it['rule'])})"
        f"{_NEEDS.get(it['approval'], '')}"
        for it in found["calls"]
    ]
    print_stdout(about + section("Calls", "\n".join(lines)))


_WHEN = {
    ApprovalTime.ALWAYS: "always",
    ApprovalTime.DEPENDS_ON_ARGUMENTS: "depends on the arguments",
}
_NEEDS = {
    ApprovalNeed.DEPENDS_ON_RUN: "; whether the tool asks depends on the run",
    ApprovalNeed.INVALID_ARGUMENTS: "; the arguments do not fit the tool",
}


async def _preview_agent(app: App, agent_id: str, written: Sequence[str]) -> dict[str, Any]:
    """Describe the effect of an agent's rules and approvals.

    Raises:
        InvalidInput: Neither has any effect, or a call cannot be read.
    """
    async with _open_registry(app) as registry:
        agent = await registry.resolve(agent_id)
        policy = _INSPECTOR.inspect(agent.env.prepared, agent.tools)
        if policy is None and not agent.approvals:
            problem = "it has no PermissionPlugin and no tool with `approval`; every call passes"
            raise InvalidInput(what=f"agent '{agent.spec.id}'", problem=problem)
        hidden = () if policy is None else policy.hidden
        return {
            "hidden": hidden,
            "offered": sorted(set(agent.tools) - set(hidden)),
            "approvals": list_approvals(agent),
            "calls": [await _try_call(agent, it) for it in written],
        }


async def _resolve_agents(app: App) -> dict[str, ResolvedAgent]:
    async with _open_registry(app) as registry:
        return resolve_agents(registry.snapshot())


@asynccontextmanager
async def _open_registry(app: App) -> AsyncIterator[RegistryHandle]:
    """The agents of an app, with the tools that its plugins register; executes no queued work."""
    registry = (app.runtime or AgentRuntime(app.agents)).registry
    plugins = PluginLifecycle(registry)
    try:
        await plugins.open()
        yield registry
    finally:
        await plugins.close()


async def _try_call(agent: ResolvedAgent, written: str) -> dict[str, Any]:
    tool_id, _, text = written.strip().partition(" ")
    if not tool_id:
        raise InvalidInput(what="--call", problem="it is blank; write a tool and its arguments")
    try:
        arguments = msgspec.json.decode(text) if text.strip() else {}
    except msgspec.DecodeError as error:
        problem = f"its arguments are no JSON: {error}"
        raise InvalidInput(what=f"call '{plain(written)}'", problem=problem) from error
    verdict = await preview_call(_INSPECTOR, agent, tool_id, arguments)
    return {
        "call": written,
        "behavior": verdict.behavior.value,
        "rule": verdict.rule,
        "approval": verdict.approval,
    }


def _section_of_file(path: Path, agent_id: str | None) -> Any:
    """The rules of a file, as data; they are checked here, so that an error names the file.

    Raises:
        InvalidInput: It cannot be read, or a rule in it cannot be used.
    """
    what = f"file '{plain(path)}'"
    try:
        with path.open("rb") as file:
            data = file.read(POLICY_BYTES_MAX + 1)
        if len(data) > POLICY_BYTES_MAX:
            raise InvalidInput(what=what, problem=f"it is larger than {POLICY_BYTES_MAX} bytes")
        document = msgspec.yaml.decode(data)
    except OSError as error:
        raise InvalidInput(what=what, problem=error.strerror or type(error).__name__) from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(what=what, problem=str(error).removesuffix(".")) from error
    section = _section_in(document, what, agent_id)
    compile_section(section, what)
    return section


def _section_in(document: Any, what: str, agent_id: str | None) -> Any:
    """The section itself, or that of one agent in a document of agents."""
    if not isinstance(document, dict) or "agents" not in document:
        return document
    agents = [it for it in document["agents"] or () if isinstance(it, dict)]
    named = [it for it in agents if agent_id in (None, it.get("id"))]
    if len(named) != 1:
        problem = f"{len(named)} of its agents are meant; name one of them with --agent"
        raise InvalidInput(what=what, problem=problem)
    return (named[0].get("sections") or {}).get(SECTION, {})


_KINDS = (ToolBehavior.ALLOW, ToolBehavior.ASK, ToolBehavior.DENY)


def _document(found: PolicyDiff, examples: int) -> dict[str, Any]:
    kinds = {
        kind.value: {"count": len(changes), "examples": changes[:examples]}
        for kind in _KINDS
        for changes in [found.changes_to(kind)]
    }
    return {"calls": found.calls, "newly": kinds}


def _text(found: PolicyDiff, examples: int, *, knows_tools: bool) -> str:
    words = {"allow": "newly allowed", "ask": "newly asked about", "deny": "newly denied"}
    pairs: list[tuple[str, object]] = [("calls", str(found.calls))]
    pairs += [(words[kind], str(len(found.changes_to(kind)))) for kind in _KINDS]
    if not knows_tools:
        pairs.append(("approvals", "those of tools are not considered; name their code with --app"))
    parts = [section(words[kind], _lines(found.changes_to(kind)[:examples])) for kind in _KINDS]
    return facts(pairs) + "".join(parts)


def _lines(changes: Sequence[PolicyChange]) -> str:
    """Each call with its exact arguments, as ASCII JSON without terminal control characters."""
    return "\n".join(
        f"  {plain(it.call.tool)} {as_json(it.call.arguments, indent=None)}\n"
        f"    {it.before} -> {it.after} by {plain(it.rule)}; thread {plain(it.call.thread_id)}, "
        f"run {plain(it.call.run_id)}, call {plain(it.call.call_id)}"
        for it in changes
    )
