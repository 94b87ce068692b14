"""Old dotted paths resolve to ours."""

from __future__ import annotations

import pytest

from rlzoo.config.class_names import class_path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stable_baselines3.common.atari_wrappers.AtariWrapper", "rlzoo.AtariWrapper"),
        ("sb3_contrib.common.wrappers.TimeFeatureWrapper", "rlzoo.TimeFeatureWrapper"),
        ("utils.wrappers.TimeFeatureWrapper", "rlzoo.TimeFeatureWrapper"),
        ("rl_zoo3.wrappers.FrameSkip", "rlzoo.FrameSkip"),
        ("rl_zoo3.wrappers.YAMLCompatResizeObservation", "rlzoo.ResizeObservation"),
        ("rl_zoo3.wrappers.HistoryWrapperObsDict", "rlzoo.HistoryWrapper"),
        ("utils.wrappers.HistoryWrapperObsDict", "rlzoo.HistoryWrapper"),
        ("utils.wrappers.DoneOnSuccessWrapper", "rlzoo.TruncatedOnSuccessWrapper"),
        ("rl_zoo3.wrappers.MaskVelocityWrapper", "rlzoo.MaskVelocityWrapper"),
        ("sb3_contrib.common.wrappers.ActionMasker", "rlzoo.ActionMasker"),
        (
            "stable_baselines3.common.callbacks.CheckpointCallback",
            "rlzoo.callbacks.callbacks.PklCheckpointCallback",
        ),
        ("gym_minigrid.wrappers.FlatObsWrapper", "minigrid.wrappers.FlatObsWrapper"),
        ("gym.wrappers.GrayScaleObservation", "gymnasium.wrappers.GrayscaleObservation"),
        (
            "gymnasium.wrappers.transform_observation.GrayscaleObservation",
            "gymnasium.wrappers.GrayscaleObservation",
        ),
        ("gymnasium.wrappers.time_limit.TimeLimit", "gymnasium.wrappers.TimeLimit"),
        ("gymnasium.wrappers.vector.NormalizeReward", "gymnasium.wrappers.vector.NormalizeReward"),
        ("th.nn.ReLU", "torch.nn.ReLU"),
        ("tf.nn.relu", "torch.nn.ReLU"),
        ("my_utils.wrappers.Mine", "my_utils.wrappers.Mine"),
        ("rlzoo.AtariWrapper", "rlzoo.AtariWrapper"),
    ],
)
def test_alias(old, new):
    assert class_path(old) == new
