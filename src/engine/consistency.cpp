// Whether what should be the same on all ranks is.
#include <algorithm>
#include <map>

#include "base/checksum.h"
#include "base/error.h"
#include "engine/engine_state.h"

namespace zero::engine {

using shard::Home;

namespace {

// Tensors of which there are several copies, as a rank sees them.
class Replicas {
 public:
  // `owner` is whether this rank has a copy that counts.
  void add(
      const std::string& name,
      const void* data,
      int64_t bytes,
      bool every_rank,
      bool owner) {
    names_.push_back(name);
    every_rank_.push_back(every_rank);
    checksums_.push_back(
        owner
            ? static_cast<int64_t>(base::checksum_of(
                  {static_cast<const char*>(data), static_cast<size_t>(bytes)}))
            : 0);
  }

  const std::vector<int64_t>& checksums() const {
    return checksums_;
  }

  // What differs, and on whom, given everybody's; empty if nothing does. Most
  // ranks are taken to be right.
  std::string differences(
      const std::vector<int64_t>& all,
      const comm::Hosts& hosts) const {
    std::string text;
    for (size_t i = 0; i < names_.size(); ++i) {
      std::map<int64_t, std::vector<int>> ranks_with;
      for (int rank = 0; rank < hosts.num_ranks(); ++rank) {
        if (every_rank_[i] || hosts.local_rank(rank) == 0) {
          const size_t row = static_cast<size_t>(rank) * names_.size();
          ranks_with[all[row + i]].push_back(rank);
        }
      }
      if (ranks_with.size() > 1) {
        text += describe(names_[i], ranks_with);
      }
    }
    return text;
  }

 private:
  static std::string describe(
      const std::string& name,
      const std::map<int64_t, std::vector<int>>& ranks_with) {
    const auto most = std::ranges::max_element(
        ranks_with, {}, [](const auto& each) { return each.second.size(); });
    std::string ranks;
    for (const auto& [checksum, members] : ranks_with) {
      for (const int rank : members) {
        if (checksum != most->first) {
          ranks += c10::str(ranks.empty() ? "" : ", ", rank);
        }
      }
    }
    return c10::str(
        "\n  ",
        name,
        ": rank ",
        ranks,
        " has other values than rank ",
        most->second.front());
  }

  std::vector<std::string> names_;
  std::vector<bool> every_rank_; // or the first one of every host
  std::vector<int64_t> checksums_;
};

} // namespace

void EngineState::check_replicas() const {
  const int64_t every = config_.libzero.consistency_check_every;
  if (every == 0 || global_step_ % every != 0) {
    return;
  }
  const auto& reach = group_->reach();
  const bool leads = reach.hosts().local_rank(rank()) == 0;
  Replicas replicas;
  for (const auto& partition : partitions_) {
    const auto& layout = partition->layout();
    const bool on_every_rank = partition->parameter_home() == Home::full;
    const bool on_every_host =
        partition->parameter_home() == Home::once && !reach.is_one_host();
    for (int i = 0; i < layout.num_parameters(); ++i) {
      const auto range = layout.parameter(i);
      const std::string name =
          c10::str("parameter '", partition->parameter(i).name(), "'");
      if (on_every_rank || on_every_host) {
        replicas.add(
            name,
            partition->parameter_at(rank(), range.begin, 0),
            range.numel() * partition->element_bytes(),
            on_every_rank,
            on_every_rank || leads);
      }
      for (int k = 0; k < num_states_ && partition->trainable() &&
           partition->state_home() == Home::full;
           ++k) {
        replicas.add(
            c10::str("optimizer state ", k, " of ", name),
            partition->state_at(rank(), k, range.begin, 0),
            range.numel() * partition->state_element_bytes(),
            true,
            true);
      }
    }
  }
  for (const auto& buffer : buffers()) {
    const at::Tensor values = buffer.tensor.detach().contiguous();
    replicas.add(
        c10::str("buffer '", buffer.name(), "'"),
        values.const_data_ptr(),
        static_cast<int64_t>(values.nbytes()),
        true,
        true);
  }
  const std::string differences =
      replicas.differences(exchange(replicas.checksums()), reach.hosts());
  if (!differences.empty()) {
    throw CorruptionError(c10::str(
        prefix(),
        "after step ",
        global_step_,
        " ranks differ in what should be the same:",
        differences,
        "\nFix: go on from a checkpoint of before; look for a fault of the "
        "memory, or code that writes to tensors of the module on some ranks"));
  }
}

} // namespace zero::engine
