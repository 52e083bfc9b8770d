#include "data/gzip.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/file_io.h"
#include "base/unique_fd.h"

namespace zero::data {

namespace {

constexpr size_t kGzipBlock = size_t{64} << 10;
constexpr std::string_view kGzipMagic = "\x1f\x8b";
// The format cannot make more bytes than that of one.
constexpr size_t kMaxInflation = 1032;

[[noreturn]] void refuse_gzip(
    const std::string& title,
    const std::string& what) {
  throw CorruptionError(
      c10::str(title, " cannot be used: ", what, ". Fix: download it again"));
}

[[noreturn]] void refuse_length(const std::string& title, size_t limit) {
  throw CorruptionError(c10::str(
      title,
      " cannot be used: more than ",
      limit,
      " bytes come out of it. Fix: check that it is the file you want; if so, "
      "free memory"));
}

// A file, block by block.
class BlockReader {
 public:
  BlockReader(const std::string& path, const std::string& title)
      : title_(title),
        file_(base::open_to_read(path, title)),
        block_(kGzipBlock, '\0') {}

  // The next bytes: whole blocks, the last one apart, and nothing at the end.
  // They stay until the next call.
  std::string_view next() {
    size_t filled = 0;
    while (filled < block_.size()) {
      const ssize_t count =
          ::read(file_.get(), block_.data() + filled, block_.size() - filled);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count < 0) {
        fail("read");
      }
      if (count == 0) {
        break;
      }
      filled += static_cast<size_t>(count);
    }
    return std::string_view(block_).substr(0, filled);
  }

  // How many bytes will come out, if the file is one part and honest: its last
  // four bytes. With that, the result need not move while it grows, which would
  // take its memory twice.
  size_t promised_bytes() const {
    struct stat about {};
    uint8_t last[4];
    if (::fstat(file_.get(), &about) != 0 || !S_ISREG(about.st_mode) ||
        about.st_size < 4 ||
        ::pread(file_.get(), last, 4, about.st_size - 4) != 4) {
      return 0;
    }
    const size_t promised = static_cast<size_t>(last[0]) |
        static_cast<size_t>(last[1]) << 8 | static_cast<size_t>(last[2]) << 16 |
        static_cast<size_t>(last[3]) << 24;
    const auto file_bytes = static_cast<size_t>(about.st_size);
    return promised / kMaxInflation <= file_bytes ? promised : 0;
  }

 private:
  [[noreturn]] void fail(const char* call) const {
    const int error = errno;
    throw IoError(c10::str(
        base::system_message("cannot read " + title_, call, error),
        ". Fix: give the path of a readable file"));
  }

  std::string title_;
  base::UniqueFd file_;
  std::string block_;
};

// zlib's state, which frees itself.
class Inflater {
 public:
  explicit Inflater(const std::string& title) : title_(title) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (::inflateInit2(&stream_, kGzipOnly) != Z_OK) {
      throw IoError(
          c10::str("no memory to unpack ", title, ". Fix: free memory for it"));
    }
  }
  ~Inflater() {
    ::inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Appends what comes out of the bytes.
  void add(std::string_view bytes, std::string& out, size_t limit) {
    // zlib does not write to them, whatever its types say.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    bool may_have_more = true;
    while (stream_.avail_in > 0 || may_have_more) {
      if (ended_ && stream_.avail_in == 0) {
        return;
      }
      if (ended_) { // another part begins
        ::inflateReset(&stream_);
        ended_ = false;
      }
      // One byte beyond the limit shows that there are more.
      const size_t filled = out.size();
      const size_t room = std::min(kGzipBlock - 1, limit - filled) + 1;
      out.resize(filled + room);
      const size_t count = inflate_into(out.data() + filled, room);
      out.resize(filled + count);
      if (out.size() > limit) {
        refuse_length(title_, limit);
      }
      may_have_more = count == room;
    }
  }

  // Whether what was added ends where a part ends.
  bool ended() const {
    return ended_;
  }

 private:
  // Returns how many bytes came out.
  size_t inflate_into(char* to, size_t room) {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    ended_ = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) {
      throw IoError(c10::str(
          "no memory to unpack ", title_, ". Fix: free memory for it"));
    }
    // Z_BUF_ERROR says that all that was there is used up.
    if (!ended_ && result != Z_OK && result != Z_BUF_ERROR) {
      refuse_gzip(
          title_,
          c10::str(
              "it is not, or not only, what gzip makes (",
              stream_.msg == nullptr ? "unknown" : stream_.msg,
              ")"));
    }
    return room - stream_.avail_out;
  }

  const std::string& title_;
  z_stream stream_{};
  bool ended_ = false;
};

// `block` is the first one of the file.
std::string unpack(
    BlockReader& file,
    std::string_view block,
    const std::string& title,
    size_t limit) {
  std::string out;
  // The last block that is asked for reaches beyond what comes out.
  out.reserve(std::min(file.promised_bytes(), limit) + kGzipBlock);
  Inflater inflater(title);
  size_t file_bytes = 0;
  for (; !block.empty(); block = file.next()) {
    file_bytes += block.size();
    inflater.add(block, out, limit);
  }
  if (!inflater.ended()) {
    refuse_gzip(
        title, c10::str("it is cut short, after ", file_bytes, " bytes"));
  }
  return out;
}

} // namespace

std::string read_gzip_file(
    const std::string& path,
    const std::string& title,
    size_t limit) {
  BlockReader file(path, title);
  return unpack(file, file.next(), title, limit);
}

std::string read_maybe_gzip(
    const std::string& path,
    const std::string& title,
    size_t limit) {
  BlockReader file(path, title);
  std::string_view block = file.next();
  if (block.starts_with(kGzipMagic)) {
    return unpack(file, block, title, limit);
  }
  std::string out;
  for (; !block.empty(); block = file.next()) {
    if (block.size() > limit - out.size()) {
      refuse_length(title, limit);
    }
    out += block;
  }
  return out;
}

} // namespace zero::data
