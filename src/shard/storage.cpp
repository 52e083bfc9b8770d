#include "shard/storage.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <c10/core/StorageImpl.h>

#include "base/error.h"

namespace zero::shard {

namespace {

c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

void delete_keeper(void* keeper) {
  delete static_cast<std::shared_ptr<void>*>(keeper);
}

} // namespace

bool owns_its_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 &&
      tensor.is_non_overlapping_and_dense() &&
      storage_of(tensor).nbytes() == tensor.nbytes();
}

void give_own_storage(const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  const at::Tensor data = tensor.detach();
  at::Tensor own = at::empty_like(data, at::MemoryFormat::Preserve);
  own.copy_(data);
  // The same tensor, as far as anybody who holds it can tell.
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(own.storage());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      own.sizes(), own.strides(), 0);
}

at::Tensor flat_view(const at::Tensor& tensor) {
  return at::from_blob(
      storage_of(tensor).mutable_data(),
      {tensor.numel()},
      [keep = tensor.storage()](void*) {},
      at::TensorOptions(tensor.scalar_type()));
}

void point_at(
    const at::Tensor& tensor,
    void* data,
    std::shared_ptr<void> keep_alive) {
  auto& storage = storage_of(tensor);
  auto keeper = std::make_unique<std::shared_ptr<void>>(std::move(keep_alive));
  storage.clear_data_ptr_access_error_msg_();
  storage.set_data_ptr_noswap(
      at::DataPtr(data, keeper.release(), delete_keeper, at::kCPU));
  storage.set_resizable(false);
}

void make_absent(const at::Tensor& tensor, const std::string& message) {
  auto& storage = storage_of(tensor);
  storage.set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(message);
}

bool is_absent(const at::Tensor& tensor) {
  return storage_of(tensor).throw_on_immutable_data_ptr();
}

} // namespace zero::shard
