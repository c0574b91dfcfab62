// SPDX-License-Identifier: Apache-2.0
#include "tests/support/pipeline_oracle.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace remora::test {
namespace {

/// Kind F, B or W, microbatch, stage.
using Task = std::tuple<char, int, int>;

struct Page {
  explicit Page(const Pipeline& given)
      : pipeline(given),
        P(static_cast<int>(given.devices)),
        S(static_cast<int>(given.stages.size())),
        M(given.microbatches),
        splits(given.order == PipelineOrder::zero_bubble) {}

  [[nodiscard]] std::vector<Task> order(int d) const {
    if (pipeline.order == PipelineOrder::interleaved) return interleaved(d);
    std::vector<Task> tasks;
    const auto add = [&](char kind, int first, int end) {
      for (int m = first; m < end; ++m) tasks.emplace_back(kind, m, d);
    };
    if (pipeline.order == PipelineOrder::gpipe) {
      add('F', 0, M);
      add('B', 0, M);
      return tasks;
    }
    const int w = std::min(M, P - d);
    add('F', 0, w);
    for (int i = 0; i < M; ++i) {
      add('B', i, i + 1);
      if (splits && i >= d) add('W', i - d, i - d + 1);
      if (w + i < M) add('F', w + i, w + i + 1);
    }
    if (splits) add('W', std::max(0, M - d), M);
    return tasks;
  }

  [[nodiscard]] std::vector<Task> interleaved(int d) const {
    const int V = S / P;
    const int N = M * V;
    const int w = std::min(N, 2 * (P - 1 - d) + (V - 1) * P);
    std::vector<Task> tasks;
    const auto microbatch = [&](int k) { return k / (P * V) * P + k % P; };
    const auto forward = [&](int k) { tasks.emplace_back('F', microbatch(k), k % (P * V) / P * P + d); };
    const auto backward = [&](int k) { tasks.emplace_back('B', microbatch(k), (V - 1 - k % (P * V) / P) * P + d); };
    for (int k = 0; k < w; ++k) forward(k);
    for (int i = 0; i < N; ++i) {
      if (w + i < N) forward(w + i);
      backward(i);
    }
    return tasks;
  }

  [[nodiscard]] const StageMode& mode(const ModeChoice& choice, int m, int s) const {
    const int k = m % pipeline.classes;
    const int number = choice[static_cast<std::size_t>(s * pipeline.classes + k)];
    return pipeline.stages[StageId(static_cast<std::size_t>(s))].modes[static_cast<std::size_t>(number)];
  }

  [[nodiscard]] std::int64_t lasts(const ModeChoice& choice, const Task& task) const {
    const auto [kind, m, s] = task;
    const StageMode& own = mode(choice, m, s);
    if (kind == 'F') return own.forward.count();
    if (kind == 'W') return own.weight_gradient.count();
    return own.backward.count() + (splits ? 0 : own.weight_gradient.count());
  }

  /// Bytes that only the running task takes.
  [[nodiscard]] std::int64_t transient(const ModeChoice& choice, const Task& task) const {
    const auto [kind, m, s] = task;
    const StageMode& own = mode(choice, m, s);
    const std::int64_t weights = own.weight_transient.count();
    if (kind == 'F') return own.forward_transient.count();
    if (kind == 'W') return weights;
    return splits ? own.backward_transient.count() : std::max(own.backward_transient.count(), weights);
  }

  const Pipeline& pipeline;
  int P;
  int S;
  int M;
  bool splits;
};

/// Each task's end: the later of the end of the one before on its device and of what it reads, sent, and its own time.
class Ends {
 public:
  Ends(const Page& page, const ModeChoice& choice) : page_(page), choice_(choice) {
    for (int d = 0; d < page.P; ++d) {
      const std::vector<Task> tasks = page.order(d);
      for (std::size_t i = 1; i < tasks.size(); ++i) before_[tasks[i]] = tasks[i - 1];
    }
  }

