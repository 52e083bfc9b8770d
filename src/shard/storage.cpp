#include "shard/storage.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/StorageImpl.h>

#include "base/error.h"

namespace zero::shard {

namespace {

void delete_keeper(void* keeper) {
  delete static_cast<std::shared_ptr<void>*>(keeper);
}

} // namespace

bool owns_its_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 &&
      tensor.is_non_overlapping_and_dense() &&
      tensor.storage().nbytes() == tensor.nbytes();
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

void point_at(
    const c10::Storage& storage,
    void* data,
    std::shared_ptr<void> keep_alive) {
  auto& impl = *storage.unsafeGetStorageImpl();
  auto keeper = std::make_unique<std::shared_ptr<void>>(std::move(keep_alive));
  impl.clear_data_ptr_access_error_msg_();
  impl.set_data_ptr_noswap(
      at::DataPtr(data, keeper.release(), delete_keeper, at::kCPU));
  impl.set_resizable(false);
}

void make_absent(const c10::Storage& storage, const std::string& message) {
  auto& impl = *storage.unsafeGetStorageImpl();
  impl.set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
  impl.release_data_and_set_meta_custom_data_ptr_error_msg_(message);
}

} // namespace zero::shard
