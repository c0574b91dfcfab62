// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/memory_chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <ostream>
#include <string>
#include <vector>

#include "frontends/report/memory_figure.hpp"
#include "frontends/text/amounts.hpp"

namespace remora::cli {
namespace {

constexpr std::size_t kColumns = 72;
constexpr int kRows = 12;
constexpr int kEighths = 8;
constexpr int kLabel = 12;

/// The largest amount of each column, in eighths of a row; `columns` of them over `steps` steps.
std::vector<int> heights(const std::vector<Bytes>& row, std::size_t columns, std::size_t steps, double most) {
  std::vector<int> eighths(columns, 0);
  for (std::size_t i = 0; i < row.size(); ++i) {
    // A step is as wide as several columns where there are fewer steps.
    const std::size_t first = i * columns / steps;
    const std::size_t end = std::max(first + 1, (i + 1) * columns / steps);
    const int height = static_cast<int>(std::lround(static_cast<double>(row[i].count()) / most * kRows * kEighths));
    for (std::size_t column = first; column < end; ++column) eighths[column] = std::max(eighths[column], height);
  }
  return eighths;
}

}  // namespace

void print_memory_chart(std::ostream& out, const report::ScheduleProfile& profile, Bytes budget) {
  constexpr std::array kBlocks{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::vector<Bytes> beside = report::memory_beside(profile);
  const std::size_t steps = std::max(beside.size(), profile.after.memory.size());
  if (steps == 0) return;
  const Bytes most = std::max({profile.before.peak, profile.after.peak, Bytes(1)});
  const auto scale = static_cast<double>(most.count());
  const std::vector<int> before = heights(beside, kColumns, steps, scale);
  const std::vector<int> after = heights(profile.after.memory, kColumns, steps, scale);
  const bool shown = budget <= most;
  const int budget_row = shown ? static_cast<int>(static_cast<double>(budget.count()) / scale * kRows - 1e-9) : -1;
  for (int row = kRows - 1; row >= 0; --row) {
    const std::string label = row == budget_row  ? "budget"
                              : row == kRows - 1 ? text::bytes_text(most)
                              : row == 0         ? "0 B"
                                                 : "";
    out << std::setw(kLabel) << std::left << label << std::right << "|";
    for (std::size_t column = 0; column < kColumns; ++column) {
      const int filled = std::clamp(after[column] - row * kEighths, 0, kEighths);
      const bool shade = before[column] - row * kEighths > kEighths / 2;
      out << (filled > 0 ? kBlocks[static_cast<std::size_t>(filled)] : shade ? "░" : row == budget_row ? "-" : " ");
    }
    out << "\n";
  }
  out << std::string(kLabel, ' ') << " " << (profile.after.memory.empty() ? "" : "█ schedule   ")
      << "░ input order without recompute   " << text::grouped(static_cast<std::int64_t>(steps)) << " steps\n";
}

}  // namespace remora::cli
