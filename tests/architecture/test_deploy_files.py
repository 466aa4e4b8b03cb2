"""The files in `deploy/` are valid and agree with each other; processes get time to drain."""

import asyncio
import configparser
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main
import yaml
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
from tests.nats_servers.cluster import PROGRAM, NatsServer, free_ports
from tests.nats_servers.identities import write_certificates

from awaken import AgentRuntime
from awaken.buses.nats import NatsBus
from awaken.cli.main import app
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.services.cluster import ScaleFigures
from awaken.stores.postgres.server import POOL_SIZE

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


def test_the_pods_of_a_roll_out_at_its_largest_fit_the_connections_of_a_default_postgres() -> None:
    most = 0
    for name in ("awaken-server", "awaken-worker"):
        surge = find_object("Deployment", name)["spec"]["strategy"]["rollingUpdate"]["maxSurge"]
        most += surge + find_object("HorizontalPodAutoscaler", name)["spec"]["maxReplicas"]
    assert most * (POOL_SIZE + 2) <= 100 - 3


def test_the_proxy_looks_for_servers_that_have_another_address() -> None:
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    (upstream,) = re.findall(r"^upstream awaken \{(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    for part in ("zone ", "resolver 127.0.0.11", "server server:8000 resolve "):
        assert part in upstream
    # Open source since that version.
    image = read_compose()["services"]["proxy"]["image"]
    assert tuple(map(int, image.removeprefix("nginx:").split("."))) >= (1, 28)


def test_manifests_are_valid_and_a_wrong_one_is_refused() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    assert len(KUBERNETES) == 5
    for found in read_objects():
        # Those of KEDA are no part of Kubernetes; the test below reads them.
        if not found["apiVersion"].startswith("keda.sh/"):
            validate.validate(found, "1.33", strict=True)
    wrong = find_object("Deployment", "awaken-server")
    wrong["spec"]["replicas"] = "two"
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, "1.33", strict=True)


