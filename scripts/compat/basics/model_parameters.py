"""Copy parameters between models with get_parameters and set_parameters."""

import torch
from stable_baselines3 import SAC

source = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [32, 32]}, seed=0)
target = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [32, 32]}, seed=1)

params = source.get_parameters()
assert {"policy", "actor.optimizer", "critic.optimizer"} <= set(params)
weights = [key for key in params["policy"] if key.startswith("actor.")]
assert weights
assert not torch.equal(params["policy"][weights[0]], target.get_parameters()["policy"][weights[0]])

target.set_parameters(params)
for key, value in target.get_parameters()["policy"].items():
    assert torch.equal(value, params["policy"][key]), key

target.set_parameters({"policy": params["policy"]}, exact_match=False)
try:
    target.set_parameters({"policy": params["policy"]}, exact_match=True)
except ValueError:
    pass
else:
    raise AssertionError("parameters that are missing were accepted")

source.save("weights")
target.set_parameters("weights", device="cpu")
