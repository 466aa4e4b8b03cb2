"""The part of `awaken eval` about datasets: lists, files, imports, captures."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from awaken.bootstrap.replays import build_recordings_of
from awaken.contracts.errors import InvalidInput
from awaken.contracts.evals.cases import CaseEntry, DatasetRevision
from awaken.contracts.evals.errors import UnknownDataset
from awaken.contracts.evals.store import open_eval_store
from awaken.evals.capture import (
    CAPTURED_MAX,
    CaptureFilter,
    CapturePlan,
    Captures,
    ScriptMode,
    SkippedRun,
    capture_many,
    keep_recordings,
)
from awaken.evals.case_documents import write_case
from awaken.evals.dataset_files import DatasetFolder, read_folder, write_folder
from awaken.evals.dataset_writes import (
    ChangedDataset,
    DatasetChange,
    DatasetDocument,
    WriteOptions,
)
from awaken.evals.datasets import Datasets
from awaken.evals.importers import ImportFormat, import_cases, tell_left_out
from awaken.evals.importers.formats import IMPORT_BYTES_MAX
from awaken.runtime.primitives.system import SystemClock

from .command_context import CommandContext, store_command
from .command_line import new_app
from .output import facts, moment, short, table
from .recording import AppPlace, load_given, open_app

app = new_app("Datasets.")
BY = "operator"
TEXT_CHARS = 50

DatasetId = Annotated[str, typer.Argument(metavar="DATASET", help="The dataset's id.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a dataset.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Whose datasets.")]
Revision = Annotated[
    int | None, typer.Option("--revision", min=1, help="Which revision; absent: the newest.")
]
Expected = Annotated[
    int | None, typer.Option("--expected", min=0, help="Refuse if it is at another revision.")
]
Redact = Annotated[bool, typer.Option("--redact", help="Replace secrets instead of refusing.")]
ScoredByEval = Annotated[
    bool, typer.Option("--scored-by-eval", help="Take cases that only an eval's scorers judge.")
]


@app.command("list")
@store_command()
async def list_datasets(context: CommandContext, tenant: OfTenant = None) -> None:
    """List datasets with their newest revisions."""
    found: list[DatasetRevision] = []
    datasets = _open(context, tenant)
    while page := await datasets.list_datasets(after=found[-1].dataset_id if found else ""):
        found += page
    rows = [
        (it.dataset_id, str(it.revision), str(it.case_count), moment(it.at), short(it.description))
        for it in found
    ]
    head = ("DATASET", "REVISION", "CASES", "CHANGED", "DESCRIPTION")
    context.show({"datasets": found}, table(head, rows) if rows else "Nothing is there.")


@app.command("show")
@store_command()
async def show_dataset(
    context: CommandContext,
    dataset: DatasetId,
    *,
    case: Annotated[str | None, typer.Option("--case", help="Only this case, whole.")] = None,
    revision: Revision = None,
    tenant: OfTenant = None,
) -> None:
    """Show a dataset and its cases, or one case."""
    datasets = _open(context, tenant)
    if case is not None:
        _, found = await datasets.load_case(dataset, case, revision)
        document = write_case(found)
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
        context.show(document, text)
        return
    loaded = await datasets.load(dataset, revision)
    it = loaded.revision
    about = facts(
        [
            ("dataset", it.dataset_id),
            ("revision", it.revision),
            ("changed", f"{moment(it.at)} by {it.by or 'nobody'}"),
            ("scorers", ", ".join(spec.shown_name for spec in it.scorers) or "none"),
            ("gate", "none" if it.gate is None else msgspec.json.encode(it.gate).decode()),
            ("description", it.description or "-"),
        ]
    )
    texts = {one.id: one.user_input or "" for one in loaded.cases}
    rows = [_case_row(entry, texts.get(entry.id)) for entry in it.cases]
    cases = table(("CASE", "STATUS", "TAGS", "INPUT"), rows) if rows else "It has no cases."
    context.show(
        {"revision": it, "cases": list(map(write_case, loaded.cases))}, f"{about}\n\n{cases}"
    )


@app.command("pull")
@store_command()
async def pull_dataset(
    context: CommandContext,
    dataset: DatasetId,
    folder: Folder,
    *,
    revision: Revision = None,
    tenant: OfTenant = None,
) -> None:
    """Write a dataset into a folder: dataset.yaml, cases and recordings."""
    datasets = _open(context, tenant)
    loaded = await datasets.load(dataset, revision)
    recordings = await datasets.load_recordings(loaded.cases)
    content = DatasetFolder(document=loaded.document, recordings=recordings)
    try:
        changed = write_folder(folder, content)
    except OSError as error:
        raise InvalidInput(what=f"'{folder}'", problem=str(error)) from error
    done = {"revision": loaded.revision.revision, "files": changed}
    text = f"{len(loaded.cases)} cases of revision {loaded.revision.revision}; "
    context.show(done, text + f"{len(changed)} files changed in '{folder}'.")


@app.command("push")
@store_command(may_create=True)
async def push_dataset(  # noqa: PLR0913 - one parameter for each option
    context: CommandContext,
    dataset: DatasetId,
    folder: Folder,
    *,
    expected: Expected = None,
    redact: Redact = False,
    scored_by_eval: ScoredByEval = False,
    tenant: OfTenant = None,
) -> None:
    """Make a folder the next revision of a dataset; Rust's fixture folders work as they are."""
    content = read_folder(folder)
    datasets = _open(context, tenant)
    options = WriteOptions(redact=redact, is_scored_by_eval=scored_by_eval, keeps_duplicates=True)
    await datasets.put_recordings(content.recordings)
    if await _exists(datasets, dataset):
        changed = await datasets.replace(dataset, content.document, expected, options)
    else:
        changed = await datasets.create(dataset, content.document, options)
    _show_changed(context, changed)


