"""The page about deploying is true: its commands, its probes, and how long it waits."""

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main
import yaml

from awaken import AgentRuntime
from awaken.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs/how-to/deploy.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(block("ini"))
    return parser


def pods() -> dict[str, Any]:
    deployment, _ = yaml.safe_load_all(block("yaml"))
    return dict(deployment["spec"]["template"]["spec"])


def container_command() -> list[str]:
    (line,) = re.findall(r"^CMD (.+)$", block("dockerfile"), re.MULTILINE)
    return list(json.loads(line))


COMMANDS = {
    "systemd": shlex.split(unit()["Service"]["ExecStart"]),
    "container": container_command(),
    "kubernetes": pods()["containers"][0]["args"],
}


def read_options(command: list[str]) -> dict[str, Any]:
    """Read a command line as the program does; an unknown option is an error."""
    _, name, *arguments = command
    group = typer.main.get_group(app)
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found.make_context(name, arguments).params


@pytest.mark.parametrize("place", COMMANDS)
def test_the_command_is_one_of_ours_and_takes_these_options(place: str) -> None:
    options = read_options(COMMANDS[place])
    assert (options["host"], options["port"], options["app_place"]) == ("0.0.0.0", 8000, "app.py")


def test_what_stops_the_server_waits_longer_than_it_drains() -> None:
    drains = {place: read_options(it)["drain_ms"] / 1000 for place, it in COMMANDS.items()}
    (container,) = map(int, re.findall(r"--stop-timeout (\d+)", PAGE))
    assert int(unit()["Service"]["TimeoutStopSec"]) > drains["systemd"]
    assert pods()["terminationGracePeriodSeconds"] > drains["kubernetes"]
    assert container > drains["container"]


def test_the_probes_ask_for_routes_that_need_no_token() -> None:
    probes = [
        pods()["containers"][0][name]["httpGet"] for name in ("readinessProbe", "livenessProbe")
    ]
    routes = {it.path: it for it in AgentRuntime([]).asgi().routes}
    assert [str(routes[it["path"]].access) for it in probes] == ["open", "open"]
    assert {it["port"] for it in probes} == {8000}
