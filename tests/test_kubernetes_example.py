"""The manifests of examples/kubernetes: they fit together, and say what mqsniff and Spark read.

``make kubernetes`` validates them against the schemas of Kubernetes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mqsniff.cli import batch, live

FOLDER = Path(__file__).parent.parent / "examples" / "kubernetes"
FILES = sorted(path for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
COMMANDS = {"batch": batch.command, "live": live.command}


def resources() -> Iterator[dict[str, Any]]:
    for path in FILES:
        yield from yaml.safe_load_all(path.read_text())


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in resources() if each["kind"] == kind}


def pod_of(resource: dict[str, Any]) -> dict[str, Any]:
    """The specification of the pods of a resource; empty if it has none."""
    spec: dict[str, Any] = resource.get("spec", {})
    if resource["kind"] == "Pod":
        return spec
    template = spec.get("jobTemplate", resource)["spec"].get("template", {})
    found: dict[str, Any] = template.get("spec", {})
    return found


PODS = {each["metadata"]["name"]: pod for each in resources() if "spec" in each and (pod := pod_of(each))}
of_every_pod = pytest.mark.parametrize("pod", PODS.values(), ids=PODS)


def spark_settings() -> dict[str, str]:
    lines = (FOLDER / "spark-defaults.conf").read_text().splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


@of_every_pod
def test_what_a_pod_mounts_and_who_it_is_are_there(pod: dict[str, Any]) -> None:
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    generated = {each["name"] for each in KUSTOMIZATION["configMapGenerator"]}
    [container] = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
    for volume in volumes.values():
        if claim := volume.get("persistentVolumeClaim"):
            assert claim["claimName"] in named("PersistentVolumeClaim")
        if config := volume.get("configMap"):
            assert config["name"] in generated
    assert pod.get("serviceAccountName", "mqsniff-driver") in named("ServiceAccount")
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]


@of_every_pod
def test_arguments_are_those_of_the_command(pod: dict[str, Any]) -> None:
    name, *arguments = pod["containers"][0].get("args", ["batch", "/captures", "/tables"])  # of executors, Spark's
    command = COMMANDS[name]
    with command.make_context(name, list(arguments)) as context:
        assert context.params.get("master") in (None, spark_settings()["spark.master"])


def test_all_files_are_applied_but_the_template_that_the_driver_reads() -> None:
    files = {path.name for path in FILES}
    [config] = KUSTOMIZATION["configMapGenerator"]
    assert {*KUSTOMIZATION["resources"], *config["files"]} == files | {"spark-defaults.conf"}
    settings = spark_settings()
    assert Path(settings["spark.kubernetes.executor.podTemplateFile"]).name in config["files"]
    assert settings["spark.kubernetes.namespace"] == KUSTOMIZATION["namespace"]
    assert settings["spark.kubernetes.authenticate.executor.serviceAccountName"] in named("ServiceAccount")
    images = {pod["containers"][0].get("image") for name, pod in PODS.items() if name != "mqsniff-executor"}
    assert images == {settings["spark.kubernetes.container.image"]}


def test_only_one_run_at_a_time_appends() -> None:
    [append] = named("CronJob").values()
    assert append["spec"]["concurrencyPolicy"] == "Forbid"


def test_the_image_starts_what_spark_asks_for(tmp_path: Path) -> None:
    for program in ("java", "mqsniff"):
        (tmp_path / program).write_text(f'#!/bin/sh\nprintf "%s\\n" {program} "$@"\n')
        (tmp_path / program).chmod(0o755)
    given = {
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
        "SPARK_JAVA_OPT_1": "-Da=two words",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "mqsniff-exec-1",
    }
    path = f"{tmp_path}:{FOLDER.parents[1] / '.venv' / 'bin'}:{os.environ['PATH']}"

    def started(*arguments: str) -> list[str]:
        command = ["sh", str(FOLDER / "entrypoint.sh"), *arguments]
        environment = os.environ | given | {"PATH": path}
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()

    program, *arguments = started("executor")
    assert program == "java"
    assert arguments[:4] == ["-Dspark.driver.port=7078", "-Da=two words", "-Xms1024m", "-Xmx1024m"]
    assert arguments[arguments.index("--driver-url") + 1] == given["SPARK_DRIVER_URL"]
    assert arguments[-1] == given["SPARK_EXECUTOR_POD_NAME"]
    assert started("live", "-i", "any") == ["mqsniff", "live", "-i", "any"]
