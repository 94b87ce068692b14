"""Train CrossQ, which has batch normalisation instead of target networks."""

import torch
from sb3_contrib import CrossQ

model = CrossQ(
    "MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [32]}, learning_starts=30, batch_size=16
)
model.learn(100)
assert any("mean" in name for name, _ in model.policy.named_buffers())
assert not hasattr(model, "critic_target") or model.critic_target is None
assert all(torch.isfinite(p).all() for p in model.policy.parameters())
model.save("crossq")
CrossQ.load("crossq", env=model.get_env()).learn(40)