@app.command("import")
@store_command(may_create=True)
async def import_file(  # noqa: PLR0913 - one parameter for each option
    context: CommandContext,
    dataset: DatasetId,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of another tool.")],
    source: Annotated[ImportFormat, typer.Option("--from", help="Whose file it is.")],
    *,
    redact: Redact = False,
    scored_by_eval: ScoredByEval = False,
    tenant: OfTenant = None,
) -> None:
    """Add the cases of another tool's file; what cannot be carried over is listed."""
    imported = import_cases(source, _read_file(file))
    datasets = _open(context, tenant)
    options = WriteOptions(redact=redact, is_scored_by_eval=scored_by_eval)
    with tell_left_out(imported.left_out):
        if await _exists(datasets, dataset):
            change = DatasetChange(put=imported.cases)
            changed = await datasets.change(dataset, change, options=options)
        else:
            document = DatasetDocument(description=imported.description, cases=imported.cases)
            changed = await datasets.create(dataset, document, options)
    _show_changed(context, changed, imported.left_out)


@app.command("capture")
@store_command()
async def capture_runs(  # noqa: PLR0913 - one parameter for each option
    context: CommandContext,
    names: Annotated[
        list[str], typer.Argument(metavar="[RUN]... DATASET", help="Runs, then the dataset.")
    ],
    *,
    dialogue: Annotated[
        bool, typer.Option("--dialogue", help="One case of all runs, which follow each other.")
    ] = False,
    agent: Annotated[str | None, typer.Option("--agent", help="Runs of this agent.")] = None,
    ended: Annotated[
        str | None, typer.Option("--ended", help="Runs that ended so, such as natural_end.")
    ] = None,
    score_below: Annotated[
        float | None, typer.Option("--score-below", help="Runs with a score below this.")
    ] = None,
    thumbs_down: Annotated[
        bool, typer.Option("--thumbs-down", help="Runs that a person scored below a half.")
    ] = False,
    cost_above: Annotated[
        float | None, typer.Option("--cost-above", help="Runs that cost more dollars.")
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=1, max=CAPTURED_MAX, help="How many at most.")
    ] = CAPTURED_MAX,
    seed: Annotated[int, typer.Option("--seed", help="Chooses the sample.")] = 0,
    script: Annotated[
        ScriptMode, typer.Option("--script", help="Whether answers become a script.")
    ] = ScriptMode.OPTIONAL,
    case_id: Annotated[str | None, typer.Option("--id", help="The id of a single case.")] = None,
    app_place: AppPlace = None,
    tenant: OfTenant = None,
) -> None:
    """Make cases of runs, as drafts with proposed expectations; without runs, by the filters."""
    *runs, dataset = names
    if not runs and await context.store.load_run(dataset) is not None:
        # Taken for a dataset, it would get cases of all runs that the filters do not leave out.
        problem = f"'{dataset}' is a run; name the dataset after it"
        raise InvalidInput(what="the dataset", problem=problem)
    datasets = _open(context, tenant)
    plan = CapturePlan(script=script, case_id=case_id)
    wanted = CaptureFilter(
        agent_id=agent, ended=ended, score_below=score_below, thumbs_down=thumbs_down,
        cost_above=cost_above, sample=sample, seed=seed,
    )  # fmt: skip
    async with open_app(load_given(app_place)) as runtime:
        engine = runtime.view(BY).engine
        recordings = build_recordings_of(context.store, engine)
        evals = open_eval_store(context.store)
        captures = Captures(context.store, evals, recordings, tenant)
        skipped: list[SkippedRun] = []
        if dialogue:
            made = [await captures.capture_dialogue(runs, plan)]
        else:
            chosen = runs or await captures.find_runs(wanted)
            made, skipped = await capture_many(captures, chosen, plan, skips=not runs)
    left_out = tuple(f"{it.run_id}: {it.problem}" for it in skipped)
    if not made:
        lines = [f"Nothing was captured; '{dataset}' is as it was.", *left_out]
        context.show({"dataset_id": dataset, "added": [], "left_out": left_out}, "\n".join(lines))
        return
    await keep_recordings(datasets, made)
    cases = tuple(it.case for it in made)
    options = WriteOptions(redact=True)
    if await _exists(datasets, dataset):
        changed = await datasets.change(dataset, DatasetChange(put=cases), options=options)
    else:
        changed = await datasets.create(dataset, DatasetDocument(cases=cases), options)
    _show_changed(context, changed, left_out)


