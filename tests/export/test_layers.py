"""Policies of plain layers as JSON, evaluated by the JavaScript of the page."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import rlzoo
from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy import IdentityEnv
from rlzoo.export.description import describe
from rlzoo.export.html_page import LIMITS, page
from rlzoo.export.layers import as_text, layers_document
from rlzoo.export.policy_module import PolicyModule

from .test_policy_module import AGENTS, SMALL, observations, trained

ACT = ("policy.js",)
PLAY = """
output = input.map(({policy, observations, masks}) =>
  observations.map((observation, i) => act(policy, observation, masks && masks[i])));
"""
REFUSED = ("dqn dueling",)
FLOAT_IMAGES = spaces.Dict({"image": spaces.Box(0.0, 1.0, (3, 36, 36), np.float32)})


def float_images() -> IdentityEnv:
    env = IdentityEnv(space=FLOAT_IMAGES)
    env.action_space = spaces.Discrete(2)
    return env


def document_of(model: Any) -> Any:
    module = PolicyModule(model)
    return json.loads(as_text(layers_document(module, describe(model, module))))


def rows(obs: Any) -> list[Any]:
    """A batch as a list of single observations, in plain numbers."""
    if not isinstance(obs, dict):
        return obs.tolist()
    n = len(next(iter(obs.values())))
    return [{key: array[i].tolist() for key, array in obs.items()} for i in range(n)]


def agree(run_in_node: Any, *cases: tuple[Any, Any, Any], masks: Any = None) -> None:
    """Check that JavaScript does what agents do; each case is an agent, raw observations, those it sees."""
    listed = None if masks is None else masks.tolist()
    given = [{"policy": document_of(m), "observations": rows(raw), "masks": listed} for m, raw, _ in cases]
    kwargs = {} if masks is None else {"action_masks": masks}
    for actions, (model, _, seen) in zip(run_in_node(ACT, PLAY, given), cases, strict=True):
        expected, _ = model.predict(seen, deterministic=True, **kwargs)
        assert np.shape(actions) == expected.shape
        np.testing.assert_allclose(actions, expected, atol=2e-6, err_msg=str(model.policy))


def test_javascript_acts_as_predict_does(run_in_node):
    cases = []
    for model in (make() for name, make in AGENTS.items() if name not in REFUSED):
        for parameter in model.policy.parameters():  # biases that are not 0
            if parameter.dim() == 1 and parameter.requires_grad:
                parameter.data += 0.1 * torch.randn_like(parameter)
        obs = observations(model.observation_space, 10)
        cases.append((model, obs, obs))
    agree(run_in_node, *cases)


def test_javascript_normalises_as_vec_normalize(run_in_node):
    venv = trained(rlzoo.VecNormalize(rlzoo.make_vec_env("Pendulum-v1", 2, seed=0), clip_obs=0.8))
    model = rlzoo.PPO("MlpPolicy", venv, policy_kwargs=SMALL)
    raw = observations(venv.venv.observation_space)
    agree(run_in_node, (model, raw, venv.normalize_obs(raw)))


def test_javascript_forbids_masked_actions(run_in_node):
    model = rlzoo.MaskablePPO("MlpPolicy", rlzoo.InvalidActionEnvMultiDiscrete(), policy_kwargs=SMALL)
    obs = observations(model.observation_space)
    counts = model.action_space.nvec
    masks = np.random.default_rng(0).random((len(obs), counts.sum())) < 0.5
    masks[:, np.cumsum(counts) - 1] = True
    agree(run_in_node, (model, obs, obs), masks=masks)


def test_javascript_knows_the_activations(run_in_node):
    cases = []
    for activation in (nn.Sigmoid, nn.SiLU, nn.Softplus, nn.ELU, nn.LeakyReLU, nn.Hardtanh, nn.Identity):
        kwargs = {"net_arch": [16], "activation_fn": activation, "layer_norm": True}
        model = rlzoo.TD3("MlpPolicy", "Pendulum-v1", policy_kwargs=kwargs, buffer_size=10)
        obs = observations(model.observation_space, 5)
        cases.append((model, obs, obs))
    agree(run_in_node, *cases)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (AGENTS["dqn dueling"], "has a dueling network"),
        (
            lambda: rlzoo.PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"activation_fn": nn.Mish}),
            "has a Mish",
        ),
        (lambda: rlzoo.PPO("MlpLstmPolicy", "CartPole-v1"), "this one is recurrent"),
        (
            lambda: rlzoo.PPO(
                "MultiInputPolicy",
                float_images(),
                policy_kwargs={"normalize_images": False},
            ),
            "this one sees images",
        ),
    ],
)
def test_other_policies_are_refused_with_what_can_be_used(make, message):
    with pytest.raises(UserError, match=f"{message}; use --to onnx or torchscript"):
        document_of(make())


@pytest.mark.filterwarnings("ignore:.*CartPole-v0 is out of date:DeprecationWarning")
@pytest.mark.parametrize("env_id", LIMITS)
def test_a_page_is_one_small_file_without_links(env_id):
    model = rlzoo.PPO("MlpPolicy", env_id, policy_kwargs=SMALL)
    module = PolicyModule(model)
    text = page(module, describe(model, module))
    assert len(text) < 100_000 and "default-src 'none'" in text
    assert "src=" not in text and "href=" not in text and "$" not in text.replace("${", "")


def test_a_page_of_another_game_or_of_2_mb_is_refused(tmp_path):
    stacked = rlzoo.VecFrameStack(rlzoo.make_vec_env("CartPole-v1", 1), 2)
    model = rlzoo.PPO("MlpPolicy", stacked, policy_kwargs=SMALL)
    with pytest.raises(UserError, match="a wrapper changes the observations"):
        rlzoo.export_model(model, tmp_path / "page.html", to="html")
    model = rlzoo.PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [512, 512]})
    with pytest.raises(UserError, match="2 MB is the limit"):
        rlzoo.export_model(model, tmp_path / "page.html", to="html")
    assert not list(tmp_path.iterdir())


def test_shipped_agent_of_its_page_solves_cart_pole(run_in_node, tmp_path):
    from rlzoo.cli.main import main

    path = tmp_path / "ppo.json"
    assert main(["export", "--algo", "ppo", "--env", "CartPole-v1", "-o", str(path)]) == 0
    code = """
    const game = ENVIRONMENTS["CartPole-v1"];
    let state = game.reset(Math.random);
    output = 0;
    for (let ended = false; !ended && output < game.limit; output++) {
      const result = game.step(state, act(input, game.observe(state)));
      [state, ended] = [result.state, result.terminated];
    }
    """
    assert run_in_node((*ACT, "environments.js"), code, json.loads(path.read_text())) == 500
