// How an engine goes on from a checkpoint.
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <zero/engine.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/background_saver.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/random_state.h"
#include "checkpoint/remember_saved.h"
#include "checkpoint/vote.h"
#include "engine/succession.h"

namespace zero {

using checkpoint::CheckpointReader;
using checkpoint::Manifest;
using checkpoint::SavedParameter;
using engine::EngineState;
using shard::Parameter;
using shard::Partition;

namespace {

constexpr size_t kMaxMistakes = 20;

// Which saved parameter each of the engine's is.
class Correspondence {
 public:
  // Throws: ConfigError naming all that does not fit.
  Correspondence(
      const Manifest& manifest,
      const EngineState& state,
      const LoadOptions& options) {
    for (const auto& saved : manifest.parameters) {
      for (const auto& name : saved.names) {
        by_name_[name] = &saved;
      }
    }
    std::vector<std::string> mistakes;
    std::set<const SavedParameter*> used;
    for (const auto& partition : state.partitions()) {
      for (const auto& parameter : partition->parameters()) {
        const auto* saved = find(parameter);
        used.insert(saved);
        if (saved == nullptr) {
          mistakes.push_back(
              c10::str("'", parameter.name(), "' is not in the checkpoint"));
        } else {
          check(*saved, parameter, mistakes);
        }
      }
    }
    for (const auto& saved : manifest.parameters) {
      if (!used.contains(&saved)) {
        mistakes.push_back(c10::str(
            "'",
            saved.names.front(),
            "' of the checkpoint is not in the module"));
      }
    }
    check_buffers(manifest, state, mistakes);
    if (!options.weights_only) {
      check_optimizer(manifest, state, mistakes);
    }
    throw_if_any(mistakes);
  }

  const SavedParameter& saved(const Parameter& parameter) const {
    return *find(parameter);
  }

 private:
  const SavedParameter* find(const Parameter& parameter) const {
    for (const auto& name : parameter.names) {
      if (const auto found = by_name_.find(name); found != by_name_.end()) {
        return found->second;
      }
    }
    return nullptr;
  }

  static void check(
      const SavedParameter& saved,
      const Parameter& parameter,
      std::vector<std::string>& mistakes) {
    const auto& tensor = parameter.tensor;
    if (tensor.sizes() != saved.sizes || tensor.scalar_type() != saved.dtype) {
      mistakes.push_back(c10::str(
          "'",
          parameter.name(),
          "' has sizes ",
          tensor.sizes(),
          " and type ",
          tensor.scalar_type(),
          ", in the checkpoint ",
          at::IntArrayRef(saved.sizes),
          " and ",
          saved.dtype));
    } else if (tensor.numel() > 0 && tensor.strides() != saved.strides) {
      mistakes.push_back(c10::str(
          "'",
          parameter.name(),
          "' has strides ",
          tensor.strides(),
          ", in the checkpoint ",
          at::IntArrayRef(saved.strides)));
    }
  }

  static void check_buffers(
      const Manifest& manifest,
      const EngineState& state,
      std::vector<std::string>& mistakes) {
    const auto buffers = state.buffers();
    for (const auto& saved : manifest.buffers) {
      const bool fits = std::ranges::any_of(buffers, [&](const auto& buffer) {
        return buffer.name() == saved.name &&
            buffer.tensor.sizes() == saved.sizes &&
            buffer.tensor.scalar_type() == saved.dtype;
      });
      if (!fits) {
        mistakes.push_back(c10::str(
            "buffer '",
            saved.name,
            "' of the checkpoint, with sizes ",
            at::IntArrayRef(saved.sizes),
            " and type ",
            saved.dtype,
            ", is not in the module"));
      }
    }
    if (manifest.buffers.size() < buffers.size()) {
      mistakes.push_back(c10::str(
          "the module has ",
          buffers.size(),
          " buffers, the checkpoint ",
          manifest.buffers.size()));
    }
  }

