"""Gradient steps as graphs; without a CUDA device, a graph repeats its operations on the same memory."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import gymnasium
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import rlzoo
from rlzoo.accel.custom_code import has_custom_code
from rlzoo.accel.flat_parameters import FlatParameters
from rlzoo.accel.gpu.acceleration import captured, why_not, why_not_algorithm
from rlzoo.accel.gpu.captured_step import (
    MAX_GRAPHS,
    WARM_UP,
    CapturedStep,
    CudaGraph,
    map_tensors,
    tensors_of,
)
from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import preprocess_obs
from rlzoo.core.runtime import get_rng_state, set_rng_state
from rlzoo.training.parallel_callback import _twin

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
NAMES = ("PPO", "A2C", "SAC", "TD3", "TQC", "DQN", "QRDQN", "CrossQ")


class Tape(TorchDispatchMode):
    """A graph without a device: operations are noted down, and a replay does them on the same memory.

    As in a CUDA graph, what the step reads from Python is fixed when it is captured, and capturing changes no
    tensor.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self.before: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [*args, *kwargs.values()]
        for argument, value in zip(operation._schema.arguments, given, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in value if isinstance(value, list | tuple) else (value,):
                    self.before.append((tensor, tensor.clone()))
        result = operation(*args, **kwargs)
        self.operations.append((operation, args, kwargs, result))
        return result

    def warm_up(self, run: Callable[[], Any]) -> Any:
        return run()

    def capture(self, run: Callable[[], Any]) -> Any:
        random = torch.get_rng_state()
        with self:
            result = run()
        for tensor, value in reversed(self.before):
            tensor.detach().copy_(value)
        torch.set_rng_state(random)
        return result

    def replay(self) -> None:
        with torch.no_grad():
            for operation, args, kwargs, result in self.operations:
                new = operation(*args, **kwargs)
                for static, tensor in zip(parts_of(result), parts_of(new), strict=True):
                    if static.data_ptr() != tensor.data_ptr():  # no view, and not in place
                        static.detach().copy_(tensor)


def parts_of(result: Any) -> list[torch.Tensor]:
    parts = result if isinstance(result, list | tuple) else (result,)
    return [part for part in parts if isinstance(part, torch.Tensor)]


def make(name: str, device: str = "cpu", **kwargs: Any) -> Any:
    env_id = "CartPole-v1" if name in ("DQN", "QRDQN") else "Pendulum-v1"
    options: dict[str, Any] = {"policy_kwargs": {"net_arch": [16]}, "seed": 0, "device": device}
    if name in ("PPO", "A2C"):
        options |= {"n_steps": 16}
        # at a clip range of 0 it would depend on rounding which rows are clipped
        clip_range = {"clip_range": lambda progress_remaining: 0.1 + 0.2 * progress_remaining}
        options |= {"batch_size": 24, "n_epochs": 2, **clip_range} if name == "PPO" else {}
    else:
        options |= {"learning_starts": 20, "batch_size": 8, "train_freq": 1, "buffer_size": 500}
    return getattr(rlzoo, name)("MlpPolicy", rlzoo.make_vec_env(env_id, 2, seed=0), **{**options, **kwargs})


@pytest.mark.parametrize("name", NAMES)
def test_replayed_steps_learn_as_called_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Static inputs and results, floats as tensors and the learning rate as a tensor change nothing."""
    monkeypatch.setattr(FlatParameters, "clip_grad_norm", lambda self, norm: None)  # reads it on the CPU only
    plain, replayed = make(name), make(name)
    state = get_rng_state()
    plain.learn(200)
    set_rng_state(state)
    with captured(replayed, Tape) as step:
        replayed.learn(200)
        assert step.recordings, "no step was captured"
    for one, two in zip(plain.policy.parameters(), replayed.policy.parameters(), strict=True):
        assert torch.allclose(one, two, rtol=1e-3, atol=1e-5)
    assert plain.counters.n_updates == replayed.counters.n_updates > WARM_UP


@pytest.mark.parametrize("options", [{}, {"use_sde": True}])
@pytest.mark.parametrize("name", NAMES)
def test_no_graph_outlives_a_gradient_step(name: str, options: dict[str, Any]) -> None:
    """On a GPU the next step, on another stream, would wait for the stream of the graph before."""
    if options and name not in ("PPO", "A2C", "SAC", "TQC"):
        pytest.skip("no state-dependent exploration")
    model = make(name, **options)
    with captured(model, Tape) as step:
        kept: list[Any] = []

        def spy(batch: Any, **arguments: Any) -> Any:
            result = step(batch, **arguments)
            for parameter in model.policy.parameters():
                if parameter.requires_grad and not step.recordings:  # a tape keeps all it has done
                    kept.append(MARK in accumulator(parameter).metadata)
                    accumulator(parameter).metadata[MARK] = True
            return result

        model.gradient_step = spy
        model.learn(200)
        assert step.recordings and kept and not any(kept)
        model.gradient_step = step


MARK = "seen"


def accumulator(parameter: torch.Tensor) -> Any:
    """Return the node that adds up the gradients of a parameter; it lives as long as a graph has it."""
    return parameter.view_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]


CHANGES: dict[str, Callable[[Any, Any], object]] = {
    "tau": lambda model, other: setattr(model, "tau", 0.5),
    "fixed coefficient": lambda model, other: setattr(model, "ent_coef", 0.2),
    "frozen actor": lambda model, other: model.policy.actor.requires_grad_(False),
    "parameters": lambda model, other: model.set_parameters(other.get_parameters()),
    "betas": lambda model, other: model.policy.critic.optimizer.param_groups[0].update(betas=(0.5, 0.5)),
    "optimiser": lambda model, other: setattr(  # on the CPU, PyTorch's own cannot be captured
        model.policy.critic, "optimizer", torch.optim.Adam(model.policy.critic.parameters(), lr=0.01)
    ),
    "memory": lambda model, other: nn.utils.vector_to_parameters(
        0.5 * nn.utils.parameters_to_vector(model.policy.critic.parameters()).detach(),
        model.policy.critic.parameters(),
    ),
    "target entropy": lambda model, other: setattr(model, "target_entropy", 30.0),
    "uncapturable optimiser": lambda model, other: setattr(
        model.policy.critic, "optimizer", torch.optim.SGD(model.policy.critic.parameters(), lr=0.1)
    ),
}


@pytest.mark.parametrize(
    ("change", "device"),
    [
        *((change, "cpu") for change in CHANGES if change != "optimiser"),
        *(pytest.param(change, "cuda", marks=needs_cuda) for change in CHANGES),
    ],
)
def test_changes_during_training_reach_a_captured_step(change: str, device: str) -> None:
    other = make("SAC", device).learn(60)

    class Change(rlzoo.BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 40:
                CHANGES[change](self.model, other)
            return True

    plain, replayed, unchanged = models = [make("SAC", device) for _ in range(3)]
    for model in models:
        model.cuda_graphs = "off"
    state = get_rng_state()
    plain.learn(140, Change())
    set_rng_state(state)
    with captured(replayed, CudaGraph if device == "cuda" else Tape) as step:
        replayed.learn(140, Change())
        assert step.recordings or (step.is_plain and "uncapturable" in change)
    set_rng_state(state)
    unchanged.learn(140)
    one, two, three = (
        torch.cat([parameters_of(model), model.ent_coef_tensor.reshape(1)])
        for model in (plain, replayed, unchanged)
    )
    torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4 if device == "cpu" else 5e-3)
    assert not torch.allclose(one, three, rtol=1e-3, atol=1e-4)
    for part in (replayed.policy.actor, replayed.policy.critic):
        group = part.optimizer.param_groups[0]
        assert isinstance(group["lr"], float) and not group.get("capturable")


def captures_of(model: Any, callback: Any, steps: int = 140) -> int:
    """Return how many graphs are captured in a training."""
    graphs = []

    class Counted(Tape):
        def capture(self, run: Callable[[], Any]) -> Any:
            graphs.append(self)
            return super().capture(run)

    model.cuda_graphs = "off"
    with captured(model, Counted):
        model.learn(steps, callback)
    return len(graphs)


def test_assigned_learning_rates_need_no_further_graphs() -> None:
    class Decay(rlzoo.BaseCallback):
        def _on_step(self) -> bool:
            self.model.learning_rate = 1e-3 / self.n_calls
            return True

    assert captures_of(make("SAC"), None) == captures_of(make("SAC"), Decay()) == 1


def test_few_graphs_are_kept() -> None:
    class Vary(rlzoo.BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls > 20:
                for _ in range(WARM_UP + 1):
                    self.model.train(1, batch_size=8 + self.n_calls)
            return True

    model = make("DQN")
    model.cuda_graphs = "off"
    with captured(model, Tape) as step:
        model.learn(140, Vary())
        assert len(step.recordings) == MAX_GRAPHS


def test_twin_of_a_parallel_training_learns_itself() -> None:
    model = make("SAC")
    model.cuda_graphs = "off"
    with captured(model, Tape):
        model.learn(60)
        twin = _twin(model)
        assert "gradient_step" not in vars(twin) and not twin.is_captured
        before = [parameter.detach().clone() for parameter in twin.policy.critic.parameters()]
        twin.train(5)
    changed = zip(before, twin.policy.critic.parameters(), strict=True)
    assert any(not torch.equal(old, new) for old, new in changed)


class HostToDevice(TorchDispatchMode):
    """Notes operations on a device (`meta`) that also read an array of the host."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        leaves = torch.utils._pytree.tree_leaves((args, kwargs, result))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        devices = {tensor.device.type for tensor in tensors if tensor.dim()}
        if devices == {"cpu", "meta"}:
            self.found.append(operation.__name__)
        return result


def test_discrete_observations_are_encoded_without_the_host() -> None:
    space = gymnasium.spaces.MultiDiscrete([3, 4], start=[1, 0])
    with HostToDevice() as watch:
        encoded = preprocess_obs(torch.zeros(5, 2, dtype=torch.int64, device="meta"), space)
    assert encoded.shape == (5, 7) and not watch.found
    values = preprocess_obs(torch.tensor([[1, 3]]), space)
    assert values.tolist() == [[1, 0, 0, 0, 0, 0, 1]]


class NoHostReads(TorchDispatchMode):
    """Raise for operations that wait for a device, or copy from the host, which no graph can hold."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = operation.__name__.split(".")[0]
        assert name not in ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "equal"), name
        return operation(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", NAMES)
def test_gradient_steps_read_nothing_from_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(name, **({"use_sde": True} if name in ("PPO", "SAC", "TQC") else {}))
    model.learn(60)
    monkeypatch.setattr(FlatParameters, "clip_grad_norm", lambda self, norm: None)  # reads it on the CPU only
    step = model.gradient_step

    def watched(*arguments: Any, **keywords: Any) -> Any:
        with NoHostReads():
            return step(*arguments, **keywords)

    model.gradient_step = watched
    model.learn(60)


def test_learning_rate_of_a_schedule_reaches_a_captured_step() -> None:
    model = make("SAC", learning_rate="lin_0.01")
    with captured(model, Tape):
        model.learn(40)
        rates = [float(model.set_learning_rates(model.counters))]
        groups = [model.policy.actor.optimizer, model.policy.critic.optimizer, model.ent_coef_optimizer]
        rates += [optimizer.param_groups[0]["lr"].item() for optimizer in groups]
        assert rates == pytest.approx([rates[0]] * 4) and 0 <= rates[0] < 0.01
        file = io.BytesIO()
        model.save(file)
    assert all(isinstance(optimizer.param_groups[0]["lr"], float) for optimizer in groups)
    file.seek(0)
    loaded = rlzoo.SAC.load(file, env=rlzoo.make_vec_env("Pendulum-v1", 2), device="cpu")
    group = loaded.policy.actor.optimizer.param_groups[0]
    assert isinstance(group["lr"], float) and not group["capturable"]


def test_results_are_copies_and_shapes_have_their_own_graph() -> None:
    def step(batch: dict[str, torch.Tensor], scale: float, flag: bool) -> dict[str, Any]:
        return {"sum": (batch["x"] * scale).sum(), "rows": batch["x"] + 1, "flag": flag}

    captured_step = CapturedStep(step, torch.device("cpu"), Tape)
    results = [
        captured_step({"x": torch.full((n,), float(i))}, scale=0.5 + i, flag=n == 2)
        for n in (2, 3)
        for i in range(6)
    ]
    assert len(captured_step.recordings) == 2
    assert [result["sum"].item() for result in results] == [
        n * i * (0.5 + i) for n in (2, 3) for i in range(6)
    ]
    assert results[5]["rows"].tolist() == [6.0, 6.0] and results[0]["flag"] and not results[-1]["flag"]


def test_structures_keep_their_tensors_in_order() -> None:
    nested = {"a": (torch.tensor(1.0), "text"), "b": {"c": torch.tensor(2.0)}, "d": None}
    assert [tensor.item() for tensor in tensors_of(nested)] == [1, 2]
    assert map_tensors(torch.neg, nested)["b"]["c"] == -2


def test_priorities_come_out_of_a_graph() -> None:
    model = make("DQN", prioritized_replay=True)
    with captured(model, Tape) as step:
        model.learn(60)
        assert step.recordings
    priorities = model.replay_buffer.own_columns()
    assert priorities is not None and model.counters.n_updates > WARM_UP


def test_on_is_refused_without_cuda_and_auto_does_nothing() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    model = make("PPO")
    model.cuda_graphs = "on"
    with pytest.raises(UserError, match="on the CPU, and CUDA graphs need a CUDA device"):
        model.learn(64)
    model.cuda_graphs = "auto"
    assert model.learn(64).num_timesteps == 64
    model.cuda_graphs = "perhaps"
    with pytest.raises(UserError, match="off, auto, on"):
        model.learn(64)


def test_steps_that_cannot_be_captured_say_why() -> None:
    assert "CUDA device" in str(why_not(make("SAC")))
    assert why_not_algorithm(make("SAC")) is None
    assert "target_kl" in str(why_not_algorithm(make("PPO", target_kl=0.01)))
    assert "sequences" in str(
        why_not_algorithm(rlzoo.RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=8, device="cpu"))
    )
    assert "TRPO" in str(why_not_algorithm(rlzoo.TRPO("MlpPolicy", "CartPole-v1", device="cpu")))


class CountingTanh(torch.nn.Tanh):
    pass


class OwnSAC(rlzoo.SAC):
    pass


class OwnAdam(torch.optim.Adam):
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


def test_auto_leaves_custom_code_alone() -> None:
    assert not any(has_custom_code(make(name)) for name in NAMES)
    assert not has_custom_code(make("SAC", policy_kwargs={"optimizer_class": torch.optim.AdamW}))
    assert has_custom_code(make("SAC", policy_kwargs={"activation_fn": CountingTanh}))
    assert has_custom_code(make("SAC", policy_kwargs={"optimizer_class": OwnAdam}))
    assert has_custom_code(OwnSAC("MlpPolicy", "Pendulum-v1", device="cpu"))
    hooked = make("PPO")
    hooked.policy.action_net.register_forward_hook(lambda *arguments: None)
    assert has_custom_code(hooked)


@needs_cuda
def test_captured_policy_draws_new_numbers_at_every_replay() -> None:
    model = make("SAC", "cuda")
    observations = torch.zeros(64, 3, device="cuda")

    def sample(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            return {"actions": model.policy.actor.action_log_prob(batch["obs"])[0]}

    step = CapturedStep(sample, model.device)
    draws = [step({"obs": observations})["actions"] for _ in range(WARM_UP + 4)]
    assert step.recordings
    replayed = draws[WARM_UP:]
    assert not any(torch.equal(a, b) for a, b in pairwise(replayed))
    torch.cuda.manual_seed(1)
    first = step({"obs": observations})["actions"]
    torch.cuda.manual_seed(1)
    assert torch.equal(first, step({"obs": observations})["actions"])


@needs_cuda
@pytest.mark.parametrize("name", NAMES)
def test_cuda_graphs_take_the_same_steps(name: str) -> None:
    models = []
    for choice in ("off", "auto"):
        model = make(name, "cuda")
        model.cuda_graphs = choice
        models.append(model.learn(200))
    start = parameters_of(make(name, "cuda"))
    one, two = map(parameters_of, models)
    assert (one - two).norm() < 0.2 * (one - start).norm()


def parameters_of(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.policy.parameters()])


@needs_cuda
@pytest.mark.slow
def test_cuda_graphs_learn_as_well() -> None:
    scores = []
    for choice in ("off", "on"):
        for seed in range(5):
            model = rlzoo.PPO(
                "MlpPolicy", rlzoo.make_vec_env("CartPole-v1", 8, seed=seed), n_steps=64, batch_size=128,
                seed=seed, device="cuda",
            )  # fmt: skip
            model.cuda_graphs = choice
            model.learn(50_000)
            scores.append((choice, sum(episode["r"] for episode in model.ep_info_buffer) / 100))
    off, on = ([score for kind, score in scores if kind == choice] for choice in ("off", "on"))
    assert abs(sum(on) - sum(off)) / 5 < 100
