"""`awaken policy`: shows the effect of permission rules, and the remembered decisions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.plugins import PluginLifecycle
from awaken.contracts.errors import InvalidInput
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import (
    LIMIT_MAX,
    MessageQuery,
    RunQuery,
    ThreadQuery,
    at_cursor,
)
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.extensions.permission.config import SECTION, PermissionConfig
from awaken.extensions.permission.policy import PastCall, PolicyChange, PolicyDiff, policy_diff
from awaken.extensions.permission.rule_compiler import RefusedRule, compile_rules
from awaken.extensions.permission.rules import RuleSet, decide, find_hidden_tools
from awaken.patterns import call_of
from awaken.runtime.resolution.resolver import ResolvedAgent

from .apps import FORMS, App, load_app
from .command_context import (
    REFUSED,
    CommandContext,
    IsJson,
    report_errors,
    store_command,
)
from .command_line import new_app
from .output import as_json, facts, plain, print_stdout, section
from .remembered_answers import forget_remembered, list_remembered

EXAMPLES = 5
POLICY_BYTES_MAX = 4 * 1024 * 1024

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
    before, after = _rules_in(old, agent), _rules_in(new, agent)
    calls = [call async for call in _past_calls(context.store, agent)]
    if agent is not None and not calls:
        await _check_has_run(context.store, agent)
    found = policy_diff(before, after, calls)
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
        rules = _rules_of(agent)
        tried = [_try_call(rules, written) for written in calls or ()]
    hidden = sorted(find_hidden_tools(rules, agent.tools))
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


def _rules_of(agent: ResolvedAgent) -> RuleSet:
    prepared = agent.env.prepared.get(SECTION)
    if prepared is None:
        problem = "it has no PermissionPlugin; every call passes"
        raise InvalidInput(what=f"agent '{agent.spec.id}'", problem=problem)
    rules: RuleSet = prepared.rules
    return rules


def _try_call(rules: RuleSet, written: str) -> dict[str, str]:
    tool_id, _, text = written.strip().partition(" ")
    if not tool_id:
        raise InvalidInput(what="--call", problem="it is blank; write a tool and its arguments")
    try:
        arguments = msgspec.json.decode(text) if text.strip() else {}
    except msgspec.DecodeError as error:
        problem = f"its arguments are no JSON: {error}"
        raise InvalidInput(what=f"call '{plain(written)}'", problem=problem) from error
    verdict = decide(rules, call_of(tool_id, arguments))
    return {"call": written, "behavior": verdict.behavior.value, "rule": verdict.rule_text}


def _rules_in(path: Path, agent_id: str | None) -> RuleSet:
    """The rules of a file.

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
        config = msgspec.convert(_section_in(document, what, agent_id), PermissionConfig)
        return compile_rules(config).rules
    except OSError as error:
        raise InvalidInput(what=what, problem=error.strerror or type(error).__name__) from error
    except (msgspec.MsgspecError, RecursionError, RefusedRule) as error:
        raise InvalidInput(what=what, problem=str(error).removesuffix(".")) from error


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


async def _check_has_run(store: Store, agent_id: str) -> None:
    """Refuse an agent that never ran: an empty result would mean nothing.

    Raises:
        InvalidInput: The store has no run of it.
    """
    query = RunQuery(limit=LIMIT_MAX)
    while True:
        page = await store.list_runs(query)
        if any(agent_id in (run.agent_id, run.active_agent_id) for run in page.items):
            return
        if page.next_cursor is None:
            problem = "the store has no run of it; name another one, or leave --agent out"
            raise InvalidInput(what=f"agent '{plain(agent_id)}'", problem=problem)
        query = at_cursor(query, page.next_cursor)


async def _past_calls(store: Store, agent_id: str | None) -> AsyncIterator[PastCall]:
    """Every call that models made, thread by thread."""
    offset = 0
    while True:
        query = ThreadQuery(limit=LIMIT_MAX, offset=offset)
        page = await store.list_threads(query)
        for thread in page.items:
            async for call in _calls_on(store, thread, agent_id):
                yield call
        offset += len(page.items)
        if not page.has_more:
            return


async def _calls_on(store: Store, thread: Thread, agent_id: str | None) -> AsyncIterator[PastCall]:
    seen = 0
    is_meant: dict[str | None, bool] = {None: agent_id is None}
    while True:
        query = MessageQuery(limit=LIMIT_MAX, after=seen)
        page = await store.list_messages(thread.id, query)
        for record in page.items:
            seen, run_id = record.seq, record.produced_by_run_id
            if not record.message.tool_calls:
                continue
            if run_id not in is_meant:
                is_meant[run_id] = await _is_of(store, run_id, agent_id)
            for call in record.message.tool_calls if is_meant[run_id] else ():
                yield PastCall(
                    thread_id=thread.id,
                    run_id=run_id,
                    call_id=call.id,
                    tool=call.name,
                    arguments=call.arguments,
                )
        if not page.has_more:
            return


async def _is_of(store: Store, run_id: str | None, agent_id: str | None) -> bool:
    if agent_id is None or run_id is None:
        return agent_id is None
    run = await store.load_run(run_id)
    return run is not None and agent_id in (run.agent_id, run.active_agent_id)


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
