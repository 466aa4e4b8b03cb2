"""`awaken replay`: a stored run once more, without touching the world."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from awaken.bootstrap.replays import build_run_replays
from awaken.contracts.errors import InvalidInput
from awaken.contracts.evals.replays import ReplayMode, ReplayResult, ReplaySpec
from awaken.contracts.evals.worlds import ReplayDivergence, ToolPolicy, ToolSource, Variant
from awaken.contracts.storage.store import Store
from awaken.evals.replay_jobs import ReplayLimits

from .command_context import StoreUrl
from .output import as_json, print_stdout, short
from .recording import (
    VALUE_CHARS,
    AppPlace,
    RunOrFile,
    find_store,
    load_given,
    open_app,
    read_file,
    record_run,
    refuse,
)
from .reports import REFUSED, IsJson
from .variant_fields import VariantFields

app = typer.Typer(rich_markup_mode=None)


class ReplayedTools(StrEnum):
    """Who answers the tool calls of a replay."""

    RECORDED = "recorded"
    LIVE = "live"


@app.command("replay")
def replay_run(  # noqa: PLR0913 - one parameter for each option
    run: RunOrFile,
    *,
    is_verified: Annotated[
        bool, typer.Option("--verify", help="Everything recorded; the default without changes.")
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="A changed field of the agent: model_id=openai:gpt-5-mini."),
    ] = None,
    prompt: Annotated[
        Path | None, typer.Option("--prompt", help="A file with other instructions.")
    ] = None,
    draft: Annotated[str | None, typer.Option("--draft", help="A draft of the store.")] = None,
    publication: Annotated[
        int | None, typer.Option("--publication", help="The publication to run on.")
    ] = None,
    from_step: Annotated[
        int | None, typer.Option("--from-step", min=1, help="The first step that is not recorded.")
    ] = None,
    tools: Annotated[
        ReplayedTools, typer.Option("--tools", help="live runs tools without effects.")
    ] = ReplayedTools.RECORDED,
    limit_s: Annotated[
        int | None,
        typer.Option("--time-limit", min=1, help="Seconds that it may take; 600 unless given."),
    ] = None,
    app_place: AppPlace = None,
    keeps_going: Annotated[
        bool, typer.Option("--keep-going", help="List every divergence, not only the first.")
    ] = False,
    store_url: StoreUrl = None,
    is_json: IsJson = False,
) -> None:
    """Replay a run without its tools touching the world, and say where it parts.

    Without changes, models answer from the recording and every difference counts. With changes, or
    with `--from-step`, models answer live. Exits with 0 if all is the same, 1 if the run diverged,
    2 if it cannot be replayed.
    """
    with refuse(is_json=is_json):
        variant = _read_variant(changes or (), prompt, draft, publication)
        is_live = variant is not None or from_step is not None
        if is_verified and is_live:
            problem = "it changes nothing: leave it out, or the changes"
            raise InvalidInput(what="--verify", problem=problem)
        mode = ReplayMode.WHAT_IF if is_live else ReplayMode.VERIFY
        if tools is ReplayedTools.LIVE and not (is_live or is_verified):
            mode = ReplayMode.MODEL_ONLY
        source = ToolSource.LIVE if tools is ReplayedTools.LIVE else ToolSource.RECORDED
        spec = ReplaySpec(
            mode=mode,
            variant=variant,
            from_step=from_step or 1,
            tools=ToolPolicy(source=source),
            keep_going=keeps_going,
            time_ms=None if limit_s is None else limit_s * 1000,
        )
        result = asyncio.run(_replay(run, spec, app_place, store_url))
        print_stdout(as_json(result) if is_json else _tell(result))
    if not result.is_same:
        raise typer.Exit(REFUSED)


async def _replay(
    run: str, spec: ReplaySpec, app_place: str | None, store_url: str | None
) -> ReplayResult:
    recording, variant = read_file(run), spec.variant
    is_managed = variant is not None and bool(variant.draft_id or variant.publication)
    store: Store | None = None
    if is_managed or recording is None:
        loaded, store = await find_store(app_place, store_url)
    else:
        loaded = load_given(app_place)
    async with open_app(loaded, store if is_managed else None) as runtime:
        if recording is None:
            assert store is not None
            recording = await record_run(runtime, run, store, ())
        limits = ReplayLimits(time_ms=spec.time_ms or ReplayLimits().time_ms)
        engine = runtime.view("operator").engine
        replays = build_run_replays(engine, runtime.managed, limits)
        return await replays.replay(recording, spec, "operator")


def _read_variant(
    changes: Sequence[str], prompt: Path | None, draft: str | None, publication: int | None
) -> Variant | None:
    if not changes and prompt is None and draft is None and publication is None:
        return None
    fields = VariantFields("changed", "--set")
    for change in changes:
        name, has_value, text = change.partition("=")
        if not (name.strip() and has_value):
            raise InvalidInput(what=f"--set {change}", problem="write FIELD=VALUE")
        fields.set(name.strip(), text)
    try:
        instructions = None if prompt is None else prompt.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(what=f"--prompt {prompt}", problem=str(error)) from error
    return fields.build(instructions=instructions, draft_id=draft, publication=publication)


def _tell(result: ReplayResult) -> str:
    lines = [f"{result.mode}: the same." if result.is_same else f"{result.mode}: it diverged."]
    lines += [_tell_divergence(it) for it in result.divergences]
    if result.incomplete:
        lines.append("Not compared: " + "; ".join(result.incomplete) + ".")
    return "\n".join(lines)


def _tell_divergence(found: ReplayDivergence) -> str:
    was, now = _show(found.recorded), _show(found.replayed)
    return f"step {found.step}, {found.kind} {found.path}: recorded {was}, replayed {now}"


def _show(value: Any) -> str:
    return short(msgspec.json.encode(value).decode(), VALUE_CHARS)
