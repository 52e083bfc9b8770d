#include "shard/partition.h"

#include <ATen/ops/from_blob.h>

#include <cstring>

#include "base/alignment.h"
#include "base/error.h"

namespace zero::shard {

namespace {

int64_t whole_pages(int64_t bytes) {
  return base::round_up(bytes, base::kPage);
}

at::ScalarType state_type_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

Layout make_layout(
    const std::vector<Parameter>& parameters,
    int num_ranks,
    int64_t bucket_numel) {
  Layout::Options options{
      .numels = {}, .num_ranks = num_ranks, .bucket_numel = bucket_numel};
  for (const auto& parameter : parameters) {
    options.numels.push_back(parameter.tensor.numel());
  }
  return Layout(options);
}

} // namespace

Partition::Partition(
    std::vector<Parameter> parameters,
    const std::shared_ptr<comm::Group>& group,
    const PartitionOptions& options)
    : parameters_(std::move(parameters)),
      options_(options),
      rank_(group->rank()),
      dtype_(parameters_.front().tensor.scalar_type()),
      state_dtype_(state_type_of(dtype_)),
      element_bytes_(static_cast<int64_t>(c10::elementSize(dtype_))),
      state_element_bytes_(
          static_cast<int64_t>(c10::elementSize(state_dtype_))),
      layout_(make_layout(parameters_, group->size(), options.bucket_numel)),
      hosts_(group->reach().hosts()) {
  const int stage = options.stage;
  const bool one_host = group->reach().is_one_host();
  if (stage == 0) {
    parameter_home_ = Home::full;
  } else if (!options.shared_memory) {
    parameter_home_ = stage == 3 ? Home::shard : Home::full;
  } else {
    parameter_home_ = stage == 3 && !one_host ? Home::sparse : Home::once;
  }
  if (options.trainable) {
    gradient_home_ = stage <= 1 ? Home::full : Home::shard;
    state_home_ = stage == 0 ? Home::full : Home::shard;
  }
  // What is on every host anyway needs none.
  has_copies_ = options.redundant && !one_host && stage > 0 &&
      (options.trainable || parameters_can_be_absent());
  int64_t kept_bytes_here = 0;
  std::vector<comm::KeptPart> kept;
  for (int rank = 0; rank < group->size(); ++rank) {
    offsets_.push_back(offsets_of(rank));
  }
  for (int rank = 0; rank < group->size(); ++rank) {
    for (const int other : kept_by(rank)) {
      for (const auto& part : kept_parts(other)) {
        kept_bytes_here += group->reach().is_here(rank) ? part.bytes : 0;
        if (rank == rank_) {
          kept.push_back(part);
        }
      }
    }
  }
  window_ = comm::make_window(
      group,
      offsets_[static_cast<size_t>(group->rank())].total,
      {.common_bytes =
           numel_at(
               parameter_home_ == Home::once ? Home::full : Home::none, 0) *
           element_bytes_,
       .sparse = sparse_part(*group),
       .has_copies = has_copies_,
       .kept = std::move(kept),
       .kept_bytes_here = kept_bytes_here});
}

comm::SparsePart Partition::sparse_part(const comm::Group& group) const {
  comm::SparsePart part;
  if (parameter_home_ != Home::sparse) {
    return part;
  }
  part.bytes = layout_.numel() * element_bytes_;
  for (int bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    const Range own = layout_.slice(bucket, rank_).range;
    part.own.push_back(
        {own.begin * element_bytes_, own.numel() * element_bytes_});
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    part.bytes_here += group.reach().is_here(rank)
        ? layout_.shard_numel(rank) * element_bytes_
        : 0;
  }
  return part;
}

int64_t Partition::numel_at(Home home, int rank) const {
  switch (home) {
    case Home::none:
      return 0;
    case Home::full:
      return layout_.numel();
    case Home::once:
    case Home::sparse:
      return rank == 0 ? layout_.numel() : 0;
    case Home::shard:
      return layout_.shard_numel(rank);
  }
  return 0;
}

// Each area begins on a page.
Partition::Offsets Partition::offsets_of(int rank) const {
  Offsets offsets;
  offsets.gradients =
      whole_pages(numel_at(parameter_home_, rank) * element_bytes_);
  offsets.states = offsets.gradients +
      whole_pages(numel_at(gradient_home_, rank) * state_element_bytes_);
  offsets.total = offsets.states +
      options_.num_states *
          whole_pages(numel_at(state_home_, rank) * state_element_bytes_);
  return offsets;
}

std::byte* Partition::at(
    Home home,
    int rank,
    int64_t area,
    int64_t element_bytes,
    int64_t flat,
    int64_t in_shard) const {
  ZERO_CHECK(home != Home::none, "nothing of the kind in this partition");
  return window_->data(rank) + area +
      (home == Home::shard ? in_shard : flat) * element_bytes;
}

std::byte* Partition::parameter_at(int rank, int64_t flat, int64_t in_shard)
    const {
  const int holder = parameters_are_shared() ? 0 : rank;
  return at(
      parameter_home_,
      holder,
      offsets_[static_cast<size_t>(holder)].parameters,
      element_bytes_,
      flat,
      in_shard);
}

std::byte* Partition::gradient_at(int rank, int64_t flat, int64_t in_shard)
    const {
  return at(
      gradient_home_,
      rank,
      offsets_[static_cast<size_t>(rank)].gradients,
      state_element_bytes_,
      flat,
      in_shard);
}

std::byte* Partition::state_at(
    int rank,
    int state,
    int64_t flat,
    int64_t in_shard) const {
  const int64_t each =
      whole_pages(numel_at(state_home_, rank) * state_element_bytes_);
  return at(
      state_home_,
      rank,
      offsets_[static_cast<size_t>(rank)].states + state * each,
      state_element_bytes_,
      flat,
      in_shard);
}

int Partition::number_of(const at::Tensor& tensor) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].tensor.is_same(tensor)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

