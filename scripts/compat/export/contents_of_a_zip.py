"""Look into the zip file of a saved model."""

import json
import zipfile

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.save_util import load_from_zip_file

PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, gamma=0.97).save("agent")
data, params, variables = load_from_zip_file("agent", device="cpu")
assert data["gamma"] == 0.97 and data["n_steps"] == 16
assert data["observation_space"].shape == (4,)
assert isinstance(params["policy"]["action_net.weight"], torch.Tensor)
assert "policy.optimizer" in params
with zipfile.ZipFile("agent.zip") as archive:
    names = archive.namelist()
    assert "data" in names and "policy.pth" in names
    assert "_stable_baselines3_version" in names
    assert json.loads(archive.read("data"))["n_steps"] == 16
