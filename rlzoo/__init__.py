"""rlzoo: a training zoo for reinforcement learning.

Everything public is importable from here and is loaded when it is first asked for: `import rlzoo` is cheap
and imports neither torch nor gymnasium.

>>> from rlzoo import PPO
>>> model = PPO("MlpPolicy", "CartPole-v1").learn(10_000)
"""

from __future__ import annotations

import importlib
from typing import Any

from rlzoo.config.catalog import exported_classes as _exported_classes

__version__ = "0.1.0"

# Where each public name is defined; algorithms are in the catalogue (rlzoo/config/catalog.py).
# `rlzoo/__init__.pyi` is made from both by scripts/make_stubs.py.
_MODULES = {
    "rlzoo.algorithms.base": "Algorithm",
    "rlzoo.algorithms.off_policy.off_policy_algorithm": "OffPolicyAlgorithm",
    "rlzoo.algorithms.on_policy.on_policy_algorithm": "OnPolicyAlgorithm",
    "rlzoo.buffers.base_buffer": "BaseBuffer",
    "rlzoo.buffers.demonstrations": "ExpertDataset",
    "rlzoo.buffers.replay.her_replay_buffer": "GoalSelectionStrategy HerReplayBuffer KEY_TO_GOAL_STRATEGY",
    "rlzoo.buffers.replay.prioritized": "PrioritizedReplayBuffer",
    "rlzoo.buffers.replay.dict_replay_buffer": "DictReplayBuffer",
    "rlzoo.buffers.replay.replay_buffer": "NStepReplayBuffer ReplayBuffer",
    "rlzoo.buffers.rollout_buffer": "RolloutBuffer DictRolloutBuffer",
    "rlzoo.cli.flags.parser": "StoreDict",
    "rlzoo.cli.python": "enjoy optimize train",
    "rlzoo.buffers.samples": (
        "DictReplayBufferSamples DictRolloutBufferSamples MaskableDictRolloutBufferSamples"
        " MaskableRolloutBufferSamples ReplayBufferSamples RolloutBufferSamples"
    ),
    "rlzoo.core.runtime": ("get_device obs_as_tensor set_random_seed get_system_info"),
    "rlzoo.core.errors": (
        "CheckpointError EnvironmentFailed InvalidEnvironment RunFailed TrainingDiverged UnknownArgument"
        " UnsupportedSpace UserError"
    ),
    "rlzoo.metrics.log_files": "read_csv read_json",
    "rlzoo.metrics.logger": (
        "Logger configure configure_logger get_latest_run_id CSVOutputFormat Figure"
        " FormatUnsupportedError HParam HumanOutputFormat Image JSONOutputFormat KVWriter SeqWriter"
        " TensorBoardOutputFormat Video filter_excluded_keys make_output_format"
    ),
    "rlzoo.algorithms.off_policy.quantile_regression": "quantile_huber_loss",
    "rlzoo.core.action_noise": (
        "ActionNoise AdaptiveParamNoiseSpec LinearNormalActionNoise NormalActionNoise"
        " OrnsteinUhlenbeckActionNoise VectorizedActionNoise"
    ),
    "rlzoo.core.returns": "explained_variance safe_mean",
    "rlzoo.core.running_statistics": "RunningMeanStd",
    "rlzoo.core.schedules": (
        "ConstantSchedule CosineSchedule ExponentialSchedule FloatSchedule LinearSchedule PiecewiseSchedule"
        " Schedule SimpleLinearSchedule constant_fn get_linear_fn get_schedule_fn linear_schedule"
        " lr_schedule make_schedule"
    ),
    "rlzoo.core.preprocessing": (
        "check_for_nested_spaces is_image_space is_image_space_channels_first check_for_correct_spaces"
        " check_shape_equal get_action_dim get_flattened_obs_dim get_obs_shape is_vectorized_observation"
        " maybe_transpose preprocess_obs"
    ),
    "rlzoo.algorithms.train_frequency": (
        "RolloutReturn TrainFreq TrainFrequencyUnit should_collect_more_steps"
    ),
    "rlzoo.core.type_aliases": (
        "AtariResetReturn AtariStepReturn GymEnv GymObs GymResetReturn GymStepReturn OptimizerStateDict"
        " PyTorchObs TensorDict"
    ),
    "rlzoo.distributions": (
        "BernoulliDistribution CategoricalDistribution DiagGaussianDistribution Distribution"
        " MaskableBernoulliDistribution MaskableCategorical MaskableCategoricalDistribution"
        " MaskableMultiCategoricalDistribution MultiCategoricalDistribution SquashedDiagGaussianDistribution"
        " StateDependentNoiseDistribution TanhBijector kl_divergence make_masked_proba_distribution"
        " make_proba_distribution sum_independent_dims"
    ),
    "rlzoo.envs.action_masks": "ActionMasker get_action_masks is_masking_supported",
    "rlzoo.envs.atari.atari_wrappers": (
        "AtariWrapper ClipRewardEnv EpisodicLifeEnv FireResetEnv MaxAndSkipEnv NoopResetEnv StickyActionEnv"
        " WarpFrame wrap_deepmind"
    ),
    "rlzoo.envs.single_env.check_env": "check_env",
    "rlzoo.envs.vec_env.dummy": "DummyVecEnv",
    "rlzoo.envs.single_env.goal_env": "HERGoalEnvWrapper",
    "rlzoo.envs.vec_env.gym_vector": "GymVectorEnv",
    "rlzoo.envs.make_vec_env": "make_vec_env",
    "rlzoo.envs.make_atari": "make_atari make_atari_env",
    "rlzoo.envs.single_env.monitor": (
        "LoadMonitorResultsError Monitor ResultsWriter get_monitor_files load_results"
    ),
    "rlzoo.core.observations": "copy_obs_dict dict_to_obs obs_space_info",
    "rlzoo.envs.vec_wrappers.stacked_observations": "StackedObservations",
    "rlzoo.envs.vec_env.subproc": "CloudpickleWrapper SubprocVecEnv",
    "rlzoo.envs.vec_env.tile_images": "tile_images",
    "rlzoo.envs.examples.toy": (
        "BitFlippingEnv Catch FakeImageEnv IdentityEnv IdentityEnvBox IdentityEnvMultiBinary"
        " IdentityEnvMultiDiscrete SimpleMultiObsEnv"
    ),
    "rlzoo.envs.examples.toy_invalid_actions": (
        "InvalidActionEnvDiscrete InvalidActionEnvMultiBinary InvalidActionEnvMultiDiscrete"
    ),
    "rlzoo.envs.vec_wrappers.vec_check_nan": "VecCheckNan",
    "rlzoo.envs.tensor.tensor_cartpole": "TensorCartPole",
    "rlzoo.envs.tensor.tensor_pendulum": "TensorPendulum",
    "rlzoo.envs.tensor.tensor_vec_env": "TensorStep TensorVecEnv",
    "rlzoo.envs.vec_env.vec_env": (
        "VecEnv VecEnvIndices VecEnvObs VecEnvStepReturn VecEnvWrapper is_vecenv_wrapped is_wrapped"
        " unwrap_vec_wrapper unwrap_wrapper"
    ),
    "rlzoo.envs.vec_wrappers.vec_extract_dict_obs": "VecExtractDictObs",
    "rlzoo.envs.vec_wrappers.vec_frame_stack": "VecFrameStack",
    "rlzoo.envs.vec_wrappers.vec_monitor": "VecMonitor",
    "rlzoo.envs.vec_wrappers.vec_normalize": ("VecNormalize sync_envs_normalization unwrap_vec_normalize"),
    "rlzoo.envs.vec_wrappers.vec_transpose": "VecTransposeImage",
    "rlzoo.envs.vec_wrappers.vec_video_recorder": "VecVideoRecorder",
    "rlzoo.envs.examples.velocity_mask": "MaskVelocityWrapper",
    "rlzoo.envs.single_env.wrappers": (
        "ActionNoiseWrapper ActionSmoothingWrapper DelayedRewardWrapper FrameSkip HistoryWrapper"
        " ResizeObservation TimeFeatureWrapper TruncatedOnSuccessWrapper"
    ),
    "rlzoo.hub.load": "load_from_hub",
    "rlzoo.hub.download": "download_from_hub get_hf_trained_models",
    "rlzoo.hub.upload": "push_to_hub",
    "rlzoo.policies.linear_policy": "ARSLinearPolicy ARSPolicy",
    "rlzoo.networks.torch_layers": (
        "BaseFeaturesExtractor CombinedExtractor FlattenExtractor NatureCNN MlpExtractor create_mlp"
        " get_actor_critic_arch"
    ),
    "rlzoo.policies.masked_policies": (
        "MaskableActorCriticCnnPolicy MaskableActorCriticPolicy MaskableMultiInputActorCriticPolicy"
    ),
    "rlzoo.policies.actors": "Actor SquashedGaussianActor",
    "rlzoo.policies.base_policy": "BaseModel BasePolicy",
    "rlzoo.policies.continuous_policies": "CrossQPolicy SACPolicy TD3Policy TQCPolicy",
    "rlzoo.policies.critics": "ContinuousCritic QuantileCritic",
    "rlzoo.policies.actor_critic_policies": (
        "ActorCriticCnnPolicy ActorCriticPolicy FeedForwardPolicy MultiInputActorCriticPolicy"
    ),
    "rlzoo.policies.value_based": "DQNPolicy QNetwork QRDQNPolicy QuantileNetwork",
    "rlzoo.policies.recurrent_policies": (
        "CnnLnLstmPolicy LstmPolicy MlpLnLstmPolicy RecurrentActorCriticCnnPolicy RecurrentActorCriticPolicy"
        " RecurrentMultiInputActorCriticPolicy"
    ),
    "rlzoo.policies.policy_registry": "LnCnnPolicy LnMlpPolicy register_policy",
    "rlzoo.optim.conjugate_gradient": "conjugate_gradient_solver flat_grad",
    "rlzoo.optim.parameters": "get_parameters_by_name update_learning_rate zip_strict",
    "rlzoo.optim.polyak": "polyak_update",
    "rlzoo.optim.rmsprop_tf": "RMSpropTFLike",
    "rlzoo.plots.aggregates": (
        "iqm optimality_gap performance_profile probability_of_improvement stratified_bootstrap"
    ),
    "rlzoo.plots.runs": "load_runs",
    "rlzoo.plots.curves": (
        "X_EPISODES X_TIMESTEPS X_WALLTIME plot_curves plot_results rolling_window ts2xy window_func"
    ),
    "rlzoo.callbacks.callbacks": (
        "BaseCallback CallbackList CheckpointCallback ConvertCallback EvalCallback EventCallback"
        " EveryNTimesteps LogEveryNTimesteps MaskableEvalCallback ProgressBarCallback RawStatisticsCallback"
        " SaveVecNormalizeCallback StopTrainingOnMaxEpisodes StopTrainingOnNoModelImprovement"
        " StopTrainingOnRewardThreshold"
    ),
    "rlzoo.runs.algos": "ALGOS",
    "rlzoo.experiment.from_hyperparams": (
        "create_test_env flatten_dict_observations get_callback_list get_class_by_name get_wrapper_class"
    ),
    "rlzoo.runs.saved_agents": ("get_model_path get_saved_hyperparams get_trained_models"),
    "rlzoo.playback.video_recording": "record_video",
    "rlzoo.playback.inline_video": "InlineVideo show",
    "rlzoo.export.exporter": "export_model",
    "rlzoo.training.expert_trajectories": "generate_expert_traj",
    "rlzoo.training.candidates": "AsyncEval",
    "rlzoo.training.parallel_callback": "ParallelTrainCallback",
    "rlzoo.callbacks.trial_eval_callback": "TrialEvalCallback",
    "rlzoo.tuning.experiment_manager": "ExperimentManager",
    "rlzoo.tuning.space.own_samplers": (
        "HYPERPARAMS_CONVERTER HYPERPARAMS_SAMPLER convert_params sample_a2c_params sample_ars_params"
        " sample_ddpg_params sample_dqn_params sample_ppo_lstm_params sample_ppo_params sample_qrdqn_params"
        " sample_sac_params sample_td3_params sample_tqc_params sample_trpo_params"
    ),
    "rlzoo.training.save_files": "load_from_pkl load_from_zip_file open_path save_to_pkl save_to_zip_file",
    "rlzoo.evaluation.evaluate": "evaluate_policy Predictor",
    "rlzoo.callbacks.base_callback": "CallbackLike",
}

