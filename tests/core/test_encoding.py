"""State and hyperparameters come back equal; names in a file are looked up, never executed."""

from __future__ import annotations

import functools
import json
import math
import os
import random
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.core.action_noise import (
    AdaptiveParamNoiseSpec,
    LinearNormalActionNoise,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    VectorizedActionNoise,
)
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.core.runtime import get_rng_state, set_rng_state
from rlzoo.core.schedules import ConstantSchedule, FloatSchedule, LinearSchedule, PiecewiseSchedule
from rlzoo.io.encoding import MissingCallable, decode_value, encode_value, pack, unpack


def through_json(tree: Any) -> Any:
    return json.loads(json.dumps(tree, allow_nan=False))


def packed_and_back(value: Any) -> Any:
    tree, tensors = pack(value)
    return unpack(through_json(tree), tensors)


def encoded_and_back(value: Any, **kwargs: Any) -> Any:
    return decode_value(through_json(encode_value(value)), **kwargs)


def same(left: Any, right: Any) -> bool:
    """Equal, with equal types all the way down; NaN equals NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if isinstance(left, dict):
        return [*left] == [*right] and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float | np.floating) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


PLAIN = [
    None, True, 0, -3, 2**200, 0.1, 1e-300, -0.0, float("nan"), float("inf"), -float("inf"), "", "ü", "$x",
    [], [1, [2, (3,)]], (), (1, "a"), {}, {"a": {"b": None}}, {1: "a", "1": "b"},
    {(1, 2): 3, None: 4, 0.5: 5}, {"$tuple": [1]},
    {"$tensor": "x", "other": 1}, {"a": {"$class": "os.system"}}, {True: 1},
]  # fmt: skip
ARRAYS = [
    np.arange(6).reshape(2, 3), np.array(2.5), np.zeros((0, 3), np.float32), np.array([True, False]),
    np.arange(4, dtype=np.uint16), np.array([2**64 - 1], np.uint64), np.arange(6.0).reshape(2, 3).T,
    np.float32(0.1), np.int8(-3), np.bool_(True), np.float64("inf"),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN + ARRAYS, ids=repr)
def test_state_survives(value: Any) -> None:
    assert same(packed_and_back(value), value)
    assert same(packed_and_back({"deep": [value, (value,)]}), {"deep": [value, (value,)]})


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_tensors_survive(dtype: str, shape: tuple[int, ...]) -> None:
    value = torch.ones(shape).to(getattr(torch, dtype))
    assert same(packed_and_back([value]), [value])


def test_tensors_are_named_by_their_path_and_never_twice() -> None:
    values = {"a/b": torch.zeros(1), "a": {"b": torch.ones(1)}, 0: torch.full((1,), 2.0)}
    tree, tensors = pack(values, "state")
    assert {"state/a/b", "state/a/b~", "state/0"} == set(tensors)
    assert same(unpack(tree, tensors), values)


def test_the_state_of_an_optimizer_survives() -> None:
    net = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(
        [{"params": [net.weight], "lr": 1e-4}, {"params": [net.bias]}], betas=(0.8, 0.9)
    )
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    assert same(packed_and_back(state), state)


def test_random_generators_survive_and_go_on_the_same() -> None:
    generator = np.random.default_rng(3)
    state = packed_and_back({"all": get_rng_state(), "own": generator.bit_generator.state})
    expected = (random.random(), np.random.rand(), torch.rand(1), generator.random())
    set_rng_state(state["all"])
    generator.bit_generator.state = state["own"]
    assert (random.random(), np.random.rand(), torch.rand(1), generator.random()) == expected
    for kind in (np.random.MT19937, np.random.PCG64DXSM, np.random.SFC64, np.random.Philox):
        state = kind(1).state
        assert same(packed_and_back(state), state)


def test_arrays_come_back_in_memory_of_their_own() -> None:
    array = np.arange(3)
    tree, tensors = pack({"a": array})
    array[0] = 9
    again = unpack(tree, tensors)["a"]
    assert again[0] == 0
    again[1] = 7


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, b"bytes", np.array(["a"]), np.array([object()]), np.array([1j]), 1j, len, Path("x"),
     torch.zeros(1, dtype=torch.complex64), np.datetime64("2020-01-01"), np.longdouble(1)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_cannot_be_saved_is_named_by_its_path(value: Any) -> None:
    with pytest.raises(UserError, match=r"callbacks/0 cannot be saved"):
        pack({"callbacks": [value]})


@pytest.mark.parametrize(
    "tree",
    [{"$tensor": "gone"}, {"$tensor": 3}, {"$tensor": []}, {"$array": {}}, {"$array": "half"}, {"$tuple": 3},
     {"$dict": 3}, {"$dict": [[1]]}, {"$dict": [[[], 1]]}, {"$float": "1e5"}, {"$float": []}, {"$scalar": []},
     {"$scalar": ["object", 1]}, {"$scalar": ["int8", "x"]}, {"$scalar": ["int8", 10**9]}, {"$pickle": "x"},
     {"$scalar": ["no", 1]}, {"$class": "torch.nn.ReLU"}, {"a": [{"$tuple": {}}]}],
    ids=str,
)  # fmt: skip
def test_a_malformed_tree_is_one_clear_error(tree: Any) -> None:
    with pytest.raises(CheckpointError):
        unpack(tree, {"half": torch.zeros(2, dtype=torch.bfloat16)})


class Mine(nn.Module):
    """A class that only the caller can hand over."""


def my_schedule(progress: float) -> float:
    return 3 * progress


class CallableObject:
    def __call__(self, progress: float) -> float:
        return progress / 2


HYPERPARAMETERS = [
    *PLAIN, np.arange(6, dtype=np.int32).reshape(2, 3), np.array([np.nan, np.inf]),
    nn.ReLU, torch.optim.Adam, torch.optim.RMSprop, nn.Tanh, nn.SiLU, torch.float32, torch.bfloat16,
    ConstantSchedule(3e-4), LinearSchedule(1e-3, 0.1), LinearSchedule(1e-3, 0, 0.5),
    PiecewiseSchedule(((0, 1e-3), (1, 1e-5))),
    spaces.Box(-1, 1, (3,)), spaces.Dict({"a": spaces.Discrete(2)}),
    {"net_arch": {"pi": [64, 64], "vf": [64]}, "activation_fn": nn.ELU, "optimizer_kwargs": {"eps": 1e-5}},
    {"$class": 1, "value": {"$callable": 2, "value": 3}},
]  # fmt: skip


@pytest.mark.parametrize("value", HYPERPARAMETERS, ids=str)
def test_hyperparameters_survive(value: Any) -> None:
    assert same(encoded_and_back(value), value)
    assert same(encoded_and_back({"key": value}), {"key": value})


NOISES = [
    NormalActionNoise(np.zeros(3), 0.1 * np.ones(3)),
    NormalActionNoise(0, 0.3, dtype=np.float64),
    OrnsteinUhlenbeckActionNoise([0.5, 0.1], [1 / 3, 0.2], theta=0.2, dt=0.5, initial_noise=[1, 2]),
    OrnsteinUhlenbeckActionNoise([0.0], [0.2]),
    LinearNormalActionNoise([0.0], [0.2], max_steps=10, final_sigma=[1e-3]),
    VectorizedActionNoise(OrnsteinUhlenbeckActionNoise([0.0], [0.2]), 3),
    AdaptiveParamNoiseSpec(0.2, 0.3, 1.05),
]


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_noise_survives_as_its_name_and_arguments(noise: Any) -> None:
    again = encoded_and_back({"action_noise": noise})["action_noise"]
    assert type(again) is type(noise)
    given, expected = again.arguments(), noise.arguments()
    if isinstance(noise, VectorizedActionNoise):
        given, expected = given["base_noise"].arguments(), expected["base_noise"].arguments()
        assert again.n_envs == noise.n_envs
    assert same(given, expected)
    if callable(noise):
        np.random.seed(1)
        first = [noise() for _ in range(3)]
        np.random.seed(1)
        assert same([again() for _ in range(3)], first)


class MyNoise(NormalActionNoise):
    pass


def test_noise_of_the_user_is_handed_over_again() -> None:
    mine = MyNoise(0, 1)
    tree = through_json(encode_value({"action_noise": mine}))
    assert isinstance(decode_value(tree)["action_noise"], MissingCallable)
    assert decode_value(tree, {"action_noise": mine})["action_noise"] is mine


def test_numpy_numbers_and_ordered_dicts_become_plain() -> None:
    assert same(encoded_and_back(OrderedDict(a=np.float64(0.5), b=np.int64(3))), {"a": 0.5, "b": 3})
    assert encoded_and_back([torch.device("cpu"), Path("a/b")]) == ["cpu", "a/b"]


def test_classes_of_rlzoo_resolve() -> None:
    from rlzoo.networks.torch_layers import NatureCNN
    from rlzoo.optim.rmsprop_tf import RMSpropTFLike

    assert encoded_and_back([NatureCNN, RMSpropTFLike]) == [NatureCNN, RMSpropTFLike]


@pytest.mark.parametrize(
    "name",
    [
        "os.system", "builtins.eval", "subprocess.Popen", "collections.OrderedDict", "rlzoo.__main__.main",
        "rlzoo.cli.main.main", "rlzoo.envs.single_env.monitor.ResultsWriter",
        "rlzoo.metrics.logger.CSVOutputFormat", "rlzoo.metrics.logger.Logger", "torch.load",
        "torch.hub.load",
        "torch.nn.modules.module.OrderedDict", "torch.nn.modules.module.torch.load",
        "torch.nn.functional.relu", "torch.nn.init.constant_",
        "torch.nn.Module.__class__", "torch.nn.Module.__init__.__globals__", "torch.nn", "torch.nn.",
        "torch.nn..x", "torch.nn.NoSuchThing", "torch.nn.no.such.Thing", "torch.optim.adam.cast",
        "torch.nn.Module forward", "", "torch.nn.../x", "ReLU", "torch", "rlzoo", "__main__.X",
        "torch.nnx.ReLU", "rlzoo.policies.actor_critic_policies.np.load", "rlzoo.networks.__main__.x",
    ],
)  # fmt: skip
def test_names_that_are_not_ours_are_refused_and_not_imported(name: str) -> None:
    before = set(sys.modules)
    with pytest.raises(CheckpointError) as caught:
        decode_value({"policy_kwargs": {"activation_fn": {"$class": name}}})
    assert "\n" not in str(caught.value)
    assert not {module for module in set(sys.modules) - before if not module.startswith(("rlzoo", "torch"))}


@pytest.mark.parametrize(
    "tree",
    [{"$class": None}, {"$class": ["a"]}, {"$class": {}}, {"$space": 3}, {"$schedule": "evil_3"},
     {"$schedule": []}, {"$schedule": {"a": 1}}, {"$array": 3}, {"$array": ["f4", [9], [1]]},
     {"$array": ["object", [1], [1]]}, {"$dtype": "load"}, {"$dtype": []}, {"$callable": 3, "value": 1},
     {"$callable": "x", "value": "y"}, {"$callable": "x"}, {"$tuple": 1},
     {"$dict": [1]}, {"$dict": [[[], 1]]},
     {"$eval": "1"}, {"$float": "x"}, {"$noise": []}, {"$noise": "x"}, {"$noise": ["os.system", {}]},
     {"$noise": ["ActionNoise", {}]}, {"$noise": [["x"], {}]}, {"$noise": ["NormalActionNoise", ["a"]]},
     {"$noise": ["NormalActionNoise", {"mean": 0, "sigma": "x"}]},
     {"$noise": ["NormalActionNoise", {"mean": 0, "sigma": 0, "dtype": "object"}]},
     {"$noise": ["NormalActionNoise", {"mean": 0}]},
     {"$noise": ["VectorizedActionNoise", {"base_noise": {"$class": "torch.nn.ReLU"}, "n_envs": 1}]},
     {"$noise": ["VectorizedActionNoise", {"n_envs": 10**12, "base_noise":
      {"$noise": ["NormalActionNoise", {"mean": 0, "sigma": 0}]}}]}],
    ids=str,
)  # fmt: skip
def test_a_malformed_hyperparameter_is_one_clear_error(tree: Any) -> None:
    with pytest.raises(CheckpointError):
        decode_value({"a": [tree]})


def test_deep_nesting_is_one_clear_error() -> None:
    tree: Any = 1
    for _ in range(100_000):
        tree = [tree]
    for read in (decode_value, lambda nested: unpack(nested, {})):
        with pytest.raises(CheckpointError):
            read(tree)


def test_a_class_is_handed_over_by_name_by_key_or_by_module() -> None:
    tree = through_json(encode_value({"features_extractor_class": Mine}))
    name = f"{__name__}.Mine"
    with pytest.raises(CheckpointError, match=rf"{name}.*custom_objects=.*trusted_modules=\['{__name__}'\]"):
        decode_value(tree)
    expected = {"features_extractor_class": Mine}
    assert decode_value(tree, {name: Mine}) == expected
    assert decode_value(tree, {"features_extractor_class": Mine}) == expected
    assert decode_value(tree, {"features_extractor_class": nn.ReLU}) == {"features_extractor_class": nn.ReLU}
    assert decode_value(tree, trusted_modules=[sys.modules[__name__]]) == expected
    assert decode_value(tree, trusted_modules=[__name__]) == expected
    with pytest.raises(CheckpointError, match="does not exist"):
        decode_value({"$class": f"{__name__}.Gone"}, trusted_modules=[__name__])
    with pytest.raises(CheckpointError, match="hand it over"):  # imported there, but defined elsewhere
        decode_value({"$class": f"{__name__}.Path"}, trusted_modules=[__name__])


def test_a_class_that_the_running_script_defines_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    script = ModuleType("__main__")
    exec(
        "from pathlib import Path\n"
        "from torch import nn\n"
        "class Net(nn.Module): pass\n"
        "class Plain: pass\n"
        "class MyPath(type(Path())): pass\n"
        "def net(): return nn.Linear(1, 1)\n"
        "class Outer:\n"
        "    class Net(nn.Module): pass\n",
        vars(script),
    )
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert encoded_and_back(vars(script)["Net"]) is vars(script)["Net"]
    for refused in ("Plain", "MyPath", "Path", "net", "nn", "nn.Linear", "Outer.Net", "Gone", "__class__"):
        with pytest.raises(CheckpointError, match="not loaded by its name alone"):
            decode_value({"$class": f"__main__.{refused}"})


def test_a_local_class_is_handed_over_by_name_alone() -> None:
    class Local(nn.Module):
        pass

    tree = encode_value(Local)
    with pytest.raises(CheckpointError) as caught:
        decode_value(tree, trusted_modules=[__name__])
    assert "custom_objects" in str(caught.value) and "trusted_modules" not in str(caught.value)
    assert decode_value(tree, {tree["$class"]: Local}) is Local


def test_a_trusted_module_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="no_such_package"):
        decode_value({"$class": "no_such_package.Net"}, trusted_modules=["no_such_package"])
    package = ModuleType("my_agents")
    package.Net = type("Net", (nn.Module,), {"__module__": "my_agents"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_agents", package)
    assert encoded_and_back(package.Net, trusted_modules=["my_agents"]) is package.Net
    with pytest.raises(CheckpointError):
        decode_value({"$class": "my_agents_evil.Net"}, trusted_modules=["my_agents"])


@pytest.mark.parametrize(
    ("schedule", "value"),
    [(lambda progress: 2 * progress, 1.0), (my_schedule, 1.5), (CallableObject(), 0.25),
     (FloatSchedule(my_schedule), 1.5), (functools.partial(pow, 4), 2.0), (math.sqrt, 0.5**0.5),
     (lambda: 3, None), (lambda progress: 1 / 0, None)],
)  # fmt: skip
def test_a_callable_travels_as_name_and_present_value(schedule: Any, value: float | None) -> None:
    tree = through_json(encode_value({"learning_rate": schedule}, progress_remaining=0.5))
    assert tree["learning_rate"].keys() == {"$callable", "value"} and tree["learning_rate"]["value"] == value
    again = decode_value(tree)["learning_rate"]
    assert isinstance(again, MissingCallable)
    assert encode_value({"learning_rate": again}) == tree, "saved once more it is still the same"
    if value is None:
        with pytest.raises(CheckpointError, match="custom_objects"):
            again(0.3)
    else:
        assert again(0.3) == value
    assert decode_value(tree, {"learning_rate": my_schedule})["learning_rate"] is my_schedule
    assert decode_value(tree, {again.name: my_schedule})["learning_rate"] is my_schedule


def test_a_function_of_a_trusted_module_is_found() -> None:
    assert encoded_and_back(my_schedule, trusted_modules=[__name__]) is my_schedule
    assert isinstance(encoded_and_back(os.system), MissingCallable)
    assert isinstance(encoded_and_back(nn.functional.relu), MissingCallable)


def test_callables_inside_a_hyperparameter_are_not_called() -> None:
    def explode(_: Any = None) -> None:
        raise AssertionError("called")

    tree = encode_value({"policy_kwargs": {"activation_fn": explode}})
    assert tree["policy_kwargs"]["activation_fn"]["value"] is None


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"x", np.array(["a"]), torch.zeros(2)], ids=lambda value: type(value).__name__
)
def test_a_hyperparameter_that_cannot_be_written_is_an_error(value: Any) -> None:
    with pytest.raises(UserError, match="cannot be"):
        encode_value({"a": value})
