#include "report/event_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::report {
namespace {

using test::has;

template <class T>
T number_at(const std::string& bytes, size_t place) {
  T value{};
  std::memcpy(&value, bytes.data() + place, sizeof(T));
  return value;
}

// The events of a file, after looking at the checksums.
std::vector<std::string> events_of(const std::string& bytes) {
  std::vector<std::string> events;
  for (size_t place = 0; place < bytes.size();) {
    const auto length = number_at<uint64_t>(bytes, place);
    EXPECT_EQ(
        number_at<uint32_t>(bytes, place + 8),
        masked_crc32c(bytes.substr(place, 8)));
    events.push_back(bytes.substr(place + 12, length));
    EXPECT_EQ(
        number_at<uint32_t>(bytes, place + 12 + length),
        masked_crc32c(events.back()));
    place += 16 + length;
  }
  return events;
}

// The check value of CRC-32C for these nine digits is e3069283.
TEST(EventFile, ChecksumsAreThoseOfTheStandard) {
  const uint32_t crc = 0xe3069283U;
  EXPECT_EQ(masked_crc32c("123456789"), (crc >> 15 | crc << 17) + 0xa282ead8U);
}

TEST(EventFile, HasTheVersionFirstAndThenWhatWasAdded) {
  const test::TemporaryFolder folder;
  EventFile file(folder.path());
  file.add_scalar("loss", 1.5, 300);
  file.add_text("sample", "To be", 300);
  const auto events = events_of(test::read_file(file.path()));
  ASSERT_EQ(events.size(), 3);
  EXPECT_TRUE(has(events[0], "brain.Event:2"));
  // Behind the time of 9 bytes: step 300, then summary { value { tag, value }
  // }.
  const std::string scalar{
      '\x10',
      '\xac',
      '\x02',
      '\x2a',
      '\x0d',
      '\x0a',
      '\x0b',
      '\x0a',
      '\x04',
      'l',
      'o',
      's',
      's',
      '\x15',
      '\0',
      '\0',
      '\xc0',
      '\x3f'};
  EXPECT_EQ(events[1].substr(9), scalar);
  EXPECT_TRUE(has(events[2], "To be"));
  EXPECT_TRUE(has(events[2], "text"));
}

TEST(EventFile, AFolderThatIsNotThereIsNamed) {
  const std::string text =
      test::error_of([] { const EventFile file("/nowhere"); });
  EXPECT_TRUE(has(text, "/nowhere/events.out.tfevents.")) << text;
}

} // namespace
} // namespace zero::report
