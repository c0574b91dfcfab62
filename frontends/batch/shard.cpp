// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/shard.hpp"

#include <charconv>
#include <string_view>
#include <system_error>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::batch {
namespace {

constexpr const char* kSlurmIndex = "SLURM_ARRAY_TASK_ID";
constexpr const char* kCompletionIndex = "JOB_COMPLETION_INDEX";

std::size_t number(const std::string& place, std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InputError(place, quote(text) + " is no whole number");
  }
  return value;
}

Shard checked(Shard shard) {
  if (shard.count < 1) throw InputError(shard.source, "there must be at least one shard");
  if (shard.index < shard.count) return shard;
  throw InputError(shard.source, "index " + std::to_string(shard.index) + " is not below the number of shards, " +
                                     std::to_string(shard.count));
}

Shard from_text(std::string_view text) {
  constexpr const char* kPlace = "--shard";
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) throw InputError(kPlace, "expected i/n, for example 3/8, got " + quote(text));
  Shard shard{.index = number(kPlace, text.substr(0, slash)) - 1,
              .count = number(kPlace, text.substr(slash + 1)),
              .source = kPlace};
  // 0 has wrapped around and is too large, too.
  if (shard.index < shard.count) return shard;
  throw InputError(kPlace, quote(text) + " is not one of 1/n to n/n");
}

std::size_t variable(const char* name, const Environment& environment) {
  const char* text = environment(name);
  if (text == nullptr) throw InputError(kSlurmIndex, std::string("is set, but ") + name + " is not; give --shard i/n");
  return number(name, text);
}

Shard from_slurm(const std::string& index, const std::optional<std::string>& count, const Environment& environment) {
  const std::size_t id = number(kSlurmIndex, index);
  if (count) return checked({.index = id, .count = number("--shard-count", *count), .source = kSlurmIndex});
  const std::size_t least = variable("SLURM_ARRAY_TASK_MIN", environment);
  const std::size_t most = variable("SLURM_ARRAY_TASK_MAX", environment);
  const char* step_text = environment("SLURM_ARRAY_TASK_STEP");
  const std::size_t step = step_text == nullptr ? 1 : number("SLURM_ARRAY_TASK_STEP", step_text);
  const std::size_t elements = variable("SLURM_ARRAY_TASK_COUNT", environment);
  const bool inside = step > 0 && least <= id && id <= most;
  if (!inside || (id - least) % step != 0 || (most - least) / step + 1 != elements) {
    throw InputError(kSlurmIndex,
                     "the array is no plain range; give --shard i/n, or --shard-count n for elements of 0 "
                     "to n-1");
  }
  return checked({.index = (id - least) / step, .count = elements, .source = kSlurmIndex});
}

Shard from_completion(const std::string& index, const std::optional<std::string>& count,
                      const Environment& environment) {
  const char* completions = environment("JOB_COMPLETIONS");
  if (!count && completions == nullptr) {
    throw InputError(kCompletionIndex, "is set, but not how many there are; give --shard-count n or JOB_COMPLETIONS");
  }
  const std::size_t shards = count ? number("--shard-count", *count) : number("JOB_COMPLETIONS", completions);
  return checked({.index = number(kCompletionIndex, index), .count = shards, .source = kCompletionIndex});
}

}  // namespace

std::string Shard::text() const {
  return std::to_string(index + 1) + "/" + std::to_string(count);
}

Shard find_shard(const std::optional<std::string>& shard, const std::optional<std::string>& count,
                 const Environment& environment) {
  if (shard && count) throw InputError("--shard-count", "--shard says it already");
  if (shard) return from_text(*shard);
  const char* slurm = environment(kSlurmIndex);
  const char* completion = environment(kCompletionIndex);
  if (slurm != nullptr && completion != nullptr) {
    throw InputError(kSlurmIndex, std::string("is set, and ") + kCompletionIndex + " too; give --shard i/n");
  }
  if (slurm != nullptr) return from_slurm(slurm, count, environment);
  if (completion != nullptr) return from_completion(completion, count, environment);
  if (count)
    throw InputError("--shard-count", "needs SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX; or give --shard i/n");
  return {};
}

}  // namespace remora::batch
