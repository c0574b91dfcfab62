// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/place_figures.hpp"

#include <ostream>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/text/text.hpp"

namespace remora::cli {
namespace {

constexpr const char* kSharedBytes = "buffers with fixed offsets share bytes";
constexpr const char* kFullBanks = "the banks do not hold the buffers";
constexpr const char* kUnknown = "no placement found, nor proved impossible";

bool is_placed(const PlaceResult& result) {
  return result.status == PlacementStatus::optimal || result.status == PlacementStatus::feasible;
}

/// `visit(bank, buffers, arena)` for each bank of a placement.
template <class Visit>
void for_each_bank(const PlaceFigures& figures, const Visit& visit) {
  if (!is_placed(figures.result)) return;
  const BankPlacement placement{figures.result.banks, figures.result.offsets};
  for (std::size_t b = 0; b < figures.banks->banks.size(); ++b) {
    const BankContents contents = contents_of(*figures.banks, placement, b);
    visit(figures.banks->banks[b], static_cast<std::int64_t>(contents.buffers.size()),
          arena_of(contents.buffers, contents.offsets));
  }
}

/// How much larger the arena is than it has to be.
std::string distance_text(const PlaceResult& result) {
  const auto bound = static_cast<double>(result.lower_bound.count());
  if (bound <= 0) return "";
  return text::percent_text(static_cast<double>(result.arena.count()) / bound - 1) + " above the bound";
}

std::string verdict(const PlaceFigures& figures) {
  const PlaceResult& result = figures.result;
  switch (result.status) {
    case PlacementStatus::optimal:
      return figures.capacity ? "within the capacity" : "proved smallest";
    case PlacementStatus::feasible:
      return distance_text(result);
    case PlacementStatus::unknown:
      return "above the capacity: no placement found, nor proved impossible";
    case PlacementStatus::infeasible:
      return "";
  }
  return "";
}

void print_arena(std::ostream& out, const PlaceFigures& figures) {
  const PlaceResult& result = figures.result;
  out << "buffers     " << text::grouped(static_cast<std::int64_t>(figures.buffers.size())) << "\n"
      << "load        " << text::exact_bytes_text(largest_load(figures.buffers)) << " at most at one time\n";
  if (figures.capacity) out << "capacity    " << text::exact_bytes_text(*figures.capacity) << "\n";
  if (result.lower_bound == Bytes::max()) {
    out << "impossible  " << kSharedBytes << "\n";
  } else {
    out << "bound       " << text::exact_bytes_text(result.lower_bound) << ": no arena is smaller\n";
    if (result.status == PlacementStatus::infeasible) out << "impossible  the bound is above the capacity\n";
  }
  if (result.status != PlacementStatus::infeasible) {
    out << "arena       " << text::exact_bytes_text(result.arena) << "; " << verdict(figures) << "\n";
  }
}

void print_banks(std::ostream& out, const PlaceFigures& figures) {
  const PlaceResult& result = figures.result;
  out << "buffers     " << text::grouped(static_cast<std::int64_t>(figures.buffers.size())) << " in "
      << figures.banks->banks.size() << " banks\n";
  if (is_placed(result)) {
    out << "cost        " << text::grouped(result.cost) << "; "
        << (result.status == PlacementStatus::optimal ? "proved optimal"
                                                      : "at least " + text::grouped(result.least_cost))
        << "\n";
  } else if (result.status == PlacementStatus::infeasible) {
    out << "impossible  " << kFullBanks << "\n";
  } else {
    out << "unknown     " << kUnknown << "\n";
  }
  for_each_bank(figures, [&](const Bank& bank, std::int64_t buffers, Bytes arena) {
    out << "bank        " << bank.name << ": " << text::grouped(buffers) << " buffers, arena "
        << text::exact_bytes_text(arena) << " of " << text::exact_bytes_text(bank.capacity) << "\n";
  });
}

}  // namespace

void print_place_text(std::ostream& stream, const PlaceFigures& figures, int width) {
  std::ostringstream out;
  figures.banks == nullptr ? print_arena(out, figures) : print_banks(out, figures);
  out << "search      " << text::fixed(figures.seconds, 2) << " s, work " << text::grouped(figures.result.work)
      << ", seed " << figures.seed;
  if (figures.banks == nullptr) out << ", " << figures.threads << (figures.threads == 1 ? " thread" : " threads");
  out << "\n";
  stream << text::wrapped_lines(out.str(), kWordColumns, width);
}

std::string refused_placement(const PlaceFigures& figures) {
  const PlaceResult& result = figures.result;
  const bool is_proved = result.status == PlacementStatus::infeasible;
  if (figures.banks != nullptr) return is_proved ? kFullBanks : kUnknown;
  if (result.lower_bound == Bytes::max()) return kSharedBytes;
  const std::string bound = text::exact_bytes_text(result.lower_bound);
  return "no placement within " + text::exact_bytes_text(figures.capacity.value_or(Bytes())) +
         (is_proved ? " exists" : " was found") + ": no arena is smaller than " + bound;
}

void print_place_json(std::ostream& out, const PlaceFigures& figures) {
  const PlaceResult& result = figures.result;
  const bool is_infeasible = result.status == PlacementStatus::infeasible;
  nlohmann::ordered_json text{{"buffers", figures.buffers.size()}};
  if (figures.banks == nullptr) text["load"] = largest_load(figures.buffers).count();
  if (figures.capacity) text["capacity"] = figures.capacity->count();
  text["status"] = json::status_word(result.status);
  if (figures.banks != nullptr) {
    if (!is_infeasible) text["lower_bound"] = result.least_cost;
    if (is_placed(result)) text["cost"] = result.cost;
    for_each_bank(figures, [&](const Bank& bank, std::int64_t buffers, Bytes arena) {
      text["banks"].push_back(
          {{"name", bank.name}, {"capacity", bank.capacity.count()}, {"buffers", buffers}, {"arena", arena.count()}});
    });
  } else {
    if (result.lower_bound != Bytes::max()) text["lower_bound"] = result.lower_bound.count();
    if (!is_infeasible) text["arena"] = result.arena.count();
  }
  text["seconds"] = figures.seconds;
  text["work"] = result.work;
  text["seed"] = figures.seed;
  if (figures.banks == nullptr) text["threads"] = figures.threads;
  out << json::dump(text, 1) << "\n";
}

}  // namespace remora::cli
