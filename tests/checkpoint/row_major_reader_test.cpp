// Elements come in the order of their indices, whatever their order in memory.
#include "checkpoint/row_major_reader.h"

#include <torch/torch.h>

#include "checkpoint/handmade.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

TEST(RowMajorReader, AnyOrderOfMemoryIsUndone) {
  const std::vector<at::Tensor> tensors{
      torch::randn({7, 5}).t(),
      torch::randn({3, 4, 5, 2}).permute({2, 0, 3, 1}),
      torch::randn({3, 1, 5, 1}).permute({3, 2, 1, 0}),
      torch::randint(100, {3, 4, 5}, torch::kByte).permute({1, 2, 0}),
      torch::randn({6, 5}, torch::kDouble).t(),
      torch::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast),
      torch::randn({4, 6}),
      torch::ones({})};
  for (const auto& tensor : tensors) {
    SCOPED_TRACE(c10::str(tensor.sizes(), " ", tensor.strides()));
    const TemporaryFolder folder;
    write_checkpoint_of(folder.path(), tensor);
    checkpoint::CheckpointReader reader(folder.path());
    const auto saved = checkpoint::tensors_of(reader.manifest()).at(0);
    const auto expected = tensor.contiguous();
    for (const int64_t window : {int64_t{1}, int64_t{40}, int64_t{1} << 20}) {
      checkpoint::RowMajorReader elements(reader, saved, window);
      auto found = torch::empty_like(expected);
      for (int64_t i = 0; i < found.numel(); i += 3) {
        elements.read(
            {i, std::min(i + 3, found.numel())},
            static_cast<std::byte*>(found.mutable_data_ptr()) +
                i * static_cast<int64_t>(found.element_size()));
      }
      EXPECT_TRUE(torch::equal(found, expected)) << window;
    }
  }
}

TEST(RowMajorReader, BlocksOfALargeTensorComeTogether) {
  const TemporaryFolder folder;
  const auto tensor = torch::randn({700, 900}).t(); // more than two blocks
  write_checkpoint_of(folder.path(), tensor);
  checkpoint::CheckpointReader reader(folder.path());
  checkpoint::RowMajorReader elements(
      reader, checkpoint::tensors_of(reader.manifest()).at(0), 1 << 20);
  auto found = torch::empty({900, 700});
  elements.read(
      {0, found.numel()}, static_cast<std::byte*>(found.mutable_data_ptr()));
  EXPECT_TRUE(torch::equal(found, tensor));
}

TEST(RowMajorReader, StridesWithGapsAreRefused) {
  const TemporaryFolder folder;
  write_checkpoint_of(folder.path(), torch::randn({4, 6}));
  checkpoint::CheckpointReader reader(folder.path());
  auto saved = checkpoint::tensors_of(reader.manifest()).at(0);
  for (const std::vector<int64_t>& strides :
       {std::vector<int64_t>{7, 1}, {6, 2}, {0, 0}, {1, 1}}) {
    saved.strides = strides;
    const std::string error =
        error_of([&] { checkpoint::RowMajorReader(reader, saved); });
    EXPECT_TRUE(has(error, "leave gaps")) << error;
  }
}

} // namespace
} // namespace zero::test
