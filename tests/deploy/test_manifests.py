"""The files of deploy/ as far as they can be checked without an engine: structure, names that must agree, options."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

from network.keys import KeyFileError, parse_keyring
from parallel_sgd.commands.options import make_parser
from rpc.agent.cli import _parser as worker_parser
from rpc.agent.scheduler_env import scheduler_environment
from rpc.launch import KubernetesLauncher, launcher_of

from ..statements import covers

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: it is in the group dev")
DEPLOY = Path(__file__).parents[2] / "deploy"
LOCKED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
KEY_FILE = "/run/psgd/key"


def documents(name: str) -> dict[str, Any]:
    found = list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))
    assert len({document["kind"] for document in found}) == len(found)
    return {document["kind"]: document for document in found}


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return documents("kubernetes.yaml")


@pytest.fixture(scope="module")
def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = manifest["StatefulSet"]["spec"]["template"]["spec"]
    return spec


def parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The arguments as the program takes them; a wrong one ends the test."""
    return parser.parse_args(arguments)


def test_the_set_and_its_service(manifest: dict[str, Any]) -> None:
    """Golden: the service is headless and has the set's name, which is what the launcher builds the names of pods from."""
    assert {kind: (each["apiVersion"], each["metadata"]["name"]) for kind, each in manifest.items()} == {
        "Secret": ("v1", "psgd-key"),
        "Service": ("v1", "psgd"),
        "StatefulSet": ("apps/v1", "psgd"),
        "NetworkPolicy": ("networking.k8s.io/v1", "psgd"),
    }
    labels = {"app.kubernetes.io/name": "psgd"}
    assert manifest["Service"]["spec"] == {
        "clusterIP": "None",
        "selector": labels,
        "ports": [{"name": "psgd", "port": 15387}],
    }
    spec = manifest["StatefulSet"]["spec"]
    assert {name: spec[name] for name in ("serviceName", "podManagementPolicy", "selector")} == {
        "serviceName": "psgd",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
    }
    assert spec["template"]["metadata"]["labels"].items() >= labels.items()


