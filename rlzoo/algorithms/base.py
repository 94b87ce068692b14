"""The contract of an algorithm: its hyperparameters, how it acts, learns, and what a checkpoint holds.

An algorithm says how to act (`act`), how to learn from one batch of experience (`update`) and what must
survive a restart (`state`). It never steps an environment and never counts steps: its `loop` does (see
`rlzoo.training`).
"""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.accel.flat_parameters import ParameterGroup, parameter_group
from rlzoo.accel.memory import parameter_budget, tune_malloc
from rlzoo.accel.threads import one_thread
from rlzoo.algorithms.agent.self_description import SelfDescribing
from rlzoo.algorithms.divergence import diverged
from rlzoo.algorithms.hyperparameters import (
    bind_arguments,
    build_config,
    check_range,
    check_value,
    constructor_signature,
    field_names,
    schedule_names,
    schedule_of,
)
from rlzoo.algorithms.overrides import Overridable
from rlzoo.algorithms.own_classes import attributes_of_own, take_own_class
from rlzoo.callbacks.progress import dump_progress
from rlzoo.config.legacy.sb2_options import OLD_NAMES
from rlzoo.config.legacy.sb2_translation import translate_sb2_kwargs
from rlzoo.core.errors import UnsupportedSpace, UserError
from rlzoo.core.preprocessing import space_name
from rlzoo.core.runtime import get_device
from rlzoo.core.schedules import Counters
from rlzoo.core.signatures import is_own
from rlzoo.core.types import Metrics, PolicyInput, PolicyOutput
from rlzoo.envs.make_vec_env import as_vec_env
from rlzoo.networks.torch_layers import depends_on_mode
from rlzoo.optim.network_optimizer import NetworkOptimizer
from rlzoo.params.search_parameters import SearchSpace
from rlzoo.policies.policy_kwargs import policy_keywords
from rlzoo.policies.policy_registry import get_policy_class, policies_of

if TYPE_CHECKING:
    from rlzoo.envs.tensor.tensor_actions import TensorActions


Mean = TypeVar("Mean", bound="torch.Tensor | float")

COMMON_ARGUMENTS: dict[str, Any] = {
    "policy_kwargs": None,
    "stats_window_size": 100,
    "tensorboard_log": None,
    "verbose": 0,
    "seed": None,
    "device": "auto",
    "_init_setup_model": True,
}
"""What every constructor takes besides the hyperparameters of its Config."""

