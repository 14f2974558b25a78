"""Kernels mean the same as plain Python: the tests of this directory also hold with the compiler turned off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_kernel_tests_hold_without_the_compiler(repo_root: Path) -> None:
    files = ["tests/kernels/test_placement.py", "tests/kernels/test_totals.py", "tests/kernels/test_clearing.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *files]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(command, cwd=repo_root, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