@app.command("forget")
@store_command()
async def forget_sources(
    context: CommandContext,
    *,
    thread: Annotated[str | None, typer.Option("--thread", help="Of this thread.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Of this user.")] = None,
    tenant: OfTenant = None,
    is_sure: Annotated[bool, typer.Option("--yes", help="Delete them; absent: list.")] = False,
) -> None:
    """List the cases and recordings that hold a thread or a user; `--yes` deletes them."""
    if thread is None and user is None:
        raise InvalidInput(what="what to forget", problem="name it with --thread or --user")
    datasets = _open(context, tenant)
    if not is_sure:
        found = await datasets.list_sources(thread_id=thread, user_id=user)
        rows = [(it.kind.value, it.hash, it.thread_id or "-", it.user_id or "-") for it in found]
        head = ("KIND", "OBJECT", "THREAD", "USER")
        context.show({"sources": found}, table(head, rows) if rows else "Nothing is there.")
        return
    erased = await datasets.erase_sources(thread_id=thread, user_id=user)
    text = f"{erased.objects} objects and {len(erased.cases)} cases are deleted."
    context.show(erased, text)


def _open(context: CommandContext, tenant: str | None) -> Datasets:
    evals = open_eval_store(context.store)
    return Datasets(evals, SystemClock(), tenant_id=tenant, by=BY)


async def _exists(datasets: Datasets, dataset_id: str) -> bool:
    try:
        await datasets.load(dataset_id)
    except UnknownDataset:
        return False
    return True


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(IMPORT_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInput(what=f"'{path}'", problem=error.strerror or str(error)) from error


def _case_row(entry: CaseEntry, text: str | None) -> tuple[str, ...]:
    shown = "(deleted)" if text is None else short(text, TEXT_CHARS)
    return entry.id, entry.status.value, ", ".join(entry.tags) or "-", shown


def _show_changed(
    context: CommandContext, changed: ChangedDataset, left_out: tuple[str, ...] = ()
) -> None:
    it = changed.revision
    lines = [
        f"'{it.dataset_id}' is at revision {it.revision} with {it.case_count} cases: "
        f"{len(changed.added)} added, {len(changed.replaced)} replaced, "
        f"{len(changed.removed)} removed."
    ]
    lines += [f"'{it.case_id}' has the input of '{it.same_as}'." for it in changed.duplicates]
    lines += [f"Not carried over: {it}" for it in left_out]
    document: dict[str, Any] = msgspec.to_builtins(changed)
    document["revision"] = it.revision
    context.show(document | {"dataset_id": it.dataset_id, "left_out": left_out}, "\n".join(lines))