Partition::Reading Partition::read(int number, std::byte* to) const {
  const Range range = layout_.parameter(number);
  int64_t received = 0;
  int64_t from_other_hosts = 0;
  std::vector<comm::WindowRead> reads;
  layout_.for_each_slice(range, [&](const OwnedSlice& slice) {
    const bool elsewhere = parameters_can_be_absent() && slice.rank != rank_;
    const int from = elsewhere ? slice.rank : rank_;
    const bool is_here = window_->is_kept_here(from);
    const int64_t bytes = slice.range.numel() * element_bytes_;
    reads.push_back(
        {.rank = is_here ? rank_ : from,
         .place = parameter_at(from, slice.range.begin, slice.shard_offset),
         .to = to + (slice.range.begin - range.begin) * element_bytes_,
         .bytes = bytes});
    received += elsewhere ? bytes : 0;
    from_other_hosts += is_here ? 0 : bytes;
  });
  return {
      std::make_unique<comm::WindowReading>(*window_, std::move(reads)),
      received,
      from_other_hosts};
}

std::vector<comm::WindowRead> Partition::missing(int number) const {
  std::vector<comm::WindowRead> reads;
  layout_.for_each_slice(
      layout_.parameter(number), [&](const OwnedSlice& slice) {
        if (!window_->is_kept_here(slice.rank)) {
          std::byte* place = parameter_at(slice.rank, slice.range.begin, 0);
          reads.push_back(
              {.rank = slice.rank,
               .place = place,
               .to = place,
               .bytes = slice.range.numel() * element_bytes_});
        }
      });
  return reads;
}

int64_t Partition::missing_bytes(int number) const {
  int64_t bytes = 0;
  for (const auto& read : missing(number)) {
    bytes += read.bytes;
  }
  return bytes;
}

std::vector<Partition::Bytes> Partition::missing_places(int number) const {
  std::vector<Bytes> places;
  for (const auto& read : missing(number)) {
    if (!places.empty() &&
        places.back().begin + places.back().count == read.to) {
      places.back().count += read.bytes;
    } else {
      places.push_back({read.to, read.bytes});
    }
  }
  return places;
}

void Partition::reserve_missing(int number) const {
  for (const auto& place : missing_places(number)) {
    window_->mapping->reserve(
        static_cast<size_t>(place.begin - window_->mapping->data()),
        static_cast<size_t>(place.count));
  }
}

