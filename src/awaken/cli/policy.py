"""`awaken policy`: shows the effect of permission rules, and the remembered decisions."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.plugins import PluginLifecycle
from awaken.contracts.errors import InvalidInput
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.contracts.suspension.policy import PolicyChange, PolicyDiff
from awaken.extensions.permission.config import SECTION
from awaken.extensions.permission.inspector import PermissionInspector, compile_section
from awaken.runtime.resolution.resolver import ResolvedAgent
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
async def diff(
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
) -> None:
    """Show which past calls a changed rule set would newly allow, ask about or deny.

    Exits with 1 if it would newly allow any. Remembered decisions are not considered.
    """
    before, after = _section_of_file(old, agent), _section_of_file(new, agent)
    calls = await load_calls(context.store, agent, None)
    if agent is not None and not calls:
        await check_has_run(context.store, agent)
    found = await compare_policies(_INSPECTOR, before, after, calls)
    context.show(_document(found, examples), _text(found, examples))
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

    Opens the app's plugins, so that tools of MCP servers are included.
    """
    with report_errors(is_json=is_json):
        agent = asyncio.run(_resolve_agent(load_app(app_place), agent_id))
        policy = _INSPECTOR.inspect(agent.env.prepared, agent.tools)
        if policy is None:
            problem = "it has no PermissionPlugin; every call passes"
            raise InvalidInput(what=f"agent '{agent.spec.id}'", problem=problem)
        tried = [_try_call(agent, written) for written in calls or ()]
    hidden = policy.hidden
    shown = sorted(set(agent.tools) - set(hidden))
    if is_json:
        print_stdout(as_json({"hidden": hidden, "offered": shown, "calls": tried}))
        return
    about = facts((("hidden", ", ".join(hidden) or "none"), ("offered", ", ".join(shown))))
    lines = [f"{plain(it['call'])}: {it['behavior']} ({plain(it['rule'])})" for it in tried]
    print_stdout(about + section("Calls", "\n".join(lines)))


async def _resolve_agent(app: App, agent_id: str) -> ResolvedAgent:
    """Resolve an agent after its plugins have registered their tools; executes no queued work."""
    registry = (app.runtime or AgentRuntime(app.agents)).registry
    plugins = PluginLifecycle(registry)
    try:
        await plugins.open()
        return await registry.resolve(agent_id)
    finally:
        await plugins.close()


def _try_call(agent: ResolvedAgent, written: str) -> dict[str, str]:
    tool_id, _, text = written.strip().partition(" ")
    if not tool_id:
        raise InvalidInput(what="--call", problem="it is blank; write a tool and its arguments")
    try:
        arguments = msgspec.json.decode(text) if text.strip() else {}
    except msgspec.DecodeError as error:
        problem = f"its arguments are no JSON: {error}"
        raise InvalidInput(what=f"call '{plain(written)}'", problem=problem) from error
    verdict = _INSPECTOR.decide(agent.env.prepared, tool_id, arguments)
    return {"call": written, "behavior": verdict.behavior.value, "rule": verdict.rule}


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


def _text(found: PolicyDiff, examples: int) -> str:
    words = {"allow": "newly allowed", "ask": "newly asked about", "deny": "newly denied"}
    pairs: list[tuple[str, object]] = [("calls", str(found.calls))]
    pairs += [(words[kind], str(len(found.changes_to(kind)))) for kind in _KINDS]
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
