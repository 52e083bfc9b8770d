#include "comm/net/reach.h"

#include <utility>

namespace zero::comm {

Reach::Reach(int rank, int size)
    : rank_(rank), hosts_(std::vector<int>(static_cast<size_t>(size))) {}

Reach::Reach(
    int rank,
    Hosts hosts,
    std::shared_ptr<Mirror> mirror,
    uint32_t number,
    const std::vector<int>& ids)
    : rank_(rank),
      hosts_(std::move(hosts)),
      mirror_(std::move(mirror)),
      number_(number),
      ids_(ids) {
  for (int host = 0; host < hosts_.num_hosts(); ++host) {
    const int receiver = hosts_.counterpart(rank_, host);
    receiver_.push_back(ids[static_cast<size_t>(receiver)]);
  }
}

void Reach::store(const void* place, int64_t bytes, int host) const {
  if (mirror_ != nullptr && host != this->host()) {
    mirror_->store(
        number_,
        static_cast<const std::byte*>(place),
        static_cast<size_t>(bytes),
        receiver_[static_cast<size_t>(host)]);
  }
}

void Reach::store(const void* place, int64_t bytes) const {
  for (int host = 0; host < hosts_.num_hosts(); ++host) {
    store(place, bytes, host);
  }
}

void Reach::store_word(const std::atomic<uint64_t>& word, Order order) const {
  for (int host = 0; host < hosts_.num_hosts(); ++host) {
    if (host != this->host()) {
      mirror_->store_word(
          number_, word, receiver_[static_cast<size_t>(host)], order);
    }
  }
}

void Reach::store_for(const void* place, int64_t bytes, int rank) const {
  if (!is_here(rank)) {
    mirror_->store(
        number_,
        static_cast<const std::byte*>(place),
        static_cast<size_t>(bytes),
        ids_[static_cast<size_t>(rank)]);
  }
}

void Reach::store_word_for(
    const std::atomic<uint64_t>& word,
    int rank,
    Order order) const {
  if (!is_here(rank)) {
    mirror_->store_word(number_, word, ids_[static_cast<size_t>(rank)], order);
  }
}

Reach Reach::with_number(uint32_t number) const {
  Reach other = *this;
  other.number_ = number;
  return other;
}

void Reach::add(
    std::shared_ptr<base::SharedMapping> mapping,
    std::function<void()> arrived) const {
  if (mirror_ != nullptr) {
    mirror_->add(number_, std::move(mapping), ids_, std::move(arrived));
  }
}

void Reach::remove() const {
  if (mirror_ != nullptr) {
    mirror_->remove(number_);
  }
}

void Reach::read(
    size_t offset,
    std::byte* to,
    size_t bytes,
    int rank,
    std::function<void(bool)> done) const {
  mirror_->read(
      number_,
      offset,
      to,
      bytes,
      ids_[static_cast<size_t>(rank)],
      std::move(done));
}

std::shared_ptr<Passage> Reach::passage(Passage::Way way, int rank, uint64_t id)
    const {
  auto passage = std::make_shared<Passage>();
  passage->way = way;
  passage->number = number_;
  passage->id = id;
  passage->rank = ids_[static_cast<size_t>(rank)];
  return passage;
}

void Reach::open(std::shared_ptr<Passage> passage) const {
  mirror_->open(std::move(passage));
}

void Reach::hurry() const {
  mirror_->hurry();
}

bool Reach::help() const {
  return mirror_->help();
}

} // namespace zero::comm