void Partition::discard_missing(int number) const {
  for (const auto& place : missing_places(number)) {
    const int64_t offset = place.begin - window_->mapping->data();
    const int64_t begin = whole_pages(offset);
    const int64_t end =
        (offset + place.count) / base::kPage * base::kPage; // inside it
    if (begin < end) {
      window_->mapping->discard(
          static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    }
  }
}

Partition::Reading Partition::read_missing(int number) const {
  const int64_t bytes = missing_bytes(number);
  return {
      std::make_unique<comm::WindowReading>(*window_, missing(number)),
      bytes,
      bytes};
}

void Partition::write(int number, const std::byte* from) const {
  const Range range = layout_.parameter(number);
  const auto& reach = window_->reach;
  const bool leads_here = !reach || reach->hosts().local_rank(rank_) == 0;
  if (parameter_home_ == Home::once && !leads_here) {
    return;
  }
  layout_.for_each_slice(range, [&](const OwnedSlice& slice) {
    const bool is_kept = is_kept_by_this_rank(slice.rank);
    if (parameters_can_be_absent() && reach && slice.rank != rank_ &&
        !is_kept) {
      return;
    }
    const auto write_to = [&](int rank) {
      std::memcpy(
          parameter_at(rank, slice.range.begin, slice.shard_offset),
          from + (slice.range.begin - range.begin) * element_bytes_,
          static_cast<size_t>(slice.range.numel() * element_bytes_));
    };
    write_to(parameters_can_be_absent() ? slice.rank : rank_);
    if (is_kept && parameter_home_ == Home::full) {
      write_to(slice.rank); // besides this rank's own
    }
  });
}

std::vector<int> Partition::kept_by(int rank) const {
  std::vector<int> ranks;
  const int host = hosts_.host_of(rank);
  for (int other = 0; has_copies_ && other < hosts_.num_ranks(); ++other) {
    if (hosts_.keeper(hosts_.host_of(other)) == host &&
        hosts_.counterpart(other, host) == rank) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

bool Partition::is_kept_by_this_rank(int rank) const {
  const int host = hosts_.host_of(rank_);
  return has_copies_ && hosts_.keeper(hosts_.host_of(rank)) == host &&
      hosts_.counterpart(rank, host) == rank_;
}

// Where the copy of a rank's slices lies.
std::vector<comm::KeptPart> Partition::kept_parts(int rank) const {
  std::vector<comm::KeptPart> parts;
  const auto& offsets = offsets_[static_cast<size_t>(rank)];
  const auto add = [&](Home home, int64_t area, int64_t element_bytes) {
    if (home == Home::none || home == Home::once) {
      return;
    }
    if (home == Home::shard) {
      parts.push_back({rank, area, layout_.shard_numel(rank) * element_bytes});
      return;
    }
    for (int bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
      const Range range = layout_.slice(bucket, rank).range;
      parts.push_back(
          {home == Home::sparse ? 0 : rank,
           area + range.begin * element_bytes,
           range.numel() * element_bytes});
    }
  };
  add(parameter_home_,
      parameter_home_ == Home::sparse ? 0 : offsets.parameters,
      element_bytes_);
  add(gradient_home_, offsets.gradients, state_element_bytes_);
  const int64_t each =
      whole_pages(numel_at(state_home_, rank) * state_element_bytes_);
  for (int state = 0; state < options_.num_states; ++state) {
    add(state_home_, offsets.states + state * each, state_element_bytes_);
  }
  return parts;
}

void Partition::send_to_keeper(const std::byte* place, int64_t bytes) const {
  window_->reach->store(place, bytes, hosts_.keeper(hosts_.host_of(rank_)));
}

void Partition::send_copies() const {
  for (int bucket = 0; has_copies_ && bucket < layout_.num_buckets();
       ++bucket) {
    const OwnedSlice slice = layout_.slice(bucket, rank_);
    if (slice.range.empty()) {
      continue;
    }
    send_to_keeper(
        parameter_at(rank_, slice.range.begin, slice.shard_offset),
        slice.range.numel() * element_bytes_);
    for (int state = 0; state < options_.num_states; ++state) {
      send_to_keeper(
          state_at(rank_, state, slice.range.begin, slice.shard_offset),
          slice.range.numel() * state_element_bytes_);
    }
  }
}

void Partition::send_means() const {
  for (int bucket = 0; has_copies_ && bucket < layout_.num_buckets();
       ++bucket) {
    const OwnedSlice slice = layout_.slice(bucket, rank_);
    if (!slice.range.empty()) {
      send_to_keeper(
          gradient_at(rank_, slice.range.begin, slice.shard_offset),
          slice.range.numel() * state_element_bytes_);
    }
  }
}

int64_t Partition::copied_mean_bytes() const {
  int64_t numel = 0;
  for (const int other : kept_by(rank_)) {
    numel += options_.trainable ? layout_.shard_numel(other) : 0;
  }
  return numel * state_element_bytes_;
}

int64_t Partition::copy_bytes() const {
  int64_t bytes = (1 + options_.num_states) * copied_mean_bytes();
  for (const int other : kept_by(rank_)) {
    bytes += parameters_can_be_absent()
        ? layout_.shard_numel(other) * element_bytes_
        : 0;
  }
  return bytes;
}

at::Tensor Partition::gradient_view(int number) const {
  const auto& tensor = parameter(number).tensor;
  return at::from_blob(
      gradient_at(rank_, layout_.parameter(number).begin, 0),
      tensor.sizes(),
      tensor.strides(),
      [window = window_](void*) {},
      at::TensorOptions(state_dtype_));
}

std::vector<OwnedSlice> Partition::updated_slices(int rank) const {
  std::vector<OwnedSlice> slices;
  if (state_home_ == Home::full) {
    slices.push_back({rank, {0, layout_.numel()}, 0});
    return slices;
  }
  for (int bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    slices.push_back(layout_.slice(bucket, rank));
  }
  return slices;
}

int64_t Partition::parameter_bytes() const {
  if (parameter_home_ == Home::full) {
    return layout_.numel() * element_bytes_;
  }
  if (parameter_home_ != Home::once || !window_->reach) {
    return layout_.shard_numel(rank_) * element_bytes_;
  }
  const auto& hosts = window_->reach->hosts();
  const auto& here = hosts.ranks_of(hosts.host_of(rank_));
  const auto share = chunk_range(
      layout_.numel(), hosts.local_rank(rank_), static_cast<int>(here.size()));
  return share.numel * element_bytes_;
}

int64_t Partition::gradient_bytes() const {
  return numel_at(gradient_home_, rank_) * state_element_bytes_;
}

int64_t Partition::state_bytes() const {
  return options_.num_states * numel_at(state_home_, rank_) *
      state_element_bytes_;
}

} // namespace zero::shard
