"""Dotted paths of classes in older packages and in older versions of rlzoo, and their current paths."""

from __future__ import annotations

from rlzoo.core.moved_modules import current_name

TENSORFLOW_ACTIVATIONS = {
    f"tf.nn.{old}": f"torch.nn.{new}"
    for old, new in {
        "elu": "ELU",
        "relu": "ReLU",
        "relu6": "ReLU6",
        "selu": "SELU",
        "sigmoid": "Sigmoid",
        "softplus": "Softplus",
        "softsign": "Softsign",
        "swish": "SiLU",
        "tanh": "Tanh",
    }.items()
}  # without leaky_relu, whose default slope differs
_OLD_ROOTS = ("stable_baselines3.", "stable_baselines.", "sb3_contrib.", "rl_zoo3.", "utils.")
_RENAMED_CLASSES = {
    "DoneOnSuccessWrapper": "TruncatedOnSuccessWrapper",
    "HistoryWrapperObsDict": "HistoryWrapper",
    "YAMLCompatResizeObservation": "ResizeObservation",
}
_RENAMED_PATHS = {
    "stable_baselines3.common.callbacks.CheckpointCallback": (
        "rlzoo.callbacks.callbacks.PklCheckpointCallback"
    ),
    "gym_minigrid.wrappers.FlatObsWrapper": "minigrid.wrappers.FlatObsWrapper",
    "gymnasium.wrappers.GrayScaleObservation": "gymnasium.wrappers.GrayscaleObservation",
    "gymnasium.wrappers.FrameStack": "gymnasium.wrappers.FrameStackObservation",
}


def current_path(path: str) -> str:
    """Return the current dotted path of a class; any other path is returned unchanged.

    >>> current_path("stable_baselines3.common.atari_wrappers.AtariWrapper")
    'rlzoo.AtariWrapper'
    >>> current_path("my_package.MyWrapper")
    'my_package.MyWrapper'
    """
    if path.startswith(("gym.wrappers.", "gymnasium.wrappers.")) and ".vector." not in path:
        path = f"gymnasium.wrappers.{path.rpartition('.')[2]}"  # one flat module since Gymnasium 1.0
    if path in _RENAMED_PATHS:
        return _RENAMED_PATHS[path]
    if not path.startswith(_OLD_ROOTS):
        return current_name(path)
    name = path.rpartition(".")[2]
    return f"rlzoo.{_RENAMED_CLASSES.get(name, name)}"
