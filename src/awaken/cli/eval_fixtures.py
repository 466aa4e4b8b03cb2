"""`awaken eval replay|check`: the two commands of Awaken for Rust, with its lines of NDJSON."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from awaken.authoring.agents import Agent
from awaken.contracts.errors import InvalidInput
from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.eval_runs import EvalMode
from awaken.contracts.evals.verdicts import FixtureChange
from awaken.contracts.evals.worlds import OnMiss, ToolPolicy
from awaken.contracts.models.errors import ModelNotFound
from awaken.contracts.models.inference import InferenceRequest, ModelEvent
from awaken.evals.evaluating import evaluate
from awaken.evals.fixture_reports import build_report
from awaken.evals.reports import ExitCode
from awaken.scoring.fixture_diffs import diff_reports

from .apps import FORMS, load_app
from .eval_run import report_bad_input
from .eval_sources import read_dataset
from .output import print_stdout


class NoModel:
    """The model of an agent whose answers are all scripted."""

    name = "none"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Refuse.

        Raises:
            ModelNotFound: Always.
        """
        raise ModelNotFound("fixtures are answered by their scripts")
        yield


def replay_fixtures(
    *,
    fixtures: Annotated[Path, typer.Option("--fixtures", help="A folder of fixtures.")],
    report: Annotated[Path, typer.Option("--report", help="The file of NDJSON to write.")],
    app_place: Annotated[
        str | None, typer.Option("--app", metavar="APP", help=f"The agents: {FORMS}.")
    ] = None,
) -> None:
    """Replay the scripts of fixtures, and write one report for each.

    Exits with 1 if a fixture fails.
    """
    with report_bad_input(is_json=False):
        dataset = read_dataset(fixtures)
        for case in dataset.cases:
            if case.expect is not None and case.expect.min_judge_score is not None:
                problem = f"fixture '{case.id}' has min_judge_score; use `awaken eval run`"
                raise InvalidInput(what="--fixtures", problem=problem)
        agents: Any = [Agent(id="default", model=NoModel(), instructions="")]
        if app_place is not None:
            app = load_app(app_place)
            agents = app.agents if app.runtime is None else app.runtime
        result = asyncio.run(
            evaluate(
                dataset,
                agents,
                mode=EvalMode.SCRIPTED,
                repeats=1,
                tools=ToolPolicy(on_miss=OnMiss.ERROR),
            )
        )
        reports = sorted((build_report(it) for it in result.items), key=_read_id)
        lines = [msgspec.json.encode(it).decode() for it in reports]
        try:
            report.write_text("\n".join([*lines, ""]), encoding="utf-8")
        except OSError as error:
            raise InvalidInput(what="--report", problem=str(error)) from error
    failed = [it["fixture_id"] for it in reports if not it["passed"]]
    print_stdout(f"{len(reports) - len(failed)} passed, {len(failed)} failed.")
    for name in failed:
        print_stdout(f"  {name}")
    if failed:
        raise typer.Exit(ExitCode.GATE_FAILED)


def _read_id(report: dict[str, Any]) -> str:
    return str(report["fixture_id"])


def check_reports(
    *,
    baseline: Annotated[Path, typer.Option("--baseline", help="The reports to compare with.")],
    new: Annotated[Path, typer.Option("--new", help="The reports to check.")],
) -> None:
    """Compare the reports of two replays, fixture by fixture.

    Exits with 1 if a fixture is worse, differs, is missing, or is new and fails.
    """
    with report_bad_input(is_json=False):
        found = diff_reports(_read_reports(baseline), _read_reports(new))
    for it in found:
        if it.kind is not FixtureChange.UNCHANGED:
            print_stdout(msgspec.json.encode(it).decode())
    blocking = sum(it.is_blocking for it in found)
    print_stdout(f"{len(found)} fixtures, {blocking} blocking.")
    if blocking:
        raise typer.Exit(ExitCode.GATE_FAILED)


def _read_reports(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(what=str(path), problem=str(error)) from error
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                found.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError as error:
                what = f"Line {number} of {path}"
                raise InvalidDataset(what=what, problem=str(error)) from error
    if not found:
        raise InvalidDataset(what=str(path), problem="it has no report: nothing was compared")
    return found
