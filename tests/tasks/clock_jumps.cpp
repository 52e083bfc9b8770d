// A time of day that jumps by hours, back and forth, with every look at it:
// loaded before libc, for tasks/resume_test.cpp. Clocks that only go forward
// are left alone.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

namespace {

constexpr time_t kFurthest = 100'000; // seconds; more than a day

time_t next_jump() {
  static std::atomic<unsigned> number{1};
  const unsigned next = number++ * 2654435761U;
  return static_cast<time_t>(next % (2 * kFurthest)) - kFurthest;
}

timespec jumping_time() {
  timespec time{};
  ::syscall(SYS_clock_gettime, CLOCK_REALTIME, &time);
  time.tv_sec += next_jump();
  return time;
}

} // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock != CLOCK_REALTIME) {
    return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  }
  *time = jumping_time();
  return 0;
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  const timespec now = jumping_time();
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* place) noexcept {
  const time_t now = jumping_time().tv_sec;
  if (place != nullptr) {
    *place = now;
  }
  return now;
}

} // extern "C"
