#include <array>

#include "config/deepspeed_keys.h"

namespace zero::config {

namespace {

using Key = DeepSpeedKey;
using Kind = DeepSpeedKey::Kind;

// Whatever it says, results are the same.
constexpr Key ignored(std::string_view name, Kind kind) {
  return {.name = name, .kind = kind};
}

// Any other value would promise what libzero does not do.
constexpr Key only(std::string_view name, Kind kind, std::string_view off) {
  return {.name = name, .kind = kind, .off = off};
}

constexpr Key switched(
    std::string_view name,
    std::string_view others,
    std::string_view switch_name = "enabled",
    std::string_view off = "false") {
  return {
      .name = name,
      .kind = Kind::switched,
      .off = off,
      .switch_name = switch_name,
      .others = others};
}

constexpr Key group(std::string_view name, std::span<const Key> keys) {
  return {.name = name, .kind = Kind::group, .keys = keys};
}

constexpr Key removed(
    std::string_view name,
    std::string_view fix = "remove it") {
  return {.name = name, .kind = Kind::removed, .fix = fix};
}

constexpr Key misplaced(std::string_view name, std::string_view fix) {
  return {.name = name, .kind = Kind::misplaced, .fix = fix};
}

constexpr std::string_view kFloat32 = "fp32 float32 float torch.float32";

constexpr std::array kDataTypes{
    only("grad_accum_dtype", Kind::text, kFloat32),
    only("param_dtype", Kind::text, kFloat32),
    only("buffer_dtype", Kind::text, kFloat32),
    ignored("keep_in_fp32_modules", Kind::texts),
};

constexpr std::array kActivationCheckpointing{
    only("partition_activations", Kind::boolean, "false"),
    only("contiguous_memory_optimization", Kind::boolean, "false"),
    only("cpu_checkpointing", Kind::boolean, "false"),
    ignored("number_checkpoints", Kind::count),
    ignored("synchronize_checkpoint_boundary", Kind::boolean),
    ignored("profile", Kind::boolean),
};

constexpr std::array kParallelWrite{
    only("pipeline_stage", Kind::boolean, "false"),
};

constexpr std::array kCheckpoint{
    only("tag_validation", Kind::text, "Warn Ignore"),
    only("load_universal", Kind::boolean, "false"),
    only("use_node_local_storage", Kind::boolean, "false"),
    group("parallel_write", kParallelWrite),
    ignored("checkpoint_serialization", Kind::boolean),
    only("writer", Kind::anything, "null"),
};

// Only for offloading to NVMe, which is refused.
constexpr std::array kAio{
    ignored("block_size", Kind::count),
    ignored("queue_depth", Kind::count),
    ignored("intra_op_parallelism", Kind::count),
    ignored("single_submit", Kind::boolean),
    ignored("overlap_events", Kind::boolean),
    ignored("use_gds", Kind::boolean),
};

constexpr std::array kThroughput{
    ignored("enabled", Kind::boolean),
    ignored("synchronized", Kind::boolean),
};

constexpr std::array kTimers{
    group("throughput", kThroughput),
};

constexpr std::array kTensorParallelSize{
    only("tp_size", Kind::integer, "1"),
    ignored("tp_grain_size", Kind::integer),
    only("mpu", Kind::anything, "null"),
    only("tp_group", Kind::anything, "null"),
};

constexpr std::array kTensorParallel{
    only("autotp_size", Kind::integer, "0 1"),
    group("tp", kTensorParallelSize),
    group("tensor_parallel", kTensorParallelSize),
    ignored("dtype", Kind::text),
    ignored("tp_overlap_comm", Kind::boolean),
    ignored("vocab_parallel_ce_backend", Kind::text),
    only("vocab_parallel_lm_head", Kind::boolean, "false"),
    only("injection_policy_tuple", Kind::anything, "null"),
    only("partition_config", Kind::anything, "null"),
    only("preset_model", Kind::anything, "null"),
    ignored("keep_module_on_host", Kind::boolean),
    only("replace_with_kernel_inject", Kind::boolean, "false"),
    only("kernel_inject", Kind::boolean, "false"),
};

// Of models made of pipeline stages, which one stage is not.
constexpr std::array kPipeline{
    only("stages", Kind::integer, "1"),
    ignored("partition", Kind::text),
    only("seed_layers", Kind::boolean, "false"),
    only("activation_checkpoint_interval", Kind::integer, "0"),
    ignored("pipe_partitioned", Kind::boolean),
    ignored("grad_partitioned", Kind::boolean),
};

constexpr std::string_view kRemoveOrBatchSizes =
    "remove it, and set train_batch_size, train_micro_batch_size_per_gpu or "
    "gradient_accumulation_steps";

constexpr std::array kTopLevel{
    ignored("wall_clock_breakdown", Kind::boolean),
    ignored("memory_breakdown", Kind::boolean),
    ignored("dump_state", Kind::boolean),
    ignored("log_level", Kind::text),
    ignored("disable_python_gc", Kind::boolean),
    ignored("disable_allgather", Kind::boolean), // DeepSpeed ignores it too
    ignored("allgather_size", Kind::count),
    ignored("vocabulary_size", Kind::count),
    ignored("zero_allow_untested_optimizer", Kind::boolean),
    ignored("zero_force_ds_cpu_optimizer", Kind::boolean),
    group("timers", kTimers),
    group("aio", kAio),

    only("managed_gradient_accumulation", Kind::boolean, "true"),
    only("communication_data_type", Kind::text, "fp32"),
    only("seq_parallel_communication_data_type", Kind::text, "fp32"),
    only("gradient_allreduce_op", Kind::text, "mean"),
    only("dataloader_drop_last", Kind::boolean, "false"),
    only("use_data_before_expert_parallelism", Kind::boolean, "false"),
    only("sequence_parallel_size", Kind::integer, "1"),
    only("datastates_ckpt", Kind::anything, "false"),
    group("data_types", kDataTypes),
    group("activation_checkpointing", kActivationCheckpointing),
    group("checkpoint", kCheckpoint),
    group("tensor_parallel", kTensorParallel),
    group("pipeline", kPipeline),

    switched(
        "fp16",
        "auto_cast loss_scale initial_scale_power loss_scale_window hysteresis "
        "consecutive_hysteresis min_loss_scale fp16_master_weights_and_grads"),
    switched(
        "bf16",
        "immediate_grad_update check_grad_overflow "
        "bf16_master_weights_and_grads bf16_optimizer_states"),
    switched(
        "bfloat16",
        "immediate_grad_update check_grad_overflow "
        "bf16_master_weights_and_grads bf16_optimizer_states"),
    switched("torch_autocast", "dtype lower_precision_safe_modules"),
    switched("tensorboard", "output_path job_name"),
    switched("csv_monitor", "output_path job_name"),
    switched("wandb", "group team project"),
    switched(
        "comet",
        "samples_log_interval project workspace api_key experiment_name "
        "experiment_key online mode"),
    switched("comms_logger", "verbose prof_all debug prof_ops"),
    switched(
        "flops_profiler",
        "recompute_fwd_factor profile_step module_depth top_modules detailed "
        "output_file"),
    switched(
        "hybrid_engine",
        "max_out_tokens inference_tp_size release_inference_cache "
        "pin_parameters tp_gather_partition_size enable_cuda_graph"),
    switched("data_efficiency", "seed data_sampling data_routing"),
    switched(
        "autotuning",
        "fast results_dir exps_dir overwrite start_profile_step "
        "end_profile_step metric metric_path tuner_type tuner_early_stopping "
        "tuner_num_trials arg_mappings model_info model_info_path mp_size "
        "max_train_batch_size min_train_batch_size "
        "max_train_micro_batch_size_per_gpu min_train_micro_batch_size_per_gpu "
        "num_tuning_micro_batch_sizes"),
    switched(
        "expert_parallel",
        "autoep_size expert_tensor_parallel_size validate_folding_routing "
        "async_split_plan preset_model moe_layer_pattern expert_pattern "
        "router_pattern use_grouped_mm disable_triton_grouped_mm route_norm "
        "route_scale score_apply combine_impl row_weighting_impl gate_up_impl "
        "comm_backend comm_num_sm comm_qp_margin comm_max_tokens_per_rank "
        "num_expert_groups num_limited_groups score_func top_k "
        "load_balance_coeff routed_scaling_factor expert_w1 expert_w2 "
        "expert_w3 num_experts_attr top_k_attr has_shared_experts "
        "shared_experts_pattern shared_experts_gate_pattern "
        "expert_activation"),
    switched(
        "compile",
        "autoep_non_moe free_activation free_activation_threshold "
        "offload_activation offload_activation_pin_memory offload_opt_states "
        "double_buffer symmetric_memory debug_log offload_parameters "
        "sync_before_reduce sync_after_reduce sync_before_allgather "
        "sync_after_allgather keep_int_input_tensors keep_all_input_tensors "
        "passes",
        "deepcompile"),
    Key{.name = "weight_quantization",
        .kind = Kind::switched,
        .off = "false",
        .switch_name = "enabled",
        .is_on_by_default = true,
        .others = "num_bits q_type q_groups quantized_initialization "
                  "post_init_quant"},

    removed("nebula"),
    removed("compression_training"),
    removed("amp"),
    removed("quantize_training"),
    removed("sparse_gradients"),
    removed("eigenvalue"),
    removed("sparse_attention"),
    removed("elasticity", kRemoveOrBatchSizes),
    removed("graph_harvesting"),
    removed("curriculum_learning"),
    removed("progressive_layer_drop"),
};

constexpr std::array kLeafModule{
    ignored("classes", Kind::texts),
    ignored("names", Kind::texts),
    ignored("name_suffixes", Kind::texts),
};

constexpr std::array kZeroOptimization{
    ignored("contiguous_gradients", Kind::boolean),
    ignored("reduce_scatter", Kind::boolean),
    ignored("use_multi_rank_bucket_allreduce", Kind::boolean),
    ignored("allgather_partitions", Kind::boolean),
    ignored("allgather_bucket_size", Kind::count),
    ignored("compute_grad_norm", Kind::boolean),
    ignored("load_from_fp32_weights", Kind::boolean),
    ignored("elastic_checkpoint", Kind::boolean),
    ignored("sub_group_size", Kind::count),
    ignored("cpu_offload_use_pin_memory", Kind::boolean),
    ignored("stage3_max_reuse_distance", Kind::count),
    ignored("max_reuse_distance", Kind::count),
    ignored("stage3_model_persistence_threshold", Kind::count),
    ignored("model_persistence_threshold", Kind::count),
    ignored("stage3_gather_16bit_weights_on_model_save", Kind::boolean),
    ignored("gather_16bit_weights_on_model_save", Kind::boolean),
    ignored("stage3_gather_fp16_weights_on_model_save", Kind::boolean),
    ignored("stage3_module_granularity_threshold", Kind::integer),
    ignored("module_granularity_threshold", Kind::integer),
    ignored("stage3_use_all_reduce_for_fetch_params", Kind::boolean),
    ignored("use_all_reduce_for_fetch_params", Kind::boolean),
    ignored("stage3_allgather_sequential", Kind::boolean),
    ignored("allgather_sequential", Kind::boolean),
    ignored("round_robin_gradients", Kind::boolean),
    ignored("parameter_alignment", Kind::boolean),
    ignored("memory_efficient_linear", Kind::boolean),
    ignored("pipeline_loading_checkpoint", Kind::boolean),
    ignored("override_module_apply", Kind::boolean),
    ignored("log_trace_cache_warnings", Kind::boolean),
    ignored("enable_sanity_checks", Kind::boolean),
    ignored("save_muon_momentum_buffer_in_memory", Kind::boolean),
    group("leaf_module", kLeafModule),

    only("cpu_offload", Kind::boolean, "false"),
    only("cpu_offload_param", Kind::boolean, "false"),
    only("legacy_stage1", Kind::boolean, "false"),
    only("zero_hpz_partition_size", Kind::integer, "1 0"),
    only("zero_quantized_weights", Kind::boolean, "false"),
    only("zero_quantized_nontrainable_weights", Kind::boolean, "false"),
    only("zero_quantized_gradients", Kind::boolean, "false"),
    only("zenflow", Kind::anything, "null"),
    switched(
        "offload_param",
        "nvme_path buffer_count buffer_size max_in_cpu pin_memory",
        "device",
        "none"),
    switched(
        "offload_optimizer",
        "nvme_path buffer_count pin_memory pipeline_read pipeline_write "
        "fast_init ratio super_offload cpuadam_cores_perc",
        "device",
        "none"),

    removed("mics_shard_size"),
    removed("mics_hierarchical_params_gather"),
    removed("zeropp_loco_param"),
};

constexpr std::array kOptimizer{
    ignored("legacy_fusion", Kind::boolean),
};

constexpr std::string_view kClipAtTheTop =
    "remove it, and set gradient_clipping at the top level";

constexpr std::array kAdam{
    ignored("foreach", Kind::boolean),
    ignored("fused", Kind::boolean),
    ignored("capturable", Kind::boolean),
    ignored("set_grad_none", Kind::boolean),
    only("amsgrad", Kind::boolean, "false"),
    only("maximize", Kind::boolean, "false"),
    only("differentiable", Kind::boolean, "false"),
    only("fp32_optimizer_states", Kind::boolean, "true"),
    misplaced("max_grad_norm", kClipAtTheTop),
    misplaced("decoupled_weight_decay", "set adam_w_mode instead"),
};

constexpr std::array kSgd{
    ignored("foreach", Kind::boolean),
    ignored("fused", Kind::boolean),
    only("maximize", Kind::boolean, "false"),
    only("differentiable", Kind::boolean, "false"),
    misplaced("max_grad_norm", kClipAtTheTop),
};

constexpr std::array kScheduler{
    only("last_batch_iteration", Kind::integer, "-1"),
};

} // namespace

std::span<const DeepSpeedKey> top_level_keys() {
  return kTopLevel;
}

std::span<const DeepSpeedKey> zero_optimization_keys() {
  return kZeroOptimization;
}

std::span<const DeepSpeedKey> optimizer_keys() {
  return kOptimizer;
}

std::span<const DeepSpeedKey> adam_keys() {
  return kAdam;
}

std::span<const DeepSpeedKey> sgd_keys() {
  return kSgd;
}

std::span<const DeepSpeedKey> scheduler_keys() {
  return kScheduler;
}

} // namespace zero::config
