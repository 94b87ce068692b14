"""What modules and names of stable-baselines3, sb3-contrib, their zoo and huggingface_sb3 are in rlzoo."""

from __future__ import annotations

# Submodules of each package; their parents are implied.
SUBMODULES = {
    "stable_baselines3": """
        a2c.a2c a2c.policies ddpg.ddpg ddpg.policies dqn.dqn dqn.policies ppo.ppo ppo.policies sac.sac
        sac.policies td3.td3 td3.policies her.her her.her_replay_buffer her.goal_selection_strategy
        common.atari_wrappers common.base_class common.buffers common.callbacks common.distributions
        common.env_checker common.env_util common.envs.bit_flipping_env common.envs.identity_env
        common.envs.multi_input_envs common.evaluation common.logger common.monitor common.noise
        common.off_policy_algorithm common.on_policy_algorithm common.policies common.preprocessing
        common.results_plotter common.running_mean_std common.save_util common.sb2_compat.rmsprop_tf_like
        common.torch_layers common.type_aliases common.utils common.vec_env.base_vec_env
        common.vec_env.dummy_vec_env common.vec_env.patch_gym common.vec_env.stacked_observations
        common.vec_env.subproc_vec_env common.vec_env.util common.vec_env.vec_check_nan
        common.vec_env.vec_extract_dict_obs common.vec_env.vec_frame_stack common.vec_env.vec_monitor
        common.vec_env.vec_normalize common.vec_env.vec_transpose common.vec_env.vec_video_recorder
        """,
    "sb3_contrib": """
        ars.ars ars.policies crossq.crossq crossq.policies ppo_mask.ppo_mask ppo_mask.policies
        ppo_recurrent.ppo_recurrent ppo_recurrent.policies qrdqn.qrdqn qrdqn.policies tqc.tqc tqc.policies
        trpo.trpo trpo.policies common.envs.invalid_actions_env common.maskable.buffers
        common.maskable.callbacks common.maskable.distributions common.maskable.evaluation
        common.maskable.policies common.maskable.utils common.recurrent.buffers common.recurrent.policies
        common.recurrent.type_aliases common.torch_layers common.utils common.vec_env.async_eval
        common.wrappers.action_masker common.wrappers.time_feature
        """,
    "rl_zoo3": """
        benchmark callbacks cli enjoy exp_manager gym_patches hyperparams_opt import_envs load_from_hub
        plots.all_plots plots.plot_from_file plots.plot_train plots.score_normalization push_to_hub
        record_training record_video train utils wrappers
        """,
    "huggingface_sb3": "load_from_hub naming_schemes push_to_hub",
}

# What `from PACKAGE import *` gives.
STAR = {
    "stable_baselines3": "A2C DDPG DQN HerReplayBuffer PPO SAC TD3 get_system_info",
    "sb3_contrib": "ARS CrossQ MaskablePPO QRDQN RecurrentPPO TQC TRPO",
    "rl_zoo3": """
        ALGOS create_test_env get_latest_run_id get_saved_hyperparams get_trained_models get_wrapper_class
        linear_schedule
        """,
    "huggingface_sb3": "EnvironmentName ModelName ModelRepoId load_from_hub package_to_hub push_to_hub",
}

