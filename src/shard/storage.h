// Defines how a parameter's memory is taken over: its StorageImpl stays the
// same object and points elsewhere, so that views, tied weights and tensors
// that autograd has saved go on working. Used by the engine, and by gather/
// where parameters come and go. They hold the storage itself: a user may give
// the tensor another one, which is none of theirs.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

namespace zero::shard {

// Whether the tensor's elements fill its storage, from the start to the end.
bool owns_its_storage(const at::Tensor& tensor);

// Gives the tensor a storage of its own that it fills, with the same values.
void give_own_storage(const at::Tensor& tensor);

// Points the storage at `data`, which `keep_alive` owns and which has as many
// bytes.
void point_at(
    const c10::Storage& storage,
    void* data,
    std::shared_ptr<void> keep_alive);

// Leaves the storage without data: whoever reads it gets an error with this
// text. Its size stays, so that views can still be made.
void make_absent(const c10::Storage& storage, const std::string& message);

} // namespace zero::shard
