// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/target.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "model/error.hpp"

namespace remora::fuzz {
namespace {

using Target = void (*)(Input);
constexpr std::array<std::pair<const char*, Target>, 19> kTargets{{{"graph", fuzz_graph},
                                                                   {"schedule", fuzz_schedule},
                                                                   {"device_graph", fuzz_device_graph},
                                                                   {"device_schedule", fuzz_device_schedule},
                                                                   {"curve", fuzz_curve},
                                                                   {"buffers", fuzz_buffers},
                                                                   {"costs", fuzz_costs},
                                                                   {"device", fuzz_device},
                                                                   {"manifest", fuzz_manifest},
                                                                   {"record", fuzz_record},
                                                                   {"budget", fuzz_budget},
                                                                   {"onnx", fuzz_onnx},
                                                                   {"hlo", fuzz_hlo},
                                                                   {"tflite", fuzz_tflite},
                                                                   {"calls", fuzz_calls},
                                                                   {"device_calls", fuzz_device_calls},
                                                                   {"solves", fuzz_solves}}};

// libFuzzer calls functions with arguments that it chooses: the target has to wait somewhere.
Target& chosen() {
  static Target target = nullptr;
  return target;
}

}  // namespace

std::int64_t Draw::amount() {
  constexpr std::array<std::int64_t, 8> kEdges{0,
                                               std::int64_t{1} << 31,
                                               std::int64_t{1} << 53,
                                               std::int64_t{1} << 60,
                                               std::int64_t{1} << 61,
                                               std::int64_t{1} << 62,
                                               INT64_MAX,
                                               INT64_MIN};
  const std::uint8_t kind = byte();
  if (kind < 192) return kind % 16;
  const std::int64_t edge = kEdges[kind % kEdges.size()];
  const std::int64_t off = static_cast<std::int64_t>(byte() % 5) - 2;
  return (off > 0 && edge > INT64_MAX - off) || (off < 0 && edge < INT64_MIN - off) ? edge : edge + off;
}

Input Draw::text(std::size_t most) {
  const std::size_t size = std::min<std::size_t>({byte(), most, bytes_.size()});
  const Input text = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  return text;
}

}  // namespace remora::fuzz

// Clp's presolve never frees an array of no elements (1 byte) in some linear programs: seeds/solves/6.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:presolve_dupmajor\n";
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  constexpr std::string_view kOption = "--target=";
  for (int i = 1; i < *count; ++i) {
    const std::string_view word = (*words)[i];
    if (!word.starts_with(kOption)) continue;
    for (const auto& [name, target] : remora::fuzz::kTargets) {
      if (word.substr(kOption.size()) == name) remora::fuzz::chosen() = target;
    }
  }
  if (remora::fuzz::chosen() != nullptr) return 0;
  std::cerr << "usage: remora_fuzz --target=NAME [libFuzzer's options] FOLDER...\n";
  for (const auto& [name, target] : remora::fuzz::kTargets) std::cerr << name << "\n";
  std::exit(64);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of its own, so that reading beyond its end is seen.
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    remora::fuzz::chosen()(bytes);
  } catch (const remora::InputError& error) {
    remora::fuzz::expect(std::strlen(error.what()) > 0, "an error says something");
  }
  return 0;
}
