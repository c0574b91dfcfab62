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
//     remora::Request request{.graph = graph};
//     request.budget = remora::budget_of("80%", request);
//     const remora::Answer answer = remora::solve(request);
//     if (answer.schedule.has_schedule()) run(answer.schedule);
//
// The headers use the standard library alone. docs/guide/embedding.md tells more.
#pragma once

#include "engine/ask/ask.hpp"
#include "engine/base/options.hpp"
#include "engine/devices/ask.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/text/refusal.hpp"
#include "model/budget.hpp"
#include "model/buffers/schedule_buffers.hpp"
#include "model/devices/graph.hpp"
#include "model/devices/schedule.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/graph.hpp"
#include "model/instance.hpp"
#include "model/placement.hpp"
#include "model/schedule.hpp"
#include "model/verify.hpp"
