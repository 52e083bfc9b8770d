// What a Mirror does for passages: Note [Passages]. But for open(), all of it
// is called by who drives.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "comm/net/keep_for_good.h"
#include "comm/net/mirror.h"

namespace zero::comm {

namespace {

// Above those of the thread; every MPI has tags up to 32767.
constexpr int kFirstPassageTag = 16;
constexpr int kNumPassageTags = 1 << 14;

// For MPI to end what is cancelled.
constexpr double kTimeToCancel = 1;

// An entry has the tag beside the id.
constexpr int kTagBits = 16;
constexpr uint64_t kTagMask = (uint64_t{1} << kTagBits) - 1;

constexpr size_t kPart = Mirror::kPassagePartBytes;

size_t num_parts(size_t bytes) {
  return (bytes + kPart - 1) / kPart;
}

// Whole parts, but for the last one.
size_t whole_parts(const Passage& passage, size_t limit) {
  return limit >= passage.bytes ? passage.bytes : limit / kPart * kPart;
}

size_t next_part(const Passage& passage, size_t from) {
  return std::min(kPart, passage.bytes - from);
}

std::byte* place_of(const Passage& passage, size_t offset) {
  return passage.data + (passage.ring == 0 ? offset : offset % passage.ring);
}

} // namespace

void Mirror::open(std::shared_ptr<Passage> passage) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) {
      passage->is_over = true;
      return;
    }
    opened_.push_back(std::move(passage));
  }
  hurry();
}

bool Mirror::is_lost(int rank) const {
  return losses_.is_lost(rank) ||
      std::ranges::any_of(sources_, [rank](const Source& source) {
           return source.rank == rank && source.lost;
         });
}

bool Mirror::take_opened() {
  std::vector<std::shared_ptr<Passage>> opened;
  {
    const std::lock_guard lock(mutex_);
    opened.swap(opened_);
  }
  for (auto& passage : opened) {
    if (passage->way == Passage::Way::out) {
      const OutwardKey key{passage->rank, passage->number, passage->id};
      outward_[key].passage = std::move(passage);
      continue;
    }
    Inward& inward = inward_.emplace_back();
    inward.passage = std::move(passage);
    inward.tag = kFirstPassageTag + next_tag_;
    next_tag_ = (next_tag_ + 1) % kNumPassageTags;
  }
  return !opened.empty();
}

bool Mirror::move_passages() {
  bool moved = false;
  std::set<uint32_t> told; // numbers whose owners have news
  std::erase_if(inward_, [&](Inward& inward) {
    if (move_in(inward)) {
      moved = true;
      told.insert(inward.passage->number);
    }
    return inward.passage->is_over.load();
  });
  for (auto next = outward_.begin(); next != outward_.end();) {
    auto& [key, outward] = *next;
    if (move_out(key, outward)) {
      moved = true;
      told.insert(std::get<1>(key));
    }
    // Not while the receiver may ask for more: what it then asks for in all
    // would be answered as if nothing had been sent.
    const bool ends = outward.passage == nullptr &&
        outward.asked == outward.sent &&
        (outward.sent == 0 || outward.is_answered);
    next = ends ? outward_.erase(next) : std::next(next);
  }
  if (!told.empty()) {
    const std::lock_guard lock(mutex_);
    for (const uint32_t number : told) {
      const auto known = mappings_.find(number);
      if (known != mappings_.end() && known->second.arrived) {
        known->second.arrived();
      }
    }
  }
  return moved;
}

bool Mirror::move_in(Inward& inward) {
  Passage& passage = *inward.passage;
  bool moved = take_parts(inward);
  const bool lost = is_lost(passage.rank);
  const bool ends = lost || passage.is_withdrawn || inward.is_refused;
  if (!ends) {
    moved = ask_for_parts(inward) || moved;
  } else if (lost) {
    give_up(inward);
  } else if (
      passage.is_withdrawn && !inward.is_told && inward.asked > 0 &&
      passage.moved < passage.bytes) {
    inward.is_told = true;
    tell_of(inward, Kind::withdrawn, inward.asked);
  }
  if (inward.parts.empty() && (ends || passage.moved == passage.bytes)) {
    passage.is_over = true;
    moved = true;
  }
  return moved;
}

bool Mirror::take_parts(Inward& inward) {
  Passage& passage = *inward.passage;
  bool moved = false;
  while (!inward.parts.empty()) {
    const Part& part = inward.parts.front();
    const auto state = part.transfer->state();
    if (state == Transfer::State::under_way) {
      break;
    }
    const size_t bytes =
        state == Transfer::State::done ? part.transfer->bytes() : 0;
    if (bytes == part.bytes && !inward.is_refused) {
      passage.moved += bytes;
    } else {
      inward.is_refused = true;
    }
    if (state == Transfer::State::failed ||
        (bytes != 0 && bytes != part.bytes)) {
      losses_.lose(passage.rank);
    }
    {
      const std::lock_guard lock(mutex_);
      lane(passage.rank).received += bytes;
    }
    inward.parts.pop_front();
    moved = true;
  }
  return moved;
}

bool Mirror::ask_for_parts(Inward& inward) {
  const Passage& passage = *inward.passage;
  const size_t limit = passage.after
      ? std::min(passage.ready.load(), passage.after->moved.load())
      : passage.ready.load();
  const size_t end = whole_parts(passage, limit);
  const size_t before = inward.asked;
  while (inward.asked < end && inward.parts.size() < kPartsAhead) {
    const size_t bytes = next_part(passage, inward.asked);
    inward.parts.push_back(
        {link_->receive(
             passage.rank, inward.tag, place_of(passage, inward.asked), bytes),
         bytes});
    inward.asked += bytes;
  }
  if (inward.asked == before) {
    return false;
  }
  tell_of(inward, Kind::asked, inward.asked);
  return true;
}

