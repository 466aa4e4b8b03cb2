"""A research team: a lead, researchers in the background, and a checker who reads the sources.

The lead starts one researcher for each topic and goes on without waiting. Each researcher answers
with a `Finding`, the checker with a `Verdict`, the lead with a `Report`. All of them are durable
runs: the team survives a restart in the middle.
"""

import os

import msgspec
from library import LIBRARY, Library, Page
from scripted_team import check, lead_team, research, scripted

from awaken import Agent, AgentRuntime, Delegate, Retry, RunContext, ToolContext, ToolError, tool
from awaken.extensions.background import BackgroundTasksConfig, BackgroundTasksPlugin


class Finding(msgspec.Struct, frozen=True):
    """What a researcher found."""

    claim: str
    source: str


class Verdict(msgspec.Struct, frozen=True):
    """What the checker says about a finding."""

    is_supported: bool
    reason: str


class Report(msgspec.Struct, frozen=True):
    """The answer of the team."""

    summary: str
    findings: list[Finding]
    rejected: list[Finding] = []


@tool(effect="none")
async def search(words: str, ctx: ToolContext[Library]) -> list[Page]:
    """Search the library for pages that have one of the words."""
    return await ctx.deps.search(words)


@tool(effect="none")
async def read_page(address: str, ctx: ToolContext[Library]) -> Page:
    """Read the page at an address."""
    page = await ctx.deps.read(address)
    if page is None:
        raise ToolError(f"there is no page {address}")
    return page


async def check_source(ctx: RunContext[Library], finding: Finding) -> None:
    """Send a researcher back who invents a source."""
    if await ctx.deps.read(finding.source) is None:
        raise Retry(f"there is no page {finding.source}; name the address of a page you found")


def check_report(report: Report) -> None:
    """Send a lead back who reports nothing."""
    if not report.findings and not report.rejected:
        raise Retry("report what your researchers found")


MODEL = os.environ.get("AGENT_MODEL")

researcher = Agent(
    "researcher",
    model=MODEL or scripted(research),
    description="Searches the library for one topic.",
    instructions="Search the library. Answer with one claim and the address of its source.",
    tools=[search],
    output_type=Finding,
    output_validators=[check_source],
)
checker = Agent(
    "checker",
    model=MODEL or scripted(check),
    description="Reads the source of a claim and says whether it supports the claim.",
    instructions="Read the page. A claim is supported only if the page states it as a fact.",
    tools=[read_page],
    output_type=Verdict,
)
lead = Agent(
    "lead",
    model=MODEL or scripted(lead_team),
    description="Answers questions with checked findings.",
    instructions=(
        "Start a researcher for each topic of the question, in the background. Have the checker "
        "check every finding. When all are checked, write the report; until then say what you "
        "wait for."
    ),
    delegates=[Delegate(checker, arguments=Finding, prompt="Does {source} say: {claim}?")],
    plugins=[BackgroundTasksPlugin()],
    config=[BackgroundTasksConfig(tools=("spawn_agent", "task_status"), agents=("researcher",))],
    output_type=Report,
    output_validators=[check_report],
)
runtime = AgentRuntime(
    [lead, researcher, checker],
    deps=LIBRARY,
    store=os.environ.get("AWAKEN_STORE", "memory://"),
)
