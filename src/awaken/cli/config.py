"""`awaken config`: configuration as files, its history, its secrets and its switches."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from awaken.bootstrap.config_files import format_files, read_config_files, write_back, write_files
from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.errors import InvalidConfig
from awaken.contracts.config.heads import CanaryPlan
from awaken.contracts.errors import InvalidInput
from awaken.managed.documents import (
    SECTION_OF,
    MergedDocuments,
    join_documents,
    name_files,
)
from awaken.managed.files import ApplyOptions, DriftChoice, FilePlan, FileSet, drift_problem
from awaken.services.document_files import format_document

from .command_line import new_app
from .config_context import (
    CHANGED,
    ConfigContext,
    config_command,
    format_problems,
)
from .config_diff import compare_files, format_fields, load_side
from .config_history import list_publications, roll_back, show_publication, show_status
from .config_secrets import app as secrets_app
from .config_switches import app as switches_app
from .output import plain, print_stderr, print_stdout
from .reports import REFUSED
from .standard_input import confirm

app = new_app("Configuration that changes while servers run.")
app.add_typer(secrets_app, name="secrets")
app.add_typer(switches_app, name="switch")
app.command("status")(show_status)
app.command("history")(list_publications)
app.command("show")(show_publication)
app.command("rollback")(roll_back)

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder with documents, or one document.")
]
Origin = Annotated[
    str | None,
    typer.Option("--origin", help="The owner of what the files make; absent: the folder's name."),
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Delete what the origin owns and the files do not have.")
]
Adopt = Annotated[bool, typer.Option("--adopt", help="Take over records of other owners.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what was changed elsewhere.")]
Keep = Annotated[bool, typer.Option("--keep", help="Leave what was changed elsewhere as it is.")]


@app.command("export")
@config_command
async def export(
    context: ConfigContext,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Absent: one document on stdout.")
    ] = None,
    publication: Annotated[
        int | None, typer.Option("--publication", min=1, help="Absent: the live one.")
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Only these sections of a document: agents, models, …"),
    ] = None,
) -> None:
    """Write what is live as files, one for each record; secrets are references.

    Applying an export changes nothing, and a second export has the same bytes.
    """
    files = _choose(await context.managed.files.export(publication), kinds or [])
    table = context.managed.parts.kinds
    if folder is None:
        print_stdout(format_document(join_documents(files, table)).rstrip("\n"))
        return
    texts = format_files(files, table)
    count = write_files(folder, texts)
    text = f"{len(texts)} files in {plain(folder)}, {count} of them changed."
    context.show({"files": list(texts), "changed": count}, text)


@app.command("plan")
@config_command
async def plan(  # noqa: PLR0913 - each is an option of the command
    context: ConfigContext,
    folder: Folder,
    origin: Origin = None,
    *,
    is_pruning: Prune = False,
    is_adopting: Adopt = False,
    is_forced: Force = False,
    is_keeping: Keep = False,
) -> None:
    """Show what files would change; nothing is written.

    Exits with 0 if there is nothing to do, with 2 if there are changes, with 1 for problems.
    """
    context.warn_without_app()
    options = ApplyOptions(prune=is_pruning, adopt=is_adopting, drift=_drift(is_forced, is_keeping))
    found = _read(context, folder, origin)
    made = await _plan(context, found, options)
    problems = _list_refusals(made, options)
    context.show(_document(made, problems), _text(made, problems))
    if problems or made.missing_secrets:
        raise typer.Exit(REFUSED)
    if made.has_changes:
        raise typer.Exit(CHANGED)


@app.command("apply")
@config_command
async def apply(  # noqa: PLR0913 - each is an option of the command
    context: ConfigContext,
    folder: Folder,
    origin: Origin = None,
    message: Annotated[str, typer.Option("--message", help="Why; the history shows it.")] = "",
    require: Annotated[
        str, typer.Option("--require", help="all: every process must be able to use it first.")
    ] = "self",
    canary: Annotated[
        float | None, typer.Option("--canary", help="Try it with this percentage of new threads.")
    ] = None,
    *,
    is_confirmed: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    is_draft: Annotated[bool, typer.Option("--draft", help="Only make a draft of it.")] = False,
    is_pruning: Prune = False,
    is_adopting: Adopt = False,
    is_forced: Force = False,
    is_keeping: Keep = False,
    is_writing_back: Annotated[
        bool,
        typer.Option("--write-back", help="Put what was changed elsewhere into the files first."),
    ] = False,
) -> None:
    """Publish what files change, as one change set, or change nothing."""
    if require not in ("self", "all"):
        raise InvalidInput(what="--require", problem="write self or all")
    context.warn_without_app()
    options = ApplyOptions(
        prune=is_pruning,
        adopt=is_adopting,
        drift=_drift(is_forced, is_keeping),
        message=message,
        canary=_canary(canary),
        require_all=require == "all",
    )
    found = _read(context, folder, origin)
    made = await _plan(context, found, options)
    if is_writing_back and made.drift:
        live = await context.managed.files.export()
        written = write_back(folder, found, live, made.drift)
        print_stderr(f"awaken: written back: {plain(', '.join(written))}")
        found = _read(context, folder, origin)
        made = await _plan(context, found, options)
    if problems := _list_refusals(made, options):
        raise InvalidConfig(problems=problems)
    if not made.has_changes:
        context.show({"publication": made.head, "is_changed": False}, "There is nothing to do.")
        return
    if not is_confirmed and not context.is_json:
        print_stdout(_text(made, ()))
        confirm("Apply?")
        # What was shown is what becomes live: on another publication they may change other fields.
        options = msgspec.structs.replace(options, expected_head=made.head or 0)
    await _apply(context, found, options, is_draft=is_draft)


async def _apply(
    context: ConfigContext, found: MergedDocuments, options: ApplyOptions, *, is_draft: bool
) -> None:
    files = context.managed.files
    if is_draft:
        _, draft = await files.draft(found.files, options, context.author)
        made = None if draft is None else draft.id
        context.show({"draft": made}, f"Draft '{plain(made)}' is made; nothing is live yet.")
        return
    applied, published = await files.apply(found.files, options, context.author)
    number = applied.head if published is None else published.publication.no
    what = "is being tried" if options.canary is not None else "is live"
    document = {"publication": number, "is_changed": published is not None}
    context.show(document, f"Publication {number} {what}.")


@app.command("validate")
@config_command
async def validate(context: ConfigContext, folder: Folder, origin: Origin = None) -> None:
    """Check files without comparing owners: every record, and that all compile together.

    Exits with 1 for problems.
    """
    context.warn_without_app()
    found = _read(context, folder, origin)
    made = await _plan(context, found, ApplyOptions(adopt=True, drift=DriftChoice.FORCE))
    document = {"ok": not made.problems, "problems": made.problems}
    lines = format_problems(made.problems) or ["The files are valid."]
    context.show({**document, "diagnostics": made.diagnostics}, "\n".join(lines))
    if made.problems:
        raise typer.Exit(REFUSED)


@app.command("diff")
@config_command
async def diff(
    context: ConfigContext,
    before: Annotated[
        str, typer.Argument(metavar="A", help="A folder, a publication, draft:ID or live.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="The same.")] = "live",
) -> None:
    """Compare two configurations, record by record; exits with 2 if they differ."""
    sides = [await load_side(context, it) for it in (before, after)]
    differences = compare_files(*sides)
    lines = [
        line
        for it in differences
        for line in (f"{it.state} {it.ns}/{it.id}", *format_fields(it.fields))
    ]
    context.show({"records": differences}, "\n".join(lines) or "They are the same.")
    if differences:
        raise typer.Exit(CHANGED)


def _read(context: ConfigContext, folder: Path, origin: str | None) -> MergedDocuments:
    """Read files; those that cannot be read refuse the command with all their problems."""
    found = read_config_files(folder, context.managed.parts.kinds, origin)
    if found.problems:
        raise InvalidConfig(problems=found.problems)
    return found


async def _plan(context: ConfigContext, found: MergedDocuments, options: ApplyOptions) -> FilePlan:
    made = await context.managed.files.plan(found.files, options, context.author)
    return msgspec.structs.replace(made, problems=name_files(made.problems, found.places))


def _list_refusals(made: FilePlan, options: ApplyOptions) -> tuple[ConfigProblem, ...]:
    """Everything for which the files would not be applied."""
    drift = made.drift if options.drift is DriftChoice.STOP else ()
    return (*made.problems, *map(drift_problem, drift))


def _drift(is_forced: bool, is_keeping: bool) -> DriftChoice:  # noqa: FBT001 - two flags
    if is_forced and is_keeping:
        raise InvalidInput(what="--force", problem="it cannot be combined with --keep")
    if is_forced:
        return DriftChoice.FORCE
    return DriftChoice.KEEP if is_keeping else DriftChoice.STOP


def _canary(percent: float | None) -> CanaryPlan | None:
    try:
        return None if percent is None else CanaryPlan(percent=percent)
    except ValueError as error:
        raise InvalidInput(what="--canary", problem=str(error)) from error


def _choose(files: FileSet, sections: list[str]) -> FileSet:
    if unknown := [it for it in sections if it not in SECTION_OF.values()]:
        known = ", ".join(SECTION_OF.values())
        raise InvalidInput(what=f"--kind {plain(unknown[0])}", problem=f"known: {known}")
    if not sections:
        return files
    return FileSet(
        origin=files.origin,
        records={name: it for name, it in files.records.items() if SECTION_OF[name] in sections},
        overrides={
            name: it for name, it in files.overrides.items() if SECTION_OF[name] in sections
        },
    )


def _document(made: FilePlan, problems: tuple[ConfigProblem, ...]) -> dict[str, object]:
    shown = {it: getattr(made, it) for it in ("head", "creates", "updates", "deletes", "drift")}
    return {
        **shown,
        "kept": made.kept,
        "missing_secrets": made.missing_secrets,
        "problems": problems,
        "diagnostics": made.diagnostics,
        "has_changes": made.has_changes,
    }


def _text(made: FilePlan, problems: tuple[ConfigProblem, ...]) -> str:
    lines = [f"+ {ns}/{it}" for ns, it in made.creates]
    for update in made.updates:
        lines += [f"~ {update.ns}/{update.id}", *format_fields(update.fields)]
    lines += [f"- {ns}/{it}" for ns, it in made.deletes]
    lines += [f"= {ns}/{it} (changed elsewhere, kept)" for ns, it in made.kept]
    lines += [f"missing secret: {it}" for it in made.missing_secrets]
    lines += [f"problem: {it}" for it in format_problems(problems)]
    lines += [f"warning: {it}" for it in format_problems(made.diagnostics)]
    return "\n".join(map(plain, lines)) or "There is nothing to do."
