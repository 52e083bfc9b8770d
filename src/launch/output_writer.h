// Defines OutputWriter: the one place where a job's output is written. It has a
// thread of its own, because a write may block for as long as the reader (a
// pager, a stopped terminal) likes, and the supervisor must not.
//
//   OutputWriter writer;
//   writer.put(Stream::out, "[0] a whole line\n");
//
// The functions are for one thread, the supervisor's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace zero::launch {

enum class Stream : uint8_t { out, err };

class OutputWriter {
 public:
  OutputWriter();

  // What is not yet written is not waited for.
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;

  // Writes in the order of the calls; a text is never torn apart.
  void put(Stream stream, std::string text);

  // True while so much is waiting that the ranks should wait, too.
  bool full() const;

  // Everything is written, or was dropped because it cannot be.
  bool idle() const;

  // Whoever read the output has closed it.
  bool reader_gone() const;

  // The errno of the first write that failed for another reason; 0 if none.
  int write_error() const;

  // Readable after one of the answers above has changed.
  int event_fd() const;
  void clear_event();

 private:
  struct State;
  // Shared with the thread, which may outlive the writer while it is blocked.
  std::shared_ptr<State> state_;
};

} // namespace zero::launch
