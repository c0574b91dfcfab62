// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/order_report.hpp"

#include <array>
#include <cstdio>
#include <ostream>

#include <nlohmann/json.hpp>

#include "frontends/text/amounts.hpp"
#include "model/budget.hpp"
#include "model/quote.hpp"

namespace remora::cli {

double OrderFigures::part(Bytes amount) const {
  return part_of_peak(amount, fixed_memory, input_peak);
}

void OrderTable::add(double seconds, Bytes peak) {
  if (!header_printed_) out_ << "  seconds          peak  of the input order's\n";
  header_printed_ = true;
  std::array<char, 120> line{};
  std::snprintf(line.data(), line.size(), "%9.2f  %12s  %20s\n", seconds, text::bytes_text(peak).c_str(),
                text::percent_text(part_of_peak(peak, fixed_memory_, input_peak_), 1).c_str());
  out_ << line.data() << std::flush;
}

void print_order_text(std::ostream& out, const OrderFigures& figures) {
  std::array<char, 64> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.2f", figures.seconds);
  out << "graph       " << printable(figures.graph) << ": " << figures.ops << " ops\n"
      << "before      " << text::exact_bytes_text(figures.input_peak) << "\n"
      << "after       " << text::exact_bytes_text(figures.peak) << ", "
      << text::percent_text(figures.part(figures.peak), 1) << " of it above fixed memory\n"
      << "bound       " << text::exact_bytes_text(figures.lower_bound) << ", "
      << text::percent_text(figures.part(figures.lower_bound), 1) << ": no order needs less"
      << (figures.is_optimal()
              ? "; proved optimal"
              : "; distance " + text::percent_text(figures.part(figures.peak) - figures.part(figures.lower_bound), 1))
      << "\n"
      << "search      " << seconds.data() << " s, work " << text::grouped(figures.work) << ", seed " << figures.seed
      << ", " << figures.threads << (figures.threads == 1 ? " thread\n" : " threads\n");
}

void print_order_json(std::ostream& out, const OrderFigures& figures) {
  const nlohmann::ordered_json text{{"graph", figures.graph},
                                    {"ops", figures.ops},
                                    {"fixed_memory", figures.fixed_memory.count()},
                                    {"input_peak_memory", figures.input_peak.count()},
                                    {"peak_memory", figures.peak.count()},
                                    {"lower_bound", figures.lower_bound.count()},
                                    {"status", figures.is_optimal() ? "optimal" : "feasible"},
                                    {"seconds", figures.seconds},
                                    {"work", figures.work},
                                    {"seed", figures.seed},
                                    {"threads", figures.threads}};
  out << text.dump(1) << "\n";
}

}  // namespace remora::cli
