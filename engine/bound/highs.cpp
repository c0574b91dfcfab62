// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/highs.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <pthread.h>

#include "engine/base/lingering.hpp"
#include "engine/bound/counted_seconds.hpp"
#include "engine/bound/cpu_seconds.hpp"

namespace remora {
namespace {

// The part of HiGHS's C interface that is used (highs_c_api.h of 1.8 to 1.11).
constexpr int kOldestMinor = 8;
/// From 1.12 on (1.15.1 is the last one tried) its presolve loses solutions of some small programs (Highs.FindsTheOptimum...).
constexpr int kFirstWrongMinor = 12;
constexpr int kRowWise = 2;
constexpr int kMinimize = 1;
constexpr int kInteger = 1;
constexpr int kOptimal = 7;
constexpr int kInfeasible = 8;
constexpr int kSimplexInterrupt = 1;
constexpr int kMipInterrupt = 6;
constexpr int kHasNoSolution = 0;
constexpr int kHasSolution = 2;
constexpr const char* kBroughtAlong = "libhighs.so";

/// Nanoseconds of HiGHS 1.11, measured as those of Clp (clp_program.cpp). For each coefficient: of presolve, and
/// between two questions, most of it for cuts and probing. Of a simplex iteration for each row and column.
/// Eight programs that took 0.1 to 2.2 s counted 0.3 to 1.7 times as much.
constexpr double kPresolve = 4'000;
constexpr double kBetweenQuestions = 800;
constexpr double kIteration = 90;
/// It waits for an answer when it has counted so many.
constexpr std::int64_t kNanosecondsOfQuestion = 1'000'000;

/// Only the first member is written; more follow.
struct CallbackInput {
  int user_interrupt;
};
using Callback = void (*)(int, const char*, const void*, CallbackInput*, void*);

struct Interface {
  const char* (*version)() = nullptr;
  int (*major)() = nullptr;
  int (*minor)() = nullptr;
  std::size_t (*size_of_int)(const void*) = nullptr;
  void* (*create)() = nullptr;
  void (*destroy)(void*) = nullptr;
  int (*set_bool)(void*, const char*, int) = nullptr;
  int (*set_int)(void*, const char*, int) = nullptr;
  int (*set_double)(void*, const char*, double) = nullptr;
  int (*pass)(void*, int, int, int, int, int, double, const double*, const double*, const double*, const double*,
              const double*, const int*, const int*, const double*, const int*) = nullptr;
  int (*set_callback)(void*, Callback, void*) = nullptr;
  int (*start_callback)(void*, int) = nullptr;
  int (*run)(void*) = nullptr;
  int (*status)(const void*) = nullptr;
  int (*solution)(const void*, double*, double*, double*, double*) = nullptr;
  int (*int_info)(const void*, const char*, int*) = nullptr;
  int (*int64_info)(const void*, const char*, std::int64_t*) = nullptr;
  int (*double_info)(const void*, const char*, double*) = nullptr;
  const void* (*item_of_output)(const void*, const char*) = nullptr;
};

template <class Function>
bool take(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool take_all(void* library, Interface& api) {
  return take(library, "Highs_version", api.version) && take(library, "Highs_versionMajor", api.major) &&
         take(library, "Highs_versionMinor", api.minor) && take(library, "Highs_getSizeofHighsInt", api.size_of_int) &&
         take(library, "Highs_create", api.create) && take(library, "Highs_destroy", api.destroy) &&
         take(library, "Highs_setBoolOptionValue", api.set_bool) &&
         take(library, "Highs_setIntOptionValue", api.set_int) &&
         take(library, "Highs_setDoubleOptionValue", api.set_double) && take(library, "Highs_passMip", api.pass) &&
         take(library, "Highs_setCallback", api.set_callback) &&
         take(library, "Highs_startCallback", api.start_callback) && take(library, "Highs_run", api.run) &&
         take(library, "Highs_getModelStatus", api.status) && take(library, "Highs_getSolution", api.solution) &&
         take(library, "Highs_getIntInfoValue", api.int_info) &&
         take(library, "Highs_getInt64InfoValue", api.int64_info) &&
         take(library, "Highs_getDoubleInfoValue", api.double_info) &&
         take(library, "Highs_getCallbackDataOutItem", api.item_of_output);
}

struct Loaded {
  Interface api{};
  HighsFound found{};
};

std::string& offered() {
  static std::string library;
  return library;
}

/// Where an installation or a build folder has a library of its own: in the folder `remora` beside the shared library that this
/// code is part of, or among the libraries below the program's prefix.
std::vector<std::string> brought_along() {
  std::vector<std::string> places;
  const auto add_those_of = [&places](const char* module) {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::canonical(module, error).parent_path();
    if (error) return;
    places.push_back(folder / "remora" / kBroughtAlong);
    places.push_back(folder.parent_path() / REMORA_PRIVATE_FOLDER / kBroughtAlong);
  };
  Dl_info self{};
  // For the program itself this is the name by which it was called: no path if the shell looked it up.
  const bool is_found = dladdr(reinterpret_cast<const void*>(&find_highs), &self) != 0 && self.dli_fname != nullptr;
  if (is_found && std::string_view(self.dli_fname).find('/') != std::string_view::npos) add_those_of(self.dli_fname);
  add_those_of("/proc/self/exe");
  return places;
}

Loaded load() {
  Loaded loaded;
  const char* named = std::getenv("REMORA_HIGHS");
  if (named == nullptr && !offered().empty()) named = offered().c_str();
  if (named != nullptr && std::string_view(named) == "off") {
    loaded.found.why_not = "REMORA_HIGHS is off";
    return loaded;
  }
  const auto its_name = [&loaded] { return std::string("HiGHS ") + loaded.api.version(); };
  // Never closed: its threads' memory belongs to it.
  void* library = nullptr;
  if (named != nullptr) {
    library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
  } else {
    std::vector<std::string> places = brought_along();
    places.insert(places.end(), {"libhighs.so.1", "libhighs.so"});
    for (const std::string& place : places) {
      library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) break;
    }
  }
  if (library == nullptr) {
    const char* const reason = dlerror();
    loaded.found.why_not = named != nullptr && reason != nullptr ? reason : "libhighs.so is not there";
  } else if (!take_all(library, loaded.api)) {
    loaded.found.why_not = "the library lacks a function of HiGHS 1.8";
  } else if (loaded.api.major() != 1 || loaded.api.minor() < kOldestMinor) {
    loaded.found.why_not = its_name() + " is not of 1.8 or later";
  } else if (loaded.api.minor() >= kFirstWrongMinor) {
    loaded.found.why_not = its_name() + " loses solutions; 1.8 to 1.11 do not";
  } else {
    loaded.found.name = its_name();
  }
  loaded.found.is_missed = named != nullptr && loaded.found.name.empty();
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

/// A program that a thread of its own solves, which may outlive the call that asked for it.
class Run {
 public:
  /// `waits`: for the answers to its questions.
  Run(const BinaryProgram& program, double most, bool waits)
      : costs_(program.costs.begin(), program.costs.end()),
        highest_(program.highest.begin(), program.highest.end()),
        begins_(program.begins.begin(), program.begins.end()),
        columns_(program.columns.begin(), program.columns.end()),
        factors_(program.factors.begin(), program.factors.end()),
        least_(program.least.begin(), program.least.end()),
        most_of_rows_(least_.size(), kNone),
        waits_(waits) {
    if (most < kNone) limit_costs(most);
    counted_ = static_cast<std::int64_t>(kPresolve * static_cast<double>(columns_.size()));
  }

  /// In the run's own thread.
  void solve() {
    HighsAnswer answer;
    try {
      answer = answered();
    } catch (const std::bad_alloc&) {
      answer = {};
    }
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
    is_done_ = true;
    changed_.notify_all();
  }

  /// Waits so long, or until it is done or waits for an answer.
  bool is_done_after(std::chrono::milliseconds pause) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [this] { return is_done_ || asks_; });
    return is_done_;
  }

