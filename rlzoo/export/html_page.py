"""A self-contained web page in which an agent plays its environment."""

from __future__ import annotations

import html
from pathlib import Path
from string import Template
from typing import BinaryIO

import gymnasium as gym

from rlzoo.core.errors import UserError
from rlzoo.export.description import Description
from rlzoo.export.layers import as_text, layers_document
from rlzoo.export.policy_module import PolicyModule

LIMITS = {
    "CartPole-v0": 200,
    "CartPole-v1": 500,
    "Pendulum-v1": 200,
    "MountainCar-v0": 200,
    "MountainCarContinuous-v0": 999,
    "Acrobot-v1": 500,
}
"""The environments with a JavaScript version -> their time limits."""

MAX_BYTES = 2_000_000

FOLDER = Path(__file__).with_name("page")
SCRIPTS = ("policy.js", "environments.js", "player.js")


def write_html(module: PolicyModule, description: Description, file: BinaryIO) -> None:
    """Write a page in which the agent and its environment run in JavaScript.

    :raises UserError: there is no page for the environment, or the policy is not an MLP
    """
    text = page(module, description).encode()
    if len(text) > MAX_BYTES:
        raise UserError(
            f"the page would have {len(text) / 1e6:.1f} MB, and 2 MB is the limit;"
            " use --to onnx or torchscript for a policy of this size"
        )
    file.write(text)


def page(module: PolicyModule, description: Description) -> str:
    """Return the page; see `write_html`."""
    env_id = str(description["environment"])
    if env_id not in LIMITS:
        raise UserError(f"there is no page for {env_id}; there is one for {', '.join(LIMITS)}")
    (shape,) = (part.space.shape for part in module.parts.values())
    if shape != gym.make(env_id).observation_space.shape:
        raise UserError(
            f"a page runs the plain {env_id}, but a wrapper changes the observations of this agent"
        )
    policy = as_text(layers_document(module, description))
    return Template(_read("page.html")).substitute(
        title=html.escape(f"{description['algorithm']} plays {env_id}"),
        subtitle=html.escape(
            f"Trained for {description['timesteps']:,} steps with rlzoo {description['rlzoo_version']}."
        ),
        limit=LIMITS[env_id],
        style=_read("style.css"),
        policy=policy.replace("</", "<\\/"),
        scripts="\n".join(map(_read, SCRIPTS)),
    )


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
