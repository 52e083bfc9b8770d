#include "cli/bench/adam.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "optim/adam.h"
#include "optim/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zero::cli {

namespace {

constexpr float kFactor = 3;

void triad(float* a, const float* b, const float* c, int64_t numel) {
#pragma GCC ivdep // they are apart
  for (int64_t i = 0; i < numel; ++i) {
    a[i] = b[i] + kFactor * c[i];
  }
}

// `a` begins at a multiple of 16 bytes.
void triad_streamed(float* a, const float* b, const float* c, int64_t numel) {
  int64_t i = 0;
#if defined(__x86_64__)
  const __m128 factor = _mm_set1_ps(kFactor);
  for (; i + 4 <= numel; i += 4) {
    const __m128 product = _mm_mul_ps(factor, _mm_loadu_ps(c + i));
    _mm_stream_ps(a + i, _mm_add_ps(_mm_loadu_ps(b + i), product));
  }
  _mm_sfence();
#endif
  triad(a + i, b + i, c + i, numel - i);
}

class Triad {
 public:
  explicit Triad(int64_t numel)
      : a_(at::zeros({numel})), b_(at::ones({numel})), c_(at::ones({numel})) {}

  template <class Kernel>
  void run(const Kernel& kernel) const {
    auto* a = a_.mutable_data_ptr<float>();
    const auto* b = b_.const_data_ptr<float>();
    const auto* c = c_.const_data_ptr<float>();
    optim::for_blocks(a_.numel(), [&](int64_t begin, int64_t end) {
      kernel(a + begin, b + begin, c + begin, end - begin);
    });
  }
  int64_t bytes() const {
    return static_cast<int64_t>(a_.nbytes() * 3);
  }

 private:
  at::Tensor a_, b_, c_;
};

// Updates by this library and by torch of the same tensors.
class Updates {
 public:
  explicit Updates(int64_t numel)
      : optimizer_(optim::make_adam(OptimizerConfig())),
        torch_step_(at::zeros({}, at::kFloat)) {
    slice_.parameter = at::randn({numel});
    slice_.gradient = at::randn({numel});
    slice_.states = {at::zeros({numel}), at::zeros({numel})};
    slice_.lr = 1e-6; // the numbers stay ordinary, however many rounds
    slice_.weight_decay = 0.01;
  }

  void run_ours() {
    optimizer_->update(slice_);
    ++slice_.step;
  }
  void run_torch() {
    torch_step_.add_(1);
    at::_fused_adamw_(
        {slice_.parameter},
        {slice_.gradient},
        {slice_.states[0]},
        {slice_.states[1]},
        /*max_exp_avg_sqs=*/{},
        {torch_step_},
        slice_.lr,
        /*beta1=*/0.9,
        /*beta2=*/0.999,
        slice_.weight_decay,
        /*eps=*/1e-8,
        /*amsgrad=*/false,
        /*maximize=*/false);
  }
  // Four arrays are read, three written.
  int64_t bytes() const {
    return static_cast<int64_t>(slice_.parameter.nbytes() * 7);
  }

 private:
  std::shared_ptr<Optimizer> optimizer_;
  at::Tensor torch_step_;
  Slice slice_;
};

struct MeasuredUpdate {
  std::string op;
  int64_t bytes;
  std::function<void()> run;
  std::vector<double> seconds; // by round
};

double median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace

void bench_adam(
    const AdamBench& bench,
    const std::function<void(const AdamBenchRow&)>& report) {
  ZERO_CHECK(bench.numel > 0 && bench.rounds > 0);
  Updates updates(bench.numel);
  const Triad arrays((4 * bench.numel + 2) / 3);
  std::vector<MeasuredUpdate> operations{
      {"triad", arrays.bytes(), [&] { arrays.run(triad); }, {}},
      {"triad_streamed",
       arrays.bytes(),
       [&] { arrays.run(triad_streamed); },
       {}},
      {"zero_adam", updates.bytes(), [&] { updates.run_ours(); }, {}},
      {"torch_adam", updates.bytes(), [&] { updates.run_torch(); }, {}}};
  for (int round = -1; round < bench.rounds; ++round) {
    for (auto& operation : operations) {
      const auto start = base::Clock::now();
      operation.run();
      if (round >= 0) { // the first one faults pages in
        operation.seconds.push_back(base::seconds_since(start));
      }
    }
  }
  for (const auto& operation : operations) {
    report({operation.op, operation.bytes, median(operation.seconds)});
  }
}

} // namespace zero::cli
