// SPDX-License-Identifier: Apache-2.0
//
// Whatever is wrong with a node, of any op and any opset, the model is read or refused with one line: nothing of it
// brings down libonnx, whose inference functions trust what they are given (schema_guards.hpp), or our own shape rules.
//
// Each op's models are read in a child process. If it ends otherwise, the model that it was reading is made smaller as
// long as it fails, printed and written to a file. REMORA_ALL_CASES=1 reads 2,000 models of each schema instead of 8,
// REMORA_SEED=1000000 others, REMORA_OP=GRU those of one op. libonnx itself is not instrumented, not even under
// sanitizers: tests/fuzz/instrument_libonnx builds one that is.
#include "mutated_nodes.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model_builder.hpp"
#include "newer_schemas.hpp"
#include "tests/support/refusal.hpp"

namespace remora::onnx_frontend::test {
namespace {

/// Seconds for one model, at low priority beside other work; and bytes, without sanitizers, which need terabytes.
constexpr unsigned kLongest = 20;
constexpr rlim_t kMaxMemory = rlim_t{2} << 30;

enum class Reading { inference, training, around_unknown };

std::string refusal(const std::string& bytes, Reading how) {
  OnnxOptions options{.allow_unknown = how == Reading::around_unknown};
  if (how == Reading::training) options.training.emplace();
  const auto read = [&] { return remora::test::refusal_of([&] { read_onnx(bytes, "mutated.onnx", options); }); };
  std::string plain = read();
  options.axes = AxesWanted::all;
  ensure(read() == plain, "axes are no reason to refuse a model");
  return plain;
}

/// Ends the process with 1 unless the model is read or refused with one line; whether it was read.
bool read_or_end(const onnx::ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  bool read = false;
  for (const Reading how : {Reading::inference, Reading::training, Reading::around_unknown}) {
    alarm(kLongest);
    try {
      const std::string says = refusal(bytes, how);
      const bool one_line = says.find('\n') == std::string::npos;
      if (!says.empty() && (!says.starts_with("mutated.onnx: ") || !one_line)) {
        std::cerr << "not one line with the place: " << says << std::endl;
        _exit(1);
      }
      read |= says.empty() && how != Reading::around_unknown;
    } catch (const std::exception& error) {
      std::cerr << "not an InputError: " << error.what() << std::endl;
      _exit(1);
    }
    alarm(0);
  }
  return read;
}

/// A protobuf library with checks throws where one is broken, which a reader might take for an error of libonnx.
void end_at_broken_checks(google::protobuf::LogLevel level, const char* file, int line, const std::string& text) {
  std::cerr << file << ":" << line << ": " << text << std::endl;
  if (level == google::protobuf::LOGLEVEL_FATAL) std::abort();
}

struct Ending {
  int status = 0;
  /// One for each model: 'y' if it was read, 'n' if it was refused.
  std::string told{};
};

/// How a child process ends that runs `body`, which may tell letters: status 0 if it returns. A pipe holds 65,536 letters.
Ending run(const std::function<void(int tell)>& body, bool quiet) {
  std::cout.flush();
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const rlimit memory{kMaxMemory, kMaxMemory};
    if (dlsym(RTLD_DEFAULT, "__asan_init") == nullptr) setrlimit(RLIMIT_AS, &memory);
    if (quiet) (void)!freopen("/dev/null", "w", stderr);
    google::protobuf::SetLogHandler(end_at_broken_checks);
    body(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  Ending ending;
  waitpid(child, &ending.status, 0);
  char letters[4096];
  for (ssize_t count = 0; (count = read(ends[0], letters, sizeof letters)) > 0;) {
    ending.told.append(letters, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  return ending;
}

bool fails(const onnx::ModelProto& model) {
  return run([&](int) { read_or_end(model); }, true).status != 0;
}

using Smaller = std::vector<std::function<void(onnx::ModelProto&)>>;

/// What may be left out of a model one at a time.
Smaller smaller_than(const onnx::ModelProto& model) {
  Smaller result;
  const onnx::NodeProto& node = model.graph().node(0);
  const auto node_of = [](onnx::ModelProto& whole) { return whole.mutable_graph()->mutable_node(0); };
  for (int k = 0; k < node.attribute_size(); ++k) {
    result.push_back([=](auto& less) { node_of(less)->mutable_attribute()->DeleteSubrange(k, 1); });
  }
  result.push_back([=](auto& less) { node_of(less)->mutable_input()->RemoveLast(); });
  result.push_back([=](auto& less) { node_of(less)->mutable_output()->RemoveLast(); });
  result.push_back([](auto& less) { less.mutable_graph()->clear_value_info(); });
  for (int k = 0; k < model.graph().initializer_size(); ++k) {
    result.push_back([=](auto& less) { less.mutable_graph()->mutable_initializer()->DeleteSubrange(k, 1); });
    result.push_back([=](auto& less) {
      onnx::TensorProto& tensor = *less.mutable_graph()->mutable_initializer(k);
      onnx::TensorProto bare;
      bare.set_name(tensor.name());
      bare.set_data_type(tensor.data_type());
      *bare.mutable_dims() = tensor.dims();
      tensor = bare;
    });
  }
  for (int k = 0; k < model.graph().input_size(); ++k) {
    const auto shape_of = [=](onnx::ModelProto& whole) {
      return whole.mutable_graph()->mutable_input(k)->mutable_type()->mutable_tensor_type()->mutable_shape();
    };
    const int rank = model.graph().input(k).type().tensor_type().shape().dim_size();
    for (int axis = 0; axis < rank; ++axis) {
      result.push_back([=](auto& less) { shape_of(less)->mutable_dim()->DeleteSubrange(axis, 1); });
      result.push_back([=](auto& less) { shape_of(less)->mutable_dim(axis)->set_dim_value(1); });
    }
  }
  return result;
}

onnx::ModelProto shrunk(onnx::ModelProto model) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& leave_out : smaller_than(model)) {
      onnx::ModelProto less = model;
      const int inputs = less.graph().node(0).input_size();
      const int outputs = less.graph().node(0).output_size();
      if (inputs == 0 || outputs == 0) continue;
      leave_out(less);
      if (less.SerializeAsString() == model.SerializeAsString() || !fails(less)) continue;
      model = less;
      changed = true;
      break;
    }
  }
  return model;
}

std::uint64_t seed_of(const onnx::OpSchema& schema, std::uint64_t number) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char character : schema.domain() + ":" + schema.Name() + std::to_string(schema.since_version())) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 1099511628211U;
  }
  return hash + number;
}

