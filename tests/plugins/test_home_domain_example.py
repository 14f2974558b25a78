"""The example that replaces the choice of domain and of victims, on the cluster of the demo."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from muster.api import Loaded, PodGroup, load_files
from muster.framework import PluginOption, SchedulerConfig, load_config
from muster.scheduler import builtin_registry
from muster.simulate import simulate
from muster.testing import check_plugin


@pytest.fixture(scope="module")
def example(repo_root: Path) -> ModuleType:
    path = repo_root / "examples/home-domain/src/muster_home_domain/__init__.py"
    spec = importlib.util.spec_from_file_location("muster_home_domain", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def evicted(example: ModuleType, repo_root: Path, home: str) -> list[str]:
    """Pods evicted for the hotfix when it names a home."""
    registry = builtin_registry(third_party=False)
    registry.plugins["home-domain"] = example.HomeDomain
    plain = load_config(repo_root / "examples/config/gang-preempt.yaml")
    config = SchedulerConfig(plain.actions, ((PluginOption("home-domain"),), *plain.tiers))
    loaded = load_files([repo_root / "examples/urgent"])
    for place, item in enumerate(loaded):
        thing = item.object
        if isinstance(thing, PodGroup) and thing.name == "hotfix" and home:
            meta = msgspec.structs.replace(thing.metadata, annotations={example.HOME: home})
            loaded[place] = Loaded(msgspec.structs.replace(thing, metadata=meta), item.source)
    result = simulate(loaded, config, cycles=1, registry=registry)
    return sorted(entry["pod"] for entry in result.to_json()["decisions"] if entry["kind"] == "evict")


def test_the_gang_makes_room_in_its_home_and_clears_it(example: ModuleType, repo_root: Path) -> None:
    assert evicted(example, repo_root, "rack-4") == ["research/crawl-3", "research/index-0", "research/index-1"]


def test_without_a_home_the_choice_is_the_scheduler_s(example: ModuleType, repo_root: Path) -> None:
    assert evicted(example, repo_root, "") == ["research/crawl-0", "research/nightly-0"]


def test_it_keeps_the_contract_of_plugins(example: ModuleType) -> None:
    check_plugin(example.HomeDomain)
