#include "optim/slice_arrays.h"

#include "base/error.h"
#include "optim/kernels.h"

namespace zero::optim {

namespace {

// Complains of a tensor that is not `numel` elements of `dtype` in a row.
void require(
    const at::Tensor& tensor,
    const char* name,
    int64_t numel,
    c10::ScalarType dtype) {
  if (tensor.defined() && tensor.device().is_cpu() &&
      tensor.scalar_type() == dtype && tensor.numel() == numel &&
      tensor.is_contiguous()) {
    return;
  }
  const std::string came = tensor.defined()
      ? c10::str(
            tensor.numel(),
            " of ",
            c10::toString(tensor.scalar_type()),
            " on ",
            tensor.device().str(),
            tensor.is_contiguous() ? "" : ", not contiguous")
      : "an undefined tensor";
  throw ConfigError(c10::str(
      "The ",
      name,
      " of a slice does not fit: expected ",
      numel,
      " contiguous elements of ",
      c10::toString(dtype),
      " on the CPU, got ",
      came,
      ". Fix: make the tensors of a Slice as zero/optimizer.h says."));
}

} // namespace

SliceArrays::SliceArrays(const Slice& slice, int num_states)
    : numel_(slice.gradient.defined() ? slice.gradient.numel() : 0) {
  const c10::ScalarType dtype = slice.parameter.defined()
      ? slice.parameter.scalar_type()
      : c10::ScalarType::Undefined;
  const int type = type_index(dtype);
  if (type < 0) {
    throw ConfigError(c10::str(
        "Parameters of ",
        c10::toString(dtype),
        " have no optimizer: expected float32, float64, float16 or bfloat16. "
        "Fix: convert them, or exclude them with requires_grad_(false)."));
  }
  const auto state_dtype = dtype == c10::ScalarType::Double
      ? c10::ScalarType::Double
      : c10::ScalarType::Float;
  require(slice.parameter, "parameter", numel_, dtype);
  require(slice.gradient, "gradient", numel_, state_dtype);
  if (slice.states.size() != static_cast<size_t>(num_states) ||
      slice.states.size() > states_.size()) {
    throw ConfigError(c10::str(
        "A slice has the wrong number of states: expected ",
        num_states,
        ", got ",
        slice.states.size(),
        ". Fix: give it Optimizer::num_states() tensors."));
  }
  type_ = static_cast<size_t>(type);
  parameter_bytes_ = static_cast<int64_t>(c10::elementSize(dtype));
  state_bytes_ = static_cast<int64_t>(c10::elementSize(state_dtype));
  parameter_ = static_cast<std::byte*>(slice.parameter.mutable_data_ptr());
  gradient_ = static_cast<const std::byte*>(slice.gradient.const_data_ptr());
  for (size_t i = 0; i < slice.states.size(); ++i) {
    require(slice.states[i], "state", numel_, state_dtype);
    states_[i] = static_cast<std::byte*>(slice.states[i].mutable_data_ptr());
  }
}

} // namespace zero::optim
