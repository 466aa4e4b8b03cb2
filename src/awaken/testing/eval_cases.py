"""Evals in pytest: one test for each case, its repeats inside, and the gate as the assertion."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

if TYPE_CHECKING:
    from awaken.authoring.agents import Agent
    from awaken.contracts.evals.cases import Case
    from awaken.contracts.specs.agents import AgentSpec
    from awaken.evals.evaluating import Dataset, EvalOptions, EvalResult
    from awaken.scoring.gates import GateTerms


GATE = "(gate)"
"""The id of the test of the gate; no case can have it."""


def eval_cases(
    dataset: "Dataset | Sequence[Case]",
    agents: "Iterable[Agent | AgentSpec] | Any" = (),
    *,
    runtime_options: Mapping[str, Any] | None = None,
    **options: "Unpack[EvalOptions]",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make one test of each case of a dataset, and one of its gate.

    The decorated function gets the `EvalResult` of its case as `result`, and may assert more.
    Without a gate every sample has to pass every scorer before it is called. A gate is judged once,
    over all cases, by a test of its own that comes last; then only cases that it names by
    `must_pass` have to pass by themselves. A case is tried once in a process; the gate tries those
    that the process has not.

    Args:
        dataset: A dataset, or cases.
        agents: The agents, or a runtime that is not open.
        runtime_options: Further arguments of the `AgentRuntime`.
        **options: As of `awaken.evals.evaluate`.

    Raises:
        InvalidEval: No case is left; a test without cases would pass.
    """
    # Only a test run has the one, and only one with evals needs the other.
    import pytest  # noqa: PLC0415

    from awaken.evals.evaluating import Dataset  # noqa: PLC0415

    given = dataset if isinstance(dataset, Dataset) else Dataset(cases=tuple(dataset))
    given = choose_cases(given, options)
    tried = TriedCases(given, agents, runtime_options, options)

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def run_case(case_id: str) -> None:
            if case_id == GATE:
                result = tried.judge()
                assert result.is_passed, describe_failures(result)
                return
            result = tried.run(case_id)
            assert not tried.has_to_pass(case_id) or result.is_passed, describe_failures(result)
            made = test(result)
            if isinstance(made, Awaitable):
                asyncio.run(_finish(made))

        run_case.__name__ = test.__name__
        run_case.__doc__ = test.__doc__
        run_case.__module__ = test.__module__
        ids = [it.id for it in given.cases] + ([] if tried.gate is None else [GATE])
        return pytest.mark.parametrize("case_id", ids)(run_case)

    return decorate


def choose_cases(dataset: "Dataset", options: Mapping[str, Any]) -> "Dataset":
    """Return the dataset with the cases that the options choose.

    Raises:
        InvalidEval: No case is left.
    """
    from awaken.contracts.evals.cases import CaseEntry, DatasetRevision  # noqa: PLC0415
    from awaken.contracts.evals.worlds import Variant  # noqa: PLC0415
    from awaken.evals.evaluating import build_spec  # noqa: PLC0415
    from awaken.evals.planning import select_cases  # noqa: PLC0415

    listed = tuple(
        CaseEntry(id=it.id, hash="", tags=it.tags, split=it.split, status=it.status)
        for it in dataset.cases
    )
    revision = DatasetRevision(dataset_id=dataset.id, revision=1, cases=listed)
    found = select_cases(revision, build_spec(dataset, (Variant(name="default"),), options))
    chosen = tuple(it for it in dataset.cases if it.id in found)
    return msgspec.structs.replace(dataset, cases=chosen)