  /// It waits for an answer.
  bool asks() {
    const std::lock_guard lock(mutex_);
    return asks_;
  }

  /// Nanoseconds counted since.
  std::int64_t take_counted() {
    const std::lock_guard lock(mutex_);
    return std::exchange(counted_, 0);
  }

  /// It waits at its next question, or goes on.
  void rest(bool rests) {
    const std::lock_guard lock(mutex_);
    rests_ = rests;
    asks_ = asks_ && rests;
    changed_.notify_all();
  }

  /// The bound known so far.
  HighsAnswer cancel() {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    changed_.notify_all();
    return {.bound = bound_};
  }

  /// Once it is done.
  [[nodiscard]] HighsAnswer take() { return std::move(answer_); }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  void limit_costs(double most) {
    for (std::size_t j = 0; j < costs_.size(); ++j) {
      if (costs_[j] == 0) continue;
      columns_.push_back(static_cast<int>(j));
      factors_.push_back(costs_[j]);
    }
    begins_.push_back(static_cast<int>(columns_.size()));
    least_.push_back(-kNone);
    most_of_rows_.push_back(most);
  }

  static void ask(int kind, const char*, const void* output, CallbackInput* input, void* data) {
    const auto item_of_output = loaded().api.item_of_output;
    const void* const bound = kind == kMipInterrupt ? item_of_output(output, "mip_dual_bound") : nullptr;
    const double known = bound == nullptr ? -1 : *static_cast<const double*>(bound);
    const void* const total = kind == kMipInterrupt ? item_of_output(output, "mip_total_lp_iterations") : nullptr;
    const std::int64_t iterations = total == nullptr ? 0 : *static_cast<const std::int64_t*>(total);
    if (static_cast<Run*>(data)->ends(known, iterations) && input != nullptr) input->user_interrupt = 1;
  }

