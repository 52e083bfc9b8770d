#include "comm/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

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

// What they answer.
struct Visitor {
  int rank = 0;
  int size = 0;
};

// What rank 0 says in the end.
struct Verdict {
  enum class Kind { all_came, did_not_come, is_lost, other_size, is_taken };
  Kind kind = Kind::all_came;
  int rank = 0; // of whom it speaks
  int size = 0; // what that rank, or rank 0, takes for the number of ranks
};

// For an answer that costs the other side nothing.
constexpr double kPatienceSeconds = 5;

void limit_waiting(const UniqueFd& connection, double seconds) {
  const timeval limit{static_cast<time_t>(std::min(seconds, 1e9)), 0};
  ::setsockopt(
      connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

template <typename Value>
bool tell(const UniqueFd& connection, const Value& value) {
  return ::send(connection.get(), &value, sizeof(value), MSG_NOSIGNAL) ==
      sizeof(value);
}

template <typename Value>
bool hear(const UniqueFd& connection, Value& value) {
  return TEMP_FAILURE_RETRY(::recv(
             connection.get(), &value, sizeof(value), 0)) == sizeof(value);
}

bool has_hung_up(const UniqueFd& connection) {
  char byte = 0;
  return ::recv(connection.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
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

// Throws what a verdict means for a rank, unless it is a good one.
void judge(const Verdict& verdict, int size, double timeout_seconds) {
  switch (verdict.kind) {
    case Verdict::Kind::all_came:
      return;
    case Verdict::Kind::did_not_come:
      throw_timeout(
          c10::str("rank ", verdict.rank, " did not come"),
          verdict.rank,
          timeout_seconds);
    case Verdict::Kind::is_lost:
      throw PeerLost(
          c10::str("init: rank ", verdict.rank, " came and is gone"),
          {verdict.rank, "init", -1});
    case Verdict::Kind::other_size:
      throw ConfigError(c10::str(
          "init: here are ",
          size,
          " ranks, but rank ",
          verdict.rank,
          " says that there are ",
          verdict.size,
          ". Fix: set the same WORLD_SIZE for all"));
    case Verdict::Kind::is_taken:
      throw ConfigError(c10::str(
          "init: another process is rank ",
          verdict.rank,
          " already. Fix: set another RANK for each"));
  }
}

// Rank 0's side: who has come stays connected until all have.
class Host {
 public:
  Host(const Address& address, int size, double timeout_seconds)
      : size_(size),
        timeout_seconds_(timeout_seconds),
        listener_(make_socket()),
        roster_(Roster::create(size)) {
    if (::bind(listener_.get(), address.get(), address.bytes) != 0 ||
        ::listen(listener_.get(), size) != 0) {
      throw IoError(base::system_message(
          "cannot meet the other ranks of torchrun: another process has taken "
          "the meeting point. Fix: use another --master-port or --rdzv-id",
          "bind",
          errno));
    }
  }

  Roster gather() {
    LateWarning warning(0, size_);
    for (auto missing = find_missing(); !missing.empty();
         missing = find_missing()) {
      warning.say(missing);
      if (base::seconds_since(start_) > timeout_seconds_) {
        tell_all({Verdict::Kind::did_not_come, *missing.begin()});
        throw_timeout(
            c10::str("ranks ", c10::Join(", ", missing), " did not come"),
            *missing.begin(),
            timeout_seconds_);
      }
      welcome_next();
      look_for_lost();
    }
    tell_all({Verdict::Kind::all_came});
    return std::move(roster_);
  }

 private:
  std::set<int> find_missing() const {
    std::set<int> missing;
    for (int rank = 1; rank < size_; ++rank) {
      if (!came_.contains(rank)) {
        missing.insert(rank);
      }
    }
    return missing;
  }

  void look_for_lost() {
    for (const auto& [rank, visitor] : came_) {
      if (has_hung_up(visitor)) {
        end_with({Verdict::Kind::is_lost, rank});
      }
    }
  }

  // Tells all, and throws it here too.
  void end_with(const Verdict& verdict) {
    tell_all(verdict);
    judge(verdict, size_, timeout_seconds_);
  }

  void welcome_next() {
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, 100) <= 0) {
      return;
    }
    UniqueFd visitor(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!visitor.valid() || !is_same_user(visitor)) {
      return;
    }
    limit_waiting(visitor, kPatienceSeconds);
    Visitor who;
    if (!tell(visitor, Greeting{roster_.address()}) || !hear(visitor, who)) {
      return;
    }
    if (who.size != size_) {
      tell(visitor, Verdict{Verdict::Kind::other_size, 0, size_});
      end_with({Verdict::Kind::other_size, who.rank, who.size});
    } else if (came_.contains(who.rank)) {
      tell(visitor, Verdict{Verdict::Kind::is_taken, who.rank});
    } else {
      came_.emplace(who.rank, std::move(visitor));
    }
  }

  void tell_all(const Verdict& verdict) const {
    for (const auto& [rank, visitor] : came_) {
      tell(visitor, verdict);
    }
  }

  int size_;
  double timeout_seconds_;
  base::TimePoint start_ = base::Clock::now();
  UniqueFd listener_;
  Roster roster_;
  std::map<int, UniqueFd> came_; // each has the roster open
};

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
      limit_waiting(connection, kPatienceSeconds);
      Greeting greeting;
      if (hear(connection, greeting)) {
        auto roster =
            Roster::attach(base::SharedMapping::open(greeting.roster));
        // Rank 0 has been waiting for longer than this one, and knows for whom.
        limit_waiting(connection, timeout_seconds + kPatienceSeconds);
        Verdict verdict;
        if (tell(connection, Visitor{rank, size})) {
          if (!hear(connection, verdict)) {
            verdict.kind = has_hung_up(connection)
                ? Verdict::Kind::is_lost
                : Verdict::Kind::did_not_come;
          }
          judge(verdict, size, timeout_seconds);
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
  return rank == 0 ? Host(address, size, timeout_seconds).gather()
                   : visit(address, rank, size, timeout_seconds);
}

} // namespace zero::comm
