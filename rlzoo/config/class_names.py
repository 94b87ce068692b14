"""Short names of classes in hyperparameter files: `CLASSES` has the only bare names that mean a class."""

from __future__ import annotations

from rlzoo.config.legacy.class_paths import TENSORFLOW_ACTIVATIONS, current_path

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
# fmt: on
_OF_RLZOO = (
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
    **TENSORFLOW_ACTIVATIONS,
    **{name: f"rlzoo.{name}" for name in _OF_RLZOO},
}
"""Short name -> dotted path."""


def class_path(name: str) -> str:
    """Return the dotted path of a class from its short name or any path it has or had.

    >>> class_path("nn.ReLU")
    'torch.nn.ReLU'
    >>> class_path("rl_zoo3.wrappers.FrameSkip")
    'rlzoo.FrameSkip'
    """
    return CLASSES.get(name) or current_path(name)