def test_who_may_speak_with_the_pods(manifest: dict[str, Any]) -> None:
    """Golden: workers and submitters with each other, on the port of the worker, and with DNS; nobody else, either way."""
    policy = manifest["NetworkPolicy"]["spec"]
    among = policy["podSelector"]
    templates = [manifest["StatefulSet"]["spec"]["template"], documents("kubernetes-submit.yaml")["Job"]["spec"]["template"]]
    assert all(each["metadata"]["labels"].items() >= among["matchLabels"].items() != set() for each in templates)
    (container,) = templates[0]["spec"]["containers"]
    port = [{"protocol": "TCP", "port": parsed(worker_parser(), container["args"]).port}]
    dns = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    assert policy == {
        "podSelector": among,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": among}], "ports": port}],
        "egress": [
            {"to": [{"podSelector": among}], "ports": port},
            {"to": [dns], "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]},
        ],
    }


def test_the_secret_holds_no_key(manifest: dict[str, Any]) -> None:
    """Nobody runs on a key that is in a public file."""
    with pytest.raises(KeyFileError):
        parse_keyring(manifest["Secret"]["stringData"]["key"], "the manifest")


def test_the_worker_takes_its_options(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    options = parsed(worker_parser(), container["args"])
    assert (options.system, options.listen, options.port) == ("kubernetes", "0.0.0.0", 15387)
    assert container["ports"] == [{"name": "psgd", "containerPort": options.port}]
    assert {"name": "HOME", "value": "/var/lib/psgd"} in container["env"] and options.key_file == KEY_FILE
    origin = scheduler_environment(
        system=options.system,
        rendezvous=None,
        advertise=None,
        grace=options.grace,
        environ={"POD_IP": "10.0.0.9"},
        hostname="psgd-3",
    )
    assert origin.allocation is not None and (origin.allocation.rank, origin.folder) == (3, None)
    assert origin.grace < pod["terminationGracePeriodSeconds"]
    assert container["readinessProbe"]["exec"]["command"] == ["test", "-f", options.announce]


def test_what_the_worker_writes_to_can_be_written(pod: dict[str, Any], manifest: dict[str, Any]) -> None:
    """The root is read-only; the private work directory lies below a volume, and a restart does not open it to the group."""
    (container,) = pod["containers"]
    options = parsed(worker_parser(), container["args"])
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    claims = [claim["metadata"]["name"] for claim in manifest["StatefulSet"]["spec"]["volumeClaimTemplates"]]
    assert set(mounts.values()) == {*claims, "tmp", "key"}
    assert all(str(Path(path).parent) in mounts for path in (options.work_dir, options.announce))
    assert container["securityContext"] == {**LOCKED, "readOnlyRootFilesystem": True}
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert (pod["shareProcessNamespace"], pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (
        True,
        False,
        False,
    )


@covers("SEC-16", "SEC-23")
@pytest.mark.parametrize(("name", "kind"), [("kubernetes.yaml", "StatefulSet"), ("kubernetes-submit.yaml", "Job")])
def test_the_key_is_a_file(name: str, kind: str) -> None:
    """In no environment. One container mounts the Secret, copies it as 0400 into memory, and ends; so the file
    belongs to who reads it. All containers are locked down and have limits."""
    document = documents(name)[kind]
    spec = document["spec"]["template"]["spec"]
    (copier,), (main,) = spec["initContainers"], spec["containers"]
    assert "PSGD_KEY" not in str(document) and "secretKeyRef" not in str(document)
    volumes = {volume.pop("name"): volume for volume in spec["volumes"]}
    assert volumes["secret"] == {"secret": {"secretName": "psgd-key", "defaultMode": 0o400}}
    assert volumes["key"]["emptyDir"]["medium"] == "Memory"
    assert copier["command"] == ["install", "-m", "0400", "/secret/key", KEY_FILE] and "env" not in copier
    assert copier["volumeMounts"] == [
        {"name": "secret", "mountPath": "/secret", "readOnly": True},
        {"name": "key", "mountPath": str(Path(KEY_FILE).parent)},
    ]
    assert {"name": "key", "mountPath": "/run/psgd", "readOnly": True} in main["volumeMounts"]
    assert "secret" not in {mount["name"] for mount in main["volumeMounts"]}
    for container in (copier, main):
        assert container["securityContext"] == {**LOCKED, "readOnlyRootFilesystem": True}
        resources = container["resources"]
        assert resources["requests"].keys() == resources["limits"].keys() == {"cpu", "memory"}


def test_the_submitter_takes_its_options(manifest: dict[str, Any]) -> None:
    job = documents("kubernetes-submit.yaml")["Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["psgd-submit"]
    options = parsed(make_parser(), container["args"])
    assert options.key_file == KEY_FILE
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {"/models", "/tmp", "/run/psgd"} and container["workingDir"] in mounts
    assert {"name": "HOME", "value": "/tmp"} in container["env"]
    launcher, _ = launcher_of(options.launch)
    assert isinstance(launcher, KubernetesLauncher) and options.discovery == "launcher"
    assert options.launch == f"kubernetes:{manifest['Service']['metadata']['name']}"
    assert options.min_workers <= options.worker_count <= manifest["StatefulSet"]["spec"]["replicas"] <= options.max_workers


def test_the_image(manifest: dict[str, Any], pod: dict[str, Any]) -> None:
    """All packages are copied that the project has, the user is that of the manifest, the command is one of ours; the base is
    named by its bytes, and of the Python that has a lock."""
    lines = (DEPLOY / "Dockerfile").read_text("utf-8").splitlines()
    steps = [line for line in lines if line and not line.startswith("#")]
    assert re.fullmatch(r"ARG BASE=python:3\.11\.\d+-slim@sha256:[0-9a-f]{64}", steps[0]) and steps[1] == "FROM ${BASE}"
    copied = {words[1] for words in map(str.split, steps) if words[0] == "COPY" and len(words) == 3}
    project = (DEPLOY.parent / "pyproject.toml").read_text("utf-8")
    packages = re.search(r"^include = \[(.*)\]$", project, re.MULTILINE)
    assert packages is not None and copied == set(re.findall(r'"(\w+)\*"', packages[1]))
    assert "_psgd_packages.py" in " ".join(steps).split()
    sent = {line[1:] for line in (DEPLOY.parent / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    for name in {word for line in steps if line.startswith("COPY") for word in line.split()[1:-1]}:
        assert (DEPLOY.parent / name).exists() and name.partition("/")[0] in sent, name
    assert f"USER {pod['securityContext']['runAsUser']}" in steps and "EXPOSE 15387" in steps
    entry, command = (next(line for line in steps if line.startswith(word)) for word in ("ENTRYPOINT", "CMD"))
    assert yaml.safe_load(entry.partition(" ")[2]) == ["psgd-worker"] and 'psgd-worker = "' in project
    assert parsed(worker_parser(), yaml.safe_load(command.partition(" ")[2])).grace == 25


def test_the_commands_in_the_texts_exist() -> None:
    """Whatever README, guide and comments tell people to type is understood by the programs."""
    found = 0
    texts = [*DEPLOY.iterdir(), DEPLOY.parent / "docs" / "launchers.md"]
    for line in "\n".join(path.read_text("utf-8") for path in texts).replace("\\\n", " ").splitlines():
        match = re.search(r"(worker\.py|psgd[- ]worker|job_submit\.py|psgd[- ]submit) +([^`#|>&(]*)", line)
        if match is None:
            continue
        parser = worker_parser() if "worker" in match[1] else make_parser()
        known = {option for action in parser._actions for option in action.option_strings}
        given = re.findall(r"(?<!\S)--?[a-z][a-z-]*", match[2])
        assert set(given) <= known, line
        found += 1
    assert found >= 8
    for path in DEPLOY.iterdir():
        said = " ".join(path.read_text("utf-8").replace("#", "").split())
        assert re.search(r"[Nn]ot (been )?(built|applied|run) (on|to) a (real|machine)|has not been built", said), path
