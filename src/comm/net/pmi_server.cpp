#include "comm/net/pmi_server.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace zero::comm {

namespace {

// "cmd=put kvsname=zero key=a value=b=c": words have no blanks, and a value may
// have what separates it from its name.
std::map<std::string, std::string> fields_of(const std::string& line) {
  std::map<std::string, std::string> fields;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    if (equals != std::string::npos) {
      fields[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return fields;
}

bool send_line(int socket, const std::string& line) {
  const std::string text = line + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const auto count = TEMP_FAILURE_RETRY(
        ::send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL));
    if (count <= 0) {
      return false;
    }
    sent += static_cast<size_t>(count);
  }
  return true;
}

// The next line, without its end; what came after it is kept in `rest`.
std::optional<std::string> receive_line(int socket, std::string& rest) {
  for (;;) {
    const auto end = rest.find('\n');
    if (end != std::string::npos) {
      std::string line = rest.substr(0, end);
      rest.erase(0, end + 1);
      return line;
    }
    char part[4096];
    const auto count =
        TEMP_FAILURE_RETRY(::recv(socket, part, sizeof(part), 0));
    if (count <= 0) {
      return std::nullopt;
    }
    rest.append(part, static_cast<size_t>(count));
  }
}

class PmiServer {
 public:
  PmiServer(int rank, int size, GatherBytes gather, base::UniqueFd socket)
      : rank_(rank),
        size_(size),
        gather_(std::move(gather)),
        socket_(std::move(socket)) {}

  void serve() {
    std::string rest;
    try {
      while (const auto line = receive_line(socket_.get(), rest)) {
        const auto reply = answer(*line);
        if (!reply || !send_line(socket_.get(), *reply)) {
          return;
        }
      }
    } catch (const std::exception& error) {
      // MPI finds the socket closed, and ends the process without a reason.
      base::log_warning(rank_, size_, base::message_of(error));
    }
  }

 private:
  // Nothing once MPI wants no more answers.
  std::optional<std::string> answer(const std::string& line);
  std::string look_up(const std::string& key) const;
  void exchange();

  int rank_;
  int size_;
  GatherBytes gather_;
  std::string unpublished_; // what was put since the last barrier
  std::map<std::string, std::string> values_;
  base::UniqueFd socket_;
};

std::optional<std::string> PmiServer::answer(const std::string& line) {
  auto fields = fields_of(line);
  const std::string& command = fields["cmd"];
  if (command == "init") {
    return "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1";
  }
  if (command == "get_maxes") {
    // MPICH's own launcher has these.
    return "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024";
  }
  if (command == "get_appnum") {
    return "cmd=appnum rc=0 appnum=0";
  }
  if (command == "get_universe_size") {
    return c10::str("cmd=universe_size rc=0 size=", size_);
  }
  if (command == "get_my_kvsname") {
    return "cmd=my_kvsname rc=0 kvsname=zero";
  }
  if (command == "put") {
    const std::string& key = fields["key"];
    const std::string& value = fields["value"];
    values_[key] = value;
    unpublished_ += c10::str(key, "=", value, "\n");
    return "cmd=put_result rc=0 msg=success";
  }
  if (command == "get") {
    return look_up(fields["key"]);
  }
  if (command == "barrier_in") {
    exchange();
    return "cmd=barrier_out rc=0";
  }
  if (command == "finalize") {
    return "cmd=finalize_ack rc=0";
  }
  if (command == "abort") {
    return std::nullopt;
  }
  // Names for strangers, and new processes.
  return c10::str("cmd=", command, "_result rc=-1 msg=not_supported");
}

std::string PmiServer::look_up(const std::string& key) const {
  std::string value;
  if (key == "PMI_process_mapping") {
    // As if each rank had a node of its own: libzero sends nothing over MPI
    // that ranks of one host can share, and what finds out who shares one is
    // meet_over_mpi().
    value = c10::str("(vector,(0,", size_, ",1))");
  } else if (const auto found = values_.find(key); found != values_.end()) {
    value = found->second;
  } else {
    return "cmd=get_result rc=-1 msg=key_not_found";
  }
  return "cmd=get_result rc=0 msg=success value=" + value;
}

// What a rank puts is for others to get after a barrier. So it goes to all at
// once there, and each get is answered here: a question to the others for each
// of them would be thousands.
void PmiServer::exchange() {
  for (const std::string& puts : gather_(std::exchange(unpublished_, {}))) {
    std::istringstream lines(puts);
    for (std::string line; std::getline(lines, line);) {
      const auto equals = line.find('=');
      values_[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
}

} // namespace

int serve_pmi(int rank, int size, GatherBytes gather) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw IoError(
        base::system_message("MPI cannot be started", "socketpair", errno));
  }
  auto server = std::make_unique<PmiServer>(
      rank, size, std::move(gather), base::UniqueFd(ends[0]));
  std::thread([server = std::move(server)] { server->serve(); }).detach();
  return ends[1];
}

PmiVariables::PmiVariables(int rank, int size, int descriptor) {
  change("PMI_FD", std::to_string(descriptor));
  change("PMI_RANK", std::to_string(rank));
  change("PMI_SIZE", std::to_string(size));
  // Of mpirun or srun, which may have started what started this.
  change("PMI_ID", std::nullopt);
  change("PMI_PORT", std::nullopt);
  change("PMIX_NAMESPACE", std::nullopt);
}

PmiVariables::~PmiVariables() {
  const auto all = before_;
  for (const auto& [name, value] : all) {
    change(name, value);
  }
}

void PmiVariables::change(
    const char* name,
    const std::optional<std::string>& value) {
  const char* before = std::getenv(name);
  before_.emplace_back(
      name, before == nullptr ? std::nullopt : std::make_optional(before));
  if (value) {
    ::setenv(name, value->c_str(), /*overwrite=*/1);
  } else {
    ::unsetenv(name);
  }
}

} // namespace zero::comm