STAR |= {
    f"stable_baselines3.common.{module}": names
    for module, names in {
        "atari_wrappers": """
            AtariResetReturn AtariStepReturn AtariWrapper ClipRewardEnv EpisodicLifeEnv FireResetEnv
            MaxAndSkipEnv NoopResetEnv StickyActionEnv WarpFrame gym np spaces
            """,
        "base_class": """
            ActionNoise BaseAlgorithm BaseCallback BasePolicy CallbackList check_for_correct_spaces
            check_for_nested_spaces ConvertCallback DummyVecEnv FloatSchedule get_device get_system_info
            GymEnv is_image_space is_image_space_channels_first is_vecenv_wrapped is_wrapped
            load_from_zip_file Logger MaybeCallback Monitor ProgressBarCallback save_to_zip_file Schedule
            set_random_seed TensorDict unwrap_vec_normalize update_learning_rate VecEnv VecNormalize
            VecTransposeImage gym np spaces th time warnings
            """,
        "buffers": """
            BaseBuffer DictReplayBuffer DictReplayBufferSamples DictRolloutBuffer DictRolloutBufferSamples
            get_action_dim get_device get_obs_shape NStepReplayBuffer ReplayBuffer ReplayBufferSamples
            RolloutBuffer RolloutBufferSamples VecNormalize np spaces th warnings
            """,
        "callbacks": """
            BaseCallback CallbackList CheckpointCallback ConvertCallback DummyVecEnv EvalCallback
            evaluate_policy EventCallback EveryNTimesteps LogEveryNTimesteps Logger ProgressBarCallback
            StopTrainingOnMaxEpisodes StopTrainingOnNoModelImprovement StopTrainingOnRewardThreshold
            sync_envs_normalization VecEnv gym np os warnings
            """,
        "distributions": """
            BernoulliDistribution CategoricalDistribution DiagGaussianDistribution
            Distribution get_action_dim kl_divergence make_proba_distribution MultiCategoricalDistribution
            SquashedDiagGaussianDistribution StateDependentNoiseDistribution sum_independent_dims
            TanhBijector nn np spaces th
            """,
        "env_checker": """
            check_env check_for_nested_spaces DummyVecEnv is_image_space_channels_first VecCheckNan gym np
            spaces warnings
            """,
        "env_util": """
            AtariWrapper DummyVecEnv is_wrapped make_atari_env make_vec_env Monitor SubprocVecEnv
            unwrap_wrapper VecEnv gym os
            """,
        "evaluation": "DummyVecEnv evaluate_policy is_vecenv_wrapped VecEnv VecMonitor gym np warnings",
        "logger": """
            configure CSVOutputFormat DEBUG DISABLED ERROR Figure filter_excluded_keys
            FormatUnsupportedError HParam HumanOutputFormat Image INFO JSONOutputFormat KVWriter Logger
            make_output_format SeqWriter TensorBoardOutputFormat Video WARN np os th warnings
            """,
        "monitor": "get_monitor_files load_results Monitor ResultsWriter",
        "noise": "ActionNoise NormalActionNoise OrnsteinUhlenbeckActionNoise VectorizedActionNoise np",
        "policies": """
            ActorCriticCnnPolicy ActorCriticPolicy BaseFeaturesExtractor BaseModel BasePolicy
            BernoulliDistribution CategoricalDistribution CombinedExtractor ContinuousCritic create_mlp
            DiagGaussianDistribution Distribution FlattenExtractor get_action_dim get_device
            is_image_space is_vectorized_observation make_proba_distribution maybe_transpose MlpExtractor
            MultiCategoricalDistribution MultiInputActorCriticPolicy NatureCNN obs_as_tensor
            preprocess_obs PyTorchObs Schedule StateDependentNoiseDistribution nn np spaces th warnings
            """,
        "preprocessing": """
            check_for_nested_spaces get_action_dim get_flattened_obs_dim get_obs_shape is_image_space
            is_image_space_channels_first maybe_transpose preprocess_obs F np spaces th warnings
            """,
        "results_plotter": """
            EPISODES_WINDOW load_results plot_curves plot_results POSSIBLE_X_AXES rolling_window ts2xy
            window_func X_EPISODES X_TIMESTEPS X_WALLTIME np
            """,
        "running_mean_std": "RunningMeanStd np",
        "save_util": """
            get_device get_system_info load_from_pkl load_from_zip_file open_path save_to_pkl
            save_to_zip_file TensorDict os th warnings
            """,
        "torch_layers": """
            BaseFeaturesExtractor CombinedExtractor create_mlp FlattenExtractor get_actor_critic_arch
            get_device get_flattened_obs_dim is_image_space MlpExtractor NatureCNN TensorDict gym nn
            spaces th
            """,
        "type_aliases": """
            AtariResetReturn AtariStepReturn DictReplayBufferSamples DictRolloutBufferSamples GymEnv
            GymObs GymResetReturn GymStepReturn MaybeCallback OptimizerStateDict PolicyPredictor
            PyTorchObs ReplayBufferSamples RolloutBufferSamples RolloutReturn Schedule TensorDict
            TrainFreq TrainFrequencyUnit gym np th
            """,
        "utils": """
            check_for_correct_spaces check_shape_equal configure configure_logger constant_fn
            ConstantSchedule explained_variance FloatSchedule get_device get_latest_run_id get_linear_fn
            get_parameters_by_name get_schedule_fn get_system_info GymEnv is_vectorized_box_observation
            is_vectorized_dict_observation is_vectorized_discrete_observation
            is_vectorized_multibinary_observation is_vectorized_multidiscrete_observation
            is_vectorized_observation LinearSchedule Logger obs_as_tensor polyak_update safe_mean Schedule
            set_random_seed should_collect_more_steps TensorDict TrainFreq TrainFrequencyUnit
            update_learning_rate zip_strict gym np os spaces th warnings
            """,
        "vec_env": """
            CloudpickleWrapper DummyVecEnv is_vecenv_wrapped StackedObservations SubprocVecEnv
            sync_envs_normalization unwrap_vec_normalize unwrap_vec_wrapper VecCheckNan VecEnv
            VecEnvWrapper VecExtractDictObs VecFrameStack VecMonitor VecNormalize VecTransposeImage
            VecVideoRecorder
            """,
    }.items()
}

