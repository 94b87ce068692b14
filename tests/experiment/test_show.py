"""`rlzoo.show`: a video inside a notebook."""

from __future__ import annotations

import base64
import io

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

import rlzoo
from rlzoo.core.errors import UserError


def small_ppo(env) -> rlzoo.PPO:
    return rlzoo.PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, seed=0)


def embedded(html: str) -> bytes:
    return base64.b64decode(html.split("base64,")[1].split('"')[0])


def test_show_returns_a_video_that_a_notebook_embeds():
    video = rlzoo.show(small_ppo("CartPole-v1"), n_steps=5)
    html = video._repr_html_()
    assert html.startswith('<video src="data:video/mp4;base64,') and embedded(html) == video.data
    assert video.data[4:8] == b"ftyp"


def test_show_makes_a_gif_of_whole_episodes():
    video = rlzoo.show(small_ppo("CartPole-v1"), "CartPole-v1", episodes=1, gif=True)
    assert Image.open(io.BytesIO(video.data)).n_frames >= 9
    assert video._repr_html_().startswith('<img src="data:image/gif;base64,')


def test_show_leaves_statistics_and_lets_training_go_on():
    env = rlzoo.VecNormalize(rlzoo.make_vec_env("CartPole-v1", 2))
    model = small_ppo(env).learn(64)
    mean, count = env.obs_rms.mean.copy(), env.obs_rms.count
    rlzoo.show(model, n_steps=5)
    assert env.training and env.obs_rms.count == count
    np.testing.assert_array_equal(env.obs_rms.mean, mean)
    assert model.learn(64, reset_num_timesteps=False).num_timesteps == 128


def test_show_says_what_it_lacks():
    model = small_ppo("CartPole-v1")
    with pytest.raises(UserError, match="rgb_array"):
        rlzoo.show(model, gym.make("CartPole-v1"), n_steps=3)
    model.env = None
    with pytest.raises(UserError, match="no environment"):
        rlzoo.show(model)