# Second names that scripts written for the Stable Baselines family use.
_ALIASES = {
    "convert_ars_params": "convert_params",
    "convert_offpolicy_params": "convert_params",
    "convert_onpolicy_params": "convert_params",
    "Bernoulli": "BernoulliDistribution",
    "Categorical": "CategoricalDistribution",
    "CnnLstmPolicy": "RecurrentActorCriticCnnPolicy",
    "CnnPolicy": "ActorCriticCnnPolicy",
    "DiagGaussian": "DiagGaussianDistribution",
    "MlpLstmPolicy": "RecurrentActorCriticPolicy",
    "LinearPolicy": "ARSLinearPolicy",
    "MlpPolicy": "ActorCriticPolicy",
    "MultiCategorical": "MultiCategoricalDistribution",
    "MultiInputLstmPolicy": "RecurrentMultiInputActorCriticPolicy",
    "MultiInputPolicy": "MultiInputActorCriticPolicy",
    "SquashedDiagGaussian": "SquashedDiagGaussianDistribution",
    "StateDependentNoise": "StateDependentNoiseDistribution",
    "DoneOnSuccessWrapper": "TruncatedOnSuccessWrapper",
    "HistoryWrapperObsDict": "HistoryWrapper",
    "YAMLCompatResizeObservation": "ResizeObservation",
    "BaseAlgorithm": "Algorithm",
    "is_vectorized_box_observation": "is_vectorized_observation",
    "is_vectorized_dict_observation": "is_vectorized_observation",
    "is_vectorized_discrete_observation": "is_vectorized_observation",
    "is_vectorized_multibinary_observation": "is_vectorized_observation",
    "is_vectorized_multidiscrete_observation": "is_vectorized_observation",
    "MaybeCallback": "CallbackLike",
    "PolicyPredictor": "Predictor",
    "set_global_seeds": "set_random_seed",
}

_EXPORTS = _exported_classes()  # of algorithms
_EXPORTS |= {name: f"{module}:{name}" for module, names in _MODULES.items() for name in names.split()}
_EXPORTS.update({alias: _EXPORTS[name] for alias, name in _ALIASES.items()})
_EXPORTS["results_plotter"] = "rlzoo.plots.curves:"  # the module itself
_EXPORTS["plots"] = "rlzoo.plots:"

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    """Load a public name on its first use (PEP 562).

    :raises AttributeError: for an unknown name, naming the nearest one
    """
    if name not in _EXPORTS:
        from rlzoo.core.errors import nearest

        match = nearest(name, __all__)
        hint = f"; did you mean {match!r}?" if match else ""
        raise AttributeError(f"module 'rlzoo' has no attribute {name!r}{hint}")
    module_name, _, attribute = _EXPORTS[name].partition(":")
    module = importlib.import_module(module_name)
    value = globals()[name] = getattr(module, attribute) if attribute else module
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
