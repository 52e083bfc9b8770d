// Defines what answers an MPI in this process as a launcher of MPICH would (PMI
// 1: lines of text over a socket), where what started the ranks knows nothing
// of MPI. The ranks need only some way to give each other bytes.
//
//   {
//     const PmiVariables variables(rank, size, serve_pmi(rank, size, gather));
//     MPI_Init_thread(...);
//   }
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zero::comm {

// Collective, and blocks: what every rank gives, by rank. Throws if a rank does
// not come.
using GatherBytes =
    std::function<std::vector<std::string>(const std::string& own)>;

// Answers from a thread of its own, which also calls `gather`. Returns MPI's
// end of the socket; the thread ends when MPI closes it, which MPICH does when
// the process ends, long after MPI_Finalize. Throws: IoError.
int serve_pmi(int rank, int size, GatherBytes gather);

// While it lives, an MPI that starts in this process asks at `descriptor`,
// whatever has started the process. The variables are as before afterwards, so
// that nobody whom this process starts takes itself for a rank.
class PmiVariables {
 public:
  PmiVariables(int rank, int size, int descriptor);
  ~PmiVariables();
  PmiVariables(const PmiVariables&) = delete;
  PmiVariables& operator=(const PmiVariables&) = delete;

 private:
  void change(const char* name, const std::optional<std::string>& value);

  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

} // namespace zero::comm
