"""`awaken run` and `awaken chat`: talk to an agent in this process."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from awaken.authoring.agents import Agent
from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.runtime_options import RuntimeOptions
from awaken.contracts.errors import AwakenError, InvalidContext, InvalidInput, UnknownAgent
from awaken.contracts.lifecycle import Cancelled, Failed, Suspended, Termination
from awaken.demo.agents import demo_agents
from awaken.demo.settings import demo_providers
from awaken.runtime.resolution.resolver import DEFAULT_AGENT

from .approvals import Approve
from .apps import FORMS, load_app
from .chat import INTERRUPTED, Chat, Interrupts, choose_screen
from .command_line import new_app
from .context_option import ContextJson, describe_context, read_context
from .loop_thread import LoopThread
from .output import plain, print_stderr
from .reports import MISUSED, REFUSED, IsJson, print_error
from .run_words import RunWords, describe_unquoted, read_agent, read_text, read_words, split_app
from .serve_targets import adapt_runtime, warn_missing_keys

app = new_app()

AppOption = Annotated[
    str | None, typer.Option("--app", help="The app, if it is not the first word.")
]
AgentOption = Annotated[
    str | None, typer.Option("--agent", help="The agent; then no word is taken for one.")
]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Talk to this provider:model, without an app."),
]
ThreadId = Annotated[
    str | None, typer.Option("--thread", help="Continue this conversation; needs a store.")
]
OwnStore = Annotated[
    str | None,
    typer.Option("--store", help="Keep the conversation there; absent: it ends with the process."),
]


@app.command()
def run(  # noqa: PLR0913 - one parameter per option
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[APP] [AGENT] [TEXT]",
            help=f"An app ({FORMS}; absent: the demo), the agent (absent: the first), "
            "and what to say (absent: a conversation; -: what stdin has). A single word is the "
            "text unless it is the id of an agent.",
        ),
    ] = None,
    app_place: AppOption = None,
    agent_id: AgentOption = None,
    model: Model = None,
    thread_id: ThreadId = None,
    store_url: OwnStore = None,
    context: ContextJson = None,
    approve: Approve = None,
    *,
    is_json: IsJson = False,
) -> None:
    """Ask an agent once, or talk to it in the terminal.

    Streams the answer, shows tools at work, and asks where a call needs a decision: nothing is
    approved without an explicit yes at a terminal, or --approve all. Without a terminal, and with
    --json, which prints every event on one line, nothing is asked: the run waits, and the command
    exits with 1. Ctrl-C cancels the run; a second Ctrl-C exits at once.
    """
    wanted = _Wanted(
        words or [], app_place, agent_id, model, thread_id, store_url, context, approve
    )
    _talk(wanted, is_json=is_json)


@app.command()
def chat(  # noqa: PLR0913 - one parameter per option
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[APP] [AGENT]",
            help=f"An app ({FORMS}; absent: the demo), and the agent (absent: the first).",
        ),
    ] = None,
    app_place: AppOption = None,
    agent_id: AgentOption = None,
    model: Model = None,
    thread_id: ThreadId = None,
    store_url: OwnStore = None,
    context: ContextJson = None,
    approve: Approve = None,
) -> None:
    """Talk to an agent in the terminal.

    Streams answers, shows tools at work, and asks where a call needs a decision: nothing is
    approved without an explicit yes at the terminal, or --approve all. Ctrl-C cancels the run,
    Ctrl-D ends the conversation, and /help shows the commands.
    """
    wanted = _Wanted(
        words or [], app_place, agent_id, model, thread_id, store_url, context, approve
    )
    _talk(wanted, is_json=False, is_chat=True)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the command line asks for."""

    words: Sequence[str]
    app_place: str | None
    agent_id: str | None
    model: str | None
    thread_id: str | None
    store_url: str | None
    context: str | None
    approve: Approve


