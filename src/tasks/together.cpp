#include "tasks/together.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <exception>
#include <string>

#include "base/activity.h"
#include "base/error.h"
#include "base/failpoint.h"

namespace zero::tasks {

void together(const World& world, const std::function<void()>& part) {
  const auto failure = failure_of(part);
  const auto rows = exchange_rows(world, {failure == nullptr ? 0.0 : 1.0});
  throw_first(world, rows, /*column=*/0, failure);
}

std::exception_ptr failure_of(const std::function<void()>& part) {
  try {
    part();
  } catch (const CommError&) { // nobody is left to tell
    throw;
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

namespace {

// Collective: what one rank's error says, as far as it fits.
std::string told_by(
    const World& world,
    int rank,
    const std::exception_ptr& failure) {
  constexpr int64_t kMaxBytes = 2000;
  std::string text(kMaxBytes, '\0');
  if (rank == world.rank()) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      text.replace(0, kMaxBytes, base::message_of(error));
      text.resize(kMaxBytes);
    }
  }
  const at::Tensor bytes =
      at::from_blob(text.data(), {kMaxBytes}, at::TensorOptions(at::kByte));
  world.communicator().broadcast(bytes, rank).wait();
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

} // namespace

void throw_first(
    const World& world,
    const std::vector<std::vector<double>>& rows,
    size_t column,
    const std::exception_ptr& failure) {
  const auto first =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
        return row[column] != 0;
      });
  if (first == rows.end()) {
    return;
  }
  const int rank = static_cast<int>(first - rows.begin());
  const std::string why = told_by(world, rank, failure);
  if (rank == world.rank()) {
    std::rethrow_exception(failure);
  }
  throw FailedElsewhere(why);
}

std::string text_of_rank_0(const World& world, const std::string& text) {
  const auto length = static_cast<int64_t>(
      exchange_rows(world, {static_cast<double>(text.size())}).front().front());
  std::string all = text;
  all.resize(static_cast<size_t>(length));
  const at::Tensor bytes =
      at::from_blob(all.data(), {length}, at::TensorOptions(at::kByte));
  world.communicator().broadcast(bytes, 0).wait();
  return all;
}

int wait_for_the_end(const World& world) {
  try {
    world.barrier();
  } catch (const CommError&) { // it is gone
  }
  return 1;
}

std::vector<std::vector<double>> exchange_rows(
    const World& world,
    const std::vector<double>& own) {
  base::failpoint("train.moment");
  const base::Span span(base::Activity::wait);
  const auto length = static_cast<int64_t>(own.size());
  const at::Tensor all =
      at::zeros({world.size(), length}, at::TensorOptions(at::kDouble));
  auto* data = all.mutable_data_ptr<double>();
  std::copy(own.begin(), own.end(), data + world.rank() * length);
  world.communicator().all_reduce(all).wait();
  std::vector<std::vector<double>> rows;
  for (int rank = 0; rank < world.size(); ++rank, data += length) {
    rows.emplace_back(data, data + length);
  }
  return rows;
}

} // namespace zero::tasks