# Modules that it gives where those of stable-baselines3 import them under these names.
LIBRARIES = {
    "F": "torch.nn.functional",
    "gym": "gymnasium",
    "nn": "torch.nn",
    "np": "numpy",
    "os": "os",
    "spaces": "gymnasium.spaces",
    "th": "torch",
    "time": "time",
    "warnings": "warnings",
}

# Functions that it gives besides classes, from any other submodule of stable-baselines3 and sb3-contrib.
FUNCTIONS = """
    check_env check_for_correct_spaces check_for_nested_spaces check_shape_equal configure configure_logger
    conjugate_gradient_solver constant_fn copy_obs_dict create_mlp dict_to_obs evaluate_policy
    explained_variance filter_excluded_keys flat_grad get_action_dim get_action_masks get_actor_critic_arch
    get_device get_flattened_obs_dim get_latest_run_id get_linear_fn get_monitor_files get_obs_shape
    get_parameters_by_name get_schedule_fn get_system_info is_image_space is_image_space_channels_first
    is_masking_supported is_vecenv_wrapped is_vectorized_box_observation is_vectorized_dict_observation
    is_vectorized_discrete_observation is_vectorized_multibinary_observation
    is_vectorized_multidiscrete_observation is_vectorized_observation is_wrapped kl_divergence
    load_from_pkl load_from_zip_file load_results make_atari_env make_masked_proba_distribution
    make_output_format make_proba_distribution make_vec_env maybe_transpose obs_as_tensor obs_space_info
    open_path plot_curves plot_results polyak_update preprocess_obs quantile_huber_loss rolling_window
    safe_mean save_to_pkl save_to_zip_file set_random_seed should_collect_more_steps sum_independent_dims
    sync_envs_normalization tile_images ts2xy unwrap_vec_normalize unwrap_vec_wrapper unwrap_wrapper
    update_learning_rate window_func zip_strict
    """

# Packages whose MlpPolicy, CnnPolicy and MultiInputPolicy are those of one family of algorithms.
POLICY_FAMILIES = {
    "stable_baselines3.dqn": "q_network",
    "stable_baselines3.ddpg": "deterministic",
    "stable_baselines3.td3": "deterministic",
    "stable_baselines3.sac": "squashed",
    "sb3_contrib.ars": "population",
    "sb3_contrib.crossq": "crossq",
    "sb3_contrib.ppo_mask": "maskable",
    "sb3_contrib.ppo_recurrent": "recurrent",
    "sb3_contrib.qrdqn": "quantile",
    "sb3_contrib.tqc": "tqc",
    "sb3_contrib.common.maskable": "maskable",
    "sb3_contrib.common.recurrent": "recurrent",
}
RECURRENT_NAMES = {
    "MlpPolicy": "MlpLstmPolicy",
    "CnnPolicy": "CnnLstmPolicy",
    "MultiInputPolicy": "MultiInputLstmPolicy",
}

# Modules of RL Baselines3 Zoo that are commands.
COMMANDS = {
    "train": ["train"],
    "enjoy": ["enjoy"],
    "record_video": ["record-video"],
    "record_training": ["record-training"],
    "load_from_hub": ["pull"],
    "push_to_hub": ["push"],
    "plot_train": ["plot", "train"],
    "all_plots": ["plot", "compare"],
    "plot_from_file": ["plot", "report"],
    "benchmark": ["benchmark", "score"],
}

