// SPDX-License-Identifier: Apache-2.0
//
// Remora as a library: everything that an installed program needs, in one header.
//
//     #include <remora/remora.hpp>
//
//     auto graph = std::make_shared<remora::Graph>();
//     const remora::TensorId a = graph->add_tensor("a", remora::Bytes(4096));
//     graph->add_op({.name = "f", .duration = remora::Duration(120), .outputs = {a}});
//     ...
//     const remora::Instance unlimited(graph, {});
//     const remora::Bytes budget = remora::parse_budget("80%", graph->fixed_memory, remora::baseline_peak(unlimited));
//     const remora::Schedule schedule = remora::solve(unlimited.with_budget(budget), {});
//
// The headers use the standard library alone. docs/embedding.md tells more.
#pragma once

#include "engine/addresses.hpp"
#include "engine/base/options.hpp"
#include "engine/computes_choice.hpp"
#include "engine/order_choice.hpp"
#include "engine/placement/place.hpp"
#include "engine/solve.hpp"
#include "engine/sweep.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/graph.hpp"
#include "model/instance.hpp"
#include "model/placement.hpp"
#include "model/schedule.hpp"
#include "model/schedule_buffers.hpp"
#include "model/verify.hpp"
