"""Take pictures of vectorised environments."""

import numpy as np
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env

venv = make_vec_env("CartPole-v1", n_envs=4, env_kwargs={"render_mode": "rgb_array"})
venv.reset()
images = venv.get_images()
assert len(images) == 4
assert images[0].dtype == np.uint8 and images[0].ndim == 3
tiled = venv.render(mode="rgb_array")
assert tiled.shape == (images[0].shape[0] * 2, images[0].shape[1] * 2, 3)
assert venv.render_mode == "rgb_array"

model = A2C("MlpPolicy", "CartPole-v1")
assert model.get_env().render_mode == "rgb_array"
model.get_env().reset()
frame = model.get_env().render("rgb_array")
assert frame.shape[2] == 3
venv.close()