  bool ends(double known, std::int64_t iterations) {
    std::unique_lock lock(mutex_);
    if (std::isfinite(known)) bound_ = std::max(bound_, known);
    const auto more = static_cast<double>(std::max<std::int64_t>(0, iterations - iterations_));
    iterations_ = iterations;
    const auto rows_and_columns = static_cast<double>(costs_.size() + least_.size());
    counted_ += static_cast<std::int64_t>(kBetweenQuestions * static_cast<double>(columns_.size()) +
                                          more * kIteration * rows_and_columns);
    asks_ = waits_ && counted_ >= kNanosecondsOfQuestion;
    if (asks_) changed_.notify_all();
    changed_.wait(lock, [this] { return (!rests_ && !asks_) || is_cancelled_; });
    return is_cancelled_;
  }

  /// In silence and in this thread; costs are whole: a solution within 0.9 of the bound is the cheapest.
  static void set_options(const Interface& api, void* highs) {
    api.set_bool(highs, "output_flag", 0);
    api.set_int(highs, "threads", 1);
    api.set_double(highs, "mip_rel_gap", 0.0);
    api.set_double(highs, "mip_abs_gap", 0.9);
  }

  bool pass(const Interface& api, void* highs) const {
    const int width = static_cast<int>(costs_.size());
    const std::vector<double> zeros(costs_.size(), 0.0);
    const std::vector<int> kinds(costs_.size(), kInteger);
    return api.pass(highs, width, static_cast<int>(least_.size()), static_cast<int>(columns_.size()), kRowWise,
                    kMinimize, 0, costs_.data(), zeros.data(), highest_.data(), least_.data(), most_of_rows_.data(),
                    begins_.data(), columns_.data(), factors_.data(), kinds.data()) == 0;
  }

