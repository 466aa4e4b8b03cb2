"""`awaken eval run`: tries a dataset in this process, without a server."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from awaken.contracts.errors import AwakenError, InvalidInput
from awaken.contracts.evals.eval_runs import EvalBudget, EvalMode
from awaken.contracts.evals.worlds import Variant
from awaken.evals.evaluating import Dataset, EvalResult, evaluate
from awaken.evals.reports import ExitCode, choose_exit, to_json, to_junit, to_markdown
from awaken.scoring.gates import parse_gate

from .apps import FORMS, load_app
from .command_context import StoreUrl
from .command_line import new_app
from .eval_sources import load_dataset, load_result
from .output import print_stdout
from .reports import print_error
from .spinner import show_spinner

_VARIANT = re.compile(r"(?P<name>[A-Za-z0-9._-]+):(?P<key>[a-z_]+)=(?P<value>.*)", re.DOTALL)
_FIELDS = {"agent": "agent_id", "model": "model_id"}


@contextmanager
def report_bad_input(*, is_json: bool) -> Iterator[None]:
    """Print an error on stderr; what was asked for wrongly exits with 2."""
    try:
        yield
    except AwakenError as error:
        print_error(error, is_json=is_json)
        raise typer.Exit(ExitCode.BAD_INPUT) from error


Junit = Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write JSON; - prints it.", allow_dash=True)
]
Markdown = Annotated[Path | None, typer.Option("--md", help="Write Markdown.")]
NewBaseline = Annotated[
    Path | None, typer.Option("--save-baseline", help="Write a baseline for later evals.")
]

DatasetName = Annotated[
    str,
    typer.Argument(
        metavar="DATASET|DIR", help="A folder of cases or fixtures, or a dataset of a store."
    ),
]
BaselineName = Annotated[
    str | None,
    typer.Option("--baseline", help="A file of --save-baseline, or an eval of a store."),
]

commands = new_app()


@commands.command("run")
def run_eval(  # noqa: PLR0913 - one parameter for each option
    dataset: DatasetName,
    *,
    app_place: Annotated[str, typer.Option("--app", metavar="APP", help=f"The agents: {FORMS}.")],
    agent: Annotated[str | None, typer.Option("--agent", help="The agent of variants.")] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option("--variant", metavar="NAME:KEY=VALUE", help="What to try; may be repeated."),
    ] = None,
    mode: Annotated[
        EvalMode | None, typer.Option("--mode", help="Unless given: what the cases have.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", min=1, max=50, help="Samples of each cell.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The order of samples.")] = 0,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Samples at once.")] = 4,
    cases: Annotated[
        list[str] | None, typer.Option("--case", help="Only this case; may be repeated.")
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="Only cases with it; may be repeated.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option("--judge-model", help="The model of judges that name none.")
    ] = None,
    baseline: BaselineName = None,
    gate: Annotated[
        Path | None, typer.Option("--gate", help="A gate instead of the dataset's.")
    ] = None,
    budget_usd: Annotated[
        float | None, typer.Option("--budget-usd", help="The most that it may cost.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option("--budget-tokens", min=1, help="The most tokens.")
    ] = None,
    junit: Junit = None,
    json_file: JsonFile = None,
    markdown: Markdown = None,
    save_baseline: NewBaseline = None,
    store_url: StoreUrl = None,
) -> None:
    """Try agents with a dataset. Recorded and scripted datasets need no key and no network.

    Exits with 0 if it passed, 1 if the gate failed, 2 for bad input, 3 if it is incomplete, 4 if
    providers failed too often.
    """
    is_printed = str(json_file) == "-"
    with report_bad_input(is_json=is_printed):
        options: dict[str, Any] = {
            "mode": mode,
            "repeats": repeats,
            "seed": seed,
            "concurrency": concurrency,
            "cases": cases,
            "tags": tags,
            "judge_model_id": judge,
            "gate": None if gate is None else read_gate_file(gate),
            "budget": _read_budget(budget_usd, budget_tokens),
        }
        variants = read_variants(variant or (), agent)
        tried = load_dataset(dataset, store_url)
        kept = None if baseline is None else load_result(baseline, store_url)
        result = _try_dataset(app_place, tried, variants, kept, options)
        _write(junit, to_junit(result))
        _write(None if is_printed else json_file, to_json(result))
        _write(save_baseline, to_json(result))
        _write(markdown, to_markdown(result).encode())
    print_stdout(to_json(result).decode() if is_printed else to_markdown(result).rstrip())
    code = choose_exit(result)
    if code is not ExitCode.PASSED:
        raise typer.Exit(code)


def _try_dataset(
    app_place: str,
    dataset: Dataset,
    variants: list[Variant],
    kept: EvalResult | None,
    options: dict[str, Any],
) -> EvalResult:
    app = load_app(app_place)
    given: Any = {name: value for name, value in options.items() if value is not None}
    agents = app.agents if app.runtime is None else app.runtime
    with show_spinner("Tries…"):
        return asyncio.run(evaluate(dataset, agents, variants=variants, baseline=kept, **given))


def read_variants(given: "list[str] | tuple[str, ...]", agent: str | None) -> list[Variant]:
    """Read variants: `name:key=value`, several for one name.

    Raises:
        InvalidInput: One is malformed.
    """
    if not given:
        return [Variant(name="default", agent_id=agent)]
    named: dict[str, dict[str, Any]] = {}
    for it in given:
        found = _VARIANT.fullmatch(it)
        if found is None:
            problem = f"'{it}' is not NAME:KEY=VALUE, such as new:instructions=Be brief."
            raise InvalidInput(what="--variant", problem=problem)
        fields = named.setdefault(found["name"], {"changes": {}})
        _set_field(fields, found["key"], found["value"])
    try:
        return [
            msgspec.convert({"name": name, "agent_id": agent, **fields}, Variant)
            for name, fields in named.items()
        ]
    except msgspec.ValidationError as error:
        raise InvalidInput(what="--variant", problem=str(error)) from error


def _set_field(fields: dict[str, Any], key: str, value: str) -> None:
    key = _FIELDS.get(key, key)
    if key in ("agent_id", "model_id", "instructions", "draft_id"):
        fields[key] = value
        return
    try:
        read = msgspec.json.decode(value)
    except msgspec.DecodeError:
        read = value
    if key == "publication":
        fields[key] = read
    else:
        fields["changes"][key] = read


def read_gate_file(path: Path) -> dict[str, Any]:
    """Read a gate from a file of YAML or JSON.

    Raises:
        InvalidGate: It is no gate.
    """
    return dict(msgspec.to_builtins(parse_gate(_read(path))))


def _read_budget(cost_usd: float | None, tokens: int | None) -> EvalBudget | None:
    if cost_usd is None and tokens is None:
        return None
    return EvalBudget(cost_usd=cost_usd, tokens=tokens)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(what=str(path), problem=error.strerror or str(error)) from error


def _write(path: Path | None, data: bytes) -> None:
    if path is None:
        return
    try:
        path.write_bytes(data)
    except OSError as error:
        raise InvalidInput(what=str(path), problem=error.strerror or str(error)) from error
