// SPDX-License-Identifier: Apache-2.0
//
// What the fuzzers call, by name: remora_fuzz --target=graph seeds/graph.
//
// A target takes any bytes. An InputError is an answer; any other exception, a signal, a sanitizer's report or a broken
// promise (`expect`) is a finding.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <span>
#include <string_view>

namespace remora::fuzz {

using Input = std::string_view;

/// Ends the process, as a crash does, unless it holds.
inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "fuzz: broken promise: " << what << std::endl;
  std::abort();
}

/// Numbers drawn from a text, 0 where it ends.
class Draw {
 public:
  explicit Draw(Input bytes) : bytes_(bytes) {}

  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const char first = bytes_.front();
    bytes_.remove_prefix(1);
    return static_cast<std::uint8_t>(first);
  }
  std::uint32_t below(std::uint32_t limit) { return byte() % limit; }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8U | byte();
    return value;
  }
  /// Now small, now at an edge: 0, -1, 2^31, 2^60 and their neighbours.
  std::int64_t amount();
  /// Up to `most` bytes.
  Input text(std::size_t most);
  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  Input bytes_;
};

// Readers (readers.cpp).
void fuzz_graph(Input bytes);
void fuzz_schedule(Input bytes);
void fuzz_device_graph(Input bytes);
void fuzz_device_schedule(Input bytes);
void fuzz_curve(Input bytes);
void fuzz_buffers(Input bytes);
void fuzz_costs(Input bytes);
void fuzz_device(Input bytes);
void fuzz_manifest(Input bytes);
void fuzz_record(Input bytes);
void fuzz_budget(Input bytes);
/// A model, inference or training, rewritten where it can be (onnx.cpp).
void fuzz_onnx(Input bytes);
void fuzz_hlo(Input bytes);
void fuzz_tflite(Input bytes);
/// A sequence of calls of remora.h, right and wrong (calls.cpp).
void fuzz_calls(Input bytes);
/// A graph for two devices, and calls of remora_devices.h with it (device_calls.cpp).
void fuzz_device_calls(Input bytes);
/// A small graph solved with options of any kind, against brute force (solves.cpp).
void fuzz_solves(Input bytes);

}  // namespace remora::fuzz
