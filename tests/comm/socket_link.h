// Defines SocketLink: a link between processes that a test has forked, by a
// pair of sockets for each two of them. A process that is killed leaves the
// others with a socket whose other end is closed, as a lost connection does.
//
//   SocketPairs pairs(4); // before the processes are forked
//   auto link = std::make_unique<SocketLink>(pairs, rank); // in each
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "comm/net/link.h"

namespace zero::test {

class SocketPairs {
 public:
  explicit SocketPairs(int size) : size_(size), ends_(size_t(size * size)) {
    for (int a = 0; a < size; ++a) {
      for (int b = 0; b < a; ++b) {
        int pair[2] = {-1, -1};
        if (::socketpair(
                AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) !=
            0) {
          throw std::runtime_error("socketpair");
        }
        end(a, b) = base::UniqueFd(pair[0]);
        end(b, a) = base::UniqueFd(pair[1]);
      }
    }
  }
  int size() const {
    return size_;
  }
  // Of `rank`, to `peer`.
  base::UniqueFd& end(int rank, int peer) {
    return ends_[static_cast<size_t>(rank * size_ + peer)];
  }
  // In the process of `rank`: those of the others are theirs alone.
  void keep_only(int rank) {
    for (int other = 0; other < size_; ++other) {
      for (int peer = 0; peer < size_ && other != rank; ++peer) {
        end(other, peer) = base::UniqueFd();
      }
    }
  }

 private:
  int size_;
  std::vector<base::UniqueFd> ends_;
};

class SocketLink final : public comm::Link {
 public:
  SocketLink(SocketPairs& pairs, int rank)
      : rank_(rank), size_(pairs.size()), peers_(size_t(pairs.size())) {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank) {
        peers_[static_cast<size_t>(peer)].socket =
            std::move(pairs.end(rank, peer));
      }
    }
  }

  int rank() const override {
    return rank_;
  }
  int size() const override {
    return size_;
  }
  std::unique_ptr<comm::Transfer> send(
      int to,
      int tag,
      const void* data,
      size_t bytes) override {
    auto item = std::make_shared<Item>();
    item->header = {tag, bytes};
    item->data = static_cast<std::byte*>(const_cast<void*>(data));
    peers_[static_cast<size_t>(to)].out.push_back(item);
    return std::make_unique<Handle>(item);
  }
  std::unique_ptr<comm::Transfer> receive(
      int from,
      int tag,
      void* data,
      size_t bytes) override {
    auto item = std::make_shared<Item>();
    item->header = {tag, bytes};
    item->data = static_cast<std::byte*>(data);
    peers_[static_cast<size_t>(from)].wanted[tag].push_back(item);
    return std::make_unique<Handle>(item);
  }
  void advance() override {
    for (Peer& peer : peers_) {
      if (peer.socket.valid()) {
        send_some(peer);
        receive_some(peer);
      }
      deliver(peer);
    }
  }
  void abandon() override {}
  bool survives_losses() const override {
    return true;
  }

 private:
  struct Header {
    int64_t tag = 0;
    size_t bytes = 0;
  };
  struct Item {
    Header header;
    std::byte* data = nullptr;
    size_t received = 0;
    comm::Transfer::State state = comm::Transfer::State::under_way;
    bool is_given_up = false;
    bool is_cancelled = false; // the next one gets what it waited for
  };
  struct Peer {
    base::UniqueFd socket;
    std::deque<std::shared_ptr<Item>> out;
    std::vector<std::byte> sending; // what of the first is not sent yet
    size_t sent = 0;
    std::vector<std::byte> in; // that is no message yet
    std::map<int64_t, std::deque<std::vector<std::byte>>> arrived; // by tag
    std::map<int64_t, std::deque<std::shared_ptr<Item>>> wanted;
    bool is_lost = false;
  };
  class Handle final : public comm::Transfer {
   public:
    explicit Handle(std::shared_ptr<Item> item) : item_(std::move(item)) {}
    ~Handle() override {
      item_->is_given_up = true;
    }
    State state() override {
      return item_->state;
    }
    size_t bytes() const override {
      return item_->received;
    }
    void cancel() override {
      if (item_->state == State::under_way) {
        item_->state = State::failed;
        item_->is_cancelled = true;
      }
    }

   private:
    std::shared_ptr<Item> item_;
  };

  static void lose(Peer& peer) {
    peer.is_lost = true;
    peer.socket = base::UniqueFd();
  }

  // Done when it was handed to the system, as a message of MPI may be.
  static void send_some(Peer& peer) {
    while (peer.socket.valid() && !peer.out.empty()) {
      Item& item = *peer.out.front();
      if (peer.sending.empty()) {
        const auto* header = reinterpret_cast<const std::byte*>(&item.header);
        peer.sending.assign(header, header + sizeof(Header));
        peer.sending.insert(
            peer.sending.end(), item.data, item.data + item.header.bytes);
        peer.sent = 0;
      }
      const ssize_t count = ::send(
          peer.socket.get(),
          peer.sending.data() + peer.sent,
          peer.sending.size() - peer.sent,
          MSG_NOSIGNAL);
      if (count < 0) {
        if (errno != EAGAIN && errno != EINTR) {
          lose(peer);
        }
        return;
      }
      peer.sent += static_cast<size_t>(count);
      if (peer.sent < peer.sending.size()) {
        return;
      }
      item.state = comm::Transfer::State::done;
      peer.sending.clear();
      peer.out.pop_front();
    }
  }

  static void receive_some(Peer& peer) {
    constexpr size_t kSome = size_t{256} << 10;
    for (int i = 0; i < 4; ++i) {
      const size_t before = peer.in.size();
      peer.in.resize(before + kSome);
      const ssize_t count =
          ::recv(peer.socket.get(), peer.in.data() + before, kSome, 0);
      peer.in.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        lose(peer);
        break;
      }
      if (count < 0) {
        break;
      }
    }
    size_t at = 0;
    while (peer.in.size() - at >= sizeof(Header)) {
      Header header;
      std::memcpy(&header, peer.in.data() + at, sizeof(header));
      if (peer.in.size() - at - sizeof(Header) < header.bytes) {
        break;
      }
      const std::byte* data = peer.in.data() + at + sizeof(Header);
      peer.arrived[header.tag].emplace_back(data, data + header.bytes);
      at += sizeof(Header) + header.bytes;
    }
    peer.in.erase(peer.in.begin(), peer.in.begin() + static_cast<int64_t>(at));
  }

  static void deliver(Peer& peer) {
    for (auto& [tag, items] : peer.wanted) {
      auto& messages = peer.arrived[tag];
      std::erase_if(items, [](const auto& item) { return item->is_cancelled; });
      while (!items.empty() && !messages.empty()) {
        Item& item = *items.front();
        const auto& message = messages.front();
        if (!item.is_given_up) {
          std::memcpy(item.data, message.data(), message.size());
        }
        item.received = message.size();
        item.state = comm::Transfer::State::done;
        items.pop_front();
        messages.pop_front();
      }
      for (const auto& item : items) {
        if (peer.is_lost) {
          item->state = comm::Transfer::State::failed;
        }
      }
    }
    for (const auto& item : peer.out) {
      if (peer.is_lost) {
        item->state = comm::Transfer::State::failed;
      }
    }
    if (peer.is_lost) {
      peer.out.clear();
      peer.wanted.clear();
    }
  }

  int rank_;
  int size_;
  std::vector<Peer> peers_;
};

} // namespace zero::test
