"""Made by scripts/make_stubs.py; do not edit."""

from typing import Any

import torch

from rlzoo.algorithms.hyperparameters import ScheduleLike
from rlzoo.algorithms.hyperparameters import TrainFreq as TrainFreqLike
from rlzoo import plots as _plots
from rlzoo.algorithms.ars import ARS as _ARS
from rlzoo.algorithms.base import Algorithm as Algorithm
from rlzoo.algorithms.imitation.bc import BC as _BC
from rlzoo.algorithms.imitation.gail import GAIL as _GAIL
from rlzoo.algorithms.off_policy.acer import ACER as _ACER
from rlzoo.algorithms.off_policy.crossq import CrossQ as _CrossQ
from rlzoo.algorithms.off_policy.ddpg import DDPG as _DDPG
from rlzoo.algorithms.off_policy.dqn import DQN as _DQN
from rlzoo.algorithms.off_policy.her import HER as HER
from rlzoo.algorithms.off_policy.off_policy_algorithm import OffPolicyAlgorithm as OffPolicyAlgorithm
from rlzoo.algorithms.off_policy.qrdqn import QRDQN as _QRDQN
from rlzoo.algorithms.off_policy.quantile_regression import quantile_huber_loss as quantile_huber_loss
from rlzoo.algorithms.off_policy.sac import SAC as _SAC
from rlzoo.algorithms.off_policy.td3 import TD3 as _TD3
from rlzoo.algorithms.off_policy.tqc import TQC as _TQC
from rlzoo.algorithms.on_policy.a2c import A2C as _A2C
from rlzoo.algorithms.on_policy.acktr import ACKTR as _ACKTR
from rlzoo.algorithms.on_policy.older_ppo import PPO1 as PPO1
from rlzoo.algorithms.on_policy.older_ppo import PPO2 as PPO2
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm as OnPolicyAlgorithm
from rlzoo.algorithms.on_policy.ppo import PPO as _PPO
from rlzoo.algorithms.on_policy.ppo_lstm import RecurrentPPO as _RecurrentPPO
from rlzoo.algorithms.on_policy.ppo_mask import MaskablePPO as _MaskablePPO
from rlzoo.algorithms.on_policy.trpo import TRPO as _TRPO
from rlzoo.algorithms.train_frequency import RolloutReturn as RolloutReturn
from rlzoo.algorithms.train_frequency import TrainFreq as TrainFreq
from rlzoo.algorithms.train_frequency import TrainFrequencyUnit as TrainFrequencyUnit
from rlzoo.algorithms.train_frequency import should_collect_more_steps as should_collect_more_steps
from rlzoo.buffers.base_buffer import BaseBuffer as BaseBuffer
from rlzoo.buffers.demonstrations import ExpertDataset as ExpertDataset
from rlzoo.buffers.replay.dict_replay_buffer import DictReplayBuffer as DictReplayBuffer
from rlzoo.buffers.replay.her_replay_buffer import GoalSelectionStrategy as GoalSelectionStrategy
from rlzoo.buffers.replay.her_replay_buffer import HerReplayBuffer as HerReplayBuffer
from rlzoo.buffers.replay.her_replay_buffer import KEY_TO_GOAL_STRATEGY as KEY_TO_GOAL_STRATEGY
from rlzoo.buffers.replay.prioritized import PrioritizedReplayBuffer as PrioritizedReplayBuffer
from rlzoo.buffers.replay.replay_buffer import NStepReplayBuffer as NStepReplayBuffer
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer as ReplayBuffer
from rlzoo.buffers.rollout_buffer import DictRolloutBuffer as DictRolloutBuffer
from rlzoo.buffers.rollout_buffer import RolloutBuffer as RolloutBuffer
from rlzoo.buffers.samples import DictReplayBufferSamples as DictReplayBufferSamples
from rlzoo.buffers.samples import DictRolloutBufferSamples as DictRolloutBufferSamples
from rlzoo.buffers.samples import MaskableDictRolloutBufferSamples as MaskableDictRolloutBufferSamples
from rlzoo.buffers.samples import MaskableRolloutBufferSamples as MaskableRolloutBufferSamples
from rlzoo.buffers.samples import ReplayBufferSamples as ReplayBufferSamples
from rlzoo.buffers.samples import RolloutBufferSamples as RolloutBufferSamples
from rlzoo.callbacks.base_callback import CallbackLike as CallbackLike
from rlzoo.callbacks.callbacks import BaseCallback as BaseCallback
from rlzoo.callbacks.callbacks import CallbackList as CallbackList
from rlzoo.callbacks.callbacks import CheckpointCallback as CheckpointCallback
from rlzoo.callbacks.callbacks import ConvertCallback as ConvertCallback
from rlzoo.callbacks.callbacks import EvalCallback as EvalCallback
from rlzoo.callbacks.callbacks import EventCallback as EventCallback
from rlzoo.callbacks.callbacks import EveryNTimesteps as EveryNTimesteps
from rlzoo.callbacks.callbacks import LogEveryNTimesteps as LogEveryNTimesteps
from rlzoo.callbacks.callbacks import MaskableEvalCallback as MaskableEvalCallback
from rlzoo.callbacks.callbacks import ProgressBarCallback as ProgressBarCallback
from rlzoo.callbacks.callbacks import RawStatisticsCallback as RawStatisticsCallback
from rlzoo.callbacks.callbacks import SaveVecNormalizeCallback as SaveVecNormalizeCallback
from rlzoo.callbacks.callbacks import StopTrainingOnMaxEpisodes as StopTrainingOnMaxEpisodes
from rlzoo.callbacks.callbacks import StopTrainingOnNoModelImprovement as StopTrainingOnNoModelImprovement
from rlzoo.callbacks.callbacks import StopTrainingOnRewardThreshold as StopTrainingOnRewardThreshold
from rlzoo.callbacks.trial_eval_callback import TrialEvalCallback as TrialEvalCallback
from rlzoo.cli.flags.parser import StoreDict as StoreDict
from rlzoo.cli.python import enjoy as enjoy
from rlzoo.cli.python import optimize as optimize
from rlzoo.cli.python import train as train
from rlzoo.core.action_noise import ActionNoise as ActionNoise
from rlzoo.core.action_noise import AdaptiveParamNoiseSpec as AdaptiveParamNoiseSpec
from rlzoo.core.action_noise import LinearNormalActionNoise as LinearNormalActionNoise
from rlzoo.core.action_noise import NormalActionNoise as NormalActionNoise
from rlzoo.core.action_noise import OrnsteinUhlenbeckActionNoise as OrnsteinUhlenbeckActionNoise
from rlzoo.core.action_noise import VectorizedActionNoise as VectorizedActionNoise
from rlzoo.core.errors import CheckpointError as CheckpointError
from rlzoo.core.errors import EnvironmentFailed as EnvironmentFailed
from rlzoo.core.errors import InvalidEnvironment as InvalidEnvironment
from rlzoo.core.errors import RunFailed as RunFailed
from rlzoo.core.errors import TrainingDiverged as TrainingDiverged
from rlzoo.core.errors import UnknownArgument as UnknownArgument
from rlzoo.core.errors import UnsupportedSpace as UnsupportedSpace
from rlzoo.core.errors import UserError as UserError
from rlzoo.core.observations import copy_obs_dict as copy_obs_dict
from rlzoo.core.observations import dict_to_obs as dict_to_obs
from rlzoo.core.observations import obs_space_info as obs_space_info
from rlzoo.core.preprocessing import check_for_correct_spaces as check_for_correct_spaces
from rlzoo.core.preprocessing import check_for_nested_spaces as check_for_nested_spaces
from rlzoo.core.preprocessing import check_shape_equal as check_shape_equal
from rlzoo.core.preprocessing import get_action_dim as get_action_dim
from rlzoo.core.preprocessing import get_flattened_obs_dim as get_flattened_obs_dim
from rlzoo.core.preprocessing import get_obs_shape as get_obs_shape
from rlzoo.core.preprocessing import is_image_space as is_image_space
from rlzoo.core.preprocessing import is_image_space_channels_first as is_image_space_channels_first
from rlzoo.core.preprocessing import is_vectorized_observation as is_vectorized_observation
from rlzoo.core.preprocessing import maybe_transpose as maybe_transpose
from rlzoo.core.preprocessing import preprocess_obs as preprocess_obs
from rlzoo.core.returns import explained_variance as explained_variance
from rlzoo.core.returns import safe_mean as safe_mean
from rlzoo.core.running_statistics import RunningMeanStd as RunningMeanStd
from rlzoo.core.runtime import get_device as get_device
from rlzoo.core.runtime import get_system_info as get_system_info
from rlzoo.core.runtime import obs_as_tensor as obs_as_tensor
from rlzoo.core.runtime import set_random_seed as set_random_seed
from rlzoo.core.schedules import ConstantSchedule as ConstantSchedule
from rlzoo.core.schedules import CosineSchedule as CosineSchedule
from rlzoo.core.schedules import ExponentialSchedule as ExponentialSchedule
from rlzoo.core.schedules import FloatSchedule as FloatSchedule
from rlzoo.core.schedules import LinearSchedule as LinearSchedule
from rlzoo.core.schedules import PiecewiseSchedule as PiecewiseSchedule
from rlzoo.core.schedules import Schedule as Schedule
from rlzoo.core.schedules import SimpleLinearSchedule as SimpleLinearSchedule
from rlzoo.core.schedules import constant_fn as constant_fn
from rlzoo.core.schedules import get_linear_fn as get_linear_fn
from rlzoo.core.schedules import get_schedule_fn as get_schedule_fn
from rlzoo.core.schedules import linear_schedule as linear_schedule
from rlzoo.core.schedules import lr_schedule as lr_schedule
from rlzoo.core.schedules import make_schedule as make_schedule
from rlzoo.core.type_aliases import AtariResetReturn as AtariResetReturn
from rlzoo.core.type_aliases import AtariStepReturn as AtariStepReturn
from rlzoo.core.type_aliases import GymEnv as GymEnv
from rlzoo.core.type_aliases import GymObs as GymObs
from rlzoo.core.type_aliases import GymResetReturn as GymResetReturn
from rlzoo.core.type_aliases import GymStepReturn as GymStepReturn
from rlzoo.core.type_aliases import OptimizerStateDict as OptimizerStateDict
from rlzoo.core.type_aliases import PyTorchObs as PyTorchObs
from rlzoo.core.type_aliases import TensorDict as TensorDict
from rlzoo.distributions import BernoulliDistribution as BernoulliDistribution
from rlzoo.distributions import CategoricalDistribution as CategoricalDistribution
from rlzoo.distributions import DiagGaussianDistribution as DiagGaussianDistribution
from rlzoo.distributions import Distribution as Distribution
from rlzoo.distributions import MaskableBernoulliDistribution as MaskableBernoulliDistribution
from rlzoo.distributions import MaskableCategorical as MaskableCategorical
from rlzoo.distributions import MaskableCategoricalDistribution as MaskableCategoricalDistribution
from rlzoo.distributions import MaskableMultiCategoricalDistribution as MaskableMultiCategoricalDistribution
from rlzoo.distributions import MultiCategoricalDistribution as MultiCategoricalDistribution
from rlzoo.distributions import SquashedDiagGaussianDistribution as SquashedDiagGaussianDistribution
from rlzoo.distributions import StateDependentNoiseDistribution as StateDependentNoiseDistribution
from rlzoo.distributions import TanhBijector as TanhBijector
from rlzoo.distributions import kl_divergence as kl_divergence
from rlzoo.distributions import make_masked_proba_distribution as make_masked_proba_distribution
from rlzoo.distributions import make_proba_distribution as make_proba_distribution
from rlzoo.distributions import sum_independent_dims as sum_independent_dims
from rlzoo.envs.action_masks import ActionMasker as ActionMasker
from rlzoo.envs.action_masks import get_action_masks as get_action_masks
from rlzoo.envs.action_masks import is_masking_supported as is_masking_supported
from rlzoo.envs.atari.atari_wrappers import AtariWrapper as AtariWrapper
from rlzoo.envs.atari.atari_wrappers import ClipRewardEnv as ClipRewardEnv
from rlzoo.envs.atari.atari_wrappers import EpisodicLifeEnv as EpisodicLifeEnv
from rlzoo.envs.atari.atari_wrappers import FireResetEnv as FireResetEnv
from rlzoo.envs.atari.atari_wrappers import MaxAndSkipEnv as MaxAndSkipEnv
from rlzoo.envs.atari.atari_wrappers import NoopResetEnv as NoopResetEnv
from rlzoo.envs.atari.atari_wrappers import StickyActionEnv as StickyActionEnv
from rlzoo.envs.atari.atari_wrappers import WarpFrame as WarpFrame
from rlzoo.envs.atari.atari_wrappers import wrap_deepmind as wrap_deepmind
from rlzoo.envs.examples.toy import BitFlippingEnv as BitFlippingEnv
from rlzoo.envs.examples.toy import Catch as Catch
from rlzoo.envs.examples.toy import FakeImageEnv as FakeImageEnv
from rlzoo.envs.examples.toy import IdentityEnv as IdentityEnv
from rlzoo.envs.examples.toy import IdentityEnvBox as IdentityEnvBox
from rlzoo.envs.examples.toy import IdentityEnvMultiBinary as IdentityEnvMultiBinary
from rlzoo.envs.examples.toy import IdentityEnvMultiDiscrete as IdentityEnvMultiDiscrete
from rlzoo.envs.examples.toy import SimpleMultiObsEnv as SimpleMultiObsEnv
from rlzoo.envs.examples.toy_invalid_actions import (
    InvalidActionEnvMultiDiscrete as InvalidActionEnvMultiDiscrete,
)
from rlzoo.envs.examples.toy_invalid_actions import InvalidActionEnvDiscrete as InvalidActionEnvDiscrete
from rlzoo.envs.examples.toy_invalid_actions import InvalidActionEnvMultiBinary as InvalidActionEnvMultiBinary
from rlzoo.envs.examples.velocity_mask import MaskVelocityWrapper as MaskVelocityWrapper
from rlzoo.envs.make_atari import make_atari as make_atari
from rlzoo.envs.make_atari import make_atari_env as make_atari_env
from rlzoo.envs.make_vec_env import make_vec_env as make_vec_env
from rlzoo.envs.single_env.check_env import check_env as check_env
from rlzoo.envs.single_env.goal_env import HERGoalEnvWrapper as HERGoalEnvWrapper
from rlzoo.envs.single_env.monitor import LoadMonitorResultsError as LoadMonitorResultsError
from rlzoo.envs.single_env.monitor import Monitor as Monitor
from rlzoo.envs.single_env.monitor import ResultsWriter as ResultsWriter
from rlzoo.envs.single_env.monitor import get_monitor_files as get_monitor_files
from rlzoo.envs.single_env.monitor import load_results as load_results
from rlzoo.envs.single_env.wrappers import ActionNoiseWrapper as ActionNoiseWrapper
from rlzoo.envs.single_env.wrappers import ActionSmoothingWrapper as ActionSmoothingWrapper
from rlzoo.envs.single_env.wrappers import DelayedRewardWrapper as DelayedRewardWrapper
from rlzoo.envs.single_env.wrappers import FrameSkip as FrameSkip
from rlzoo.envs.single_env.wrappers import HistoryWrapper as HistoryWrapper
from rlzoo.envs.single_env.wrappers import ResizeObservation as ResizeObservation
from rlzoo.envs.single_env.wrappers import TimeFeatureWrapper as TimeFeatureWrapper
from rlzoo.envs.single_env.wrappers import TruncatedOnSuccessWrapper as TruncatedOnSuccessWrapper
from rlzoo.envs.tensor.tensor_cartpole import TensorCartPole as TensorCartPole
from rlzoo.envs.tensor.tensor_pendulum import TensorPendulum as TensorPendulum
from rlzoo.envs.tensor.tensor_vec_env import TensorStep as TensorStep
from rlzoo.envs.tensor.tensor_vec_env import TensorVecEnv as TensorVecEnv
from rlzoo.envs.vec_env.dummy import DummyVecEnv as DummyVecEnv
from rlzoo.envs.vec_env.gym_vector import GymVectorEnv as GymVectorEnv
from rlzoo.envs.vec_env.subproc import CloudpickleWrapper as CloudpickleWrapper
from rlzoo.envs.vec_env.subproc import SubprocVecEnv as SubprocVecEnv
from rlzoo.envs.vec_env.tile_images import tile_images as tile_images
from rlzoo.envs.vec_env.vec_env import VecEnv as VecEnv
from rlzoo.envs.vec_env.vec_env import VecEnvIndices as VecEnvIndices
from rlzoo.envs.vec_env.vec_env import VecEnvObs as VecEnvObs
from rlzoo.envs.vec_env.vec_env import VecEnvStepReturn as VecEnvStepReturn
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper as VecEnvWrapper
from rlzoo.envs.vec_env.vec_env import is_vecenv_wrapped as is_vecenv_wrapped
from rlzoo.envs.vec_env.vec_env import is_wrapped as is_wrapped
from rlzoo.envs.vec_env.vec_env import unwrap_vec_wrapper as unwrap_vec_wrapper
from rlzoo.envs.vec_env.vec_env import unwrap_wrapper as unwrap_wrapper
from rlzoo.envs.vec_wrappers.stacked_observations import StackedObservations as StackedObservations
from rlzoo.envs.vec_wrappers.vec_check_nan import VecCheckNan as VecCheckNan
from rlzoo.envs.vec_wrappers.vec_extract_dict_obs import VecExtractDictObs as VecExtractDictObs
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack as VecFrameStack
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor as VecMonitor
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize as VecNormalize
from rlzoo.envs.vec_wrappers.vec_normalize import sync_envs_normalization as sync_envs_normalization
from rlzoo.envs.vec_wrappers.vec_normalize import unwrap_vec_normalize as unwrap_vec_normalize
from rlzoo.envs.vec_wrappers.vec_transpose import VecTransposeImage as VecTransposeImage
from rlzoo.envs.vec_wrappers.vec_video_recorder import VecVideoRecorder as VecVideoRecorder
from rlzoo.evaluation.evaluate import Predictor as Predictor
from rlzoo.evaluation.evaluate import evaluate_policy as evaluate_policy
from rlzoo.experiment.from_hyperparams import create_test_env as create_test_env
from rlzoo.experiment.from_hyperparams import flatten_dict_observations as flatten_dict_observations
from rlzoo.experiment.from_hyperparams import get_callback_list as get_callback_list
from rlzoo.experiment.from_hyperparams import get_class_by_name as get_class_by_name
from rlzoo.experiment.from_hyperparams import get_wrapper_class as get_wrapper_class
from rlzoo.export.exporter import export_model as export_model
from rlzoo.hub.download import download_from_hub as download_from_hub
from rlzoo.hub.download import get_hf_trained_models as get_hf_trained_models
from rlzoo.hub.load import load_from_hub as load_from_hub
from rlzoo.hub.upload import push_to_hub as push_to_hub
from rlzoo.metrics.log_files import read_csv as read_csv
from rlzoo.metrics.log_files import read_json as read_json
from rlzoo.metrics.logger import CSVOutputFormat as CSVOutputFormat
from rlzoo.metrics.logger import Figure as Figure
from rlzoo.metrics.logger import FormatUnsupportedError as FormatUnsupportedError
from rlzoo.metrics.logger import HParam as HParam
from rlzoo.metrics.logger import HumanOutputFormat as HumanOutputFormat
from rlzoo.metrics.logger import Image as Image
from rlzoo.metrics.logger import JSONOutputFormat as JSONOutputFormat
from rlzoo.metrics.logger import KVWriter as KVWriter
from rlzoo.metrics.logger import Logger as Logger
from rlzoo.metrics.logger import SeqWriter as SeqWriter
from rlzoo.metrics.logger import TensorBoardOutputFormat as TensorBoardOutputFormat
from rlzoo.metrics.logger import Video as Video
from rlzoo.metrics.logger import configure as configure
from rlzoo.metrics.logger import configure_logger as configure_logger
from rlzoo.metrics.logger import filter_excluded_keys as filter_excluded_keys
from rlzoo.metrics.logger import get_latest_run_id as get_latest_run_id
from rlzoo.metrics.logger import make_output_format as make_output_format
from rlzoo.networks.torch_layers import BaseFeaturesExtractor as BaseFeaturesExtractor
from rlzoo.networks.torch_layers import CombinedExtractor as CombinedExtractor
from rlzoo.networks.torch_layers import FlattenExtractor as FlattenExtractor
from rlzoo.networks.torch_layers import MlpExtractor as MlpExtractor
from rlzoo.networks.torch_layers import NatureCNN as NatureCNN
from rlzoo.networks.torch_layers import create_mlp as create_mlp
from rlzoo.networks.torch_layers import get_actor_critic_arch as get_actor_critic_arch
from rlzoo.optim.conjugate_gradient import conjugate_gradient_solver as conjugate_gradient_solver
from rlzoo.optim.conjugate_gradient import flat_grad as flat_grad
from rlzoo.optim.parameters import get_parameters_by_name as get_parameters_by_name
from rlzoo.optim.parameters import update_learning_rate as update_learning_rate
from rlzoo.optim.parameters import zip_strict as zip_strict
from rlzoo.optim.polyak import polyak_update as polyak_update
from rlzoo.optim.rmsprop_tf import RMSpropTFLike as RMSpropTFLike
from rlzoo.playback.inline_video import InlineVideo as InlineVideo
from rlzoo.playback.inline_video import show as show
from rlzoo.playback.video_recording import record_video as record_video
from rlzoo.plots import curves as _results_plotter
from rlzoo.plots.aggregates import iqm as iqm
from rlzoo.plots.aggregates import optimality_gap as optimality_gap
from rlzoo.plots.aggregates import performance_profile as performance_profile
from rlzoo.plots.aggregates import probability_of_improvement as probability_of_improvement
from rlzoo.plots.aggregates import stratified_bootstrap as stratified_bootstrap
from rlzoo.plots.curves import X_EPISODES as X_EPISODES
from rlzoo.plots.curves import X_TIMESTEPS as X_TIMESTEPS
from rlzoo.plots.curves import X_WALLTIME as X_WALLTIME
from rlzoo.plots.curves import plot_curves as plot_curves
from rlzoo.plots.curves import plot_results as plot_results
from rlzoo.plots.curves import rolling_window as rolling_window
from rlzoo.plots.curves import ts2xy as ts2xy
from rlzoo.plots.curves import window_func as window_func
from rlzoo.plots.runs import load_runs as load_runs
from rlzoo.policies.actor_critic_policies import ActorCriticCnnPolicy as ActorCriticCnnPolicy
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy as ActorCriticPolicy
from rlzoo.policies.actor_critic_policies import FeedForwardPolicy as FeedForwardPolicy
from rlzoo.policies.actor_critic_policies import MultiInputActorCriticPolicy as MultiInputActorCriticPolicy
from rlzoo.policies.actors import Actor as Actor
from rlzoo.policies.actors import SquashedGaussianActor as SquashedGaussianActor
from rlzoo.policies.base_policy import BaseModel as BaseModel
from rlzoo.policies.base_policy import BasePolicy as BasePolicy
from rlzoo.policies.continuous_policies import CrossQPolicy as CrossQPolicy
from rlzoo.policies.continuous_policies import SACPolicy as SACPolicy
from rlzoo.policies.continuous_policies import TD3Policy as TD3Policy
from rlzoo.policies.continuous_policies import TQCPolicy as TQCPolicy
from rlzoo.policies.critics import ContinuousCritic as ContinuousCritic
from rlzoo.policies.critics import QuantileCritic as QuantileCritic
from rlzoo.policies.linear_policy import ARSLinearPolicy as ARSLinearPolicy
from rlzoo.policies.linear_policy import ARSPolicy as ARSPolicy
from rlzoo.policies.masked_policies import (
    MaskableMultiInputActorCriticPolicy as MaskableMultiInputActorCriticPolicy,
)
from rlzoo.policies.masked_policies import MaskableActorCriticCnnPolicy as MaskableActorCriticCnnPolicy
from rlzoo.policies.masked_policies import MaskableActorCriticPolicy as MaskableActorCriticPolicy
from rlzoo.policies.policy_registry import LnCnnPolicy as LnCnnPolicy
from rlzoo.policies.policy_registry import LnMlpPolicy as LnMlpPolicy
from rlzoo.policies.policy_registry import register_policy as register_policy
from rlzoo.policies.recurrent_policies import (
    RecurrentMultiInputActorCriticPolicy as RecurrentMultiInputActorCriticPolicy,
)
from rlzoo.policies.recurrent_policies import CnnLnLstmPolicy as CnnLnLstmPolicy
from rlzoo.policies.recurrent_policies import LstmPolicy as LstmPolicy
from rlzoo.policies.recurrent_policies import MlpLnLstmPolicy as MlpLnLstmPolicy
from rlzoo.policies.recurrent_policies import RecurrentActorCriticCnnPolicy as RecurrentActorCriticCnnPolicy
from rlzoo.policies.recurrent_policies import RecurrentActorCriticPolicy as RecurrentActorCriticPolicy
from rlzoo.policies.value_based import DQNPolicy as DQNPolicy
from rlzoo.policies.value_based import QNetwork as QNetwork
from rlzoo.policies.value_based import QRDQNPolicy as QRDQNPolicy
from rlzoo.policies.value_based import QuantileNetwork as QuantileNetwork
from rlzoo.runs.algos import ALGOS as ALGOS
from rlzoo.runs.saved_agents import get_model_path as get_model_path
from rlzoo.runs.saved_agents import get_saved_hyperparams as get_saved_hyperparams
from rlzoo.runs.saved_agents import get_trained_models as get_trained_models
from rlzoo.training.candidates import AsyncEval as AsyncEval
from rlzoo.training.expert_trajectories import generate_expert_traj as generate_expert_traj
from rlzoo.training.parallel_callback import ParallelTrainCallback as ParallelTrainCallback
from rlzoo.training.save_files import load_from_pkl as load_from_pkl
from rlzoo.training.save_files import load_from_zip_file as load_from_zip_file
from rlzoo.training.save_files import open_path as open_path
from rlzoo.training.save_files import save_to_pkl as save_to_pkl
from rlzoo.training.save_files import save_to_zip_file as save_to_zip_file
from rlzoo.tuning.experiment_manager import ExperimentManager as ExperimentManager
from rlzoo.tuning.space.own_samplers import HYPERPARAMS_CONVERTER as HYPERPARAMS_CONVERTER
from rlzoo.tuning.space.own_samplers import HYPERPARAMS_SAMPLER as HYPERPARAMS_SAMPLER
from rlzoo.tuning.space.own_samplers import convert_params as convert_params
from rlzoo.tuning.space.own_samplers import sample_a2c_params as sample_a2c_params
from rlzoo.tuning.space.own_samplers import sample_ars_params as sample_ars_params
from rlzoo.tuning.space.own_samplers import sample_ddpg_params as sample_ddpg_params
from rlzoo.tuning.space.own_samplers import sample_dqn_params as sample_dqn_params
from rlzoo.tuning.space.own_samplers import sample_ppo_lstm_params as sample_ppo_lstm_params
from rlzoo.tuning.space.own_samplers import sample_ppo_params as sample_ppo_params
from rlzoo.tuning.space.own_samplers import sample_qrdqn_params as sample_qrdqn_params
from rlzoo.tuning.space.own_samplers import sample_sac_params as sample_sac_params
from rlzoo.tuning.space.own_samplers import sample_td3_params as sample_td3_params
from rlzoo.tuning.space.own_samplers import sample_tqc_params as sample_tqc_params
from rlzoo.tuning.space.own_samplers import sample_trpo_params as sample_trpo_params

