"""docker-compose.yml, checked as far as it goes without an engine."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from perdure.temporal.embedded import DevServer, binary
from perdure.temporal.search_attributes import ATTRIBUTES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
FILLED = re.sub(
    r"\$\{\w+:-(.+?)\}", r"\1", re.sub(r"\$\{\w+:\?.+?\}", "given", TEXT)
)  # as compose does, before it reads
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOTS = {"schema", "namespace"}


def mounts() -> Iterator[tuple[str, str]]:
    for service in yaml.safe_load(FILLED)["services"].values():
        for mount in service.get("volumes", []):
            source, target, *_ = mount.split(":")
            yield source, target


def test_it_is_a_compose_file_by_the_specification() -> None:
    assert set(PyCompose.from_yaml(FILLED).to_dict()["services"]) == set(SERVICES)


def test_every_service_waits_for_one_that_exists_and_says_for_what() -> None:
    for service in SERVICES.values():
        for name, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_completed_successfully":
                assert name in ONE_SHOTS
            else:
                assert wait["condition"] == "service_healthy"
                assert "healthcheck" in SERVICES[name]


def test_every_volume_is_declared_and_every_folder_is_in_the_checkout() -> None:
    named = {source for source, _ in mounts() if not source.startswith(".")}
    assert named == set(COMPOSE["volumes"])
    missing = [source for source, _ in mounts() if source.startswith(".") and not (ROOT / source).is_dir()]
    assert missing == []


def test_every_script_a_service_runs_is_in_the_folder_it_mounts() -> None:
    told = re.findall(r"(?<!\.)/deploy/([\w.-]+)", TEXT)
    assert told
    assert [name for name in told if not (ROOT / "deploy/temporal" / name).is_file()] == []


def test_images_are_pinned_to_a_release() -> None:
    images = [service["image"] for service in SERVICES.values() if "image" in service]
    images += re.findall(r"^FROM (\S+)", (ROOT / "deploy/Dockerfile").read_text(), flags=re.M)
    assert [image for image in images if not re.search(r":\d+\.\d+(\.\d+)?(-[\w-]+)?$", image)] == []


def test_ports_are_bound_to_loopback() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_no_secret_has_a_value_or_a_default() -> None:
    secret = re.compile(r"(PASSWORD|PWD|KEY|TOKEN|SECRET)$")
    given = [(k, v) for s in SERVICES.values() for k, v in s.get("environment", {}).items() if secret.search(k)]
    assert given
    assert [(k, v) for k, v in given if v is not None and not re.fullmatch(r"\$\{\w+:\?.+\}", v)] == []


def test_what_runs_for_good_comes_back_and_what_runs_once_does_not() -> None:
    assert {name for name, service in SERVICES.items() if "restart" not in service} == ONE_SHOTS


@pytest.mark.skipif(not shutil.which("sh"), reason="needs a shell")
async def test_the_namespace_script_does_its_work_twice_on_a_real_server(tmp_path: Path) -> None:
    async with DevServer(tmp_path, fast=True, ui=False) as server:
        told = {"TEMPORAL_ADDRESS": server.address, "TEMPORAL_NAMESPACE": "desk", "RETENTION": "90d"}
        told["PATH"] = f"{Path(binary()).parent}:/usr/bin:/bin"
        for _ in range(2):
            subprocess.run(["sh", "deploy/temporal/namespace.sh"], cwd=ROOT, env=told, check=True, timeout=60)
        listed = subprocess.run(
            [binary(), "operator", "search-attribute", "list", "--namespace", "desk"],
            env=told,
            capture_output=True,
            text=True,
            check=True,
        )
        assert [name for name in ATTRIBUTES if name not in listed.stdout] == []