void report(const onnx::OpSchema& schema, std::uint64_t number, int status) {
  const onnx::ModelProto model = shrunk(MutatedNode(schema, seed_of(schema, number)).model());
  const std::string file = (std::filesystem::temp_directory_path() /
                            ("mutated-" + schema.Name() + "-" + std::to_string(schema.since_version()) + "-" +
                             std::to_string(number) + ".onnx"))
                               .string();
  std::ofstream(file, std::ios::binary) << model.SerializeAsString();
  std::ostringstream ends;
  if (WIFSIGNALED(status)) {
    ends << "signal " << WTERMSIG(status);
  } else {
    ends << "exit " << WEXITSTATUS(status);
  }
  ADD_FAILURE() << ends.str() << " by " << schema.Name() << " of opset " << schema.since_version()
                << ", REMORA_SEED=" << number << "; shrunk, also in " << file << ":\n"
                << model.DebugString();
}

std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

/// A part of the schemas: one of so many.
constexpr std::size_t kParts = 16;

class MutatedNodes : public testing::TestWithParam<std::size_t> {};

TEST_P(MutatedNodes, AreReadOrRefusedWithALine) {
  constexpr std::uint64_t kFew = 8;
  constexpr std::uint64_t kMany = 2000;
  const std::uint64_t first = environment("REMORA_SEED", 0);
  const std::uint64_t count = std::getenv("REMORA_ALL_CASES") == nullptr ? kFew : kMany;
  const char* const only = std::getenv("REMORA_OP");
  auto schemas = onnx::OpSchemaRegistry::get_all_schemas_with_history();
  EXPECT_GT(schemas.size(), 400U);
  for (const onnx::OpSchema& schema : newer_schemas()) schemas.push_back(schema);
  std::uint64_t models = 0;
  std::uint64_t taken = 0;
  for (std::size_t i = GetParam(); i < schemas.size(); i += kParts) {
    const onnx::OpSchema& schema = schemas[i];
    if (only != nullptr && schema.Name() != only) continue;
    const auto body = [&](int tell) {
      for (std::uint64_t k = 0; k < count; ++k) {
        const onnx::ModelProto model = MutatedNode(schema, seed_of(schema, first + k)).model();
        (void)!write(tell, read_or_end(model) ? "y" : "n", 1);
      }
    };
    const Ending ending = run(body, false);
    if (ending.status != 0) report(schema, first + ending.told.size(), ending.status);
    models += ending.told.size();
    taken += static_cast<std::uint64_t>(std::count(ending.told.begin(), ending.told.end(), 'y'));
  }
  std::cout << models << " models, " << taken << " of them read" << std::endl;
  EXPECT_GE(taken * 10, models) << "the models are too far from real ones to say anything";
}

INSTANTIATE_TEST_SUITE_P(OfEveryOpAndOpset, MutatedNodes, testing::Range(std::size_t{0}, kParts));

}  // namespace
}  // namespace remora::onnx_frontend::test
