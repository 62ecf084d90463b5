"""scripts/setup.sh on machines that lack something, made of a few programs and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOOLS = ("sh", "sed", "grep", "head", "cat", "cksum", "dirname", "rm")
JAVA = "echo 'openjdk version \"{version}\" 2025-04-15' >&2"


class Machine:
    def __init__(self, path: Path) -> None:
        self.project = path / "project"
        self.programs = path / "bin"
        self.programs.mkdir()
        for tool in TOOLS:
            (self.programs / tool).symlink_to(str(shutil.which(tool)))
        for part in ("scripts", "requirements"):
            shutil.copytree(ROOT / part, self.project / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", self.project)
        self.install("id", "echo 1000")

    def install(self, name: str, script: str) -> None:
        program = self.programs / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def setup(self, *kind: str) -> subprocess.CompletedProcess[str]:
        script = str(self.project / "scripts" / "setup.sh")
        environment = {"PATH": str(self.programs)}
        return subprocess.run([script, *kind], env=environment, capture_output=True, text=True, timeout=240)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_java_an_ordinary_user_on_debian_is_told_what_to_type(machine: Machine) -> None:
    machine.install("apt-get", "exit 1")
    done = machine.setup()
    assert done.returncode == 1
    assert "Java 17 or newer is needed" in done.stderr
    assert "sudo apt-get update && sudo apt-get install -y openjdk-17-jre-headless" in done.stderr


def test_on_fedora_the_packages_of_fedora_are_named(machine: Machine) -> None:
    machine.install("dnf", "exit 1")
    assert "sudo dnf install -y java-21-openjdk-headless" in machine.setup().stderr


def test_on_an_unknown_system_the_packages_are_named(machine: Machine) -> None:
    assert "openjdk-17-jre-headless (Debian)" in machine.setup().stderr


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16.0.2"])
def test_an_old_java_is_not_enough(machine: Machine, version: str) -> None:
    machine.install("java", JAVA.format(version=version))
    assert "Java 17 or newer is needed" in machine.setup().stderr


def test_root_on_debian_gets_java_installed(machine: Machine, tmp_path: Path) -> None:
    machine.install("id", "echo 0")
    java = machine.programs / "java"
    machine.install("apt-get", f'echo "$@" >>{tmp_path}/calls; case "$*" in *openjdk-17*) :>{java};; esac')
    done = machine.setup()
    calls = (tmp_path / "calls").read_text()
    assert "update" in calls
    assert "install -y -qq --no-install-recommends openjdk-17-jre-headless" in calls
    assert "installing Java" in done.stdout


@pytest.mark.parametrize(("user", "known", "made"), [("0", False, True), ("0", True, False), ("1000", False, False)])
def test_the_service_account_is_made_by_root_where_it_is_missing(
    machine: Machine, tmp_path: Path, user: str, known: bool, made: bool
) -> None:
    machine.install("java", JAVA.format(version="17.0.15"))
    machine.install("id", f'case "$*" in *tidegate) exit {0 if known else 1};; *) echo {user};; esac')
    machine.install("useradd", f'echo "$@" >{tmp_path}/calls')
    done = machine.setup()
    calls = tmp_path / "calls"
    assert calls.exists() == ("making the system account tidegate" in done.stdout) == made
    if made:
        words = "--system --user-group --no-create-home --shell /usr/sbin/nologin tidegate"
        assert calls.read_text().strip() == words


def test_an_old_python_is_refused_with_what_to_type(machine: Machine) -> None:
    machine.install("java", JAVA.format(version="17.0.15"))
    machine.install("apt-get", "exit 1")
    machine.install("python3", "exit 1")
    done = machine.setup()
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "sudo apt-get install -y python3 python3-venv" in done.stderr


def test_a_python_without_venv_is_refused_with_what_to_type(machine: Machine) -> None:
    machine.install("java", JAVA.format(version="21"))
    machine.install("apt-get", "exit 1")
    real = f'case "$*" in *ensurepip*) exit 1;; *) exec {sys.executable} "$@";; esac'
    machine.install("python3", real)
    done = machine.setup()
    assert done.returncode == 1
    assert "lacks the module venv" in done.stderr
    assert f"python3.{sys.version_info[1]}-venv" in done.stderr


def test_programs_that_only_tests_run_are_named_with_what_to_type(machine: Machine) -> None:
    machine.install("java", JAVA.format(version="17.0.15"))
    machine.install("dnf", "exit 1")
    assert "chromium" not in machine.setup().stdout
    assert "sudo dnf install -y chromium restic" in machine.setup("dev").stdout
    machine.install("chromium", "exit 0")
    assert "sudo dnf install -y restic" in machine.setup("dev").stdout
    machine.install("restic", "exit 0")
    assert "dnf" not in machine.setup("dev").stdout


def test_root_on_debian_gets_the_programs_that_tests_run_installed(machine: Machine, tmp_path: Path) -> None:
    machine.install("java", JAVA.format(version="17.0.15"))
    machine.install("id", "echo 0")
    machine.install("apt-get", f'echo "$@" >>{tmp_path}/calls')
    assert "installing chromium restic" in machine.setup("dev").stdout
    assert "install -y -qq --no-install-recommends chromium restic" in (tmp_path / "calls").read_text()
