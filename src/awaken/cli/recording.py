"""`awaken recording`: what a stored run did."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.operator import Operator
from awaken.bootstrap.replays import build_recordings_of
from awaken.contracts.errors import AwakenError, InvalidInput
from awaken.contracts.evals.recordings import BYTES_MAX, RecordedStep, Recording
from awaken.contracts.lifecycle import tag_of
from awaken.contracts.storage.store import Store
from awaken.evals.recording_files import decode_recording
from awaken.evals.redacting import SECRETS, read_detectors

from .apps import FORMS, App, load_app
from .command_context import StoreUrl
from .command_line import new_app
from .output import as_json, dollars, facts, print_stdout, short, table
from .reports import MISUSED, IsJson, print_error
from .stores import check_exists, name_store, store_at

app = new_app("What stored runs did, as documents.")
VALUE_CHARS = 60

RunOrFile = Annotated[
    str, typer.Argument(metavar="RUN|FILE", help="A run's id, or a file with a recording.")
]
AppPlace = Annotated[str | None, typer.Option("--app", help=f"The code of its agents: {FORMS}.")]


@app.command("show")
def show_recording(
    run: RunOrFile,
    *,
    app_place: AppPlace = None,
    redact: Annotated[
        str, typer.Option("--redact", help="Detectors besides those of secrets, such as pii.")
    ] = ",".join(SECRETS),
    is_raw: Annotated[bool, typer.Option("--no-redact", help="Leave secrets in it.")] = False,
    store_url: StoreUrl = None,
    is_json: IsJson = False,
) -> None:
    """Show what a run did: its steps, calls, decisions and state; `--json` is the document."""
    names = () if is_raw else read_detectors(redact)
    with refuse(is_json=is_json):
        found = asyncio.run(_find_recording(run, app_place, store_url, names))
        print_stdout(as_json(found) if is_json else _describe(found))


@contextmanager
def refuse(*, is_json: bool) -> Iterator[None]:
    """Print an error, and exit with the code for what cannot be done at all."""
    try:
        yield
    except AwakenError as error:
        print_error(error, is_json=is_json)
        raise typer.Exit(MISUSED) from error


@asynccontextmanager
async def open_app(loaded: App | None, store: Store | None = None) -> AsyncIterator[AgentRuntime]:
    """Open the agents of an app on a store of their own: nothing of a replay is stored.

    With a store they are managed: its publications and drafts count.
    """
    options: dict[str, Any] = {"store": store or "memory://", "has_worker": False}
    is_managed = store is not None
    if loaded is not None and loaded.runtime is not None:
        if is_managed and not loaded.runtime.given.get("managed"):
            options["managed"] = True
        runtime = loaded.runtime.with_options(**options)
    else:
        agents = () if loaded is None else loaded.agents
        runtime = AgentRuntime(agents, managed=is_managed, **options)
    async with runtime:
        yield runtime


async def _find_recording(
    run: str, app_place: str | None, store_url: str | None, detectors: Sequence[str]
) -> Recording:
    if (found := read_file(run)) is not None:
        return found
    loaded, store = await find_store(app_place, store_url)
    async with open_app(loaded) as runtime:
        return await record_run(runtime, run, store, detectors)


def load_given(place: str | None) -> App | None:
    """Load the app of an option, if it is given.

    Raises:
        InvalidInput: There is no such app.
    """
    return None if place is None else load_app(place)


async def find_store(app_place: str | None, store_url: str | None) -> tuple[App | None, Store]:
    """Load an app, and make the store of a command on its runs; it is not opened yet.

    Raises:
        InvalidInput: There is no such app, or no store is named.
        StoreUnavailable: There is no such store.
    """
    loaded = load_given(app_place)
    store = store_at(name_store(None if loaded is None else loaded.runtime, store_url))
    await check_exists(store)
    return loaded, store


async def record_run(
    runtime: AgentRuntime, run_id: str, store: Store, detectors: Sequence[str]
) -> Recording:
    """Record a run of a store, with the agents of a runtime.

    Raises:
        UnknownRun: There is no such run.
        CannotRecord: It cannot be recorded.
    """
    engine = runtime.view("operator").engine
    if runtime.store is store:
        return await build_recordings_of(store, engine).record(run_id, detectors)
    async with Operator(store) as operator:
        return await build_recordings_of(operator.store, engine).record(run_id, detectors)


def read_file(name: str) -> Recording | None:
    """Read a recording from a JSON file, packed by gzip or not; None if there is no such file.

    Raises:
        InvalidInput: It cannot be read.
        CannotReplay: It is damaged, too large, or of another format.
    """
    path = Path(name)
    if not path.is_file():
        return None
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                data = file.read(BYTES_MAX + 1)
        else:
            with path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
    except (OSError, EOFError) as error:
        raise InvalidInput(what=f"'{path}'", problem=f"it cannot be read: {error}") from error
    return decode_recording(data)


def _describe(recording: Recording) -> str:
    run = recording.run
    ended = run.waits_for or "executing" if run.termination is None else tag_of(run.termination)
    head = facts(
        [
            ("run", run.run_id),
            ("agent", run.active_agent_id or run.agent_id),
            ("ended", ended),
            ("cost", "unknown" if run.cost_usd is None else dollars(run.cost_usd)),
            ("redacted", ", ".join(recording.redacted) or "nothing"),
            ("missing", "; ".join(recording.incomplete) or "nothing"),
        ]
    )
    rows = [row for step in recording.steps for row in _list_rows(step)]
    return f"{head}\n\n{table(('STEP', 'WHAT', 'RESULT'), rows)}" if rows else head


def _list_rows(step: RecordedStep) -> Iterator[tuple[str, str, str]]:
    for message in step.inputs:
        yield str(step.n), "input", short(message.text, VALUE_CHARS)
    said = "" if step.answer is None else step.answer.text
    yield str(step.n), "answer", short(said, VALUE_CHARS) if said else "-"
    for call in step.calls:
        arguments = short(msgspec.json.encode(call.arguments).decode(), VALUE_CHARS)
        result = call.result
        text = result.message or msgspec.json.encode(result.data).decode()
        yield str(step.n), f"{call.tool} {arguments}", short(text, VALUE_CHARS)