  std::int64_t end(const Task& task) {
    if (const auto known = ends_.find(task); known != ends_.end()) return known->second;
    const auto [kind, m, s] = task;
    const std::int64_t send = page_.pipeline.send.count();
    std::int64_t start = before_.contains(task) ? end(before_.at(task)) : 0;
    if (kind == 'F' && s > 0) start = std::max(start, end({'F', m, s - 1}) + send);
    if (kind == 'B' && s + 1 == page_.S) start = std::max(start, end({'F', m, s}));
    if (kind == 'B' && s + 1 < page_.S) start = std::max(start, end({'B', m, s + 1}) + send);
    if (kind == 'W') start = std::max(start, end({'B', m, s}));
    return ends_[task] = start + page_.lasts(choice_, task);
  }

 private:
  const Page& page_;
  const ModeChoice& choice_;
  std::map<Task, Task> before_;
  std::map<Task, std::int64_t> ends_;
};

/// Task by task, what has been saved before and is read then or later.
std::int64_t peak_of(const Page& page, const ModeChoice& choice, int d) {
  const std::vector<Task> tasks = page.order(d);
  const auto place = [&](char kind, int m, int s) {
    return std::ranges::find(tasks, Task{kind, m, s}) - tasks.begin();
  };
  std::int64_t fixed = 0;
  for (int s = d; s < page.S; s += page.P) {
    fixed += page.pipeline.stages[StageId(static_cast<std::size_t>(s))].fixed_memory.count();
  }
  std::int64_t most = fixed;
  for (std::ptrdiff_t now = 0; now < std::ssize(tasks); ++now) {
    std::int64_t bytes = fixed + page.transient(choice, tasks[static_cast<std::size_t>(now)]);
    for (int s = d; s < page.S; s += page.P) {
      for (int m = 0; m < page.M; ++m) {
        const std::ptrdiff_t backward = place('B', m, s);
        if (place('F', m, s) <= now && now <= backward) bytes += page.mode(choice, m, s).saved.count();
        if (page.splits && backward < now && now <= place('W', m, s)) bytes += page.mode(choice, m, s).held.count();
      }
    }
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

std::string pipeline_order_by_the_page(const Pipeline& pipeline, int device) {
  std::string text;
  for (const auto& [kind, m, s] : Page(pipeline).order(device)) {
    text += (text.empty() ? "" : " ") + std::string(1, kind) + std::to_string(m);
    if (pipeline.order == PipelineOrder::interleaved) text += "." + std::to_string(s);
  }
  return text;
}

PipelineOutcome pipeline_by_the_page(const Pipeline& pipeline, const ModeChoice& choice) {
  const Page page(pipeline);
  Ends ends(page, choice);
  PipelineOutcome outcome;
  for (int d = 0; d < page.P; ++d) {
    outcome.makespan = std::max(outcome.makespan, ends.end(page.order(d).back()));
    outcome.peak.push_back(peak_of(page, choice, d));
  }
  return outcome;
}

PipelineTruth enumerate_choices(const Pipeline& pipeline) {
  PipelineTruth truth;
  truth.minimum.assign(pipeline.devices, std::numeric_limits<std::int64_t>::max());
  const auto classes = static_cast<std::size_t>(pipeline.classes);
  ModeChoice choice(pipeline.stages.size() * classes, 0);
  for (;;) {
    const PipelineOutcome outcome = pipeline_by_the_page(pipeline, choice);
    bool is_within = true;
    for (std::size_t d = 0; d < pipeline.devices; ++d) {
      truth.minimum[d] = std::min(truth.minimum[d], outcome.peak[d]);
      is_within = is_within && (!pipeline.budget[d] || outcome.peak[d] <= pipeline.budget[d]->count());
    }
    if (is_within) truth.makespan = std::min(truth.makespan.value_or(outcome.makespan), outcome.makespan);
    std::size_t i = 0;
    while (i < choice.size()) {
      const auto modes = static_cast<int>(pipeline.stages[StageId(i / classes)].modes.size());
      if (++choice[i] < modes) break;
      choice[i++] = 0;
    }
    if (i == choice.size()) return truth;
  }
}

}  // namespace remora::test