OBSERVATION_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""What observations may be made of, alone or as the parts of a Dict."""


class Algorithm(SelfDescribing, Overridable):
    """Base class of all algorithms.

    :param policy: a registered name (`"MlpPolicy"`, `"CnnPolicy"`, `"MultiInputPolicy"`) or a policy class
    :param env: an environment id, a Gymnasium environment, a `VecEnv` or a `gymnasium.vector.VectorEnv`
    :param policy_kwargs: keywords for the policy's constructor
    :param stats_window_size: number of episodes that `rollout/ep_rew_mean` and its like average over
    :param tensorboard_log: folder for TensorBoard event files
    :param verbose: 0 silent, 1 tables of metrics, 2 more
    :param seed: seeds Python, NumPy, PyTorch, the environments and their action spaces
    :param device: `"auto"`, `"cpu"`, `"cuda"` or a `torch.device`
    :raises UnknownArgument: a keyword that the algorithm lacks (a TypeError that names the nearest right one)
    :raises UserError: a value out of range, an unknown policy, a space that the algorithm does not support
    """

    Config: ClassVar[type]
    common_arguments: ClassVar[dict[str, Any]] = COMMON_ARGUMENTS
    overrides_dump_logs: ClassVar[bool] = False
    search_space: ClassVar[SearchSpace] = {}  # what `rlzoo optimize` searches
    policy_family: ClassVar[str] = "actor_critic"
    action_spaces: ClassVar[tuple[type[spaces.Space[object]], ...]] = (
        spaces.Box,
        spaces.Discrete,
        spaces.MultiDiscrete,
        spaces.MultiBinary,
    )
    shown_otherwise: ClassVar[tuple[str, ...]] = ()  # hyperparameters with a property of a base class
    own_arguments: Mapping[str, Any] = {}  # what its constructor was given for them
    defers_setup: ClassVar[bool] = False  # whether a user's class makes its networks at the constructor's end
    setup_is_due: bool = False  # whether the constructor is to make networks
    has_train_mode_layers: bool = False
    shares_convolutions: bool = False
    tensor_actions: TensorActions | None = None  # makes actions for environments that take tensors
    is_captured: bool = False  # whether `gradient_step` is replayed from a graph at present
    optimized_policy: Any = None  # the policy whose optimisers there are; None: another agent's
    optimized_ids: Sequence[int] = ()  # of the parameters that they were made for
    wants_action_masks: bool = False  # the loop asks the environments which actions are allowed
    data_parallel: ClassVar[bool] = False  # several ranks can train it together, see rlzoo.distributed
    divergence_suspects: ClassVar[tuple[str, ...]] = ("learning_rate", "max_grad_norm", "vf_coef")

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Make hyperparameters properties of the model and arguments of the constructor's signature."""
        if not is_own(cls):
            take_own_class(cls)
        super().__init_subclass__(**kwargs)
        if is_own(cls) and "Config" in vars(cls):
            cls.policy_aliases = policies_of(cls.policy_family)
        cls.overrides_dump_logs = not is_own(cls.dump_logs)
        if not hasattr(cls, "Config"):
            return  # what several algorithms derive from
        schedules = {*schedule_names(cls.Config)} - {"learning_rate"}
        for name in {*field_names(cls.Config)} - {
            *cls.shown_otherwise,
            *attributes_of_own(cls, cls.own_names),
        }:
            setattr(cls, name, _hyperparameter_property(name, name in schedules))
        signature = constructor_signature(cls.Config, cls.common_arguments)
        cls.__signature__ = signature  # type: ignore[attr-defined]
        if "__init__" not in vars(cls) and is_own(cls):
            cls.__init__ = _signed(cast(FunctionType, cls.__init__), signature)  # type: ignore[method-assign]

    def __init__(self, policy: Any, env: Any = None, *args: Any, **kwargs: Any) -> None:
        if self.refusal is not None:
            raise UserError(self.refusal)
        if not hasattr(type(self), "Config"):
            raise UserError(
                f"{type(self).__name__} has no Config: derive it from an algorithm such as PPO or SAC, or"
                " give it a dataclass of its hyperparameters and an update(batch, counters)"
            )
        if self.saves_attributes and not self.overrides_train and is_own(type(self).update):
            raise UserError(f"{type(self).__name__} has no train(), which takes the gradient steps")
        names = list(type(self).__signature__.parameters)[2:]  # type: ignore[attr-defined]
        arguments = bind_arguments(type(self).__name__, names, args, kwargs)
        if not OLD_NAMES.isdisjoint(arguments):
            arguments = translate_sb2_kwargs(type(self), arguments, {"n_envs": getattr(env, "num_envs", 1)})
        own = self.own_names & self.own_arguments.keys() - arguments.keys()
        arguments |= {name: self.own_arguments[name] for name in own}
        common = {name: arguments.pop(name, default) for name, default in self.common_arguments.items()}
        known = [name for name in self.common_arguments if not name.startswith("_")]
        self.config = build_config(self.Config, arguments, also_known=known)
        self.policy_name = policy
        if isinstance(policy, str):
            policy = self.policy_aliases.get(policy, policy)
        self.policy_class = get_policy_class(self.policy_family, policy)
        self._take_common(common)
        if common.get("supported_action_spaces") is not None:
            self.action_spaces = common["supported_action_spaces"]  # type: ignore[misc]
        if not isinstance(common["policy_kwargs"] or {}, Mapping):
            raise UserError(f"policy_kwargs must be a dictionary, not {common['policy_kwargs']!r}")
        self.policy_kwargs: dict[str, Any] = dict(common["policy_kwargs"] or {})
        self.tensorboard_log: str | None = common["tensorboard_log"]
        self.verbose: int = common["verbose"]
        self.seed: int | None = check_value("seed", common["seed"], "int | None")
        self.device = get_device(common["device"])
        self.stats_window_size: int = check_value("stats_window_size", common["stats_window_size"], "int")
        check_range(self, ("seed",), low=0)
        check_range(self, ("stats_window_size",), low=1)
        self._init_agent()
        if env is not None:
            vec_env = as_vec_env(env, verbose=self.verbose)
            self._set_spaces(vec_env.observation_space, vec_env.action_space)
            self._use_env(vec_env)
            self.setup_is_due = common["_init_setup_model"]
            if self.setup_is_due and not self.defers_setup:
                self.finish_setup()

    def finish_setup(self) -> None:
        """Make the networks, as far as the memory allows."""
        with parameter_budget():
            self._setup_model()

    # ------------------------------------------------------------------ what an algorithm implements

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Choose actions for every environment; runs under `torch.no_grad`."""
        raise NotImplementedError

    def update(self, batch: Any, counters: Counters) -> Metrics:
        """Learn from one batch of experience; advances `counters.n_updates` by the gradient steps it took."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: modules, optimisers, tensors, anything with `state_dict`."""
        return {"policy": self.policy, "policy.optimizer": self.policy.optimizer}

    @property
    def overrides_train(self) -> bool:
        """Whether a subclass or a script puts a `train` in place of that of rlzoo."""
        if not hasattr(self, "train"):
            return False
        function = getattr(self.train, "__func__", self.train)
        return not str(getattr(function, "__globals__", {}).get("__name__")).startswith("rlzoo.")

    def begin_rollout(self) -> None:
        """Called before each rollout: new exploration noise."""
        if getattr(self.config, "use_sde", False):
            self.policy.reset_noise(self.n_envs)

    def end_episodes(self, indices: np.ndarray) -> None:
        """Called with the indices of the environments whose episodes have just ended."""

    @classmethod
    def n_envs_problem(cls, config: Any, n_envs: int) -> str | None:
        """Return a sentence when hyperparameters do not fit the number of environments, else None."""
        return None

    # ------------------------------------------------------------------ construction

    def _take_common(self, arguments: dict[str, Any]) -> None:
        """Hook for arguments that a class adds to `common_arguments`."""

    def _set_spaces(
        self, observation_space: spaces.Space[object], action_space: spaces.Space[object]
    ) -> None:
        if not isinstance(action_space, self.action_spaces):
            supported = ", ".join(space.__name__ for space in self.action_spaces)
            raise UnsupportedSpace(
                f"{type(self).__name__} does not support {space_name(action_space)} actions; "
                f"it supports {supported}"
            )
        parts: list[spaces.Space[object]] = [observation_space]
        if is_dict := isinstance(observation_space, spaces.Dict):
            parts = list(observation_space.spaces.values())
        for part in parts:
            if not isinstance(part, OBSERVATION_SPACES):
                supported = ", ".join(space.__name__ for space in OBSERVATION_SPACES)
                raise UnsupportedSpace(
                    f"{type(self).__name__} does not support {space_name(part)} observations"
                    f"{' inside a Dict' if is_dict else ''}; it supports {supported} and a Dict of those"
                )
        self.observation_space, self.action_space = observation_space, action_space

    def _setup_model(self) -> None:
        """Seed everything and build the policy."""
        if problem := self.n_envs_problem(self.config, self.n_envs * self.n_ranks):
            warnings.warn(problem, stacklevel=4)
        if self.device.type == "cpu":
            tune_malloc()
        self.set_random_seed(self.seed)
        self._make_schedules()
        self._setup_lr_schedule()
        given = (self.observation_space, self.action_space, self.schedules["learning_rate"])
        policy = one_thread()(self.policy_class)(*given, **self.policy_arguments())
        self.policy, self.optimized_policy = policy.to(self.device), None
        self._note_layers()
        self.setup_optimizers()
        self.optimized_policy = self.policy
        self.note_optimized()
        convolutional = any(isinstance(part, nn.Conv2d) for part in self.policy.modules())
        self.shares_convolutions = convolutional and getattr(self.policy, "share_features_extractor", False)
        self._create_aliases()

    def _make_schedules(self) -> None:
        """Make the schedules of the learning rate and of all other hyperparameters that have one."""
        self.schedules = {
            name: schedule
            for name in schedule_names(self.Config)
            if (schedule := schedule_of(self.config, name)) is not None
        }

    def _setup_lr_schedule(self) -> None:
        """Make schedules, for a `_setup_model` written for stable-baselines3."""
        self._make_schedules()

    def _create_aliases(self) -> None:
        """Hook at the end of `_setup_model`: a subclass may name networks of the policy."""

    def optimize_assigned_policy(self) -> None:
        """Make optimisers for what a script has replaced: the policy, or networks and layers of it."""
        self._note_layers()
        if self.optimized_policy is None:
            return
        if self.policy is not self.optimized_policy:
            self.policy = self.optimized_policy = self.policy.to(self.device)
            self.setup_optimizers()
        elif self.has_replaced_networks():
            self._optimize_replaced_networks()
        self.note_optimized()
        for value in vars(self).values():
            if isinstance(value, ParameterGroup):
                value.gather()

    def _note_layers(self) -> None:
        """Note whether the policy has layers that do something else in training."""
        self.has_train_mode_layers = any(depends_on_mode(module) for module in self.policy.modules())

    def note_optimized(self) -> None:
        """Note which parameters there are optimisers for."""
        if self.optimized_policy is not None:
            self.optimized_ids = self._parameter_ids()

    def has_replaced_networks(self) -> bool:
        groups = [value for value in vars(self).values() if isinstance(value, ParameterGroup)]
        if self.optimized_policy is None or not groups:
            return False
        known = {id(parameter) for group in groups for parameter in group.parameters}
        trained = (p for p in self.policy.parameters() if p.requires_grad)  # also what was unfrozen
        return self._parameter_ids() != list(self.optimized_ids) or any(id(p) not in known for p in trained)

    def _parameter_ids(self) -> list[int]:
        return [id(parameter) for parameter in self.policy.parameters()]

    def _optimize_replaced_networks(self) -> None:
        """Lay parameters out again; target networks and optimisers that a script has assigned are kept."""
        before = [value for value in vars(self).values() if isinstance(value, NetworkOptimizer)]
        ours = [network.parameters.made for network in before]
        optimizers = [(network.owner, network.owner.optimizer) for network in before]
        assigned = []
        for module in self.policy.modules():
            optimizer = getattr(module, "optimizer", None)
            if isinstance(optimizer, torch.optim.Optimizer) and not any(optimizer is one for one in ours):
                known = {id(parameter) for parameter in module.parameters()}
                if all(id(p) in known for group in optimizer.param_groups for p in group["params"]):
                    assigned.append((module, optimizer))
        values = copy.deepcopy(self.policy.to(self.device).state_dict())
        self.setup_optimizers()
        self.policy.load_state_dict(values)  # target networks were set to the online ones
        for owner, old in optimizers:
            new = owner.optimizer
            if new is not old and _shapes(new) == _shapes(old):
                new.load_state_dict(copy.deepcopy(old.state_dict()))
        for module, optimizer in assigned:
            module.optimizer = optimizer
        self._create_aliases()

    def setup_optimizers(self) -> None:
        """Lay parameters out in vectors, with an optimiser for each vector."""
        self.flat = parameter_group(self.policy.parameters())
        self.network_optimizer = NetworkOptimizer(self.policy, self.flat)
        if len(self.policy.optimizer.param_groups) == 1:  # a policy keeps parameter groups that it defines
            self.policy.optimizer = self.flat.optimizer(
                self.policy.optimizer_class,
                lr=self.schedules["learning_rate"](1.0),
                **self.policy.optimizer_kwargs,
            )

    @cached_property
    def optimizer(self) -> NetworkOptimizer:
        """Former name of `network_optimizer`, for algorithms of users."""
        return self.network_optimizer

    def rollout_metrics(self) -> Metrics:
        """Return what is logged under `rollout/` besides the statistics of episodes."""
        return {}

    def dump_logs(self, iteration: int = 0) -> None:
        """Dump what has been logged, with the statistics of episodes; a subclass may log more before.

        :param iteration: where a `learn` of the user's counts them
        """
        self.counters.iteration = iteration or self.counters.iteration
        dump_progress(self, {})

    _dump_logs = dump_logs

    def parameter_vectors(self) -> list[torch.Tensor]:
        """Return what must stay finite: all that is learned, as few vectors."""
        return [self.flat.vector.detach()]

    def policy_arguments(self) -> dict[str, Any]:
        """Return keywords for the policy: the user's `policy_kwargs` and what hyperparameters decide."""
        arguments: dict[str, Any] = {}
        if self.policy_kwargs:
            arguments = policy_keywords(self.policy_class, self.policy_kwargs)
        if getattr(self.config, "use_sde", False):
            arguments["use_sde"] = True
        return arguments

    def replace_config(self, **changes: object) -> None:
        values = {name: getattr(self.config, name) for name in field_names(self.Config)}
        self.config = build_config(self.Config, {**values, **changes})
        renamed = {"lr_schedule": "learning_rate"}  # one is made from both
        if not hasattr(self, "schedules"):
            return
        for name in {renamed.get(name, name) for name in changes} & {*schedule_names(self.Config)}:
            self.schedules.pop(name, None)
            if (schedule := schedule_of(self.config, name)) is not None:
                self.schedules[name] = schedule

    # ------------------------------------------------------------------ plumbing for algorithms

    def refresh_noise(self, step: int) -> None:
        """Draw new gSDE noise every `sde_sample_freq` steps of a rollout; never for -1."""
        if (
            getattr(self.config, "use_sde", False)
            and self.config.sde_sample_freq > 0
            and step % self.config.sde_sample_freq == 0
        ):
            self.policy.reset_noise(self.n_envs)

    def set_training_mode(self, mode: bool) -> None:
        """Switch dropout and normalisation layers; without any, only leave the evaluation mode of `predict`,
        in which cuDNN has no gradients of LSTMs."""
        if self.has_train_mode_layers or (mode and not self.policy.training):
            self.policy.set_training_mode(mode)

    def to_env_action(self, actions: torch.Tensor) -> np.ndarray:
        """Return stored actions [n_envs, ...] as environments execute them: a Box's clipped or unscaled to
        it."""
        if self.tensor_actions is not None:
            return cast(np.ndarray, self.tensor_actions(actions))
        array: np.ndarray = self.policy.env_actions(actions.cpu().numpy())
        return array

    def summarise(self, history: list[Metrics], counters: Counters) -> Metrics:
        """Compute the mean of each metric over the minibatches of an update that have it.

        :raises TrainingDiverged: when a loss or a parameter is NaN or infinite
        """
        means = mean_metrics(history if self.ranks is None else self.ranks.averaged(history))
        sizes = [torch.linalg.vector_norm(vector) for vector in self.parameter_vectors()]
        self.check_losses(means, *sizes)
        return means

    def over_ranks(self, value: Mean) -> Mean:
        """Return a mean over the minibatch of all ranks, given that over this rank's rows.

        In a single process the value itself.
        """
        return value if self.ranks is None else cast(Mean, self.ranks.mean(torch.as_tensor(value)))

    def check_losses(self, metrics: Metrics, *others: torch.Tensor) -> None:
        """Raise TrainingDiverged if a loss, or one of `others`, is NaN or infinite.

        :raises TrainingDiverged: one is NaN or infinite
        """
        losses = [value for name, value in metrics.items() if "loss" in name]
        if not all(map(math.isfinite, (*losses, *others))):
            raise diverged(self, metrics)


