"""The pages say what the code does: generated ones are current, written ones leave nothing out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.cli.main import main
from tidegate.core.s3errors import CODES
from tidegate.settings import BY_NAME, Settings, section_model

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def test_generated_pages_are_current() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_command_is_documented() -> None:
    page = (DOCS / "cli.md").read_text()
    for name, command in main.commands.items():
        assert f"## `tidegate {name}`" in page
        for below in getattr(command, "commands", {}):
            assert f"## `tidegate {name} {below}`" in page


def test_every_setting_is_documented() -> None:
    page = (DOCS / "settings.md").read_text()
    for section in Settings.model_fields:
        title = f"{section}.NAME" if section in BY_NAME else section
        text = page.split(f"## `[{title}]`")[1].split("\n## ")[0]
        for name in section_model(section).model_fields:
            assert f"| `{name}` |" in text, f"{section}.{name}"


def test_every_s3_error_code_is_documented() -> None:
    page = (DOCS / "errors.md").read_text()
    assert [code for code in CODES if f"| `{code}` |" not in page] == []


def test_every_metric_is_documented() -> None:
    page = (DOCS / "metrics.md").read_text()
    source = (ROOT / "tidegate" / "metrics.py").read_text()
    names = set(re.findall(r'"(tidegate_[a-z_]+)"', source))
    assert len(names) > 15
    assert [name for name in names if name not in page] == []


def test_every_route_of_the_api_is_documented() -> None:
    page = (DOCS / "api.md").read_text()
    program = """
from tidegate.web.app import create_app
for path, operations in create_app(None, ()).openapi()["paths"].items():
    for method in operations:
        print(method.upper(), path)
"""
    routes = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert len(routes.splitlines()) > 20
    assert [route for route in routes.splitlines() if f"`{route}`" not in page] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text()
    assert [page.name for page in DOCS.glob("*.md") if page.name != "index.md" and f"({page.name})" not in index] == []


def test_the_readme_names_the_command_that_the_check_runs() -> None:
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert commands[-1] == "exec make test"
    assert "make test" in (ROOT / "README.md").read_text()


def test_every_make_target_is_explained() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("setup", "run", "test", "lint", "bench", "clean"):
        assert re.search(rf"^{target} +\S", done.stdout, re.MULTILINE), target


def test_no_lock_file_or_script_names_an_address() -> None:
    files = [*ROOT.glob("requirements/*"), *ROOT.glob("scripts/*.sh"), ROOT / "Makefile", ROOT / "pyproject.toml"]
    assert [file.name for file in files if re.search(r"\w://", file.read_text())] == []


def test_locked_packages_all_carry_hashes() -> None:
    for lock in ROOT.glob("requirements/*.lock"):
        for entry in re.split(r"\n(?=\S)", lock.read_text().strip()):
            assert "==" in entry, f"{lock.name}: {entry}"
            assert "--hash=sha256:" in entry, f"{lock.name}: {entry}"


def test_the_example_settings_file_is_valid(tmp_path: Path) -> None:
    from tidegate.settings import load

    assert load(tmp_path, config=ROOT / "deploy" / "tidegate.toml").gateway.port == 443


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"`((?:tidegate|tests|bench|scripts)/[\w./-]+)`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []
