// SPDX-License-Identifier: Apache-2.0
//
// Numbers of the fields of XLA's messages that are read or written here (hlo.proto, xla_data.proto), by message.
#pragma once

#include <cstdint>

namespace remora::hlo {

/// HloModuleProto.
namespace module_field {
enum : std::uint64_t {
  name = 1,
  entry_name,
  computations,
  entry_id = 6,
  schedule = 7,
  input_output_alias = 8,
  cross_program_prefetches = 10,
  is_dynamic = 11,
  stack_frames = 17
};
}

/// HloComputationProto.
namespace computation_field {
enum : std::uint64_t { name = 1, instructions, id = 5, root_id, is_fusion };
}

/// HloInstructionProto. From `id` to `called_computation_ids`: what names other parts of the module.
namespace instruction_field {
enum : std::uint64_t {
  name = 1,
  opcode,
  shape,
  metadata = 7,
  literal = 8,
  parameter_number = 9,
  fusion_kind = 11,
  tuple_index = 13,
  dimensions = 14,
  window = 15,
  convolution_dimensions = 16,
  slice_dimensions = 17,
  slice_sizes = 20,
  padding = 21,
  target = 28,
  dot_dimensions = 30,
  id = 35,
  operand_ids,
  control_predecessor_ids,
  called_computation_ids,
  backend_config = 43,
  feature_groups = 50,
  batch_groups = 58,
  comparison = 63,
  has_side_effect = 65,
  output_operand_aliasing = 74
};
}

/// ShapeProto, and its LayoutProto.
namespace shape_field {
enum : std::uint64_t { element_type = 2, dimensions, tuple_shapes, layout, is_dynamic };
}
namespace layout_field {
enum : std::uint64_t { minor_to_major = 1, tiles = 6, element_size_in_bits = 7, tail_padding = 16 };
}

/// LiteralProto: its shape, then values by type; `u8s` are bytes.
namespace literal_field {
enum : std::uint64_t { shape = 1, preds, u8s, u64s = 7 };
}

/// Window and its dimensions, SliceDimensions, PaddingConfig and its dimensions.
namespace window_field {
enum : std::uint64_t {
  dimensions = 1,
  size = 1,
  stride,
  padding_low,
  padding_high,
  window_dilation,
  base_dilation,
  is_reversed
};
}
namespace slice_field {
enum : std::uint64_t { start = 1, limit, stride };
}
namespace padding_field {
enum : std::uint64_t { dimensions = 1, low = 1, high, interior };
}

/// ConvolutionDimensionNumbers, DotDimensionNumbers.
namespace convolution_field {
enum : std::uint64_t {
  kernel_input_dimension = 3,
  kernel_output_dimension,
  input_batch = 7,
  input_feature,
  output_batch,
  output_feature
};
}
namespace dot_field {
enum : std::uint64_t { lhs_contracting = 1, rhs_contracting, lhs_batch, rhs_batch };
}

/// An entry of OutputOperandAliasing or of HloInputOutputAliasProto, whose entries are its only field.
namespace alias_field {
enum : std::uint64_t { entries = 1, output = 1, from = 2, from_index = 3 };
}

/// HloScheduleProto: a map, whose entries have a computation and its sequence of instructions.
namespace schedule_field {
enum : std::uint64_t { sequences = 1, computation = 1, sequence = 2, instructions = 1 };
}

/// OpMetadata.
namespace metadata_field {
enum : std::uint64_t { op_name = 2, source_file = 3, source_line = 4, stack_frame_id = 15 };
}

/// StackFrameIndexProto; of its entries: a frame's location, a location's file and line.
namespace frames_field {
enum : std::uint64_t {
  file_names = 1,
  locations = 3,
  frames = 4,
  location_of_frame = 1,
  file_of_location = 1,
  line = 3
};
}

}  // namespace remora::hlo