  static void check_optimizer(
      const Manifest& manifest,
      const EngineState& state,
      std::vector<std::string>& mistakes) {
    const std::string name = checkpoint::optimizer_name(state);
    if (manifest.optimizer != name ||
        manifest.num_states != state.num_states()) {
      mistakes.push_back(c10::str(
          "the optimizer is ",
          name,
          " with ",
          state.num_states(),
          " tensors of state, in the checkpoint ",
          manifest.optimizer,
          " with ",
          manifest.num_states,
          "; LoadOptions::weights_only begins with a new one"));
    }
  }

  static void throw_if_any(const std::vector<std::string>& mistakes) {
    if (mistakes.empty()) {
      return;
    }
    std::string list;
    for (size_t i = 0; i < mistakes.size() && i < kMaxMistakes; ++i) {
      list += "\n  " + mistakes[i];
    }
    if (mistakes.size() > kMaxMistakes) {
      list += c10::str("\n  and ", mistakes.size() - kMaxMistakes, " more");
    }
    throw ConfigError(c10::str(
        "the checkpoint does not fit:",
        list,
        "\nFix: build the module as it was when it was saved"));
  }

  std::map<std::string, const SavedParameter*> by_name_;
};

// Reads what a rank needs of one checkpoint.
class Loader {
 public:
  Loader(
      EngineState& state,
      const std::string& path,
      const LoadOptions& options)
      : state_(state),
        options_(options),
        reader_(path),
        saved_(reader_.manifest(), state, options) {}

  const Manifest& manifest() const {
    return reader_.manifest();
  }

  // Collective.
  void restore() {
    state_.restore(
        {.own_slices =
             [this] {
               read_own_slices();
               random_state_ = reader_.random_state(state_.rank());
             },
         .frozen =
             [this](const Parameter& parameter, std::byte* to) {
               reader_.read(
                   checkpoint::parameter_key(
                       saved_.saved(parameter).names.front()),
                   {0, parameter.tensor.numel()},
                   to);
             },
         .buffers = [this] { read_buffers(); }});
  }

  // When it is known to be whole on all ranks.
  void restore_progress() {
    for (const auto& partition : state_.partitions()) {
      for (int i = 0;
           partition->trainable() && i < partition->layout().num_parameters();
           ++i) {
        const auto& saved = saved_.saved(partition->parameter(i));
        state_.set_num_updates(
            *partition, i, options_.weights_only ? 0 : saved.updates);
      }
    }
    if (options_.weights_only) {
      state_.set_progress(0);
      return;
    }
    state_.set_progress(manifest().step);
    const auto& rates = manifest().set_rates;
    if (static_cast<int>(rates.size()) == state_.groups().num_groups()) {
      for (size_t group = 0; group < rates.size(); ++group) {
        if (rates[group]) {
          state_.groups().set_lr(static_cast<int>(group), *rates[group]);
        }
      }
    }
    // A rank that was not there goes on with the numbers it has.
    checkpoint::set_random_state(random_state_);
  }

 private:
  // One kind of tensor after the other, as they lie in the files.
  void read_own_slices() {
    for (const auto& partition : state_.partitions()) {
      if (partition->trainable()) {
        for (int which = -1; which < state_.num_states(); ++which) {
          read_own_slices(*partition, which);
        }
      }
    }
  }

  void read_own_slices(const Partition& partition, int which) {
    const auto& layout = partition.layout();
    for (const auto& slice : partition.updated_slices(state_.rank())) {
      for (int number = layout.first_parameter(slice.range);
           number < layout.num_parameters() &&
           layout.parameter(number).begin < slice.range.end;
           ++number) {
        const auto whole = layout.parameter(number);
        const auto part = shard::intersection(whole, slice.range);
        if (!part.empty()) {
          const int64_t in_shard =
              slice.shard_offset + part.begin - slice.range.begin;
          read_part(
              partition,
              number,
              which,
              {part.begin - whole.begin, part.end - whole.begin},
              which < 0
                  ? partition.parameter_at(state_.rank(), part.begin, in_shard)
                  : partition.state_at(
                        state_.rank(), which, part.begin, in_shard));
        }
      }
    }
  }

