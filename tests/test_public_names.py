"""`rlzoo.<name>`: every public name resolves, lazily, and a misspelt one is answered with the nearest."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rlzoo


@pytest.mark.parametrize("name", rlzoo.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(rlzoo, name) is not None


# What algorithms with replay bring.
# fmt: off
REPLAY_NAMES = [
    "DQN", "QRDQN", "DDPG", "TD3", "SAC", "TQC", "CrossQ", "HER",
    "ReplayBuffer", "DictReplayBuffer", "PrioritizedReplayBuffer", "NStepReplayBuffer", "HerReplayBuffer",
    "NormalActionNoise", "OrnsteinUhlenbeckActionNoise", "VectorizedActionNoise", "LinearNormalActionNoise",
    "AdaptiveParamNoiseSpec", "HERGoalEnvWrapper", "GoalSelectionStrategy", "BitFlippingEnv",
    "LnMlpPolicy", "LnCnnPolicy", "quantile_huber_loss", "ParallelTrainCallback",
]
# fmt: on


# What MaskablePPO and the wrappers of the zoos bring.
# fmt: off
MASK_NAMES = [
    "MaskablePPO", "ActionMasker", "get_action_masks", "is_masking_supported", "MaskableEvalCallback",
    "MaskableActorCriticPolicy", "MaskableActorCriticCnnPolicy", "MaskableMultiInputActorCriticPolicy",
    "MaskableCategoricalDistribution", "MaskableMultiCategoricalDistribution",
    "MaskableBernoulliDistribution",
    "InvalidActionEnvDiscrete", "InvalidActionEnvMultiDiscrete", "InvalidActionEnvMultiBinary",
    "TimeFeatureWrapper", "MaskVelocityWrapper", "HistoryWrapper", "HistoryWrapperObsDict", "FrameSkip",
    "DelayedRewardWrapper", "ActionNoiseWrapper", "ActionSmoothingWrapper", "TruncatedOnSuccessWrapper",
    "DoneOnSuccessWrapper", "ResizeObservation", "YAMLCompatResizeObservation",
]
# fmt: on


@pytest.mark.parametrize("name", MASK_NAMES)
def test_names_of_masks_and_wrappers_are_public(name: str) -> None:
    assert name in rlzoo.__all__


def test_the_callback_of_a_search_is_public() -> None:
    assert "TrialEvalCallback" in rlzoo.__all__


@pytest.mark.parametrize("name", REPLAY_NAMES)
def test_names_of_algorithms_with_replay_are_public(name: str) -> None:
    assert name in rlzoo.__all__


# What the rest of the engine brings.
# fmt: off
ENGINE_NAMES = [
    "TRPO", "ACKTR", "ACER", "RecurrentPPO", "ARS", "PPO1", "PPO2", "BC", "GAIL",
    "ExpertDataset", "generate_expert_traj", "AsyncEval", "conjugate_gradient_solver", "flat_grad",
    "MlpLstmPolicy", "MlpLnLstmPolicy", "CnnLstmPolicy", "CnnLnLstmPolicy", "MultiInputLstmPolicy",
    "LstmPolicy", "FeedForwardPolicy", "LinearPolicy", "ARSPolicy", "ARSLinearPolicy",
    "RecurrentActorCriticPolicy", "RecurrentActorCriticCnnPolicy", "RecurrentMultiInputActorCriticPolicy",
]
# fmt: on


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_names_of_the_rest_of_the_engine_are_public(name: str) -> None:
    assert name in rlzoo.__all__


@pytest.mark.parametrize(("alias", "name"), rlzoo._ALIASES.items())
def test_alias_is_the_same_object(alias: str, name: str) -> None:
    assert getattr(rlzoo, alias) is getattr(rlzoo, name)


def test_names_are_where_they_say() -> None:
    from rlzoo import CheckpointCallback, results_plotter
    from rlzoo.callbacks.callbacks import CheckpointCallback as Original

    assert CheckpointCallback is Original
    assert results_plotter.X_TIMESTEPS == rlzoo.X_TIMESTEPS


def test_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="did you mean 'VecNormalize'"):
        _ = rlzoo.VecNormalise
    with pytest.raises(ImportError, match="VecNormalise"):
        from rlzoo import VecNormalise  # noqa: F401


def test_dir_lists_the_public_names() -> None:
    assert {"PPO", "A2C", "make_vec_env", "__version__"} <= set(dir(rlzoo))


def test_names_are_loaded_on_first_use() -> None:
    code = (
        "import sys, rlzoo; before = 'rlzoo.core.schedules' in sys.modules; rlzoo.LinearSchedule;"
        "print(before, 'rlzoo.core.schedules' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
