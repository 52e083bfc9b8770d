#include "comm/signature.h"

#include <c10/util/StringUtil.h>

#include "base/error.h"

namespace zero {

const char* name_of(CommOp op) {
  switch (op) {
    case CommOp::all_reduce:
      return "all_reduce";
    case CommOp::reduce_scatter:
      return "reduce_scatter";
    case CommOp::all_gather:
      return "all_gather";
    case CommOp::broadcast:
      return "broadcast";
    case CommOp::all_to_all:
      return "all_to_all";
    case CommOp::barrier:
      return "barrier";
    case CommOp::send:
      return "send";
    case CommOp::recv:
      return "recv";
    case CommOp::get:
      return "get";
    case CommOp::window:
      return "window";
    case CommOp::split:
      return "split";
  }
  return "unknown";
}

namespace comm {

namespace {

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
  }
  return "unknown";
}

} // namespace

std::string name_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return "float32";
    case c10::ScalarType::Double:
      return "float64";
    case c10::ScalarType::Half:
      return "float16";
    case c10::ScalarType::BFloat16:
      return "bfloat16";
    case c10::ScalarType::Byte:
      return "uint8";
    case c10::ScalarType::Char:
      return "int8";
    case c10::ScalarType::Int:
      return "int32";
    case c10::ScalarType::Long:
      return "int64";
    default:
      return c10::toString(dtype);
  }
}

std::string describe(const Signature& signature) {
  std::string arguments;
  switch (signature.op) {
    case CommOp::barrier:
    case CommOp::window:
    case CommOp::split:
      return c10::str(zero::name_of(signature.op), "()");
    case CommOp::all_reduce:
    case CommOp::reduce_scatter:
      arguments = c10::str(name_of(signature.reduce), ", ");
      break;
    case CommOp::broadcast:
      arguments = c10::str("root ", signature.root, ", ");
      break;
    case CommOp::send:
      arguments = c10::str("to rank ", signature.root, ", ");
      break;
    case CommOp::recv:
      arguments = c10::str("from rank ", signature.root, ", ");
      break;
    default:
      break;
  }
  return c10::str(
      zero::name_of(signature.op),
      "(",
      arguments,
      name_of(signature.dtype),
      ", ",
      signature.numel,
      " elements)");
}

} // namespace comm
} // namespace zero