class TriedCases:
    """The cases of a dataset, each tried once and alone, and their gate over all of them."""

    def __init__(
        self,
        dataset: "Dataset",
        agents: Any,
        runtime_options: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> None:
        from awaken.evals.evaluating import choose_mode  # noqa: PLC0415
        from awaken.scoring.gates import parse_gate  # noqa: PLC0415

        gate = options.get("gate") or dataset.gate
        self.gate = None if gate is None else parse_gate(gate)
        # Chosen by all cases: alone, one of them could choose another mode.
        stated = None if self.gate is None else self.gate.terms.mode
        mode = options.get("mode") or stated or choose_mode(dataset.cases)
        terms = {} if self.gate is None else list_terms(self.gate.terms)
        said = {name: value for name, value in options.items() if value is not None}
        self._options = {**terms, **said, "mode": mode, "gate": None}
        for name in ("cases", "tags", "split"):
            self._options.pop(name, None)
        self._dataset = dataset
        self._document = gate
        self._agents = agents
        self._runtime_options = runtime_options
        self._results: dict[str, EvalResult] = {}

    def has_to_pass(self, case_id: str) -> bool:
        """Whether every sample of a case has to pass: without a gate, or because it says so."""
        tags = next(it.tags for it in self._dataset.cases if it.id == case_id)
        return self.gate is None or not set(tags).isdisjoint(self.gate.cases.must_pass)

    def run(self, case_id: str) -> "EvalResult":
        """Try a case, once."""
        from awaken.evals.evaluating import evaluate  # noqa: PLC0415

        if case_id not in self._results:
            alone = msgspec.structs.replace(
                self._dataset,
                cases=tuple(it for it in self._dataset.cases if it.id == case_id),
                gate=None,
            )
            options: Any = self._options
            self._results[case_id] = asyncio.run(
                evaluate(alone, self._agents, runtime_options=self._runtime_options, **options)
            )
        return self._results[case_id]

    def judge(self) -> "EvalResult":
        """Judge the results of all cases by the gate."""
        from awaken.evals.evaluating import EvalResult, judge_result  # noqa: PLC0415

        results = [self.run(it.id) for it in self._dataset.cases]
        items = [item for result in results for item in result.items]
        first = results[0]
        spec = msgspec.structs.replace(first.record.spec, gate=self._document)
        planned = sum(it.record.planned for it in results)
        whole = EvalResult(
            record=msgspec.structs.replace(first.record, spec=spec, planned=planned),
            items=tuple(
                msgspec.structs.replace(it, number=number) for number, it in enumerate(items)
            ),
            figures=first.figures,
            hashes={name: hashed for it in results for name, hashed in it.hashes.items()},
        )
        return msgspec.structs.replace(whole, figures=judge_result(whole, self._dataset))


def list_terms(terms: "GateTerms") -> dict[str, Any]:
    """Return what the terms of a gate say of the evals of its cases, as options of `evaluate`.

    Each case is tried without the gate, which judges all of them together.
    """
    from awaken.contracts.evals.worlds import Variant  # noqa: PLC0415

    agent_id = terms.agent_id
    found = {
        "variants": None if agent_id is None else (Variant(name="default", agent_id=agent_id),),
        "repeats": terms.repeats,
        "seed": terms.seed,
        "tools": terms.tools,
        "judge_model_id": terms.judge_model_id,
        "judge": terms.judge,
        "cell_timeout_ms": terms.cell_timeout_ms,
        "max_tokens_per_cell": terms.max_tokens_per_cell,
    }
    return {name: value for name, value in found.items() if value is not None}


async def _finish(made: Awaitable[Any]) -> None:
    await made


def describe_failures(result: "EvalResult") -> str:
    """Return what did not pass, as the message of an assertion."""
    lines = []
    if result.gate is not None:
        lines += [
            f"gate: {it.condition} {it.status}: {it.reason}"
            for it in result.gate.checks
            if it.status != "passed"
        ]
    for item in result.items:
        where = f"case '{item.case_id}', variant '{item.variant}', sample {item.sample}"
        if item.error is not None:
            lines.append(f"{where}: {item.status}: {item.error}")
        for score in item.scores:
            if not score.passed:
                why = score.error or score.reason or f"{score.value}"
                lines.append(f"{where}: {score.name}: {why}; the answer was {item.text!r:.200}")
    return "\n".join(lines) or "the eval did not pass"