void Mirror::tell_of(const Inward& inward, Kind kind, size_t bytes) {
  Pending pending;
  pending.entry = {
      .kind = kind,
      .number = inward.passage->number,
      .offset =
          inward.passage->id << kTagBits | static_cast<uint64_t>(inward.tag),
      .bytes = bytes};
  const std::lock_guard lock(mutex_);
  lane(inward.passage->rank).overtaking.push_back(std::move(pending));
}

// The rank that was to send is lost.
void Mirror::give_up(Inward& inward) {
  if (is_closed_) {
    return;
  }
  if (!inward.cancelled) {
    inward.cancelled = base::Clock::now();
    for (Part& part : inward.parts) {
      part.transfer->cancel();
    }
    return;
  }
  if (!inward.parts.empty() &&
      base::seconds_since(*inward.cancelled) > kTimeToCancel) {
    never_call_again();
  }
}

void Mirror::never_call_again() {
  base::log_warning(
      link_->rank(),
      link_->size(),
      "MPI does not end what it receives from a rank that is lost, and is not "
      "called any more: all ranks on other hosts count as lost");
  is_abandoned_ = true;
  is_closed_ = true;
  const std::lock_guard lock(mutex_);
  for (Source& source : sources_) {
    for (auto* batches : {&source.in_order, &source.overtaking}) {
      keep_for_good(std::move(*batches));
      *batches = {};
    }
    for (Reading& reading : readings_) {
      keep_for_good(std::move(reading.transfer));
    }
    lose(source);
  }
}

// The link is used no more, so nothing moves.
void Mirror::close_passages() {
  for (const Inward& inward : inward_) {
    inward.passage->is_over = true;
  }
  for (const auto& [key, outward] : outward_) {
    if (outward.passage) {
      outward.passage->is_over = true;
    }
  }
}

bool Mirror::move_out(const OutwardKey& key, Outward& outward) {
  const int rank = std::get<0>(key);
  bool moved = false;
  while (!outward.parts.empty()) {
    const Part& part = outward.parts.front();
    const auto state = part.transfer->state();
    if (state == Transfer::State::under_way) {
      break;
    }
    if (state == Transfer::State::failed) {
      losses_.lose(rank);
    } else {
      outward.passage->moved += part.bytes;
    }
    outward.parts.pop_front();
    moved = true;
  }
  const bool lost = is_lost(rank);
  if (lost) {
    // MPI may still look at the memory, which is kept for it.
    for (Part& part : outward.parts) {
      outgoing_.push_back(
          {std::move(part.transfer), rank, {}, outward.passage->keep});
    }
    outward.parts.clear();
    outward.asked = outward.sent;
    outward.is_answered = true;
  }
  if (outward.passage == nullptr) {
    return moved || lost;
  }
  Passage& passage = *outward.passage;
  if (!lost && !passage.is_withdrawn) {
    moved = send_parts(outward) || moved;
  }
  if (outward.parts.empty() &&
      (lost || passage.is_withdrawn || passage.moved == passage.bytes)) {
    outward.is_answered = outward.is_answered || passage.moved == passage.bytes;
    passage.is_over = true;
    outward.passage.reset();
    moved = true;
  }
  return moved;
}

bool Mirror::send_parts(Outward& outward) {
  const Passage& passage = *outward.passage;
  const size_t end =
      whole_parts(passage, std::min(outward.asked, passage.ready.load()));
  bool moved = false;
  // What was sent before and has not ended is with MPI, not with the network:
  // it waits for the other side to fetch it, and nothing waits behind it.
  const bool is_fetched = !outward.parts.empty();
  while (outward.sent < end) {
    const size_t bytes = next_part(passage, outward.sent);
    {
      const std::lock_guard lock(mutex_);
      Lane& lane = this->lane(passage.rank);
      const bool may_exceed = is_fetched && outward.parts.size() < kPartsAhead;
      // Others get their turn: answers, and what words have to stay behind.
      const bool others_wait = lane.under_way > 0 &&
          (!lane.answers.empty() || !lane.in_order.empty());
      if (others_wait || (lane.under_way >= kWindowBytes && !may_exceed)) {
        break;
      }
      lane.under_way += bytes;
    }
    outward.parts.push_back(
        {link_->send(
             passage.rank, outward.tag, place_of(passage, outward.sent), bytes),
         bytes});
    outward.sent += bytes;
    moved = true;
  }
  return moved;
}

// With the mutex: what another rank says of a passage that goes there.
void Mirror::heed(const Entry& entry, int rank) {
  const OutwardKey key{rank, entry.number, entry.offset >> kTagBits};
  if (entry.kind == Kind::asked) {
    Outward& outward = outward_[key];
    outward.tag = static_cast<int>(entry.offset & kTagMask);
    outward.asked = std::max<size_t>(outward.asked, entry.bytes);
    return;
  }
  const auto found = outward_.find(key); // or all of it was sent
  if (found != outward_.end()) {
    refuse(rank, found->second);
  }
}

void Mirror::refuse(int rank, Outward& outward) {
  static constexpr std::byte kNothing{};
  for (size_t i = num_parts(outward.sent); i < num_parts(outward.asked); ++i) {
    outgoing_.push_back(
        {link_->send(rank, outward.tag, &kNothing, 0), rank, {}, nullptr});
  }
  outward.asked = outward.sent;
  outward.is_answered = true;
}

} // namespace zero::comm
