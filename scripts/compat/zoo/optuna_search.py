"""Search for hyperparameters with Optuna and an evaluation callback that prunes."""

import gymnasium as gym
import optuna
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor
from torch import nn


class Prune(EvalCallback):
    """Report every evaluation to the trial."""

    def __init__(self, eval_env: gym.Env, trial: optuna.Trial, **kwargs):
        super().__init__(eval_env=eval_env, verbose=0, deterministic=True, **kwargs)
        self.trial, self.evaluations, self.is_pruned = trial, 0, False

    def _on_step(self) -> bool:
        if self.eval_freq > 0 and self.n_calls % self.eval_freq == 0:
            super()._on_step()
            self.evaluations += 1
            self.trial.report(self.last_mean_reward, self.evaluations)
            self.is_pruned = self.trial.should_prune()
        return not self.is_pruned


def objective(trial: optuna.Trial) -> float:
    lr = trial.suggest_float("lr", 1e-5, 1e-2, log=True)
    activation = {"tanh": nn.Tanh, "relu": nn.ReLU}[trial.suggest_categorical("activation", ["tanh", "relu"])]
    model = A2C(
        "MlpPolicy",
        "CartPole-v1",
        learning_rate=lr,
        n_steps=2 ** trial.suggest_int("exponent", 3, 6),
        policy_kwargs={"activation_fn": activation},
    )
    callback = Prune(Monitor(gym.make("CartPole-v1")), trial, n_eval_episodes=2, eval_freq=150)
    model.learn(450, callback=callback)
    model.env.close()
    if callback.is_pruned:
        raise optuna.exceptions.TrialPruned()
    return callback.last_mean_reward


study = optuna.create_study(
    sampler=optuna.samplers.TPESampler(n_startup_trials=2),
    pruner=optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=1),
    direction="maximize",
)
study.optimize(objective, n_trials=4)
assert len(study.trials) == 4 and study.best_trial.value > 5
