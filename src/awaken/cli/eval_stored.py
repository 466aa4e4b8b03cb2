"""`awaken eval compare|score|calibrate`: evals of a store, and files of results."""

import asyncio
from typing import Annotated

import typer

from awaken.bootstrap.evals import find_eval_store
from awaken.evals.calibrating import calibrate_judge
from awaken.evals.evaluating import compare
from awaken.evals.reports import ExitCode, choose_exit, to_json, to_markdown
from awaken.evals.rescoring import rescore_eval

from .apps import FORMS, load_app
from .command_context import CommandContext, StoreUrl, store_command
from .eval_on_store import with_runner
from .eval_run import report_bad_input
from .eval_sources import load_result
from .output import as_json, facts, print_stdout
from .reports import IsJson
from .stores import name_store


def compare_results(
    first: Annotated[str, typer.Argument(metavar="A", help="A file of results, or an eval's id.")],
    second: Annotated[str, typer.Argument(metavar="B", help="What is judged.")],
    *,
    store_url: StoreUrl = None,
    is_json: IsJson = False,
) -> None:
    """Compare two evals, paired by case: better, worse, same or undecided.

    Exits with 1 if B is worse by a scorer.
    """
    with report_bad_input(is_json=is_json):
        one, two = (load_result(it, store_url) for it in (first, second))
        found = compare(one, two)
    if is_json:
        print_stdout(as_json(found))
    else:
        lines = [
            f"{it.second} against {it.first}, {scorer.scorer}: {scorer.verdict}. {scorer.reason}"
            for it in found
            for scorer in it.scorers
        ]
        told = dict.fromkeys(warning for it in found for warning in it.warnings)
        print_stdout("\n".join([*lines, *(f"Warning: {it}." for it in told)]))
    if any(scorer.verdict == "worse" for it in found for scorer in it.scorers):
        raise typer.Exit(ExitCode.GATE_FAILED)


def score_again(
    eval_id: Annotated[str, typer.Argument(metavar="EVAL", help="The eval's id.")],
    *,
    app_place: Annotated[str, typer.Option("--app", metavar="APP", help=f"The agents: {FORMS}.")],
    revision: Annotated[
        int | None, typer.Option("--revision", help="Whose scorers; absent: the newest.")
    ] = None,
    store_url: StoreUrl = None,
    is_json: IsJson = False,
) -> None:
    """Score an ended eval again by the scorers of its dataset, without running it."""
    with report_bad_input(is_json=is_json):
        loaded = load_app(app_place)
        named = name_store(loaded.runtime, store_url)
        result = asyncio.run(
            with_runner(loaded, named, lambda it: rescore_eval(it, eval_id, revision))
        )
    print_stdout(to_json(result).decode() if is_json else to_markdown(result).rstrip())
    code = choose_exit(result)
    if code is not ExitCode.PASSED:
        raise typer.Exit(code)


@store_command()
async def calibrate_scorer(
    context: CommandContext,
    scorer: Annotated[
        str, typer.Argument(metavar="SCORER", help="The name of the judge's scores.")
    ],
) -> None:
    """Say how far a judge agrees with the labels of people."""
    found = await calibrate_judge(find_eval_store(context.store), scorer)
    pairs: list[tuple[str, object]] = [
        ("labels", found.labels),
        ("calibrated", "yes" if found.is_calibrated else "no: 30 labels of both kinds are needed"),
        ("agreement", _show(found.agreement)),
        ("kappa", _show(found.kappa)),
        ("false pass", _show(found.false_pass)),
        ("false fail", _show(found.false_fail)),
        ("self-consistency", _show(found.self_consistency)),
    ]
    context.show(found, facts(pairs))


def _show(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"
