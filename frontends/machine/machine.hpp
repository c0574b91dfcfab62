// SPDX-License-Identifier: Apache-2.0
//
// Cost of an op on a machine: the one roofline of ONNX models, HLO modules, jaxprs and steps of PyTorch.
//
//     seconds = max(operations / (rate x efficiency x filled tiles), bytes moved / bandwidth) + launch overhead
//
// Machines are rows of the table `devices.json` (format remora-devices), or files with the keys of a row.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/types.hpp"

namespace remora {

/// Ops that differ in the share of a machine's rate that they reach.
enum class OpClass { product, convolution, attention, memory };

/// "product", "convolution", "attention", "memory"; any other name is of an op that only moves memory.
OpClass op_class_named(std::string_view name);

/// Amount of work of one op.
struct OpWork {
  OpClass of = OpClass::memory;
  /// The type in which it computes: "fp32", "bf16", "fp16", "fp64"; "half" is bf16 where the machine has it, otherwise fp16.
  std::string_view numbers = "fp32";
  std::int64_t operations = 0;           ///< in floating point
  std::int64_t moved = 0;                ///< bytes read and written
  std::span<const std::int64_t> made{};  ///< shape of the first result
};

struct Machine {
  std::string name = "generic accelerator";
  double bandwidth = 1555e9;      ///< bytes a second
  double launch_overhead = 4e-6;  ///< seconds that an op costs at least
  double power = 0;               ///< watts while an op runs; 0 where nothing is known of it

  /// Floating-point operations a second by type: "fp32" (the default of all others), "tf32" (convolutions of fp32), "bf16",
  /// "fp16".
  std::map<std::string, double, std::less<>> rates{{"fp32", 19.5e12}};
  /// The share of the rate that large ops reach: "product", "product-fp32", "convolution", "attention"; of the bandwidth:
  /// "memory"; 1 where it is left out.
  std::map<std::string, double, std::less<>> efficiency{};
  /// A product's tiles run on one each; what the last round of tiles leaves idle is lost.
  int multiprocessors = 1;
  double host = 0;  ///< seconds that the host takes to launch one op, concurrently with the device

  Bytes memory{};      ///< what the driver reports in all; 0 where nothing is known of it
  Bytes context{};     ///< of the driver's context
  Bytes workspaces{};  ///< what cuBLAS and cuDNN keep
  /// Measured time over predicted time, the least and the most where they were compared.
  std::array<double, 2> range{0.5, 2};
  std::string fitted{};  ///< on what the efficiencies were fitted; empty if on nothing
  std::string source{};
  std::string kind = "cuda";  ///< "cuda" or "cpu"
  std::vector<std::string> aliases{};

  /// Seconds of one op.
  [[nodiscard]] double seconds(const OpWork& work) const;
};

/// Whole nanoseconds, rounded up, within 64 bits.
Duration nanoseconds(double seconds);

/// Reads a device file: an object with the keys of a row of the table, of which `rates` (with fp32, 1/s) and `bandwidth`
/// (bytes/s) must be there. Throws InputError with `place` (a path) and the key.
Machine read_machine(std::string_view text, const std::string& place);

/// The table that the program was built with.
const std::vector<Machine>& known_machines();

/// The machine of the table with that name or alias; null without one. Capitals, spaces and underscores do not matter.
const Machine* find_machine(std::string_view name);

/// A link between two devices.
struct LinkModel {
  std::string name{};
  double bandwidth = 1;       ///< bytes a second
  double bandwidth_back = 1;  ///< the same, from the second device to the first
  double latency = 0;         ///< seconds a copy takes at least
  double power = 0;           ///< watts while it copies
  std::vector<std::string> aliases{};
};

/// Reads a link file: bandwidth (bytes/s), latency (s), and perhaps bandwidth_back and power (W). Throws InputError with `place` and
/// the key.
LinkModel read_link(std::string_view text, const std::string& place);

/// The links of the table, and the one with that name or alias; null without one.
const std::vector<LinkModel>& known_links();
const LinkModel* find_link(std::string_view name);

}  // namespace remora
