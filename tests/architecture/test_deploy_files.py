"""The files in `deploy/` are valid and agree with each other; processes get time to drain."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main
from tests.deploy_files import (
    DEPLOY,
    DOCKERFILE,
    KUBERNETES,
    LAUNCHES,
    UNITS,
    find_object,
    read_compose,
    read_objects,
)

from awaken import AgentRuntime
from awaken.cli.main import app

SLACK_S = 15
"""How much longer than a drain a process may take: it closes what is open, and tells the store."""


def read_options(command: list[str]) -> dict[str, Any]:
    """Read a command line as the program does; an unknown option is an error."""
    _, name, *arguments = command
    group = typer.main.get_group(app)
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found.make_context(name, arguments).params


@pytest.mark.parametrize("place", LAUNCHES)
def test_the_command_is_one_of_ours_and_listens_where_others_look(place: str) -> None:
    launch = LAUNCHES[place]
    options = read_options(launch.command)
    assert Path(launch.command[0]).name == "awaken"
    assert options["app_place"] == "app.py"
    assert options.get("port") == launch.port
    assert launch.stop_signal == "SIGTERM"
    assert launch.grace_s >= options["drain_ms"] / 1000 + SLACK_S
    assert "AWAKEN_STORE" in launch.environment
    is_open = options.get("host") == "0.0.0.0"
    assert not is_open or "AWAKEN_ADMIN_API_BEARER_TOKEN" in launch.environment


def test_the_probes_ask_for_routes_that_need_no_token() -> None:
    routes = {it.path: it for it in AgentRuntime([]).asgi().routes}
    asked = {it.ready_path for it in LAUNCHES.values()} | {it.live_path for it in LAUNCHES.values()}
    assert asked == {None, "/health", "/health/live"}
    assert {str(routes[path].access) for path in asked if path} == {"open"}


def test_pods_are_selected_and_have_no_more_rights_than_the_image() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    for name in ("awaken-server", "awaken-worker"):
        deployment = find_object("Deployment", name)["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        assert deployment["selector"]["matchLabels"] == labels
        pod = deployment["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == int(user)
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
        assert find_object("PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"] == labels
        scaled = find_object("HorizontalPodAutoscaler", name)["spec"]["scaleTargetRef"]
        assert (scaled["kind"], scaled["name"]) == ("Deployment", name)
    service = find_object("Service", "awaken")["spec"]
    server = find_object("Deployment", "awaken-server")["spec"]["template"]
    assert service["selector"] == server["metadata"]["labels"]
    assert service["ports"][0]["targetPort"] in [
        it["name"] for it in server["spec"]["containers"][0]["ports"]
    ]


def test_manifests_are_valid_and_a_wrong_one_is_refused() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    assert len(KUBERNETES) == 3
    for found in read_objects():
        validate.validate(found, "1.33", strict=True)
    wrong = find_object("Deployment", "awaken-server")
    wrong["spec"]["replicas"] = "two"
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, "1.33", strict=True)


def test_compose_is_valid_and_a_wrong_one_is_refused() -> None:
    spec = pytest.importorskip("compose_spec")
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    assert set(spec.PyCompose.from_yaml(text).service_names()) == set(read_compose()["services"])
    with pytest.raises(Exception, match="read_only"):
        spec.PyCompose.from_yaml(text.replace("read_only: true", "read_only: maybe"))


def test_the_dockerfile_has_no_known_mistake_and_one_is_found(tmp_path: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint has no wheel for this machine")
    subprocess.run([hadolint, DEPLOY / "Dockerfile"], check=True)
    wrong = tmp_path / "Dockerfile"
    wrong.write_text(DOCKERFILE.replace("python:3.13-slim", "python"), encoding="utf-8")
    assert subprocess.run([hadolint, wrong], check=False, capture_output=True).returncode == 1


def test_the_units_are_understood_by_systemd_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed")
    # The program and its user are those of this machine.
    program = str(Path(sys.executable).with_name("awaken"))
    assert len(UNITS) == 2
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace("/srv/awaken/.venv/bin/awaken", program)
        text = text.replace("User=awaken\n", "")
        told = [verify(analyze, tmp_path / unit.name, it) for it in (text, text + "Wrong=yes\n")]
        assert told[0] == ""
        assert "Wrong" in told[1]


def verify(analyze: str, path: Path, text: str) -> str:
    """What systemd says about the unit; about others of the machine it may say anything."""
    path.write_text(text, encoding="utf-8")
    instance = path.with_name(path.name.replace("@", "@8001"))
    instance.unlink(missing_ok=True)
    instance.symlink_to(path.name)
    told = subprocess.run(
        [analyze, "verify", "--man=no", str(instance)],
        check=False,
        capture_output=True,
        text=True,
    )
    return "\n".join(it for it in told.stderr.splitlines() if path.name.partition("@")[0] in it)
