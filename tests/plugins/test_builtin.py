from __future__ import annotations

from typing import get_type_hints

import msgspec
import pytest

from muster.framework import Registry
from muster.framework.plugin import Plugin
from muster.plugins import BUILTIN
from muster.plugins.queues.queue_books import is_counted
from muster.testing.conformance import check_plugin

NAMES = [plugin.name for plugin in BUILTIN]


def test_names_are_those_of_the_configuration_file() -> None:
    volcanos = "binpack capacity conformance drf gang nodeorder overcommit pdb predicates priority proportion sla"
    assert set(volcanos.split()) <= set(NAMES)
    assert len(Registry.of(BUILTIN, []).plugins) == len(NAMES)


@pytest.mark.parametrize("plugin", BUILTIN, ids=NAMES)
def test_every_plugin_keeps_the_contract(plugin: type[Plugin]) -> None:
    check_plugin(plugin)


@pytest.mark.parametrize("plugin", BUILTIN, ids=NAMES)
def test_every_plugin_and_every_argument_is_described(plugin: type[Plugin]) -> None:
    assert plugin.summary.endswith(".")
    hints = get_type_hints(plugin.Args, include_extras=True)
    for known in msgspec.structs.fields(plugin.Args):
        metas = getattr(hints[known.name], "__metadata__", ())
        assert any(isinstance(meta, msgspec.Meta) and meta.description for meta in metas), known.encode_name


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("cpu", True),
        ("memory", True),
        ("pods", True),
        ("ephemeral-storage", True),
        ("nvidia.com/gpu", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-csi-x", True),
        ("count/pods", False),
        ("requests.cpu", False),
        ("limits.nvidia.com/gpu", False),
        ("services", False),
    ],
)
def test_resources_and_names_of_quotas(name: str, counted: bool) -> None:
    assert is_counted(name) is counted
