"""`awaken eval run`: tries a dataset in this process, without a server."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from awaken.contracts.errors import AwakenError, InvalidInput
from awaken.contracts.evals.eval_runs import EvalBudget, EvalMode
from awaken.contracts.evals.worlds import Variant
from awaken.contracts.storage.store import Store
from awaken.evals.evaluating import EvalResult, evaluate
from awaken.evals.reports import ExitCode, choose_exit, to_json, to_junit, to_markdown
from awaken.scoring.gates import parse_gate

from .apps import FORMS, App, load_app
from .command_context import StoreUrl
from .command_line import new_app
from .eval_on_store import is_on_store, try_on_store
from .eval_sources import load_dataset, load_result
from .output import print_stdout
from .reports import print_error
from .spinner import show_spinner
from .stores import name_store
from .variant_fields import VariantFields

_VARIANT = re.compile(r"(?P<name>[A-Za-z0-9._-]+):(?P<key>[a-z_]+)=(?P<value>.*)", re.DOTALL)


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
VariantTexts = Annotated[
    list[str] | None,
    typer.Option("--variant", metavar="NAME:KEY=VALUE", help="What to try; may be repeated."),
]
CaseIds = Annotated[
    list[str] | None, typer.Option("--case", help="Only this case; may be repeated.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="Only cases with it; may be repeated.")
]

commands = new_app()


@commands.command("run")
def run_eval(  # noqa: PLR0913 - one parameter for each option
    dataset: DatasetName,
    *,
    app_place: Annotated[str, typer.Option("--app", metavar="APP", help=f"The agents: {FORMS}.")],
    agent: Annotated[str | None, typer.Option("--agent", help="The agent of variants.")] = None,
    variant: VariantTexts = None,
    mode: Annotated[
        EvalMode | None, typer.Option("--mode", help="Unless given: what the cases have.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", min=1, max=50, help="Samples of each cell.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="The order of samples; 0 unless given.")
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Samples at once.")] = 4,
    cases: CaseIds = None,
    tags: Tags = None,
    has_drafts: Annotated[
        bool, typer.Option("--drafts", help="Also cases that nobody has confirmed.")
    ] = False,
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
        options = {
            "mode": mode,
            "repeats": repeats,
            "seed": seed,
            "concurrency": concurrency,
            "cases": cases,
            "tags": tags,
            "has_drafts": has_drafts,
            "judge_model_id": judge,
            "gate": None if gate is None else read_gate_file(gate),
            "budget": _read_budget(budget_usd, budget_tokens),
        }
        variants, loaded = read_variants(variant or (), agent), load_app(app_place)
        named = NamedEval(dataset, loaded, variants, name_store(loaded.runtime, store_url))
        kept = None if baseline is None else load_result(baseline, named.store)
        result = _try_dataset(named, kept, options)
        _write(junit, to_junit(result))
        _write(None if is_printed else json_file, to_json(result))
        _write(save_baseline, to_json(result))
        _write(markdown, to_markdown(result).encode())
    print_stdout(to_json(result).decode() if is_printed else to_markdown(result).rstrip())
    code = choose_exit(result)
    if code is not ExitCode.PASSED:
        raise typer.Exit(code)


class NamedEval(NamedTuple):
    """What an eval is made of, as the command line names it."""

    dataset: str
    app: App
    variants: list[Variant]
    store: Store | str | None


def _try_dataset(named: NamedEval, kept: EvalResult | None, options: dict[str, Any]) -> EvalResult:
    """Try a dataset in memory; with publications or drafts, on the store that has them."""
    given: Any = {name: value for name, value in options.items() if value is not None}
    dataset = load_dataset(named.dataset, named.store)
    app, variants = named.app, named.variants
    if is_on_store(variants):
        if Path(named.dataset).is_dir():
            problem = "a variant of a publication or a draft needs a dataset of the store; push it"
            raise InvalidInput(what=f"'{named.dataset}'", problem=problem)
        with show_spinner("Tries…"):
            return asyncio.run(try_on_store(app, named.store, dataset, variants, given, kept))
    agents = app.agents if app.runtime is None else app.runtime
    with show_spinner("Tries…"):
        return asyncio.run(evaluate(dataset, agents, variants=variants, baseline=kept, **given))


def read_variants(given: "list[str] | tuple[str, ...]", agent: str | None) -> list[Variant]:
    """Read variants: `name:key=value`, several for one name.

    Raises:
        InvalidInput: One is malformed, or has a field twice.
    """
    if not given:
        return [Variant(name="default", agent_id=agent)]
    named: dict[str, VariantFields] = {}
    for it in given:
        found = _VARIANT.fullmatch(it)
        if found is None:
            problem = f"'{it}' is not NAME:KEY=VALUE, such as new:instructions=Be brief."
            raise InvalidInput(what="--variant", problem=problem)
        name = found["name"]
        fields = named.setdefault(name, VariantFields(name, f"--variant {name}"))
        fields.set(found["key"], found["value"])
    return [it.build(agent_id=None if it.has("agent_id") else agent) for it in named.values()]


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
