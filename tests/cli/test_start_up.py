"""What commands load: nobody waits for the client of a cluster who does not ask for one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_sources import HEAD, NODE, QUEUE, pod, written

#: Runs a command, then prints which of the parts of a cluster's client are loaded.
PROGRAM = """
import sys
from muster.cli.main import run
code = run(sys.argv[1:])
loaded = [name for name in ("kubernetes_asyncio", "aiohttp") if name in sys.modules]
print(f"code={code} loaded={loaded}")
"""


def last_line(*arguments: str) -> str:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()[-1]


def test_help_loads_no_client() -> None:
    assert last_line("run", "--help") == "code=0 loaded=[]"


@pytest.mark.parametrize("arguments", [["simulate"], ["explain", "ours"]])
def test_commands_on_a_saved_snapshot_load_no_client(arguments: list[str], tmp_path: Path) -> None:
    file = written(tmp_path / "saved.jsonl", HEAD, NODE, QUEUE, pod("ours", "volcano"))
    assert last_line(*arguments, file) == "code=0 loaded=[]"


def test_the_client_of_a_cluster_is_loaded_without_its_library_until_it_connects() -> None:
    program = "import sys, muster.cli.services; print('kubernetes_asyncio' in sys.modules, 'aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["False", "True"]


def test_only_the_command_that_is_asked_for_is_made(tmp_path: Path) -> None:
    program = """
import sys
import typer
from muster.cli.main import run
whole = typer.main.get_group
asked = []
def counted(part):
    asked.append((len(part.registered_commands), len(part.registered_groups)))
    return whole(part)
typer.main.get_group = counted
print(run(sys.argv[1:]), asked)
"""
    file = written(tmp_path / "one.json", NODE, pod("ours", "volcano"))
    command = [sys.executable, "-c", program, "simulate", file]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "0 [(1, 0)]"