  // What has no saved state begins as a new one does.
  void read_part(
      const Partition& partition,
      int number,
      int which,
      checkpoint::ElementRange range,
      std::byte* to) {
    const auto& saved = saved_.saved(partition.parameter(number));
    const std::string& name = saved.names.front();
    if (which < 0) {
      reader_.read(checkpoint::parameter_key(name), range, to);
    } else if (saved.trained && !options_.weights_only) {
      reader_.read(checkpoint::state_key(which, name), range, to);
    } else {
      std::memset(
          to,
          0,
          static_cast<size_t>(range.numel() * partition.state_element_bytes()));
    }
  }

  void read_buffers() {
    for (const auto& buffer : state_.buffers()) {
      if (buffer.tensor.numel() > 0) {
        buffer.tensor.copy_(
            reader_.read_whole(checkpoint::buffer_key(buffer.name())));
      }
    }
  }

  EngineState& state_;
  LoadOptions options_;
  CheckpointReader reader_;
  Correspondence saved_;
  at::Tensor random_state_; // undefined if this rank had none
};

LoadedCheckpoint load_newest(
    EngineState& state,
    const std::string& folder,
    const LoadOptions& options) {
  comm::Group& group = *state.group();
  state.check_parameters();
  state.check_nothing_lent();

  std::vector<checkpoint::FoundCheckpoint> found; // by rank 0
  auto attempt = checkpoint::attempt([&] {
    if (state.rank() == 0) {
      found = checkpoint::find_checkpoints(folder);
      if (found.empty()) {
        throw IoError(c10::str(
            "there is no checkpoint in '",
            folder,
            "'. Fix: name the folder that engine.save() was given"));
      }
    }
  });
  auto vote = checkpoint::vote(group, attempt);
  bool is_half_loaded = false;
  const auto count = static_cast<size_t>(
      group.exchange(CommOp::all_gather, {static_cast<int64_t>(found.size())})
          .front());
  for (size_t i = 0; i < count; ++i) {
    const std::string path =
        checkpoint::text_of(group, state.rank() == 0 ? found[i].path : "");
    std::unique_ptr<Loader> loader;
    attempt = checkpoint::attempt(
        [&] { loader = std::make_unique<Loader>(state, path, options); });
    vote = checkpoint::vote(group, attempt);
    if (vote.worst == checkpoint::Outcome::done) {
      is_half_loaded = true;
      attempt = checkpoint::attempt([&] { loader->restore(); });
      vote = checkpoint::vote(group, attempt);
    }
    if (vote.worst == checkpoint::Outcome::done) {
      loader->restore_progress();
      const Manifest& manifest = loader->manifest();
      return {path, manifest.step, manifest.sampler, manifest.notes};
    }
    if (vote.worst == checkpoint::Outcome::failed) {
      break;
    }
    if (attempt.error && state.rank() == vote.rank) {
      base::log_warning(
          state.rank(),
          state.size(),
          c10::str(
              attempt.message,
              i + 1 < count ? "; the one before it is tried" : ""));
    }
  }
  try {
    checkpoint::throw_failure(
        group, attempt, vote, c10::str("load from '", folder, "'"));
  } catch (...) {
    if (is_half_loaded) {
      state.fail_for_good(std::current_exception());
    }
    throw;
  }
}

} // namespace

void checkpoint::remember_saved(
    engine::Succession& succession,
    const std::string& folder) {
  succession.remember_saved([folder](EngineState& state) {
    const c10::NoGradGuard no_grad;
    return load_newest(state, folder, {});
  });
}

LoadedCheckpoint Engine::load(
    const std::string& folder,
    const LoadOptions& options) {
  const c10::NoGradGuard no_grad;
  if (saver_) {
    saver_->wait(); // what is being saved is the newest
  }
  auto& state = succession_->state();
  try {
    auto loaded = load_newest(state, folder, options);
    if (!options.weights_only) {
      checkpoint::remember_saved(*succession_, folder);
    }
    return loaded;
  } catch (const CommError&) {
    // Some ranks may have loaded it all, and others not.
    state.fail_for_good(std::make_exception_ptr(CommError(c10::str(
        state.prefix(),
        "a rank was lost while '",
        folder,
        "' was loaded. Fix: start the job again"))));
    throw;
  }
}

} // namespace zero