__version__: str
__all__: list[str]
BaseAlgorithm = Algorithm
Bernoulli = BernoulliDistribution
Categorical = CategoricalDistribution
CnnLstmPolicy = RecurrentActorCriticCnnPolicy
CnnPolicy = ActorCriticCnnPolicy
DiagGaussian = DiagGaussianDistribution
DoneOnSuccessWrapper = TruncatedOnSuccessWrapper
HistoryWrapperObsDict = HistoryWrapper
LinearPolicy = ARSLinearPolicy
MaybeCallback = CallbackLike
MlpLstmPolicy = RecurrentActorCriticPolicy
MlpPolicy = ActorCriticPolicy
MultiCategorical = MultiCategoricalDistribution
MultiInputLstmPolicy = RecurrentMultiInputActorCriticPolicy
MultiInputPolicy = MultiInputActorCriticPolicy
PolicyPredictor = Predictor
SquashedDiagGaussian = SquashedDiagGaussianDistribution
StateDependentNoise = StateDependentNoiseDistribution
YAMLCompatResizeObservation = ResizeObservation
convert_ars_params = convert_params
convert_offpolicy_params = convert_params
convert_onpolicy_params = convert_params
is_vectorized_box_observation = is_vectorized_observation
is_vectorized_dict_observation = is_vectorized_observation
is_vectorized_discrete_observation = is_vectorized_observation
is_vectorized_multibinary_observation = is_vectorized_observation
is_vectorized_multidiscrete_observation = is_vectorized_observation
plots = _plots
results_plotter = _results_plotter
set_global_seeds = set_random_seed

