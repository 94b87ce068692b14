"""One web page in which an agent plays its environment, without a network."""

from __future__ import annotations

import html
from pathlib import Path
from string import Template
from typing import Any, BinaryIO

import gymnasium as gym

from rlzoo.core.errors import UserError
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
"""The environments that there are pages for, with the steps of their longest episodes."""

MAX_BYTES = 2_000_000

FOLDER = Path(__file__).with_name("page")
SCRIPTS = ("policy.js", "environments.js", "player.js")


def write_html(module: PolicyModule, description: dict[str, Any], file: BinaryIO) -> None:
    """Write a page in which the agent and its environment run in JavaScript.

    :raises UserError: there is no page for the environment, or the policy has other than plain layers
    """
    text = page(module, description).encode()
    if len(text) > MAX_BYTES:
        raise UserError(
            f"the page would have {len(text) / 1e6:.1f} MB, and 2 MB is the limit;"
            " use --to onnx or torchscript for a policy of this size"
        )
    file.write(text)


def page(module: PolicyModule, description: dict[str, Any]) -> str:
    """Return the page; see `write_html`."""
    env_id = description["environment"]
    if env_id not in LIMITS:
        raise UserError(f"there is no page for {env_id}; there is one for {', '.join(LIMITS)}")
    (shape,) = (part.space.shape for part in module.parts.values())
    if shape != gym.make(env_id).observation_space.shape:
        raise UserError(f"a page has {env_id} as it is, and this agent sees it through a wrapper")
    policy = as_text(layers_document(module, description))
    steps = description["timesteps"]
    return Template(_read("page.html")).substitute(
        title=html.escape(f"{description['algorithm']} plays {env_id}"),
        subtitle=html.escape(f"Trained for {steps:,} steps with rlzoo {description['rlzoo_version']}."),
        limit=LIMITS[env_id],
        style=_read("style.css"),
        policy=policy.replace("</", "<\\/"),
        scripts="\n".join(map(_read, SCRIPTS)),
    )


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