def _talk(wanted: _Wanted, *, is_json: bool, is_chat: bool = False) -> None:
    end: Termination | None = None
    hint = ""
    try:
        context = read_context(wanted.context)
        place, words = split_app(wanted.words, wanted.app_place)
        runtime = _runtime_of(wanted, place)
        screen = choose_screen(is_json=is_json)
        # Outside of runs and prompts Ctrl-C leaves at once, also while a tool that hangs is closed.
        with Interrupts(screen.leave), LoopThread() as loop:
            loop.call(runtime.__aenter__())
            try:
                given = _read_given(wanted, words, runtime, loop, is_chat=is_chat)
                agent_id = given.agent_id or _first_agent(runtime)
                if is_json and given.text is None:
                    problem = "it needs a text; a program cannot chat"
                    raise InvalidInput(what="--json", problem=problem)
                talk = Chat(screen, loop, runtime, agent_id, context, wanted.approve)
                try:
                    # Before the greeting, which names the agent.
                    talk.check_agent(agent_id, is_continued=wanted.thread_id is not None)
                except AwakenError as error:
                    hint = _find_hint(error, talk, words, given)
                    raise
                text = None if given.text is None else read_text(given.text)
                warn_missing_keys(runtime)
                end = talk.begin(text, wanted.thread_id)
            finally:
                screen.rest()
                loop.call(runtime.__aexit__(None, None, None))
    except AwakenError as error:
        print_error(error, is_json=is_json)
        if hint and not is_json:
            print_stderr(plain(hint))
        raise typer.Exit(MISUSED) from error
    if code := _exit_code(end, is_json=is_json, is_waiting=talk.is_waiting):
        raise typer.Exit(code)


def _read_given(
    wanted: _Wanted,
    words: Sequence[str],
    runtime: AgentRuntime,
    loop: LoopThread,
    *,
    is_chat: bool,
) -> RunWords:
    if is_chat:
        return read_agent(words, wanted.agent_id)
    known = runtime.registry.snapshot().registries.agents

    def is_agent(word: str) -> bool:
        if word in known or runtime.registry.host is None:
            return word in known
        try:
            loop.call(runtime.registry.resolve(word))
        except UnknownAgent:
            return False
        return True

    return read_words(words, wanted.agent_id, list(known), is_agent)


def _first_agent(runtime: AgentRuntime) -> str:
    return next(iter(runtime.registry.snapshot().registries.agents), DEFAULT_AGENT)


def _find_hint(error: AwakenError, talk: Chat, words: Sequence[str], given: RunWords) -> str:
    """What to write instead, for people; empty if the error says it."""
    match error:
        case UnknownAgent():
            return describe_unquoted(words, given)
        case InvalidContext(agent_id=agent_id):
            return describe_context(talk.find_context_type(agent_id))
    return ""


def _exit_code(end: Termination | None, *, is_json: bool, is_waiting: bool) -> int:
    match end:
        case Failed():
            return REFUSED
        case Cancelled():
            return INTERRUPTED
        case Suspended() if is_json:
            return REFUSED
    return REFUSED if is_waiting else 0


def _runtime_of(wanted: _Wanted, place: str | None) -> AgentRuntime:
    runtime = _make_runtime(wanted, place)
    if wanted.thread_id is not None and not runtime.store.is_shared:
        problem = "nothing is kept in memory; name the store of the conversation with --store"
        raise InvalidInput(what="--thread", problem=problem)
    return runtime


def _make_runtime(wanted: _Wanted, place: str | None) -> AgentRuntime:
    store = wanted.store_url
    if wanted.thread_id is not None and store is None:
        store = os.environ.get("AWAKEN_STORE")
    # It executes what is said here; other work in the store is for workers.
    options: RuntimeOptions = {} if store is None else {"has_worker": False}
    if wanted.model is not None:
        if place is not None:
            raise InvalidInput(what="--model", problem="an app names its own models")
        return AgentRuntime([Agent(DEFAULT_AGENT, model=wanted.model)], store=store, **options)
    if place is None:
        providers = demo_providers(os.environ)
        return AgentRuntime(demo_agents(), providers=providers, store=store, **options)
    app = load_app(place)
    if app.runtime is None:
        return AgentRuntime(app.agents, store=store, **options)
    return adapt_runtime(app, app.runtime, wanted.store_url)
