"""Save a model to a stream, to a pathlib path, and without some of its attributes."""

import io
import pathlib

import numpy as np
from stable_baselines3 import A2C

model = A2C("MlpPolicy", "CartPole-v1", seed=0)
obs = np.array([0.1, 0.2, -0.1, 0.0], dtype=np.float32)
expected = model.predict(obs, deterministic=True)[0]

stream = io.BytesIO()
model.save(stream)
stream.seek(0)
assert A2C.load(stream).predict(obs, deterministic=True)[0] == expected

path = pathlib.Path("kept") / "agent"
path.parent.mkdir()
model.save(path, exclude=["tensorboard_log"])
assert path.with_suffix(".zip").exists()
assert A2C.load(path, device="cpu").predict(obs, deterministic=True)[0] == expected
