"""Look at the transitions that an off-policy algorithm stores."""

import numpy as np
from stable_baselines3 import TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env


class Watch(BaseCallback):
    ended = 0

    def _on_step(self) -> bool:
        assert {"rewards", "dones", "infos", "new_obs", "actions", "buffer_actions"} <= set(self.locals)
        for index, info in enumerate(self.locals["infos"]):
            if self.locals["dones"][index]:
                self.ended += 1
                assert info["TimeLimit.truncated"]
                assert not np.array_equal(info["terminal_observation"], self.locals["new_obs"][index])
                assert info["episode"]["l"] == 200
        assert np.abs(self.locals["buffer_actions"]).max() <= 1.0
        assert np.abs(self.locals["actions"]).max() <= 2.0
        return True


watch = Watch()
model = TD3(
    "MlpPolicy", make_vec_env("Pendulum-v1", n_envs=2), learning_starts=380, batch_size=8, train_freq=10
)
model.learn(420, callback=watch)
assert watch.ended == 2
buffer = model.replay_buffer
assert buffer.size() == buffer.pos == 210
assert buffer.dones[:210].sum() == 2 and buffer.timeouts[:210].sum() == 2
