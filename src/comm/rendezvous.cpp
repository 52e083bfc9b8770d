#include "comm/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace zero::comm {

using base::UniqueFd;

namespace {

struct Address {
  explicit Address(const std::string& name) {
    value.sun_family = AF_UNIX;
    // A leading zero byte puts the name into the abstract namespace.
    const size_t length = std::min(name.size(), sizeof(value.sun_path) - 1);
    std::memcpy(value.sun_path + 1, name.data(), length);
    bytes =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&value);
  }
  sockaddr_un value{};
  socklen_t bytes;
};

UniqueFd make_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    throw IoError(base::system_message(
        "cannot meet the other ranks of torchrun", "socket", errno));
  }
  return fd;
}

bool is_same_user(const UniqueFd& connection) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return ::getsockopt(
             connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
      peer.uid == ::getuid();
}

// What rank 0 says to whoever comes. It keeps the roster open for them.
struct Greeting {
  base::SegmentAddress roster;
};

void limit_waiting(const UniqueFd& connection) {
  const timeval limit{5, 0};
  ::setsockopt(
      connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

// Returns the rank of the other side when it has the roster open: it is then
// safe to end. -1 if it did not get that far.
int hand_out(const UniqueFd& connection, const Greeting& greeting) {
  limit_waiting(connection);
  int rank = -1;
  const bool thanked =
      ::send(connection.get(), &greeting, sizeof(greeting), MSG_NOSIGNAL) ==
          sizeof(greeting) &&
      ::recv(connection.get(), &rank, sizeof(rank), 0) == sizeof(rank) &&
      ::send(connection.get(), "", 1, MSG_NOSIGNAL) == 1;
  return thanked ? rank : -1;
}

// Says every 10 s who is waited for.
class LateWarning {
 public:
  LateWarning(int rank, int size) : rank_(rank), size_(size) {}
  void say(const std::set<int>& missing) {
    const double waited = base::seconds_since(start_);
    if (waited >= next_) {
      next_ += kSeconds;
      base::log_warning(
          rank_,
          size_,
          c10::str(
              "init: waiting for ranks ",
              c10::Join(", ", missing),
              " since ",
              static_cast<int>(waited),
              " s"));
    }
  }

 private:
  static constexpr double kSeconds = 10;
  int rank_;
  int size_;
  base::TimePoint start_ = base::Clock::now();
  double next_ = kSeconds;
};

[[noreturn]] void throw_timeout(
    const std::string& what,
    int rank,
    double timeout_seconds) {
  throw CommTimeout(
      c10::str(
          "init: ",
          what,
          " within ",
          timeout_seconds,
          " s. Fix: have every rank that torchrun starts call zero::init()"),
      {rank, "init", -1});
}

Roster host(const Address& address, int size, double timeout_seconds) {
  const auto start = base::Clock::now();
  const UniqueFd listener = make_socket();
  if (::bind(listener.get(), address.get(), address.bytes) != 0 ||
      ::listen(listener.get(), size) != 0) {
    throw IoError(base::system_message(
        "cannot meet the other ranks of torchrun: another process has taken "
        "the meeting point. Fix: use another --master-port or --rdzv-id",
        "bind",
        errno));
  }
  Roster roster = Roster::create(size);
  const Greeting greeting{roster.address()};
  std::set<int> missing;
  for (int rank = 1; rank < size; ++rank) {
    missing.insert(rank);
  }
  LateWarning warning(0, size);
  while (!missing.empty()) {
    warning.say(missing);
    if (base::seconds_since(start) > timeout_seconds) {
      throw_timeout(
          c10::str("ranks ", c10::Join(", ", missing), " did not come"),
          *missing.begin(),
          timeout_seconds);
    }
    pollfd ready{listener.get(), POLLIN, 0};
    if (::poll(&ready, 1, 100) <= 0) {
      continue;
    }
    const UniqueFd connection(
        ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid() && is_same_user(connection)) {
      missing.erase(hand_out(connection, greeting));
    }
  }
  return roster;
}

Roster visit(
    const Address& address,
    int rank,
    int size,
    double timeout_seconds) {
  const auto start = base::Clock::now();
  LateWarning warning(rank, size);
  while (base::seconds_since(start) <= timeout_seconds) {
    const UniqueFd connection = make_socket();
    if (::connect(connection.get(), address.get(), address.bytes) == 0) {
      if (!is_same_user(connection)) {
        throw IoError(
            "init: the meeting point of torchrun's ranks belongs to another "
            "user. Fix: use another --master-port or --rdzv-id");
      }
      limit_waiting(connection);
      Greeting greeting;
      if (::recv(connection.get(), &greeting, sizeof(greeting), 0) ==
          sizeof(greeting)) {
        auto roster =
            Roster::attach(base::SharedMapping::open(greeting.roster));
        // Thanks that come too late are not heard: then it goes back.
        char heard = 0;
        if (::send(connection.get(), &rank, sizeof(rank), MSG_NOSIGNAL) ==
                sizeof(rank) &&
            ::recv(connection.get(), &heard, 1, 0) == 1) {
          return roster;
        }
      }
    }
    warning.say({0});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  throw_timeout("rank 0 did not come", 0, timeout_seconds);
}

} // namespace

Roster meet(
    const std::string& meeting,
    int rank,
    int size,
    double timeout_seconds) {
  const Address address(meeting);
  return rank == 0 ? host(address, size, timeout_seconds)
                   : visit(address, rank, size, timeout_seconds);
}

} // namespace zero::comm
