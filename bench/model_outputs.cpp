// Computes what a model answers to an input, for others to compare with:
//
//   model_outputs gpt FOLDER INPUT OUTPUT
//   model_outputs resnet WEIGHTS INPUT OUTPUT --depth 18 --classes 10
//
// INPUT is a safetensors file with "input"; OUTPUT gets "output". FOLDER is a
// model folder of Hugging Face, WEIGHTS a safetensors file with torchvision's
// names.
#include <c10/core/GradMode.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "models/gpt_folder.h"
#include "models/load_weights.h"
#include "models/resnet.h"

namespace {

at::Tensor read_input(const std::string& path) {
  return zero::checkpoint::SafetensorsReader(path).read("input");
}

void write_output(const at::Tensor& tensor, const std::string& path) {
  const at::Tensor values = tensor.contiguous();
  zero::checkpoint::SafetensorsWriter writer(
      path, {{"output", values.scalar_type(), values.sizes().vec()}});
  writer.write(values.const_data_ptr(), values.nbytes());
  writer.commit();
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app("Computes what a model answers to an input.");
  app.require_subcommand(1);
  std::string model;
  std::string input;
  std::string output;
  zero::models::ResNetOptions options;
  auto* gpt = app.add_subcommand("gpt", "A GPT-2 of Hugging Face's folder");
  auto* resnet =
      app.add_subcommand("resnet", "A ResNet of torchvision's names");
  for (auto* command : {gpt, resnet}) {
    command->add_option("MODEL", model)->required();
    command->add_option("INPUT", input)->required();
    command->add_option("OUTPUT", output)->required();
  }
  resnet->add_option("--depth", options.depth, "18, 34 or 50");
  resnet->add_option("--classes", options.num_classes, "How many classes");
  CLI11_PARSE(app, argc, argv);
  const c10::NoGradGuard no_grad;
  try {
    if (gpt->parsed()) {
      auto net = zero::models::load_gpt(model);
      net->eval();
      write_output(net->forward(read_input(input)), output);
    } else {
      zero::models::ResNet net(options);
      const zero::checkpoint::SafetensorsReader weights(model);
      const auto left =
          zero::models::load_weights(*net, weights, {.may_stay = "fc."});
      net->eval();
      write_output(net->forward(read_input(input)), output);
      for (const auto& name : left) {
        std::cout << "stays as it is: " << name << '\n';
      }
    }
  } catch (const std::exception& error) {
    std::cerr << "model_outputs: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
