// SPDX-License-Identifier: Apache-2.0
//
// Stages of a pipeline, remora-stage, and how they run, remora-pipeline (docs/reference/formats.md).
#pragma once

#include <array>
#include <iosfwd>
#include <utility>

#include "engine/pipeline/solve.hpp"
#include "frontends/formats/file.hpp"
#include "model/api.hpp"
#include "model/pipeline.hpp"

namespace remora::json {

/// True if the text is a remora-stage. False for what is no JSON object.
REMORA_API bool is_stage(Text text);

/// Throws InputError with the path of the fault.
REMORA_API PipelineStage read_stage(Text text);
REMORA_API void write_stage(std::ostream& out, const PipelineStage& stage);

/// By order, its word.
inline constexpr std::array<std::pair<const char*, PipelineOrder>, 4> kPipelineOrders{
    {{"gpipe", PipelineOrder::gpipe},
     {"1f1b", PipelineOrder::one_f_one_b},
     {"interleaved", PipelineOrder::interleaved},
     {"zero-bubble", PipelineOrder::zero_bubble}}};

REMORA_API const char* pipeline_order_word(PipelineOrder order);

REMORA_API void write_pipeline(std::ostream& out, const Pipeline& pipeline, const PipelinePlan& plan);

}  // namespace remora::json
