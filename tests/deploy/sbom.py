"""A bill of materials of the image, in CycloneDX: `python -m tests.deploy.sbom FILE`, or `make sbom`.

Made of the lock that the image is built from, so that it names what is installed and nothing else; licences and what
needs what come from the packages that are installed here, which have the same versions. The same lock makes the same
file: there is no time in it.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from muster import __version__

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-run.lock"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
Json = dict[str, Any]

_ENTRY = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\\n]+?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_IMAGE = re.compile(
    r"^ARG PYTHON_IMAGE=(?P<name>[^:@\s]+):(?P<tag>(?P<python>\d+\.\d+)[^@\s]*)@sha256:(?P<digest>\w+)$", re.MULTILINE
)
_LICENCE_CLASSIFIER = "License :: OSI Approved :: "


@dataclass(frozen=True)
class Locked:
    """One package of a lock."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def url(self) -> str:
        """The name by which tools know the package."""
        return f"pkg:pypi/{self.name}@{self.version}"


def locked(text: str) -> Iterator[Locked]:
    """Read a lock."""
    entry: re.Match[str] | None = None
    hashes: list[str] = []
    for line in [*text.splitlines(), "end==0"]:
        if found := _ENTRY.match(line):
            if entry is not None:
                yield Locked(canonicalize_name(entry["name"]), entry["version"], entry["marker"] or "", tuple(hashes))
            entry, hashes = found, []
        hashes += _HASH.findall(line)


def environment() -> dict[str, str]:
    """What markers are asked about: the image, whatever this machine is."""
    image = _IMAGE.search(DOCKERFILE.read_text())
    assert image is not None, "deploy/Dockerfile names its base by tag and digest"
    return {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "python_version": image["python"],
        "python_full_version": f"{image['python']}.0",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "platform_machine": "x86_64",
        "extra": "",
    }


def document() -> Json:
    """The bill."""
    where = environment()
    packages = {
        each.name: each for each in locked(LOCK.read_text()) if not each.marker or Marker(each.marker).evaluate(where)
    }
    about: Json = {"type": "application", "bom-ref": "muster", "name": "muster", "version": __version__}
    content: Json = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**about, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": [*map(_component, packages.values()), _base()],
        "dependencies": [
            {"ref": "muster", "dependsOn": _needs("muster", packages, where)},
            *({"ref": each.url, "dependsOn": _needs(each.name, packages, where)} for each in packages.values()),
        ],
    }
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {**content, "serialNumber": f"urn:uuid:{identity}"}


def _component(package: Locked) -> Json:
    licences = _licences(package)
    return {
        "type": "library",
        "bom-ref": package.url,
        "name": package.name,
        "version": package.version,
        "purl": package.url,
        # Of every file that the lock admits: the image has one of them.
        "externalReferences": [
            {"type": "distribution", "url": package.url, "hashes": [_sha256(each) for each in package.hashes]}
        ],
        **({"licenses": licences} if licences else {}),
    }


def _base() -> Json:
    image = _IMAGE.search(DOCKERFILE.read_text())
    assert image is not None
    purl = f"pkg:docker/{image['name']}@sha256:{image['digest']}"
    return {
        "type": "container",
        "bom-ref": purl,
        "name": image["name"],
        "version": image["tag"],
        "purl": purl,
        "hashes": [_sha256(image["digest"])],
    }


def _sha256(content: str) -> Json:
    return {"alg": "SHA-256", "content": content}


def _licences(package: Locked) -> list[Json]:
    """As the package itself says; nothing when another version, or none, is installed here."""
    about = _installed(package.name)
    if about is None or about.version != package.version:
        return []
    if expression := about.metadata.get_all("License-Expression"):
        return [{"expression": expression[0]}]
    told = about.metadata.get_all("Classifier") or []
    names = [each.removeprefix(_LICENCE_CLASSIFIER) for each in told if each.startswith(_LICENCE_CLASSIFIER)]
    if not names:
        names = [text for text in about.metadata.get_all("License") or [] if text and "\n" not in text]
    return [{"license": {"name": name}} for name in names]


def _needs(name: str, packages: dict[str, Locked], where: dict[str, str]) -> list[str]:
    about = _installed(name)
    wanted = (Requirement(text) for text in (about.requires or [] if about is not None else []))
    needed = {canonicalize_name(each.name) for each in wanted if each.marker is None or each.marker.evaluate(where)}
    return sorted(packages[each].url for each in needed & packages.keys())


def _installed(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def main(arguments: list[str]) -> int:
    """Write the bill to the file that is named."""
    made = document()
    file = Path(arguments[0] if arguments else "muster.cdx.json")
    file.write_text(json.dumps(made, indent=2) + "\n")
    sys.stdout.write(f"{file}: {len(made['components'])} components\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