class A2C(_A2C):
    """A2C for Box, Discrete, MultiDiscrete and MultiBinary actions.

    Example:
        >>> from rlzoo import A2C, make_vec_env
        >>> model = A2C("MlpPolicy", make_vec_env("CartPole-v1", 8)).learn(100_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.0007): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable
        max_grad_norm (float = 0.5): upper bound on the L2 norm of the gradient;
            lower it if losses spike
        rms_prop_eps (float = 1e-05): epsilon of RMSprop, added to the
            denominator for numerical stability
        use_rms_prop (bool = True): optimise with RMSprop, as the paper does;
            False: the policy's optimiser (Adam unless policy_kwargs name
            another)

        # rollout
        n_steps (int = 5): steps per environment in each rollout, which holds
            n_steps * n_envs transitions; longer rollouts give less biased
            returns and fewer updates; each rollout is one gradient step

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        gae_lambda (float = 1.0): lambda of generalised advantage estimation
            (Schulman et al. 2016, https://arxiv.org/abs/1506.02438), in [0, 1];
            higher: less bias, more variance; 1: n-step returns
        normalize_advantage (bool = False): scale the advantages of each batch
            to mean 0 and standard deviation 1

        # losses
        vf_coef (float = 0.5): weight of the value loss; matters most where
            policy and value function share layers

        # entropy
        ent_coef (float = 0.0): weight of the entropy bonus; raise it if the
            policy becomes deterministic too early

        # exploration
        use_sde (bool = False): explore with generalised state-dependent
            exploration (gSDE, Raffin et al. 2021,
            https://arxiv.org/abs/2005.05719), which is smoother than
            independent Gaussian noise; Box actions
        sde_sample_freq (int = -1): steps between two samples of the gSDE noise;
            -1: only at the beginning of each rollout

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
        rollout_buffer_class (type | None = None): class derived from
            RolloutBuffer; None: the one that suits the observations
        rollout_buffer_kwargs (dict[str, Any] | None = None): keyword arguments
            for the rollout buffer class
    """

    learning_rate: ScheduleLike
    n_steps: int
    gamma: float
    gae_lambda: float
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    rms_prop_eps: float
    use_rms_prop: bool
    use_sde: bool
    sde_sample_freq: int
    normalize_advantage: bool
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0007,
        n_steps: int = 5,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        rms_prop_eps: float = 1e-05,
        use_rms_prop: bool = True,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        normalize_advantage: bool = False,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class ACER(_ACER):
    """ACER for Discrete actions.

    Example:
        >>> from rlzoo import ACER
        >>> model = ACER("MlpPolicy", "CartPole-v1").learn(100_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.0007): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable
        max_grad_norm (float = 10.0): upper bound on the L2 norm of the
            gradient; lower it if losses spike
        lr_schedule (str = 'linear'): decay of a learning_rate that is a number:
            constant, linear, middle_drop, double_linear_con or
            double_middle_drop
        rprop_alpha (float = 0.99): decay of the running average of squared
            gradients (RMSprop), in [0, 1]
        rprop_epsilon (float = 1e-05): epsilon of RMSprop, added to the running
            average of squared gradients inside the root

        # rollout
        n_steps (int = 20): steps per environment in each rollout, which holds
            n_steps * n_envs transitions; longer rollouts give less biased
            returns and fewer updates; also the length of replayed trajectories

        # replay buffer
        buffer_size (int = 5000): replay buffer capacity, in steps per
            environment; lower it if memory is short
        replay_ratio (float = 4.0): mean number of updates from the replay
            buffer per rollout (Poisson distributed); more are more
            sample-efficient and cost more time
        replay_start (int = 1000): steps per environment in the replay buffer
            before it is sampled

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large

        # losses
        q_coef (float = 0.5): weight of the Q-value loss
        correction_term (float = 10.0): truncation c of the importance weights
            (eq. 7); lower: less variance, more bias

        # entropy
        ent_coef (float = 0.01): weight of the entropy bonus; raise it if the
            policy becomes deterministic too early

        # trust region
        trust_region (bool = True): bound the policy update by the average
            policy (section 3.3)
        alpha (float = 0.99): decay of the average policy's parameters per
            update, in [0, 1]; higher: a slower average policy
        delta (float = 1.0): upper bound on the linearised KL divergence from
            the average policy; lower it for smaller policy updates

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
        rollout_buffer_class (type | None = None): class derived from
            RolloutBuffer; None: the one that suits the observations
        rollout_buffer_kwargs (dict[str, Any] | None = None): keyword arguments
            for the rollout buffer class
    """

    learning_rate: ScheduleLike
    n_steps: int
    gamma: float
    q_coef: float
    ent_coef: float
    max_grad_norm: float
    lr_schedule: str
    rprop_alpha: float
    rprop_epsilon: float
    buffer_size: int
    replay_ratio: float
    replay_start: int
    correction_term: float
    trust_region: bool
    alpha: float
    delta: float
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0007,
        n_steps: int = 20,
        gamma: float = 0.99,
        q_coef: float = 0.5,
        ent_coef: float = 0.01,
        max_grad_norm: float = 10.0,
        lr_schedule: str = "linear",
        rprop_alpha: float = 0.99,
        rprop_epsilon: float = 1e-05,
        buffer_size: int = 5000,
        replay_ratio: float = 4.0,
        replay_start: int = 1000,
        correction_term: float = 10.0,
        trust_region: bool = True,
        alpha: float = 0.99,
        delta: float = 1.0,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class ACKTR(_ACKTR):
    """ACKTR for Box and Discrete actions.

    Example:
        >>> from rlzoo import ACKTR, make_vec_env
        >>> model = ACKTR("MlpPolicy", make_vec_env("CartPole-v1", 8)).learn(100_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.25): upper bound on eta, the factor on
            the natural gradient; a number or a schedule; kfac_clip and
            max_grad_norm lower it further
        max_grad_norm (float = 0.5): upper bound on the L2 norm of a step (eta
            times the natural gradient)
        lr_schedule (str = 'linear'): decay of a learning_rate that is a number:
            constant, linear, middle_drop, double_linear_con or
            double_middle_drop
        momentum (float = 0.9): weight of previous steps in the current one, in
            [0, 1)

        # rollout
        n_steps (int = 20): steps per environment in each rollout, which holds
            n_steps * n_envs transitions; longer rollouts give less biased
            returns and fewer updates; each rollout is one natural gradient step

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        gae_lambda (float | None = None): lambda of generalised advantage
            estimation (Schulman et al. 2016, https://arxiv.org/abs/1506.02438),
            in [0, 1]; higher: less bias, more variance; 1: n-step returns;
            None: n-step returns

        # losses
        vf_coef (float = 0.25): weight of the value loss; matters most where
            policy and value function share layers

        # entropy
        ent_coef (float = 0.01): weight of the entropy bonus; raise it if the
            policy becomes deterministic too early

        # trust region
        vf_fisher_coef (float = 1.0): weight of the value function in the Fisher
            matrix; raise it for smaller steps of the value function
        kfac_clip (float = 0.001): upper bound on the KL divergence of a step
            (section 3.3); lower it for smaller policy updates
        kfac_update (int = 1): updates between two eigendecompositions of the
            Fisher factors; more are faster and less accurate
        async_eigen_decomp (bool = False): decompose the Fisher factors while
            the next rollout is collected, and use the result one update later
        damping (float = 0.01): added to the eigenvalues of the Fisher matrix;
            raise it if training is unstable
        stats_decay (float = 0.99): decay per update of the running averages of
            the Fisher factors, in [0, 1)

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
        rollout_buffer_class (type | None = None): class derived from
            RolloutBuffer; None: the one that suits the observations
        rollout_buffer_kwargs (dict[str, Any] | None = None): keyword arguments
            for the rollout buffer class
    """

    learning_rate: ScheduleLike
    n_steps: int
    gamma: float
    gae_lambda: float | None
    ent_coef: float
    vf_coef: float
    vf_fisher_coef: float
    max_grad_norm: float
    kfac_clip: float
    lr_schedule: str
    kfac_update: int
    async_eigen_decomp: bool
    momentum: float
    damping: float
    stats_decay: float
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.25,
        n_steps: int = 20,
        gamma: float = 0.99,
        gae_lambda: float | None = None,
        ent_coef: float = 0.01,
        vf_coef: float = 0.25,
        vf_fisher_coef: float = 1.0,
        max_grad_norm: float = 0.5,
        kfac_clip: float = 0.001,
        lr_schedule: str = "linear",
        kfac_update: int = 1,
        async_eigen_decomp: bool = False,
        momentum: float = 0.9,
        damping: float = 0.01,
        stats_decay: float = 0.99,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class ARS(_ARS):
    """ARS for Box and Discrete actions; candidates play one by one, or in the processes of an `AsyncEval`.

    Example:
        >>> from rlzoo import ARS
        >>> model = ARS("LinearPolicy", "CartPole-v1").learn(100_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # random search
        n_delta (int = 8): random directions per iteration; two candidates each;
            more are less noisy and cost more episodes
        n_top (int | None = None): directions with the best returns that the
            update uses (b of the paper); None: all
        learning_rate (ScheduleLike = 0.02): step size alpha, a number or a
            schedule, in units of the standard deviation of the returns
        delta_std (ScheduleLike = 0.05): standard deviation nu of the
            perturbations, a number or a schedule; raise it if candidates hardly
            differ
        zero_policy (bool = True): initialise all parameters to 0, as for the
            linear policies of the paper
        alive_bonus_offset (float = 0.0): added to the reward of every step; a
            negative number offsets a bonus for being alive
        n_eval_episodes (int = 1): episodes per candidate; more give less noisy
            returns

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
    """

    n_delta: int
    n_top: int | None
    learning_rate: ScheduleLike
    delta_std: ScheduleLike
    zero_policy: bool
    alive_bonus_offset: float
    n_eval_episodes: int
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        n_delta: int = 8,
        n_top: int | None = None,
        learning_rate: ScheduleLike = 0.02,
        delta_std: ScheduleLike = 0.05,
        zero_policy: bool = True,
        alive_bonus_offset: float = 0.0,
        n_eval_episodes: int = 1,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class BC(_BC):
    """Behaviour cloning for Box and Discrete actions.

    Example:
        >>> from rlzoo import BC
        >>> model = BC("MlpPolicy", "CartPole-v1", expert_dataset="expert.npz").learn(100_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # demonstrations
        expert_dataset (Any = None): demonstrations: an ExpertDataset, the path
            of its file, or a mapping of its arguments

        # optimisation
        learning_rate (ScheduleLike = 0.001): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable
        batch_size (int = 64): expert transitions per minibatch
        max_grad_norm (float | None = None): upper bound on the L2 norm of the
            gradient; lower it if losses spike; None: no clipping

        # entropy
        ent_coef (float = 0.0): weight of the entropy bonus; raise it if the
            policy becomes deterministic too early

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
    """

    expert_dataset: Any
    learning_rate: ScheduleLike
    batch_size: int
    ent_coef: float
    max_grad_norm: float | None
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        expert_dataset: Any = None,
        learning_rate: ScheduleLike = 0.001,
        batch_size: int = 64,
        ent_coef: float = 0.0,
        max_grad_norm: float | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class CrossQ(_CrossQ):
    """CrossQ for Box actions.

    Example:
        >>> from rlzoo import CrossQ
        >>> model = CrossQ("MlpPolicy", "Pendulum-v1").learn(10_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.001): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable; the same for actor, critics and entropy coefficient
        batch_size (int = 256): transitions sampled from the replay buffer per
            gradient step; larger batches give less noisy gradients and cost
            more time
        policy_delay (int = 3): critic updates per actor update; a larger delay
            trains the actor on more accurate critics

        # replay buffer
        buffer_size (int = 1000000): replay buffer capacity, in transitions over
            all environments; the oldest are overwritten; lower it if memory is
            short
        learning_starts (int = 100): environment steps with uniformly random
            actions, over all environments, before the first gradient step
        train_freq (TrainFreq = 1): steps of each environment between two rounds
            of training, or (n, 'episode') for every n episodes
        gradient_steps (int = 1): gradient steps per round of training (every
            train_freq steps); -1: as many as environment steps collected; more
            are more sample-efficient and cost more time
        replay_buffer_class (type[ReplayBuffer] | None = None): replay buffer
            class, such as HerReplayBuffer; None: the one that suits
            observations and n_steps
        replay_buffer_kwargs (dict[str, object] | None = None): keyword
            arguments for the replay buffer class
        optimize_memory_usage (bool = False): accepted for compatibility with
            stable-baselines3, without effect: no observation is stored twice
        buffer_device (str = 'cpu'): device that stores observations and actions
            of the replay buffer; auto: that of the agent

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        n_steps (int = 1): rewards summed before the bootstrap value in the
            target (n-step returns); more propagate rewards faster, with a bias
            from older policies

        # entropy
        ent_coef (float | str = 'auto'): entropy coefficient (temperature
            alpha): a number, 'auto' to learn it so that the entropy meets
            target_entropy, or 'auto_0.1' to learn it from 0.1 on; higher
            explores more
        target_entropy (float | str = 'auto'): entropy in nats that a learned
            ent_coef aims at; 'auto': minus the number of action dimensions

        # exploration
        action_noise (ActionNoise | None = None): ActionNoise, such as
            NormalActionNoise, added to actions in [-1, 1] while collecting;
            None: no noise
        use_sde (bool = False): explore with generalised state-dependent
            exploration (gSDE, Raffin et al. 2021,
            https://arxiv.org/abs/2005.05719), which is smoother than
            independent Gaussian noise; Box actions
        sde_sample_freq (int = -1): steps between two samples of the gSDE noise;
            -1: only at the beginning of each rollout
        use_sde_at_warmup (bool = False): explore with gSDE before
            learning_starts, instead of uniformly
        random_exploration (float = 0.0): probability of a uniformly random
            action while collecting

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
    """

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    gamma: float
    gradient_steps: int
    action_noise: ActionNoise | None
    optimize_memory_usage: bool
    n_steps: int
    ent_coef: float | str
    policy_delay: int
    use_sde: bool
    sde_sample_freq: int
    use_sde_at_warmup: bool
    random_exploration: float
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, object] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: float | str = "auto",
        target_entropy: float | str = "auto",
        policy_delay: int = 3,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        use_sde_at_warmup: bool = False,
        random_exploration: float = 0.0,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class DDPG(_DDPG):
    """DDPG for Box actions.

    Example:
        >>> from rlzoo import DDPG, NormalActionNoise
        >>> noise = NormalActionNoise([0.0], [0.1])
        >>> model = DDPG("MlpPolicy", "Pendulum-v1", action_noise=noise).learn(10_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.001): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable; for actor and critic, unless actor_lr or critic_lr is
            given
        batch_size (int = 256): transitions sampled from the replay buffer per
            gradient step; larger batches give less noisy gradients and cost
            more time
        actor_lr (ScheduleLike | None = None): learning rate of the actor, a
            number or a schedule; None: learning_rate
        critic_lr (ScheduleLike | None = None): learning rate of the critic, a
            number or a schedule; None: learning_rate
        critic_l2_reg (float = 0.0): weight of the L2 penalty on the critic's
            hidden weights (half their squared norm)
        clip_norm (float | None = None): upper bound on the L2 norm of the
            actor's and of the critic's gradient; None: no clipping

        # replay buffer
        buffer_size (int = 1000000): replay buffer capacity, in transitions over
            all environments; the oldest are overwritten; lower it if memory is
            short
        learning_starts (int = 100): environment steps with uniformly random
            actions, over all environments, before the first gradient step
        train_freq (TrainFreq = 1): steps of each environment between two rounds
            of training, or (n, 'episode') for every n episodes
        gradient_steps (int = 1): gradient steps per round of training (every
            train_freq steps); -1: as many as environment steps collected; more
            are more sample-efficient and cost more time
        replay_buffer_class (type[ReplayBuffer] | None = None): replay buffer
            class, such as HerReplayBuffer; None: the one that suits
            observations and n_steps
        replay_buffer_kwargs (dict[str, object] | None = None): keyword
            arguments for the replay buffer class
        optimize_memory_usage (bool = False): accepted for compatibility with
            stable-baselines3, without effect: no observation is stored twice
        buffer_device (str = 'cpu'): device that stores observations and actions
            of the replay buffer; auto: that of the agent

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        n_steps (int = 1): rewards summed before the bootstrap value in the
            target (n-step returns); more propagate rewards faster, with a bias
            from older policies

        # target networks
        tau (float = 0.005): Polyak coefficient: target <- tau * online + (1 -
            tau) * target at each target update; lower is slower and more stable

        # exploration
        action_noise (ActionNoise | None = None): ActionNoise, such as
            NormalActionNoise, added to actions in [-1, 1] while collecting;
            None: no noise
        param_noise (AdaptiveParamNoiseSpec | None = None):
            AdaptiveParamNoiseSpec: explore with noise on the actor's parameters
            (Plappert et al. 2018, https://arxiv.org/abs/1706.01905); None: none
        param_noise_adaption_interval (int = 50): gradient steps between two
            adaptions of the parameter noise
        random_exploration (float = 0.0): probability of a uniformly random
            action while collecting

        # normalisation
        normalize_observations (bool = False): normalise the networks'
            observations with running statistics
        observation_range (tuple[float, float] = (-5.0, 5.0)): (low, high):
            normalised observations are clipped to it
        normalize_returns (bool = False): normalise the critic's returns with
            running statistics
        return_range (tuple[float, float] = (-inf, inf)): (low, high): the
            critic's outputs are clipped to it
        enable_popart (bool = False): adapt the critic's last layer when the
            statistics of the returns change, so that its values do not
            (Pop-Art, van Hasselt et al. 2016, https://arxiv.org/abs/1602.07714)
        reward_scale (float = 1.0): factor on the rewards; choose it so that
            returns are neither tiny nor huge

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
    """

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    action_noise: ActionNoise | None
    optimize_memory_usage: bool
    n_steps: int
    actor_lr: ScheduleLike | None
    critic_lr: ScheduleLike | None
    normalize_observations: bool
    observation_range: tuple[float, float]
    normalize_returns: bool
    return_range: tuple[float, float]
    enable_popart: bool
    critic_l2_reg: float
    clip_norm: float | None
    reward_scale: float
    param_noise: AdaptiveParamNoiseSpec | None
    param_noise_adaption_interval: int
    random_exploration: float
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, object] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        actor_lr: ScheduleLike | None = None,
        critic_lr: ScheduleLike | None = None,
        normalize_observations: bool = False,
        observation_range: tuple[float, float] = (-5.0, 5.0),
        normalize_returns: bool = False,
        return_range: tuple[float, float] = ...,
        enable_popart: bool = False,
        critic_l2_reg: float = 0.0,
        clip_norm: float | None = None,
        reward_scale: float = 1.0,
        param_noise: AdaptiveParamNoiseSpec | None = None,
        param_noise_adaption_interval: int = 50,
        random_exploration: float = 0.0,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class DQN(_DQN):
    """DQN for Discrete actions.

    Example:
        >>> from rlzoo import DQN
        >>> model = DQN("MlpPolicy", "CartPole-v1", learning_starts=1000).learn(50_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.0001): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable
        batch_size (int = 32): transitions sampled from the replay buffer per
            gradient step; larger batches give less noisy gradients and cost
            more time
        max_grad_norm (float | None = 10): upper bound on the L2 norm of the
            gradient; lower it if losses spike; None: no clipping

        # replay buffer
        buffer_size (int = 1000000): replay buffer capacity, in transitions over
            all environments; the oldest are overwritten; lower it if memory is
            short
        learning_starts (int = 100): environment steps with uniformly random
            actions, over all environments, before the first gradient step
        train_freq (TrainFreq = 4): steps of each environment between two rounds
            of training, or (n, 'episode') for every n episodes
        gradient_steps (int = 1): gradient steps per round of training (every
            train_freq steps); -1: as many as environment steps collected; more
            are more sample-efficient and cost more time
        replay_buffer_class (type[ReplayBuffer] | None = None): replay buffer
            class, such as HerReplayBuffer; None: the one that suits
            observations and n_steps
        replay_buffer_kwargs (dict[str, object] | None = None): keyword
            arguments for the replay buffer class
        optimize_memory_usage (bool = False): accepted for compatibility with
            stable-baselines3, without effect: no observation is stored twice
        prioritized_replay (bool = False): sample transitions with probability
            proportional to |TD error|^alpha (Schaul et al. 2016,
            https://arxiv.org/abs/1511.05952)
        prioritized_replay_alpha (float = 0.6): exponent of the priorities, in
            [0, 1]; 0 samples uniformly
        prioritized_replay_beta0 (float = 0.4): initial exponent of the
            importance weights, in [0, 1]; it is annealed to 1
        prioritized_replay_beta_iters (int | None = None): environment steps
            over which prioritized_replay_beta0 is annealed to 1; None: the
            whole training
        prioritized_replay_eps (float = 1e-06): added to |TD error|, so that
            every transition can be sampled
        buffer_device (str = 'cpu'): device that stores observations and actions
            of the replay buffer; auto: that of the agent

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        n_steps (int = 1): rewards summed before the bootstrap value in the
            target (n-step returns); more propagate rewards faster, with a bias
            from older policies

        # target networks
        tau (float = 1.0): Polyak coefficient: target <- tau * online + (1 -
            tau) * target at each target update; lower is slower and more
            stable; 1 copies the network
        target_update_interval (int = 10000): environment steps, over all
            environments, between two updates of the target network; larger is
            slower and more stable
        double_q (bool = False): double Q-learning (van Hasselt et al. 2016,
            https://arxiv.org/abs/1509.06461): the online network selects the
            next action, the target network evaluates it; against overestimated
            values

        # exploration
        exploration_fraction (float = 0.1): fraction of training over which the
            probability of random actions is annealed
        exploration_initial_eps (float = 1.0): initial probability of a random
            action (epsilon-greedy)
        exploration_final_eps (float = 0.05): final probability of a random
            action (epsilon-greedy)
        param_noise (bool = False): explore with noise on the parameters
            (Plappert et al. 2018, https://arxiv.org/abs/1706.01905); best with
            layer normalisation (LnMlpPolicy)

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
    """

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    optimize_memory_usage: bool
    n_steps: int
    target_update_interval: int
    exploration_fraction: float
    exploration_initial_eps: float
    exploration_final_eps: float
    max_grad_norm: float | None
    double_q: bool
    prioritized_replay: bool
    prioritized_replay_alpha: float
    prioritized_replay_beta0: float
    prioritized_replay_beta_iters: int | None
    prioritized_replay_eps: float
    param_noise: bool
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 4,
        gradient_steps: int = 1,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, object] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10000,
        exploration_fraction: float = 0.1,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.05,
        max_grad_norm: float | None = 10,
        double_q: bool = False,
        prioritized_replay: bool = False,
        prioritized_replay_alpha: float = 0.6,
        prioritized_replay_beta0: float = 0.4,
        prioritized_replay_beta_iters: int | None = None,
        prioritized_replay_eps: float = 1e-06,
        param_noise: bool = False,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class GAIL(_GAIL):
    """GAIL for Box and Discrete actions: a learner (TRPO or PPO) whose reward is a discriminator's.

    Example:
        >>> from rlzoo import GAIL
        >>> model = GAIL("MlpPolicy", "CartPole-v1", expert_dataset="expert.npz").learn(100_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # demonstrations
        expert_dataset (Any = None): demonstrations: an ExpertDataset, the path
            of its file, or a mapping of its arguments

        # optimisation
        learner (str = 'trpo'): algorithm that trains the policy: 'trpo' or
            'ppo'; for its hyperparameters None means its default
        learning_rate (ScheduleLike | None = None): step size of the optimiser:
            a number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable; with 'trpo' of the value function only; None: the
            learner's default
        batch_size (int | None = None): minibatch size, in transitions of the
            rollout; should divide n_steps * n_envs; larger minibatches give
            fewer and less noisy gradient steps; with 'trpo' of the value
            function only; None: the learner's default
        n_critic_updates (int | None = None): passes of the value function over
            each rollout; only with learner='trpo'; None: its default
        n_epochs (int | None = None): passes over each rollout; more passes use
            each transition more often, but move the policy further from the one
            that collected it; only with learner='ppo'; None: its default
        max_grad_norm (float | None = None): upper bound on the L2 norm of the
            gradient; lower it if losses spike; only with learner='ppo'; None:
            its default

        # rollout
        n_steps (int = 2048): steps per environment in each rollout, which holds
            n_steps * n_envs transitions; longer rollouts give less biased
            returns and fewer updates

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        gae_lambda (float = 0.95): lambda of generalised advantage estimation
            (Schulman et al. 2016, https://arxiv.org/abs/1506.02438), in [0, 1];
            higher: less bias, more variance; 1: n-step returns
        normalize_advantage (bool = True): scale the advantages of each batch to
            mean 0 and standard deviation 1

        # losses
        clip_range (ScheduleLike | None = None): clipping range of the
            probability ratio (epsilon of eq. 7), a number or a schedule; lower
            it for smaller policy updates; only with learner='ppo'; None: its
            default
        clip_range_vf (ScheduleLike | None = None): clipping range of the value
            function around its old values, in units of the return; None: no
            clipping; only with learner='ppo'; None: its default
        vf_coef (float | None = None): weight of the value loss; matters most
            where policy and value function share layers; only with
            learner='ppo'; None: its default

        # entropy
        ent_coef (float = 0.0): weight of the entropy bonus; raise it if the
            policy becomes deterministic too early

        # trust region
        target_kl (float | None = None): TRPO: radius of the trust region, a KL
            divergence; PPO: an update stops when the KL divergence exceeds 1.5
            times this; None: the learner's default
        cg_max_steps (int | None = None): iterations of the conjugate gradient
            method; more solve for the natural gradient more accurately; only
            with learner='trpo'; None: its default
        cg_damping (float | None = None): added to the diagonal of the Fisher
            matrix; raise it if line searches fail; only with learner='trpo';
            None: its default
        line_search_shrinking_factor (float | None = None): factor by which the
            line search shortens a step that leaves the trust region; only with
            learner='trpo'; None: its default
        line_search_max_iter (int | None = None): step lengths that the line
            search tries before it leaves the policy unchanged; only with
            learner='trpo'; None: its default
        sub_sampling_factor (int | None = None): the policy update uses one of
            this many transitions of the rollout; larger is faster and noisier;
            only with learner='trpo'; None: its default
        sum_kl (bool | None = None): sum the KL divergence over action
            dimensions, as in the paper; False: average it, as in sb3-contrib;
            only with learner='trpo'; None: True

        # discriminator
        hidden_size_adversary (int = 100): units in each of the two hidden
            layers of the discriminator
        adversary_entcoeff (float = 0.001): weight of the discriminator's
            entropy bonus; raise it if the discriminator becomes too certain
        g_step (int = 3): policy updates (rollouts) per discriminator update
        d_step (int = 1): gradient steps per discriminator update
        d_stepsize (float = 0.0003): learning rate of the discriminator

        # exploration
        use_sde (bool = False): explore with generalised state-dependent
            exploration (gSDE, Raffin et al. 2021,
            https://arxiv.org/abs/2005.05719), which is smoother than
            independent Gaussian noise; Box actions
        sde_sample_freq (int = -1): steps between two samples of the gSDE noise;
            -1: only at the beginning of each rollout

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
        rollout_buffer_class (type | None = None): class derived from
            RolloutBuffer; None: the one that suits the observations
        rollout_buffer_kwargs (dict[str, Any] | None = None): keyword arguments
            for the rollout buffer class
    """

    expert_dataset: Any
    hidden_size_adversary: int
    adversary_entcoeff: float
    g_step: int
    d_step: int
    d_stepsize: float
    learner: str
    learning_rate: ScheduleLike | None
    n_steps: int
    batch_size: int | None
    gamma: float
    gae_lambda: float
    normalize_advantage: bool
    ent_coef: float
    use_sde: bool
    sde_sample_freq: int
    target_kl: float | None
    cg_max_steps: int | None
    cg_damping: float | None
    line_search_shrinking_factor: float | None
    line_search_max_iter: int | None
    n_critic_updates: int | None
    sub_sampling_factor: int | None
    sum_kl: bool | None
    n_epochs: int | None
    clip_range: ScheduleLike | None
    clip_range_vf: ScheduleLike | None
    vf_coef: float | None
    max_grad_norm: float | None
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        expert_dataset: Any = None,
        hidden_size_adversary: int = 100,
        adversary_entcoeff: float = 0.001,
        g_step: int = 3,
        d_step: int = 1,
        d_stepsize: float = 0.0003,
        learner: str = "trpo",
        learning_rate: ScheduleLike | None = None,
        n_steps: int = 2048,
        batch_size: int | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        target_kl: float | None = None,
        cg_max_steps: int | None = None,
        cg_damping: float | None = None,
        line_search_shrinking_factor: float | None = None,
        line_search_max_iter: int | None = None,
        n_critic_updates: int | None = None,
        sub_sampling_factor: int | None = None,
        sum_kl: bool | None = None,
        n_epochs: int | None = None,
        clip_range: ScheduleLike | None = None,
        clip_range_vf: ScheduleLike | None = None,
        vf_coef: float | None = None,
        max_grad_norm: float | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class MaskablePPO(_MaskablePPO):
    """PPO for Discrete, MultiDiscrete and MultiBinary actions of which some are invalid.

    The environment says which are valid: by a method `action_masks() -> bool [n_choices]`, which an
    `ActionMasker` gives it where it lacks one.

    Example:
        >>> from rlzoo import InvalidActionEnvDiscrete, MaskablePPO
        >>> env = InvalidActionEnvDiscrete(dim=80, n_invalid_actions=60)
        >>> model = MaskablePPO("MlpPolicy", env).learn(10_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.0003): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable
        batch_size (int = 64): minibatch size, in transitions of the rollout;
            should divide n_steps * n_envs; larger minibatches give fewer and
            less noisy gradient steps
        n_epochs (int = 10): passes over each rollout; more passes use each
            transition more often, but move the policy further from the one that
            collected it
        max_grad_norm (float = 0.5): upper bound on the L2 norm of the gradient;
            lower it if losses spike

        # rollout
        n_steps (int = 2048): steps per environment in each rollout, which holds
            n_steps * n_envs transitions; longer rollouts give less biased
            returns and fewer updates

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        gae_lambda (float = 0.95): lambda of generalised advantage estimation
            (Schulman et al. 2016, https://arxiv.org/abs/1506.02438), in [0, 1];
            higher: less bias, more variance; 1: n-step returns
        normalize_advantage (bool = True): scale the advantages of each batch to
            mean 0 and standard deviation 1

        # losses
        clip_range (ScheduleLike = 0.2): clipping range of the probability ratio
            (epsilon of eq. 7), a number or a schedule; lower it for smaller
            policy updates
        clip_range_vf (ScheduleLike | None = None): clipping range of the value
            function around its old values, in units of the return; None: no
            clipping
        vf_coef (float = 0.5): weight of the value loss; matters most where
            policy and value function share layers

        # entropy
        ent_coef (float = 0.0): weight of the entropy bonus; raise it if the
            policy becomes deterministic too early

        # trust region
        target_kl (float | None = None): an update stops when the KL divergence
            from the old policy exceeds 1.5 times this; None: it never does

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
        rollout_buffer_class (type | None = None): class derived from
            RolloutBuffer; None: the one that suits the observations
        rollout_buffer_kwargs (dict[str, Any] | None = None): keyword arguments
            for the rollout buffer class
    """

    learning_rate: ScheduleLike
    n_steps: int
    batch_size: int
    n_epochs: int
    gamma: float
    gae_lambda: float
    clip_range: ScheduleLike
    clip_range_vf: ScheduleLike | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    target_kl: float | None
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0003,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: ScheduleLike = 0.2,
        clip_range_vf: ScheduleLike | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        target_kl: float | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class PPO(_PPO):
    """PPO for Box, Discrete, MultiDiscrete and MultiBinary actions.

    Example:
        >>> from rlzoo import PPO, make_vec_env
        >>> model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 8), n_steps=256).learn(100_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.0003): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable
        batch_size (int = 64): minibatch size, in transitions of the rollout;
            should divide n_steps * n_envs; larger minibatches give fewer and
            less noisy gradient steps
        n_epochs (int = 10): passes over each rollout; more passes use each
            transition more often, but move the policy further from the one that
            collected it
        max_grad_norm (float = 0.5): upper bound on the L2 norm of the gradient;
            lower it if losses spike

        # rollout
        n_steps (int = 2048): steps per environment in each rollout, which holds
            n_steps * n_envs transitions; longer rollouts give less biased
            returns and fewer updates

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        gae_lambda (float = 0.95): lambda of generalised advantage estimation
            (Schulman et al. 2016, https://arxiv.org/abs/1506.02438), in [0, 1];
            higher: less bias, more variance; 1: n-step returns
        normalize_advantage (bool = True): scale the advantages of each batch to
            mean 0 and standard deviation 1

        # losses
        clip_range (ScheduleLike = 0.2): clipping range of the probability ratio
            (epsilon of eq. 7), a number or a schedule; lower it for smaller
            policy updates
        clip_range_vf (ScheduleLike | None = None): clipping range of the value
            function around its old values, in units of the return; None: no
            clipping
        vf_coef (float = 0.5): weight of the value loss; matters most where
            policy and value function share layers

        # entropy
        ent_coef (float = 0.0): weight of the entropy bonus; raise it if the
            policy becomes deterministic too early

        # trust region
        target_kl (float | None = None): an update stops when the KL divergence
            from the old policy exceeds 1.5 times this; None: it never does

        # exploration
        use_sde (bool = False): explore with generalised state-dependent
            exploration (gSDE, Raffin et al. 2021,
            https://arxiv.org/abs/2005.05719), which is smoother than
            independent Gaussian noise; Box actions
        sde_sample_freq (int = -1): steps between two samples of the gSDE noise;
            -1: only at the beginning of each rollout

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
        rollout_buffer_class (type | None = None): class derived from
            RolloutBuffer; None: the one that suits the observations
        rollout_buffer_kwargs (dict[str, Any] | None = None): keyword arguments
            for the rollout buffer class
    """

    learning_rate: ScheduleLike
    n_steps: int
    batch_size: int
    n_epochs: int
    gamma: float
    gae_lambda: float
    clip_range: ScheduleLike
    clip_range_vf: ScheduleLike | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    use_sde: bool
    sde_sample_freq: int
    target_kl: float | None
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0003,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: ScheduleLike = 0.2,
        clip_range_vf: ScheduleLike | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        target_kl: float | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class QRDQN(_QRDQN):
    """QR-DQN for Discrete actions.

    Example:
        >>> from rlzoo import QRDQN
        >>> model = QRDQN("MlpPolicy", "CartPole-v1", policy_kwargs=dict(n_quantiles=25)).learn(50_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 5e-05): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable
        batch_size (int = 32): transitions sampled from the replay buffer per
            gradient step; larger batches give less noisy gradients and cost
            more time
        max_grad_norm (float | None = None): upper bound on the L2 norm of the
            gradient; lower it if losses spike; None: no clipping

        # replay buffer
        buffer_size (int = 1000000): replay buffer capacity, in transitions over
            all environments; the oldest are overwritten; lower it if memory is
            short
        learning_starts (int = 100): environment steps with uniformly random
            actions, over all environments, before the first gradient step
        train_freq (TrainFreq = 4): steps of each environment between two rounds
            of training, or (n, 'episode') for every n episodes
        gradient_steps (int = 1): gradient steps per round of training (every
            train_freq steps); -1: as many as environment steps collected; more
            are more sample-efficient and cost more time
        replay_buffer_class (type[ReplayBuffer] | None = None): replay buffer
            class, such as HerReplayBuffer; None: the one that suits
            observations and n_steps
        replay_buffer_kwargs (dict[str, object] | None = None): keyword
            arguments for the replay buffer class
        optimize_memory_usage (bool = False): accepted for compatibility with
            stable-baselines3, without effect: no observation is stored twice
        buffer_device (str = 'cpu'): device that stores observations and actions
            of the replay buffer; auto: that of the agent

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        n_steps (int = 1): rewards summed before the bootstrap value in the
            target (n-step returns); more propagate rewards faster, with a bias
            from older policies

        # target networks
        tau (float = 1.0): Polyak coefficient: target <- tau * online + (1 -
            tau) * target at each target update; lower is slower and more
            stable; 1 copies the network
        target_update_interval (int = 10000): environment steps, over all
            environments, between two updates of the target network; larger is
            slower and more stable

        # exploration
        exploration_fraction (float = 0.005): fraction of training over which
            the probability of random actions is annealed
        exploration_initial_eps (float = 1.0): initial probability of a random
            action (epsilon-greedy)
        exploration_final_eps (float = 0.01): final probability of a random
            action (epsilon-greedy)

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
    """

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    optimize_memory_usage: bool
    n_steps: int
    target_update_interval: int
    exploration_fraction: float
    exploration_initial_eps: float
    exploration_final_eps: float
    max_grad_norm: float | None
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 5e-05,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 4,
        gradient_steps: int = 1,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, object] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10000,
        exploration_fraction: float = 0.005,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        max_grad_norm: float | None = None,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class RecurrentPPO(_RecurrentPPO):
    """PPO of recurrent policies for Box, Discrete, MultiDiscrete and MultiBinary actions.

    Sizes of the LSTMs are keywords of the policy: `policy_kwargs=dict(lstm_hidden_size=64)`.

    Example:
        >>> from rlzoo import RecurrentPPO
        >>> model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1").learn(100_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.0003): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable
        batch_size (int = 128): minibatch size, in transitions of the rollout;
            should divide n_steps * n_envs; larger minibatches give fewer and
            less noisy gradient steps
        n_epochs (int = 10): passes over each rollout; more passes use each
            transition more often, but move the policy further from the one that
            collected it
        max_grad_norm (float = 0.5): upper bound on the L2 norm of the gradient;
            lower it if losses spike

        # rollout
        n_steps (int = 128): steps per environment in each rollout, which holds
            n_steps * n_envs transitions; longer rollouts give less biased
            returns and fewer updates

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        gae_lambda (float = 0.95): lambda of generalised advantage estimation
            (Schulman et al. 2016, https://arxiv.org/abs/1506.02438), in [0, 1];
            higher: less bias, more variance; 1: n-step returns
        normalize_advantage (bool = True): scale the advantages of each batch to
            mean 0 and standard deviation 1

        # losses
        clip_range (ScheduleLike = 0.2): clipping range of the probability ratio
            (epsilon of eq. 7), a number or a schedule; lower it for smaller
            policy updates
        clip_range_vf (ScheduleLike | None = None): clipping range of the value
            function around its old values, in units of the return; None: no
            clipping
        vf_coef (float = 0.5): weight of the value loss; matters most where
            policy and value function share layers

        # entropy
        ent_coef (float = 0.0): weight of the entropy bonus; raise it if the
            policy becomes deterministic too early

        # trust region
        target_kl (float | None = None): an update stops when the KL divergence
            from the old policy exceeds 1.5 times this; None: it never does

        # exploration
        use_sde (bool = False): explore with generalised state-dependent
            exploration (gSDE, Raffin et al. 2021,
            https://arxiv.org/abs/2005.05719), which is smoother than
            independent Gaussian noise; Box actions
        sde_sample_freq (int = -1): steps between two samples of the gSDE noise;
            -1: only at the beginning of each rollout

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
        rollout_buffer_class (type | None = None): class derived from
            RolloutBuffer; None: the one that suits the observations
        rollout_buffer_kwargs (dict[str, Any] | None = None): keyword arguments
            for the rollout buffer class
    """

    learning_rate: ScheduleLike
    n_steps: int
    batch_size: int
    n_epochs: int
    gamma: float
    gae_lambda: float
    clip_range: ScheduleLike
    clip_range_vf: ScheduleLike | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    use_sde: bool
    sde_sample_freq: int
    target_kl: float | None
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0003,
        n_steps: int = 128,
        batch_size: int = 128,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: ScheduleLike = 0.2,
        clip_range_vf: ScheduleLike | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        target_kl: float | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class SAC(_SAC):
    """SAC for Box actions.

    Example:
        >>> from rlzoo import SAC
        >>> model = SAC("MlpPolicy", "Pendulum-v1", ent_coef="auto_0.1").learn(10_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.0003): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable; the same for actor, critics and entropy coefficient
        batch_size (int = 256): transitions sampled from the replay buffer per
            gradient step; larger batches give less noisy gradients and cost
            more time
        policy_delay (int = 1): critic updates per actor update; a larger delay
            trains the actor on more accurate critics

        # replay buffer
        buffer_size (int = 1000000): replay buffer capacity, in transitions over
            all environments; the oldest are overwritten; lower it if memory is
            short
        learning_starts (int = 100): environment steps with uniformly random
            actions, over all environments, before the first gradient step
        train_freq (TrainFreq = 1): steps of each environment between two rounds
            of training, or (n, 'episode') for every n episodes
        gradient_steps (int = 1): gradient steps per round of training (every
            train_freq steps); -1: as many as environment steps collected; more
            are more sample-efficient and cost more time
        replay_buffer_class (type[ReplayBuffer] | None = None): replay buffer
            class, such as HerReplayBuffer; None: the one that suits
            observations and n_steps
        replay_buffer_kwargs (dict[str, object] | None = None): keyword
            arguments for the replay buffer class
        optimize_memory_usage (bool = False): accepted for compatibility with
            stable-baselines3, without effect: no observation is stored twice
        buffer_device (str = 'cpu'): device that stores observations and actions
            of the replay buffer; auto: that of the agent

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        n_steps (int = 1): rewards summed before the bootstrap value in the
            target (n-step returns); more propagate rewards faster, with a bias
            from older policies

        # entropy
        ent_coef (float | str = 'auto'): entropy coefficient (temperature
            alpha): a number, 'auto' to learn it so that the entropy meets
            target_entropy, or 'auto_0.1' to learn it from 0.1 on; higher
            explores more
        target_entropy (float | str = 'auto'): entropy in nats that a learned
            ent_coef aims at; 'auto': minus the number of action dimensions

        # critics
        n_target_critics (int | None = None): target critics sampled for each
            target (REDQ, Chen et al. 2021, https://arxiv.org/abs/2101.05982);
            the actor then maximises the mean of all critics instead of their
            minimum; None: all

        # target networks
        tau (float = 0.005): Polyak coefficient: target <- tau * online + (1 -
            tau) * target at each target update; lower is slower and more stable
        target_update_interval (int = 1): gradient steps between two updates of
            the target networks

        # exploration
        action_noise (ActionNoise | None = None): ActionNoise, such as
            NormalActionNoise, added to actions in [-1, 1] while collecting;
            None: no noise
        use_sde (bool = False): explore with generalised state-dependent
            exploration (gSDE, Raffin et al. 2021,
            https://arxiv.org/abs/2005.05719), which is smoother than
            independent Gaussian noise; Box actions
        sde_sample_freq (int = -1): steps between two samples of the gSDE noise;
            -1: only at the beginning of each rollout
        use_sde_at_warmup (bool = False): explore with gSDE before
            learning_starts, instead of uniformly
        random_exploration (float = 0.0): probability of a uniformly random
            action while collecting

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
    """

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    action_noise: ActionNoise | None
    optimize_memory_usage: bool
    n_steps: int
    ent_coef: float | str
    target_update_interval: int
    use_sde: bool
    sde_sample_freq: int
    use_sde_at_warmup: bool
    random_exploration: float
    policy_delay: int
    n_target_critics: int | None
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0003,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, object] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: float | str = "auto",
        target_update_interval: int = 1,
        target_entropy: float | str = "auto",
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        use_sde_at_warmup: bool = False,
        random_exploration: float = 0.0,
        policy_delay: int = 1,
        n_target_critics: int | None = None,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class TD3(_TD3):
    """TD3 for Box actions.

    Example:
        >>> from rlzoo import TD3, NormalActionNoise
        >>> noise = NormalActionNoise([0.0], [0.1])
        >>> model = TD3("MlpPolicy", "Pendulum-v1", action_noise=noise).learn(10_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.001): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable; the same for actor and critics
        batch_size (int = 256): transitions sampled from the replay buffer per
            gradient step; larger batches give less noisy gradients and cost
            more time
        policy_delay (int = 2): critic updates per update of actor and target
            networks; a larger delay trains the actor on more accurate critics

        # replay buffer
        buffer_size (int = 1000000): replay buffer capacity, in transitions over
            all environments; the oldest are overwritten; lower it if memory is
            short
        learning_starts (int = 100): environment steps with uniformly random
            actions, over all environments, before the first gradient step
        train_freq (TrainFreq = 1): steps of each environment between two rounds
            of training, or (n, 'episode') for every n episodes
        gradient_steps (int = 1): gradient steps per round of training (every
            train_freq steps); -1: as many as environment steps collected; more
            are more sample-efficient and cost more time
        replay_buffer_class (type[ReplayBuffer] | None = None): replay buffer
            class, such as HerReplayBuffer; None: the one that suits
            observations and n_steps
        replay_buffer_kwargs (dict[str, object] | None = None): keyword
            arguments for the replay buffer class
        optimize_memory_usage (bool = False): accepted for compatibility with
            stable-baselines3, without effect: no observation is stored twice
        buffer_device (str = 'cpu'): device that stores observations and actions
            of the replay buffer; auto: that of the agent

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        n_steps (int = 1): rewards summed before the bootstrap value in the
            target (n-step returns); more propagate rewards faster, with a bias
            from older policies

        # target networks
        tau (float = 0.005): Polyak coefficient: target <- tau * online + (1 -
            tau) * target at each target update; lower is slower and more stable
        target_policy_noise (float = 0.2): sigma, standard deviation of the
            noise on target actions in [-1, 1]; higher smooths the Q-function
            more
        target_noise_clip (float = 0.5): c, upper bound on the magnitude of the
            noise on target actions

        # exploration
        action_noise (ActionNoise | None = None): ActionNoise, such as
            NormalActionNoise, added to actions in [-1, 1] while collecting;
            None: no noise
        random_exploration (float = 0.0): probability of a uniformly random
            action while collecting

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
    """

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    action_noise: ActionNoise | None
    optimize_memory_usage: bool
    n_steps: int
    policy_delay: int
    target_policy_noise: float
    target_noise_clip: float
    random_exploration: float
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, object] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        policy_delay: int = 2,
        target_policy_noise: float = 0.2,
        target_noise_clip: float = 0.5,
        random_exploration: float = 0.0,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class TQC(_TQC):
    """TQC for Box actions.

    Example:
        >>> from rlzoo import TQC
        >>> model = TQC("MlpPolicy", "Pendulum-v1", top_quantiles_to_drop_per_net=2).learn(10_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.0003): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable; the same for actor, critics and entropy coefficient
        batch_size (int = 256): transitions sampled from the replay buffer per
            gradient step; larger batches give less noisy gradients and cost
            more time

        # replay buffer
        buffer_size (int = 1000000): replay buffer capacity, in transitions over
            all environments; the oldest are overwritten; lower it if memory is
            short
        learning_starts (int = 100): environment steps with uniformly random
            actions, over all environments, before the first gradient step
        train_freq (TrainFreq = 1): steps of each environment between two rounds
            of training, or (n, 'episode') for every n episodes
        gradient_steps (int = 1): gradient steps per round of training (every
            train_freq steps); -1: as many as environment steps collected; more
            are more sample-efficient and cost more time
        replay_buffer_class (type[ReplayBuffer] | None = None): replay buffer
            class, such as HerReplayBuffer; None: the one that suits
            observations and n_steps
        replay_buffer_kwargs (dict[str, object] | None = None): keyword
            arguments for the replay buffer class
        optimize_memory_usage (bool = False): accepted for compatibility with
            stable-baselines3, without effect: no observation is stored twice
        buffer_device (str = 'cpu'): device that stores observations and actions
            of the replay buffer; auto: that of the agent

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        n_steps (int = 1): rewards summed before the bootstrap value in the
            target (n-step returns); more propagate rewards faster, with a bias
            from older policies

        # entropy
        ent_coef (float | str = 'auto'): entropy coefficient (temperature
            alpha): a number, 'auto' to learn it so that the entropy meets
            target_entropy, or 'auto_0.1' to learn it from 0.1 on; higher
            explores more
        target_entropy (float | str = 'auto'): entropy in nats that a learned
            ent_coef aims at; 'auto': minus the number of action dimensions

        # critics
        top_quantiles_to_drop_per_net (int = 2): d, the number of largest
            quantiles dropped per critic; raise it if values are overestimated

        # target networks
        tau (float = 0.005): Polyak coefficient: target <- tau * online + (1 -
            tau) * target at each target update; lower is slower and more stable
        target_update_interval (int = 1): gradient steps between two updates of
            the target networks

        # exploration
        action_noise (ActionNoise | None = None): ActionNoise, such as
            NormalActionNoise, added to actions in [-1, 1] while collecting;
            None: no noise
        use_sde (bool = False): explore with generalised state-dependent
            exploration (gSDE, Raffin et al. 2021,
            https://arxiv.org/abs/2005.05719), which is smoother than
            independent Gaussian noise; Box actions
        sde_sample_freq (int = -1): steps between two samples of the gSDE noise;
            -1: only at the beginning of each rollout
        use_sde_at_warmup (bool = False): explore with gSDE before
            learning_starts, instead of uniformly
        random_exploration (float = 0.0): probability of a uniformly random
            action while collecting

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
    """

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    action_noise: ActionNoise | None
    optimize_memory_usage: bool
    n_steps: int
    ent_coef: float | str
    target_update_interval: int
    top_quantiles_to_drop_per_net: int
    use_sde: bool
    sde_sample_freq: int
    use_sde_at_warmup: bool
    random_exploration: float
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0003,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, object] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: float | str = "auto",
        target_update_interval: int = 1,
        target_entropy: float | str = "auto",
        top_quantiles_to_drop_per_net: int = 2,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        use_sde_at_warmup: bool = False,
        random_exploration: float = 0.0,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class TRPO(_TRPO):
    """TRPO for Box, Discrete, MultiDiscrete and MultiBinary actions.

    Example:
        >>> from rlzoo import TRPO
        >>> model = TRPO("MlpPolicy", "CartPole-v1", target_kl=0.02).learn(100_000)

    Args:
        policy (str | type): policy name (MlpPolicy, CnnPolicy for images,
            MultiInputPolicy for Dict observations) or class
        env (Any): environment id, Gymnasium environment, VecEnv or
            gymnasium.vector.VectorEnv; None: set it later

        # optimisation
        learning_rate (ScheduleLike = 0.001): step size of the optimiser: a
            number, a schedule such as 'lin_3e-4' (linear decay to 0), or a
            function of the progress remaining (1 to 0); lower it if training is
            unstable; used for the value function only: the policy step follows
            from target_kl
        batch_size (int = 128): minibatch size, in transitions of the rollout;
            should divide n_steps * n_envs; larger minibatches give fewer and
            less noisy gradient steps; used for the value function only
        n_critic_updates (int = 10): passes of the value function over each
            rollout

        # rollout
        n_steps (int = 2048): steps per environment in each rollout, which holds
            n_steps * n_envs transitions; longer rollouts give less biased
            returns and fewer updates

        # returns and advantages
        gamma (float = 0.99): discount factor per step, in [0, 1]; the agent
            looks about 1 / (1 - gamma) steps ahead; lower it if values grow too
            large
        gae_lambda (float = 0.95): lambda of generalised advantage estimation
            (Schulman et al. 2016, https://arxiv.org/abs/1506.02438), in [0, 1];
            higher: less bias, more variance; 1: n-step returns
        normalize_advantage (bool = True): scale the advantages of each batch to
            mean 0 and standard deviation 1

        # entropy
        ent_coef (float = 0.0): weight of the entropy bonus; raise it if the
            policy becomes deterministic too early

        # trust region
        cg_max_steps (int = 15): iterations of the conjugate gradient method;
            more solve for the natural gradient more accurately
        cg_damping (float = 0.1): added to the diagonal of the Fisher matrix;
            raise it if line searches fail
        line_search_shrinking_factor (float = 0.8): factor by which the line
            search shortens a step that leaves the trust region
        line_search_max_iter (int = 10): step lengths that the line search tries
            before it leaves the policy unchanged
        target_kl (float = 0.01): radius of the trust region: upper bound on the
            KL divergence from the old policy (delta of the paper); lower it for
            smaller policy updates
        sub_sampling_factor (int = 1): the policy update uses one of this many
            transitions of the rollout; larger is faster and noisier
        sum_kl (bool = False): sum the KL divergence over action dimensions, as
            in the paper; False: average it, as in sb3-contrib

        # exploration
        use_sde (bool = False): explore with generalised state-dependent
            exploration (gSDE, Raffin et al. 2021,
            https://arxiv.org/abs/2005.05719), which is smoother than
            independent Gaussian noise; Box actions
        sde_sample_freq (int = -1): steps between two samples of the gSDE noise;
            -1: only at the beginning of each rollout

        # agent
        policy_kwargs (dict[str, Any] | None = None): keyword arguments of the
            policy, such as dict(net_arch=[64, 64])
        stats_window_size (int = 100): episodes that rollout/ep_rew_mean
            averages over
        tensorboard_log (str | None = None): folder for TensorBoard event files;
            None: none
        verbose (int = 0): 0: silent, 1: tables of metrics, 2: debug messages
        seed (int | None = None): seed of Python, NumPy, PyTorch, the
            environments and their action spaces
        device (torch.device | str = 'auto'): 'auto' (CUDA if available), 'cpu',
            'cuda' or a torch.device
        rollout_buffer_class (type | None = None): class derived from
            RolloutBuffer; None: the one that suits the observations
        rollout_buffer_kwargs (dict[str, Any] | None = None): keyword arguments
            for the rollout buffer class
    """

    learning_rate: ScheduleLike
    n_steps: int
    batch_size: int
    gamma: float
    cg_max_steps: int
    cg_damping: float
    line_search_shrinking_factor: float
    line_search_max_iter: int
    n_critic_updates: int
    gae_lambda: float
    use_sde: bool
    sde_sample_freq: int
    normalize_advantage: bool
    target_kl: float
    sub_sampling_factor: int
    ent_coef: float
    sum_kl: bool
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.001,
        n_steps: int = 2048,
        batch_size: int = 128,
        gamma: float = 0.99,
        cg_max_steps: int = 15,
        cg_damping: float = 0.1,
        line_search_shrinking_factor: float = 0.8,
        line_search_max_iter: int = 10,
        n_critic_updates: int = 10,
        gae_lambda: float = 0.95,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        normalize_advantage: bool = True,
        target_kl: float = 0.01,
        sub_sampling_factor: int = 1,
        ent_coef: float = 0.0,
        sum_kl: bool = False,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...
