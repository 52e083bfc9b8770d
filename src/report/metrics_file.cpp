#include "report/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file_io.h"

namespace zero::report {

MetricsFile::MetricsFile(std::string path)
    : path_(std::move(path)),
      file_(::open(
          path_.c_str(),
          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
          0666)) {
  if (!file_.valid()) {
    fail("open", errno);
  }
  struct stat found = {};
  if (::fstat(file_.get(), &found) != 0) {
    fail("fstat", errno);
  }
  bytes_ = found.st_size;
}

void MetricsFile::cut_after(const std::string& path, int64_t step) {
  if (!std::filesystem::exists(path)) {
    return;
  }
  const std::string text = base::read_file(path, "'" + path + "'");
  std::string kept;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos;
       begin = end + 1, end = text.find('\n', begin)) {
    const std::string_view line(text.data() + begin, end - begin);
    const auto json = nlohmann::json::parse(
        line, /*callback=*/nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("step") &&
        json["step"].is_number_integer() &&
        json["step"].get<int64_t>() <= step) {
      kept.append(line).push_back('\n');
    }
  }
  base::write_file(path, kept);
}

void MetricsFile::add(std::string_view line) {
  const std::string text = std::string(line) + '\n';
  if (const int error = base::write_all(file_.get(), text); error != 0) {
    // Half a line would be in the way of whoever reads the rest.
    [[maybe_unused]] const int cut = ::ftruncate(file_.get(), bytes_);
    fail("write", error);
  }
  bytes_ += static_cast<int64_t>(text.size());
}

void MetricsFile::fail(const char* call, int error) const {
  throw IoError(base::system_message(
      c10::str(
          "cannot write '",
          path_,
          "', which keeps the lines it has. Fix: make room, or name another "
          "folder with --out"),
      call,
      error));
}

} // namespace zero::report
