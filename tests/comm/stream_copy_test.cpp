// A copy is a copy, whatever the alignment and the length.
#include "comm/stream_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace zero::comm {
namespace {

TEST(StreamCopy, CopiesExactlyWhatItIsAskedTo) {
  for (const int64_t bytes : {0, 1, 31, 63, 64, 65, 127, 128, 1000, 4096}) {
    for (const int64_t to : {0, 1, 7, 32, 63}) {
      for (const int64_t from : {0, 3, 64}) {
        std::vector<char> source(5000);
        for (size_t i = 0; i < source.size(); ++i) {
          source[i] = static_cast<char>(i * 7);
        }
        std::vector<char> target(5000, 'x');
        std::vector<char> expected = target;
        stream_copy(target.data() + to, source.data() + from, bytes);
        std::memcpy(
            expected.data() + to,
            source.data() + from,
            static_cast<size_t>(bytes));
        EXPECT_EQ(target, expected)
            << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

} // namespace
} // namespace zero::comm
