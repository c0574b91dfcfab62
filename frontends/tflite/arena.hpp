// SPDX-License-Identifier: Apache-2.0
//
// TFLite models as TFLite Micro runs them: which tensors need room in its arena, from when until when, and a plan of
// their offsets inside the model, which the runtime keeps to (its page on memory management, "Offline planned tensor
// allocations").
//
//     scope     0       1     2     3     ops run one after the other, op i in scope i + 1
//     input     +-------+                 an input of the model lives from 0 on, each other tensor from the op that
//     a                 +-----+           writes it, until the last op that reads it; an output of the model until
//     output                  +-----+     the end. Both ends count.
//
// Constants and variables have memory of their own, and what kernels ask for at run time (scratch) the runtime places
// around the plan.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/placement.hpp"
#include "model/types.hpp"

namespace remora::tflite {

/// The alignment of the runtime's arena, to which it also rounds sizes.
constexpr Bytes kAlignment{16};

/// The tensors of a model that need room in the arena: a buffer each, and its number in the model.
struct ArenaTensors {
  std::vector<Buffer> buffers{};
  std::vector<std::size_t> numbers{};
  /// All tensors of the model, those without room included.
  std::size_t count = 0;
};

/// Buffers are named by the tensors, with sizes rounded up to kAlignment, in time linear in the file. Throws InputError
/// that names `source` for what is damaged, for more than one subgraph (older runtimes take the first one's offsets for
/// all), a tensor that needs room and has no size (texts, unknown dimensions), a model that has a plan already, and one
/// with fields that are not known here, such as data in other files.
ArenaTensors read_arena_tensors(std::string_view bytes, const std::string& source);

/// The model with the plan: the metadata "OfflineMemoryAllocation", -1 for tensors without room. Nothing else changes;
/// all bytes of the model but the first eight follow what is added, in their order. `offsets` has one for each buffer.
/// Throws InputError that names `source` for data outside of the flatbuffer, whose positions would change, and for
/// offsets or bytes of 2 GiB and more.
std::string with_plan(std::string_view bytes, const std::string& source, const ArenaTensors& tensors,
                      std::span<const Bytes> offsets);

/// The plan that a model has: one offset for each tensor. Throws InputError that names `source` if there is none.
std::vector<std::int32_t> read_plan(std::string_view bytes, const std::string& source);

}  // namespace remora::tflite