def mean_metrics(history: list[Metrics]) -> Metrics:
    """Return the mean of each metric over the updates that have it."""
    names = dict.fromkeys(name for metrics in history for name in metrics)
    return {name: _mean([metrics[name] for metrics in history if name in metrics]) for name in names}


def _mean(values: list[torch.Tensor | float]) -> torch.Tensor | float:
    """Return the mean of scalar tensors, a tensor, or of numbers."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return torch.stack(tensors).mean() if tensors else math.fsum(values) / len(values)


def _signed(inherited: FunctionType, signature: inspect.Signature) -> FunctionType:
    """Return a constructor with the signature of a class, for scripts that read that of `__init__`."""
    code, variables = inherited.__code__, inherited.__globals__
    copied = FunctionType(code, variables, "__init__", inherited.__defaults__, inherited.__closure__)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [own, *signature.parameters.values()]
    copied.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    copied.__kwdefaults__, copied.__doc__ = inherited.__kwdefaults__, inherited.__doc__
    return copied


def _shapes(optimizer: torch.optim.Optimizer) -> list[torch.Size]:
    return [parameter.shape for group in optimizer.param_groups for parameter in group["params"]]


def _hyperparameter_property(name: str, is_schedule: bool) -> property:
    """Return a property: the value, or for a `train` of stable-baselines3 the schedule that is made of it."""

    def read(self: Algorithm) -> object:
        if "config" not in vars(self):  # the constructor of a user's class, before that of rlzoo
            return self.own_arguments[name]
        if is_schedule and self.overrides_train and hasattr(self, "schedules"):
            return self.schedules.get(name)
        return getattr(self.config, name)

    def write(self: Algorithm, value: object) -> None:
        if "config" not in vars(self):
            self.own_arguments = {**self.own_arguments, name: value}
            return
        self.replace_config(**{name: value})

    return property(read, write, doc=f"The hyperparameter `{name}`; assigning checks the value.")
