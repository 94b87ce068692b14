"""rlzoo: a training zoo for reinforcement learning.

Everything public is importable from here and is loaded when it is first asked for: `import rlzoo` is cheap
and imports neither torch nor gymnasium.

>>> from rlzoo import PPO
>>> model = PPO("MlpPolicy", "CartPole-v1").learn(10_000)
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Where each public name lives. `rlzoo/__init__.pyi` is made from this table by scripts/make_stubs.py.
_MODULES = {
    "rlzoo.algorithms.base": "Algorithm",
    "rlzoo.algorithms.off_policy": "OffPolicyAlgorithm",
    "rlzoo.algorithms.on_policy": "OnPolicyAlgorithm",
    "rlzoo.algorithms.a2c": "A2C",
    "rlzoo.algorithms.acer": "ACER",
    "rlzoo.algorithms.acktr": "ACKTR",
    "rlzoo.algorithms.bc": "BC",
    "rlzoo.algorithms.ars": "ARS",
    "rlzoo.algorithms.crossq": "CrossQ",
    "rlzoo.algorithms.ddpg": "DDPG",
    "rlzoo.algorithms.gail": "GAIL",
    "rlzoo.algorithms.her": "HER",
    "rlzoo.algorithms.dqn": "DQN",
    "rlzoo.algorithms.older_ppo": "PPO1 PPO2",
    "rlzoo.algorithms.ppo": "PPO",
    "rlzoo.algorithms.ppo_lstm": "RecurrentPPO",
    "rlzoo.algorithms.ppo_mask": "MaskablePPO",
    "rlzoo.algorithms.qrdqn": "QRDQN",
    "rlzoo.algorithms.sac": "SAC",
    "rlzoo.algorithms.td3": "TD3",
    "rlzoo.algorithms.tqc": "TQC",
    "rlzoo.algorithms.trpo": "TRPO",
    "rlzoo.buffers.base_buffer": "BaseBuffer",
    "rlzoo.buffers.demonstrations": "ExpertDataset",
    "rlzoo.buffers.her": "GoalSelectionStrategy HerReplayBuffer",
    "rlzoo.buffers.prioritized": "PrioritizedReplayBuffer",
    "rlzoo.buffers.replay": "DictReplayBuffer NStepReplayBuffer ReplayBuffer",
    "rlzoo.buffers.rollout": "RolloutBuffer DictRolloutBuffer",
    "rlzoo.cli.parser": "StoreDict",
    "rlzoo.cli.python": "enjoy optimize train",
    "rlzoo.buffers.samples": (
        "DictReplayBufferSamples DictRolloutBufferSamples ReplayBufferSamples RolloutBufferSamples"
    ),
    "rlzoo.core.device": "get_device obs_as_tensor",
    "rlzoo.core.errors": (
        "CheckpointError EnvironmentFailed InvalidEnvironment RunFailed TrainingDiverged UnknownArgument"
        " UnsupportedSpace UserError"
    ),
    "rlzoo.core.logger": (
        "CSVOutputFormat Figure FormatUnsupportedError HParam HumanOutputFormat Image JSONOutputFormat"
        " KVWriter Logger SeqWriter TensorBoardOutputFormat Video configure configure_logger"
        " filter_excluded_keys get_latest_run_id make_output_format read_csv read_json"
    ),
    "rlzoo.core.quantiles": "quantile_huber_loss",
    "rlzoo.core.noise": (
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
    "rlzoo.core.seeding": "set_random_seed",
    "rlzoo.core.spaces": (
        "check_for_nested_spaces is_image_space is_image_space_channels_first check_for_correct_spaces"
        " check_shape_equal"
    ),
    "rlzoo.core.train_frequency": "RolloutReturn TrainFreq TrainFrequencyUnit should_collect_more_steps",
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
    "rlzoo.envs.atari": (
        "AtariWrapper ClipRewardEnv EpisodicLifeEnv FireResetEnv MaxAndSkipEnv NoopResetEnv StickyActionEnv"
        " WarpFrame wrap_deepmind"
    ),
    "rlzoo.envs.check": "check_env",
    "rlzoo.envs.dummy": "DummyVecEnv is_wrapped unwrap_wrapper",
    "rlzoo.envs.goal_env": "HERGoalEnvWrapper",
    "rlzoo.envs.gym_vector": "GymVectorEnv",
    "rlzoo.envs.make": "make_vec_env",
    "rlzoo.envs.make_atari": "make_atari make_atari_env",
    "rlzoo.envs.monitor": "LoadMonitorResultsError Monitor ResultsWriter get_monitor_files load_results",
    "rlzoo.envs.obs_arrays": "copy_obs_dict dict_to_obs obs_space_info",
    "rlzoo.envs.stacked_observations": "StackedObservations",
    "rlzoo.envs.subproc": "CloudpickleWrapper SubprocVecEnv",
    "rlzoo.envs.tile_images": "tile_images",
    "rlzoo.envs.toy": (
        "BitFlippingEnv Catch FakeImageEnv IdentityEnv IdentityEnvBox IdentityEnvMultiBinary"
        " IdentityEnvMultiDiscrete SimpleMultiObsEnv"
    ),
    "rlzoo.envs.toy_invalid_actions": (
        "InvalidActionEnvDiscrete InvalidActionEnvMultiBinary InvalidActionEnvMultiDiscrete"
    ),
    "rlzoo.envs.vec_check_nan": "VecCheckNan",
    "rlzoo.envs.vec_env": (
        "VecEnv VecEnvIndices VecEnvObs VecEnvStepReturn VecEnvWrapper is_vecenv_wrapped"
        " sync_envs_normalization unwrap_vec_normalize unwrap_vec_wrapper"
    ),
    "rlzoo.envs.vec_extract_dict_obs": "VecExtractDictObs",
    "rlzoo.envs.vec_frame_stack": "VecFrameStack",
    "rlzoo.envs.vec_monitor": "VecMonitor",
    "rlzoo.envs.vec_normalize": "VecNormalize",
    "rlzoo.envs.vec_transpose": "VecTransposeImage",
    "rlzoo.envs.vec_video_recorder": "VecVideoRecorder",
    "rlzoo.envs.velocity_mask": "MaskVelocityWrapper",
    "rlzoo.envs.wrappers": (
        "ActionNoiseWrapper ActionSmoothingWrapper DelayedRewardWrapper FrameSkip HistoryWrapper"
        " ResizeObservation TimeFeatureWrapper TruncatedOnSuccessWrapper"
    ),
    "rlzoo.hub.load": "load_from_hub",
    "rlzoo.hub.pull": "download_from_hub get_hf_trained_models",
    "rlzoo.hub.push": "push_to_hub",
    "rlzoo.networks.linear": "ARSLinearPolicy ARSPolicy",
    "rlzoo.networks.extractors": ("BaseFeaturesExtractor CombinedExtractor FlattenExtractor NatureCNN"),
    "rlzoo.networks.masked": (
        "MaskableActorCriticCnnPolicy MaskableActorCriticPolicy MaskableMultiInputActorCriticPolicy"
    ),
    "rlzoo.networks.mlp": "MlpExtractor create_mlp get_actor_critic_arch",
    "rlzoo.networks.actors": "Actor SquashedGaussianActor",
    "rlzoo.networks.base_policy": "BaseModel BasePolicy",
    "rlzoo.networks.continuous": "ContinuousCritic CrossQPolicy SACPolicy TD3Policy TQCPolicy",
    "rlzoo.networks.policies": (
        "ActorCriticCnnPolicy ActorCriticPolicy FeedForwardPolicy MultiInputActorCriticPolicy"
    ),
    "rlzoo.networks.q_networks": "DQNPolicy QNetwork QRDQNPolicy QuantileNetwork",
    "rlzoo.networks.recurrent": (
        "CnnLnLstmPolicy LstmPolicy MlpLnLstmPolicy RecurrentActorCriticCnnPolicy RecurrentActorCriticPolicy"
        " RecurrentMultiInputActorCriticPolicy"
    ),
    "rlzoo.networks.preprocessing": (
        "get_action_dim get_flattened_obs_dim get_obs_shape is_vectorized_observation maybe_transpose"
        " preprocess_obs"
    ),
    "rlzoo.networks.registry": "LnCnnPolicy LnMlpPolicy register_policy",
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
    "rlzoo.training.callbacks": (
        "BaseCallback CallbackList CheckpointCallback ConvertCallback EvalCallback EventCallback"
        " EveryNTimesteps LogEveryNTimesteps MaskableEvalCallback ProgressBarCallback RawStatisticsCallback"
        " SaveVecNormalizeCallback StopTrainingOnMaxEpisodes StopTrainingOnNoModelImprovement"
        " StopTrainingOnRewardThreshold"
    ),
    "rlzoo.experiment.algos": "ALGOS",
    "rlzoo.experiment.from_hyperparams": (
        "create_test_env flatten_dict_observations get_callback_list get_class_by_name get_wrapper_class"
    ),
    "rlzoo.experiment.saved_agents": ("get_model_path get_saved_hyperparams get_trained_models"),
    "rlzoo.experiment.record_video": "record_video",
    "rlzoo.experiment.show": "InlineVideo show",
    "rlzoo.export.export": "export_model",
    "rlzoo.training.expert_trajectories": "generate_expert_traj",
    "rlzoo.training.candidates": "AsyncEval",
    "rlzoo.training.parallel_callback": "ParallelTrainCallback",
    "rlzoo.training.trial_eval_callback": "TrialEvalCallback",
    "rlzoo.tuning.experiment_manager": "ExperimentManager",
    "rlzoo.tuning.own_samplers": (
        "HYPERPARAMS_CONVERTER HYPERPARAMS_SAMPLER convert_params sample_a2c_params sample_ars_params"
        " sample_ddpg_params sample_dqn_params sample_ppo_lstm_params sample_ppo_params sample_qrdqn_params"
        " sample_sac_params sample_td3_params sample_tqc_params sample_trpo_params"
    ),
    "rlzoo.core.system_info": "get_system_info",
    "rlzoo.training.save_files": "load_from_pkl load_from_zip_file open_path save_to_pkl save_to_zip_file",
    "rlzoo.training.evaluate": "evaluate_policy Predictor",
    "rlzoo.training.base_callback": "CallbackLike",
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

_EXPORTS = {name: f"{module}:{name}" for module, names in _MODULES.items() for name in names.split()}
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