  HighsAnswer answered() {
    HighsAnswer answer;
    const Interface& api = loaded().api;
    const std::unique_ptr<void, void (*)(void*)> highs(api.create(), api.destroy);
    if (!highs || api.size_of_int(highs.get()) != sizeof(int)) return answer;
    set_options(api, highs.get());
    if (!pass(api, highs.get()) || api.set_callback(highs.get(), ask, this) != 0) return answer;
    for (const int kind : {kSimplexInterrupt, kMipInterrupt}) {
      if (api.start_callback(highs.get(), kind) != 0) return answer;
    }
    api.run(highs.get());
    const int status = api.status(highs.get());
    api.double_info(highs.get(), "mip_dual_bound", &answer.bound);
    if (!std::isfinite(answer.bound)) answer.bound = -1;
    api.int64_info(highs.get(), "mip_node_count", &answer.nodes);
    answer.nodes = std::max<std::int64_t>(answer.nodes, 1);
    int kind_of_solution = kHasNoSolution;
    api.int_info(highs.get(), "primal_solution_status", &kind_of_solution);
    // A solution that violates a row once presolve is undone is dropped, and with it the node that had it: "infeasible"
    // is then said of a program that may have solutions.
    const bool has_ended = status == kOptimal || status == kInfeasible;
    answer.complete = has_ended && kind_of_solution == (status == kOptimal ? kHasSolution : kHasNoSolution);
    answer.is_lost = has_ended && !answer.complete;
    if (kind_of_solution == kHasSolution && status != kInfeasible) {
      answer.solution.resize(costs_.size());
      if (api.solution(highs.get(), answer.solution.data(), nullptr, nullptr, nullptr) != 0) answer.solution.clear();
    }
    return answer;
  }

  std::vector<double> costs_;
  std::vector<double> highest_;
  std::vector<int> begins_;
  std::vector<int> columns_;
  std::vector<double> factors_;
  std::vector<double> least_;
  std::vector<double> most_of_rows_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool waits_;
  bool asks_ = false;
  std::int64_t counted_ = 0;
  std::int64_t iterations_ = 0;
  bool rests_ = false;
  bool is_cancelled_ = false;
  bool is_done_ = false;
  double bound_ = -1;
  HighsAnswer answer_{};
};

/// CPU seconds that a thread has used.
double cpu_seconds(pthread_t thread) {
  clockid_t clock{};
  return pthread_getcpuclockid(thread, &clock) == 0 ? seconds_of_clock(clock) : 0;
}

}  // namespace

const HighsFound& find_highs() {
  return loaded().found;
}

void offer_highs(const std::string& library) {
  offered() = library;
}

HighsAnswer run_highs(const BinaryProgram& program, double most, const std::function<bool()>& interrupted,
                      const std::function<bool()>& stopped) {
  if (find_highs().name.empty()) return {};
  constexpr std::chrono::milliseconds kPause{2};
  const bool waits = static_cast<bool>(stopped);
  const auto run = std::make_shared<Run>(program, most, waits);
  counted_nanoseconds() += run->take_counted();
  if (interrupted && interrupted()) return {};
  std::thread thread([run] { run->solve(); });
  const double before = lent_cpu_seconds();
  while (!run->is_done_after(kPause)) {
    lent_cpu_seconds() = before + cpu_seconds(thread.native_handle());
    bool ends = waits && stopped();
    if (!waits || run->asks()) {
      // Who asks may be made to wait, since too much was used: then so is the run.
      run->rest(true);
      counted_nanoseconds() += run->take_counted();
      ends = (interrupted && interrupted()) || ends;
      if (!ends) run->rest(false);
    }
    if (!ends) continue;
    HighsAnswer known = run->cancel();
    // HiGHS asks only now and then whether it is to end.
    finish_in_background(std::move(thread), [run] { return run->is_done_after({}); });
    return known;
  }
  thread.join();
  counted_nanoseconds() += run->take_counted();
  return run->take();
}

}  // namespace remora
