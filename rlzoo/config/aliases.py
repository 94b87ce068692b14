"""Short names and old dotted paths, and what they are called here.

`CLASSES` is the table of the value grammar: the only bare names that stand for a class. `alias` moves the
dotted paths of the older libraries to ours, so that their hyperparameter files work unmodified.
"""

from __future__ import annotations

from rlzoo.core.moved_modules import current_name

# fmt: off
_ACTIVATIONS = (
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity",
    "LeakyReLU", "LogSigmoid", "Mish", "PReLU", "ReLU", "ReLU6", "RReLU", "SELU", "Sigmoid", "SiLU",
    "Softmax", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
)
_OPTIMIZERS = (
    "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS", "NAdam", "RAdam", "RMSprop",
    "Rprop", "SGD",
)
_TENSORFLOW = {
    "elu": "ELU", "relu": "ReLU", "relu6": "ReLU6", "selu": "SELU", "sigmoid": "Sigmoid",
    "softplus": "Softplus", "softsign": "Softsign", "swish": "SiLU", "tanh": "Tanh",
}  # not leaky_relu, which has another slope
# fmt: on
_OWN = (
    "RMSpropTFLike",
    "DictReplayBuffer",
    "HerReplayBuffer",
    "NStepReplayBuffer",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
)

CLASSES: dict[str, str] = {
    **{f"{prefix}nn.{name}": f"torch.nn.{name}" for name in _ACTIVATIONS for prefix in ("", "th.", "torch.")},
    **{
        f"{prefix}optim.{name}": f"torch.optim.{name}"
        for name in _OPTIMIZERS
        for prefix in ("", "th.", "torch.")
    },
    **{f"tf.nn.{old}": f"torch.nn.{name}" for old, name in _TENSORFLOW.items()},
    **{name: f"rlzoo.{name}" for name in _OWN},
}
"""Every name that stands for a class without its full path -> the full path."""

_OLD_ROOTS = ("stable_baselines3.", "stable_baselines.", "sb3_contrib.", "rl_zoo3.", "utils.")
_RENAMED_CLASSES = {
    "DoneOnSuccessWrapper": "TruncatedOnSuccessWrapper",
    "HistoryWrapperObsDict": "HistoryWrapper",
    "YAMLCompatResizeObservation": "ResizeObservation",
}
_RENAMED = {
    "stable_baselines3.common.callbacks.CheckpointCallback": (
        "rlzoo.callbacks.callbacks.PklCheckpointCallback"
    ),
    "gym_minigrid.wrappers.FlatObsWrapper": "minigrid.wrappers.FlatObsWrapper",
    "gymnasium.wrappers.GrayScaleObservation": "gymnasium.wrappers.GrayscaleObservation",
    "gymnasium.wrappers.FrameStack": "gymnasium.wrappers.FrameStackObservation",
}


def alias(path: str) -> str:
    """Today's dotted path for an old one; any other path is returned as it is.

    >>> alias("stable_baselines3.common.atari_wrappers.AtariWrapper")
    'rlzoo.AtariWrapper'
    >>> alias("my_package.MyWrapper")
    'my_package.MyWrapper'
    """
    if path in CLASSES:
        return CLASSES[path]
    if path.startswith(("gym.wrappers.", "gymnasium.wrappers.")) and ".vector." not in path:
        path = f"gymnasium.wrappers.{path.rpartition('.')[2]}"  # one flat module since Gymnasium 1.0
    if path in _RENAMED:
        return _RENAMED[path]
    if not path.startswith(_OLD_ROOTS):
        return current_name(path)
    name = path.rpartition(".")[2]
    return f"rlzoo.{_RENAMED_CLASSES.get(name, name)}"