CLI = ("rl_zoo3.cli", "main")

# Names that mean something else than in `rlzoo`, as module -> {name: "module:attribute"}.
SPECIAL: dict[str, dict[str, str]] = {
    "stable_baselines3.common.vec_env.patch_gym": {"_patch_env": "rlzoo.envs.single_env.old_gym:patch_env"},
    "stable_baselines3.sac.policies": {"Actor": "rlzoo.policies.actors:SquashedGaussianActor"},
    "sb3_contrib.common.torch_layers": {
        "BatchRenorm": "rlzoo.networks.batch_renorm:BatchRenorm",
        "BatchRenorm1d": "rlzoo.networks.batch_renorm:BatchRenorm",
    },
    "sb3_contrib.tqc.policies": {
        "Actor": "rlzoo.policies.actors:SquashedGaussianActor",
        "Critic": "rlzoo.policies.critics:QuantileCritic",
    },
    "sb3_contrib.common.maskable.buffers": {
        f"Maskable{name}": f"rlzoo.buffers.rollout_buffer:{name}"
        for name in ("RolloutBuffer", "DictRolloutBuffer")
    },
    "sb3_contrib.common.maskable.evaluation": {
        "evaluate_policy": "rlzoo.evaluation.evaluate:evaluate_masked_policy"
    },
    "sb3_contrib.crossq.policies": {
        "Actor": "rlzoo.policies.actors:SquashedGaussianActor",
        "CrossQCritic": "rlzoo.policies.critics:ContinuousCritic",
        "BatchRenorm1d": "rlzoo.networks.batch_renorm:BatchRenorm",
    },
    "sb3_contrib.common.maskable.distributions": {
        "MaskableDistribution": "rlzoo.distributions.masked:MaskableDistribution"
    },
    "stable_baselines3.common.results_plotter": {
        name: f"rlzoo.plots.curves:{name}" for name in ("EPISODES_WINDOW", "POSSIBLE_X_AXES")
    },
    "stable_baselines3.common.callbacks": {
        "CheckpointCallback": "rlzoo.callbacks.callbacks:PklCheckpointCallback"
    },
    "stable_baselines3.common.logger": {
        level: f"rlzoo.metrics.logger:{level}" for level in ("DEBUG", "INFO", "WARN", "ERROR", "DISABLED")
    },
}
for _module in ("stable_baselines3.sac.policies", "sb3_contrib.tqc.policies", "sb3_contrib.crossq.policies"):
    SPECIAL[_module] |= {name: f"rlzoo.policies.actors:{name}" for name in ("LOG_STD_MAX", "LOG_STD_MIN")}
SPECIAL |= {
    module: {
        name: f"rlzoo.hub.huggingface_sb3:{name}"
        for name in ("EnvironmentName", "ModelName", "ModelRepoId", "package_to_hub")
    }
    for module in ("huggingface_sb3", "huggingface_sb3.naming_schemes", "huggingface_sb3.push_to_hub")
}
SPECIAL |= {
    module: {"get_system_info": "rlzoo.compat:system_info"}
    for module in ("stable_baselines3", "stable_baselines3.common.utils")
}
SPECIAL |= {
    module: {"get_latest_run_id": "rlzoo.runs.saved_agents:get_latest_run_id"}
    for module in ("rl_zoo3", *(f"rl_zoo3.{name}" for name in SUBMODULES["rl_zoo3"].split()))
}


# What rlzoo lacks, and what to use instead; said when it is called.
INSTEAD = {
    **dict.fromkeys(
        ("RecurrentRolloutBuffer", "RecurrentDictRolloutBuffer"),
        "rlzoo.RolloutBuffer keeps recurrent states, too; the algorithm makes it",
    ),
    "create_no_vel_env": "wrap the environment in rlzoo.MaskVelocityWrapper, or make CartPoleNoVel-v1",
    "generate_model_card": "rlzoo.push_to_hub(...) writes the model card",
    "package_to_hub": "call rlzoo.push_to_hub(...)",
    "sample_her_params": "HYPERPARAMS_SAMPLER of the algorithm draws those of hindsight replay, too",
    "save_model_card": "rlzoo.push_to_hub(...) writes the model card",
}
