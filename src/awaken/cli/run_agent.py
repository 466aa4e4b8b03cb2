"""`awaken run` and `awaken chat`: talk to an agent in this process."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import typer

from awaken.authoring.agents import Agent
from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.runtime_options import RuntimeOptions
from awaken.contracts.errors import AwakenError, InvalidInput
from awaken.contracts.lifecycle import Cancelled, Failed, Suspended, Termination
from awaken.demo.agents import demo_agents
from awaken.demo.settings import demo_providers
from awaken.runtime.resolution.resolver import DEFAULT_AGENT

from .apps import FORMS, is_place, load_app
from .chat import INTERRUPTED, Chat, Interrupts, choose_screen
from .command_line import new_app
from .loop_thread import LoopThread
from .reports import MISUSED, REFUSED, IsJson, print_error
from .serve_targets import check_own_store, warn_missing_keys

app = new_app()

_AGENT_AND_TEXT = 2

AppOption = Annotated[
    str | None, typer.Option("--app", help="The app, if it is not the first word.")
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

ContextJson = Annotated[
    str | None,
    typer.Option("--context", metavar="JSON", help="The context of every run, a JSON object."),
]


@app.command()
def run(  # noqa: PLR0913 - one parameter per option
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[APP] [AGENT] [TEXT]",
            help=f"An app ({FORMS}; absent: the demo), the agent (absent: the first), "
            "and what to say (absent: a conversation).",
        ),
    ] = None,
    app_place: AppOption = None,
    model: Model = None,
    thread_id: ThreadId = None,
    store_url: OwnStore = None,
    context: ContextJson = None,
    *,
    is_json: IsJson = False,
) -> None:
    """Ask an agent once, or talk to it in the terminal.

    Streams the answer, shows tools at work, and asks where a call needs a decision: nothing is
    approved without an explicit yes. With --json every event is one line, and nothing is asked.
    Ctrl-C cancels the run; a second Ctrl-C exits at once.
    """
    wanted = _Wanted(words or [], app_place, model, thread_id, store_url, context)
    _talk(wanted, is_json=is_json)


@app.command()
def chat(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[APP] [AGENT]",
            help=f"An app ({FORMS}; absent: the demo), and the agent (absent: the first).",
        ),
    ] = None,
    app_place: AppOption = None,
    model: Model = None,
    thread_id: ThreadId = None,
    store_url: OwnStore = None,
    context: ContextJson = None,
) -> None:
    """Talk to an agent in the terminal.

    Streams answers, shows tools at work, and asks where a call needs a decision: nothing is
    approved without an explicit yes. Ctrl-C cancels the run, Ctrl-D ends the conversation, and
    /help shows the commands.
    """
    wanted = _Wanted(words or [], app_place, model, thread_id, store_url, context)
    _talk(wanted, is_json=False, is_chat=True)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the command line asks for."""

    words: Sequence[str]
    app_place: str | None
    model: str | None
    thread_id: str | None
    store_url: str | None
    context: str | None


def _talk(wanted: _Wanted, *, is_json: bool, is_chat: bool = False) -> None:
    end: Termination | None = None
    try:
        context = _read_context(wanted.context)
        place, words = _split_words(wanted.words, wanted.app_place)
        runtime = _runtime_of(wanted, place)
        agent_id, text = _choose_agent(runtime, words)
        if is_chat and text is not None:
            problem = f"it takes no text; write `awaken run … {agent_id} 'TEXT'`"
            raise InvalidInput(what="awaken chat", problem=problem)
        if is_json and text is None:
            raise InvalidInput(what="--json", problem="it needs a text; a program cannot chat")
        screen = choose_screen(is_json=is_json)
        # Outside of runs and prompts Ctrl-C leaves at once, also while a tool that hangs is closed.
        with Interrupts(screen.leave), LoopThread() as loop:
            loop.call(runtime.__aenter__())
            try:
                # Before the greeting, which names the agent.
                loop.call(runtime.registry.resolve(agent_id))
                warn_missing_keys(runtime)
                talk = Chat(screen, loop, runtime, agent_id, context)
                if wanted.thread_id is not None:
                    talk.continue_thread(wanted.thread_id)
                if text is None:
                    talk.converse()
                else:
                    end = talk.answer(text)
            finally:
                screen.rest()
                loop.call(runtime.__aexit__(None, None, None))
    except AwakenError as error:
        print_error(error, is_json=is_json)
        raise typer.Exit(MISUSED) from error
    if code := _exit_code(end, is_json=is_json):
        raise typer.Exit(code)


def _exit_code(end: Termination | None, *, is_json: bool) -> int:
    match end:
        case Failed():
            return REFUSED
        case Cancelled():
            return INTERRUPTED
        case Suspended() if is_json:
            return REFUSED
    return 0


def _read_context(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        problem = f'it is no JSON object, such as \'{{"id": "c-7"}}\': {error}'
        raise InvalidInput(what="--context", problem=problem) from error


def _split_words(words: Sequence[str], app_place: str | None) -> tuple[str | None, list[str]]:
    """Split the words into the app, if the first one is an app, and the rest."""
    rest = list(words)
    if app_place is None and rest and is_place(rest[0]):
        app_place = rest.pop(0)
    if len(rest) > _AGENT_AND_TEXT:
        problem = f"there are {len(rest)} words after the app; quote the text: AGENT 'TEXT'"
        raise InvalidInput(what="awaken run", problem=problem)
    return app_place, rest


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
    check_own_store(app, is_store_chosen=wanted.store_url is not None)
    return app.runtime or AgentRuntime(app.agents, store=store, **options)


def _choose_agent(runtime: AgentRuntime, words: Sequence[str]) -> tuple[str, str | None]:
    """Read the agent and the text; a single word with spaces that is no agent is the text."""
    known = runtime.registry.snapshot().registries.agents
    first = next(iter(known), DEFAULT_AGENT)
    if not words:
        return first, None
    if len(words) == 1 and words[0] not in known and any(map(str.isspace, words[0])):
        return first, words[0]
    return words[0], words[1] if len(words) > 1 else None
