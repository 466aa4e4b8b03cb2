"""`awaken test`: simulates the agents of a file with many schedules and crashes."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from awaken.authoring.agents import Agent
from awaken.contracts.errors import InvalidInput
from awaken.testing.agent_reports import AgentReport, AgentViolated, Violation
from awaken.testing.agent_simulation import DEFAULT_SCHEDULES, SimulationOptions, simulate_agent
from awaken.testing.turn_model import ToolTourModel, is_repeatable

from .apps import FORMS, App, load_app
from .output import as_json, plain, print_stdout
from .reports import REFUSED, IsJson, report_errors
from .spinner import show_spinner

SCENARIOS = "SCENARIOS"
"""The variable of a file that has the inputs of its agents: {agent_id: input or inputs}."""
DEFAULT_INPUT = "Hello."

app = typer.Typer(rich_markup_mode=None)


@app.command("test")
def simulate_agents(
    app_place: Annotated[str, typer.Argument(metavar="APP", help=FORMS)],
    *,
    schedules: Annotated[
        int, typer.Option("--schedules", min=1, help="How many schedules to try.")
    ] = DEFAULT_SCHEDULES,
    seed: Annotated[int | None, typer.Option("--seed", help="Try one schedule again.")] = None,
    crash: Annotated[
        str | None, typer.Option("--crash", help="Try one crash again: 'before commit 3'.")
    ] = None,
    is_real: Annotated[
        bool,
        typer.Option("--real-tools", help="Execute tools also where their input is made up."),
    ] = False,
    is_json: IsJson = False,
) -> None:
    """Simulate agents: many schedules, and a crash at every commit and in every tool.

    An agent with a scripted model is simulated as it is, with the inputs in SCENARIOS of its file.
    An agent with a real model gets a stand-in that calls every tool once with made-up input; its
    tools are not executed without --real-tools.
    """
    with report_errors(is_json=is_json):
        app = load_app(app_place)
        agents = app.agents
        if not agents:
            problem = f"its runtime in '{app_place}' has no agent that was declared in code"
            raise InvalidInput(what="APP", problem=problem)
        options = SimulationOptions(schedules=schedules, seed=seed, crash=crash)
        with show_spinner("Simulates…"):
            reports = {
                agent.id: _report(agent, agents, _inputs(app, agent), options, is_real=is_real)
                for agent in agents
            }
    print_stdout(as_json(_document(reports)) if is_json else _text(app_place, reports))
    if any(report.violations for report in reports.values()):
        raise typer.Exit(REFUSED)


def _report(
    agent: Agent,
    agents: Sequence[Agent],
    inputs: Any,
    options: SimulationOptions,
    *,
    is_real: bool,
) -> AgentReport:
    others = [other for other in agents if other is not agent]
    cast = [_with_repeatable_model(it) for it in (agent, *others)]
    is_scripted = is_repeatable(agent.model)
    try:
        return simulate_agent(cast, inputs, has_real_tools=is_real or is_scripted, **options)
    except AgentViolated as violated:
        return violated.report


def _with_repeatable_model(agent: Agent) -> Agent:
    if is_repeatable(agent.model):
        return agent
    return dataclasses.replace(agent, model=ToolTourModel())


def _inputs(app: App, agent: Agent) -> Any:
    scenarios = app.values.get(SCENARIOS, {})
    if not isinstance(scenarios, Mapping):
        problem = "write a mapping, {agent_id: input or inputs}"
        raise InvalidInput(what=SCENARIOS, problem=problem)
    return scenarios.get(agent.id, DEFAULT_INPUT)


def _document(reports: Mapping[str, AgentReport]) -> list[dict[str, Any]]:
    return [
        {
            "agent_id": agent_id,
            "schedules": report.schedules,
            "crash_points": report.crash_points,
            "violations": report.violations,
            "smallest": report.smallest,
        }
        for agent_id, report in reports.items()
    ]


def _text(app_place: str, reports: Mapping[str, AgentReport]) -> str:
    width = max(map(len, reports))
    lines = []
    for agent_id, report in reports.items():
        lines.append(f"{plain(agent_id).ljust(width)}  {report}")
        if report.smallest is not None:
            lines += [f"  - {plain(problem)}" for problem in report.smallest.problems]
            lines.append(f"  See it again: awaken test {app_place}{_again(report.smallest)}")
    return "\n".join(lines)


def _again(violation: Violation) -> str:
    seed = "" if violation.seed is None else f" --seed {violation.seed}"
    crash = "" if violation.crash is None else f" --crash '{violation.crash}'"
    return seed + crash