def test_workers_are_scaled_by_what_a_server_says_is_wanted() -> None:
    scaled = find_object("ScaledObject", "awaken-worker")["spec"]
    limits = find_object("HorizontalPodAutoscaler", "awaken-worker")["spec"]
    # It takes over that autoscaler, and changes neither its limits nor how slowly it goes down.
    taken = scaled["advanced"]["horizontalPodAutoscalerConfig"]
    assert (taken["name"], taken["behavior"]) == ("awaken-worker", limits["behavior"])
    assert scaled["scaleTargetRef"]["name"] == limits["scaleTargetRef"]["name"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (
        limits["minReplicas"],
        limits["maxReplicas"],
    )
    (trigger,) = scaled["triggers"]
    asked = trigger["metadata"]
    service = find_object("Service", "awaken")
    assert asked["url"] == f"http://{service['metadata']['name']}.default.svc/v1/system/scale"
    assert service["spec"]["ports"][0]["port"] == 80
    assert asked["valueLocation"] in ScaleFigures.__struct_fields__
    command = LAUNCHES["kubernetes awaken-worker"].command
    assert asked["targetValue"] == command[command.index("--concurrency") + 1]
    access = find_object("TriggerAuthentication", trigger["authenticationRef"]["name"])["spec"]
    (secret,) = access["secretTargetRef"]
    server = find_object("Deployment", "awaken-server")["spec"]["template"]["spec"]
    tokens = {it["name"]: it["valueFrom"]["secretKeyRef"] for it in server["containers"][0]["env"]}
    wanted = tokens["AWAKEN_ADMIN_API_BEARER_TOKEN"]
    assert (secret["name"], secret["key"]) == (wanted["name"], wanted["key"])


def test_compose_is_valid_and_a_wrong_one_is_refused() -> None:
    spec = pytest.importorskip("compose_spec")
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    assert set(spec.PyCompose.from_yaml(text).service_names()) == set(read_compose()["services"])
    more = yaml.safe_dump(read_compose("compose.nats.yaml"))
    assert {"nats-0", "nats-1", "nats-2"} < set(spec.PyCompose.from_yaml(more).service_names())
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


def test_a_process_that_starts_before_its_database_is_started_again_until_it_is_there() -> None:
    for unit in UNITS:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(unit.read_text(encoding="utf-8"))
        # By default systemd gives up after five starts within ten seconds.
        assert parser["Unit"]["StartLimitIntervalSec"] == "0"
        assert parser["Service"]["Restart"] == "always"
    compose = read_compose()["services"]
    assert {compose[it]["restart"] for it in ("server", "worker")} == {"unless-stopped"}


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


def test_the_servers_of_nats_are_those_that_clients_and_each_other_look_for() -> None:
    urls = {
        it["environment"]["AWAKEN_BUS"]
        for it in read_compose("compose.nats.yaml")["services"].values()
        if "AWAKEN_BUS" in it["environment"]
    }
    (url,) = urls
    named = re.findall(r"(nats-\d\.nats):4222", url)
    config = (DEPLOY / "nats.conf").read_text(encoding="utf-8")
    assert re.findall(r"nats://(nats-\d\.nats):6222", config) == named
    pods = find_object("StatefulSet", "nats")["spec"]
    assert [f"nats-{number}.{pods['serviceName']}" for number in range(pods["replicas"])] == named
    aliases = [
        name
        for it in read_compose("compose.nats.yaml")["services"].values()
        for name in it.get("networks", {}).get("default", {}).get("aliases", ())
    ]
    assert aliases == named
    assert "jetstream" not in re.sub(r"#.*", "", config).lower()
    allowed = find_object("NetworkPolicy", "awaken-nats")["spec"]["egress"][0]["ports"]
    assert [it["port"] for it in allowed] == [4222]


def test_the_configuration_of_nats_is_understood_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    text = localize_config(tmp_path)
    for wanted, config in ((0, text), (1, text.replace("max_payload", "max_payloads"))):
        path = tmp_path / "nats.conf"
        path.write_text(config, encoding="utf-8")
        environment = {"NATS_NAME": "nats-0", "NATS_PASSWORD": "secret"}
        checked = subprocess.run(
            [PROGRAM, "-t", "-c", path], check=False, capture_output=True, env=environment
        )
        assert checked.returncode == wanted, checked.stderr


def test_three_servers_of_the_configuration_let_in_who_knows_the_password_and_nobody_else(
    tmp_path: Path,
) -> None:
    write_certificates(tmp_path)
    ports = free_ports(9)
    members = []
    for number in range(3):
        text = localize_config(tmp_path)
        for place, port in zip((4222, 8222, 6222), ports[number * 3 :], strict=False):
            text = text.replace(f"0.0.0.0:{place}", f"127.0.0.1:{port}")
        for peer in range(3):
            text = text.replace(f"nats-{peer}.nats:6222", f"127.0.0.1:{ports[peer * 3 + 2]}")
        environment = {"NATS_NAME": f"nats-{number}", "NATS_PASSWORD": "passw0rd"}
        members.append(NatsServer(tmp_path, ports[number * 3], text, environment))
    with ExitStack() as ends:
        for member in members:
            ends.callback(member.kill)
            member.start()
        options = f"?ca={tmp_path}/ca.crt"
        first, last = (f"127.0.0.1:{it.port}" for it in (members[0], members[-1]))
        asyncio.run(check_carried(f"tls://awaken:passw0rd@{first}{options}", last))
        assert not asyncio.run(can_connect(f"tls://awaken:wrong@{first}{options}"))
        assert not asyncio.run(can_connect(f"nats://{first}{options}"))


def localize_config(folder: Path) -> str:
    """The configuration with the files of a test."""
    for name, copy in (("ca.pem", "ca.crt"), ("server.pem", "tls.crt"), ("server.key", "tls.key")):
        shutil.copyfile(folder / name, folder / copy)
    text = (DEPLOY / "nats.conf").read_text(encoding="utf-8")
    return text.replace("/etc/nats/tls", str(folder))


async def check_carried(url: str, other_place: str) -> None:
    """What is told at one server is heard at another, over TLS and within the user's rights."""
    here, there = NatsBus(url), NatsBus(re.sub(r"127\.0\.0\.1:\d+", other_place, url))
    heard: list[Signal] = []
    there.subscribe(heard.append)
    try:
        await here.open()
        await there.open()
        async with asyncio.timeout(30):
            while not heard:
                here.tell(Signal(kind=SignalKind.CONFIG_CHANGED))
                await asyncio.sleep(0.01)
    finally:
        await here.close()
        await there.close()


async def can_connect(url: str) -> bool:
    bus = NatsBus(url)
    await bus.open()
    try:
        return bus.is_up
    finally:
        await bus.close()
